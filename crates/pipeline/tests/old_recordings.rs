//! Recordings of earlier versions give the plans that were recorded.
//!
//! `data/version_1.jsonl`: a program that scales and one that does so less, for 44 intervals; after
//! every 18 they are seen in another region, of which version 1 took no notice.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use mapper_pipeline::{Changes, Comparison, Replay};

const VERSION_1: &str = include_str!("data/version_1.jsonl");

/// How many decisions of a recording come out differently.
fn differences(recording: &str) -> usize {
    let (header, decisions) = recording.split_once('\n').unwrap();
    let mut replay = Replay::start(header, &Changes::default()).unwrap();
    decisions
        .lines()
        .filter(|line| replay.next(line).unwrap().comparison != Comparison::Same)
        .count()
}

#[test]
fn a_recording_of_version_1_is_replayed_without_regarding_regions() {
    assert_eq!(differences(VERSION_1), 0);
    // Taken for one of now, whose regions count, it comes out differently.
    let now = VERSION_1.replacen("\"mapper_recording\":1", "\"mapper_recording\":2", 1);
    assert!(differences(&now) > 0);
}
