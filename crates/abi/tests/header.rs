//! The committed C header says what the Rust code says.
//!
//! To write it anew after a change of the layout: `UPDATE_HEADER=1 cargo test -p mapper-abi`.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use mapper_abi::layout::{AllocationBlock, Header, OwnReportBlock, Page, ReportBlock, ThreadSlot};

fn crate_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Offsets as the Rust compiler lays them out, for the C compiler to compare.
fn offset_assertions() -> String {
    let mut text = String::new();
    macro_rules! check {
        ($type:ident as $c:literal, $size:expr, [$($field:ident),*]) => {
            writeln!(text, "_Static_assert(sizeof(struct {}) == {}, \"size\");", $c, $size).unwrap();
            $(writeln!(
                text,
                "_Static_assert(offsetof(struct {}, {}) == {}, \"offset\");",
                $c, stringify!($field), offset_of!($type, $field)
            ).unwrap();)*
        };
    }
    check!(Header as "mapper_header", size_of::<Header>(), [magic, version, size, token]);
    check!(AllocationBlock as "mapper_allocation_block", size_of::<AllocationBlock>(),
        [sequence, cpu_count, team_mode, max_team, node_mask, cpu_mask]);
    check!(ReportBlock as "mapper_report_block", size_of::<ReportBlock>(),
        [runtimes, flags, teams_off, applied_sequence, team_size, max_threads, slots_claimed,
         slots_released, doorbell, spare_cpus, preemptions]);
    check!(OwnReportBlock as "mapper_own_report_block", size_of::<OwnReportBlock>(),
        [progress_kind, serial_phases, work_done, work_at_ns, latency_ns, latency_at_ns, cpu_range]);
    check!(ThreadSlot as "mapper_thread_slot", size_of::<ThreadSlot>(),
        [owner, regions, iterations, wait_ns, last_progress_ns, region,
         parallel_ns, parallel_since_ns]);
    check!(Page as "mapper_page", size_of::<Page>(),
        [header, allocation, report, own, reserved, slots]);
    text
}

fn generated_header() -> String {
    let config = cbindgen::Config::from_file(crate_dir().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(crate_dir().join("src/layout.rs"))
        .generate()
        .unwrap();
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

fn header_path() -> PathBuf {
    crate_dir().join("include/mapper_page.h")
}

#[test]
fn the_committed_header_is_the_one_generated_from_the_layout() {
    let generated = generated_header();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(header_path(), &generated).unwrap();
    }
    let committed = std::fs::read_to_string(header_path()).unwrap();
    assert!(
        committed == generated,
        "{} is out of date: run `UPDATE_HEADER=1 cargo test -p mapper-abi`",
        header_path().display()
    );
}

#[test]
fn every_name_that_the_header_defines_is_mappers() {
    let header = generated_header();
    let defined = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    assert!(defined.clone().count() > 20);
    for name in defined {
        assert!(name.starts_with("MAPPER_"), "{name}");
    }
}

fn compile(compiler: &str, language: &str, source: &Path) {
    let output = Command::new(compiler)
        .args([
            "-x",
            language,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-fsyntax-only",
            "-I",
        ])
        .arg(crate_dir().join("include"))
        .arg(source)
        .output()
        .unwrap_or_else(|error| panic!("run {compiler}: {error}; install gcc or set CC"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} -x {language}: {message}"
    );
}

#[test]
fn a_c_compiler_lays_the_page_out_as_the_rust_compiler_does() {
    let dir = tempfile::tempdir().unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let c = dir.path().join("layout.c");
    let text = format!(
        "#include <stddef.h>\n#include \"mapper_page.h\"\n{}",
        offset_assertions()
    );
    std::fs::write(&c, text).unwrap();
    compile(&compiler, "c", &c);
    let cpp = dir.path().join("layout.cpp");
    let text = "#include \"mapper_page.h\"\nstatic_assert(sizeof(mapper_page) == 65536, \"\");\n";
    std::fs::write(&cpp, text).unwrap();
    compile(&compiler, "c++", &cpp);
}
