//! `mapperctl status --hosts`: machines that are asked over ssh.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic
#![allow(dead_code)] // what of the samples is not used here

mod samples;

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A stand-in for ssh, by which two of three machines answer.
fn with_machines(folder: &TempDir, arguments: &[&str]) -> Output {
    let status = serde_json::to_string(&samples::status()).unwrap();
    std::fs::write(folder.path().join("status.json"), status).unwrap();
    let script = "#!/bin/sh\ncd $(dirname $0); echo \"$@\" >> calls; [ \"$7\" = -- ] || exit 9\n\
                  case $8 in\n\
                  node1|ana@node2) echo Welcome >&2; cat status.json ;;\n\
                  old) echo '{\"protocol\": 1}' ;;\n\
                  *) echo Welcome >&2; echo \"ssh: connect to host $8 port 22: Connection refused\" >&2; exit 255 ;;\n\
                  esac\n";
    let ssh = folder.path().join("ssh");
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", folder.path().display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_mapperctl"));
    command.args(arguments).env_remove("MAPPER_SOCKET");
    command
        .env("PATH", path)
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

#[test]
fn the_status_of_several_machines_is_one_and_names_those_that_do_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let output = with_machines(
        &folder,
        &["status", "--hosts", "node1,ana@node2,node3,old,node1"],
    );
    assert!(!output.status.success());
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
    let said = String::from_utf8(output.stderr).unwrap();
    insta::assert_snapshot!(said, @"mapperctl: no answer from node3, old; try `ssh node3 mapperctl status`");
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    assert_eq!(calls.matches("BatchMode=yes").count(), 4, "{calls}");
    assert!(
        calls.contains(" -- node1 mapperctl status --json\n"),
        "{calls}"
    );
}

#[test]
fn the_status_of_several_machines_as_json_has_each_with_its_status_or_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = with_machines(&folder, &["status", "--json", "--hosts=node1,node3"]);
    let hosts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(hosts[0]["host"], "node1");
    assert_eq!(
        hosts[0]["status"],
        serde_json::to_value(samples::status()).unwrap()
    );
    assert_eq!(hosts[1]["host"], "node3");
    assert_eq!(
        hosts[1]["error"],
        "ssh: connect to host node3 port 22: Connection refused"
    );
    let output = with_machines(&folder, &["status", "--hosts", "node1"]);
    assert!(output.status.success(), "{output:?}");
    let output = with_machines(&folder, &["status", "--hosts=-oProxyCommand=x"]);
    assert_eq!(output.status.code(), Some(2));
}
