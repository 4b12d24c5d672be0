//! The Grafana board shows what the daemon measures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::scrape::{GET, scrape, value};
use private_daemon::{Daemon, Program, eventually, launch_program};
use serde_json::Value;
use std::collections::BTreeSet;

const BOARD: &str = include_str!("../../deploy/grafana.json");

/// It appears with the first error.
const WITH_AN_ERROR: &str = "mapper_errors_total";

/// All texts of members of this name, at any depth.
fn texts(of: &Value, member: &str) -> Vec<String> {
    match of {
        Value::Array(items) => items.iter().flat_map(|item| texts(item, member)).collect(),
        Value::Object(members) => {
            let here = members
                .get(member)
                .and_then(Value::as_str)
                .map(str::to_owned);
            let below = members.values().flat_map(|value| texts(value, member));
            here.into_iter().chain(below).collect()
        }
        _ => Vec::new(),
    }
}

/// The metrics that an expression of Prometheus names.
fn metrics(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("mapper_"))
}

#[test]
fn every_metric_of_the_board_exists() {
    let dir = tempfile::tempdir().unwrap();
    let (config, socket) = (dir.path().join("c.toml"), dir.path().join("m"));
    std::fs::write(
        &config,
        // This policy measures at once what it promises, also of a program that is alone.
        format!("interval = \"50ms\"\nallocation = \"mapper\"\n[metrics]\nsocket = {socket:?}\n"),
    )
    .unwrap();
    let daemon = Daemon::start_with(&["--config", config.to_str().unwrap()]);
    let busy = Program::waiting("while :; do :; done");
    let _running = launch_program(&daemon, busy, "busy");
    // The last metrics of an application that appear.
    let mut scraped = String::new();
    eventually("its promise is judged", || {
        scraped = scrape(&socket, GET);
        value(&scraped, "mapper_app_achieved_ratio{").is_some()
    });
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let expressions = texts(&board, "expr");
    let named: BTreeSet<_> = expressions.iter().flat_map(|text| metrics(text)).collect();
    assert!(named.len() > 15, "{named:?}");
    let exists = |name: &str| {
        scraped.lines().any(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        })
    };
    let missing = named
        .iter()
        .filter(|name| !exists(name) && **name != WITH_AN_ERROR);
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:?} are not in\n{scraped}");
}
