//! The simulator's performance function: how fast everybody runs, given who runs where. It is
//! computed whenever a phase ends or a policy decides, so it bounds how long an evaluation takes.

#![allow(missing_docs, reason = "made by criterion's macros")]

use criterion::{Criterion, criterion_group, criterion_main};
use mapper_model::CpuSet;
use mapper_sim::application::Behaviour;
use mapper_sim::{Constants, Machine, Occupancy, presets, solve};
use std::hint::black_box;

const APPS: [&str; 4] = ["canneal", "SGD", "SVD", "freqmine"];

fn machine() -> Machine {
    presets::machine("hsw80").unwrap_or_else(|error| panic!("{error}"))
}

fn behaviours() -> Vec<Behaviour> {
    let app = |name: &&str| presets::app(name).unwrap_or_else(|error| panic!("{error}"));
    APPS.iter().map(|name| app(name).behaviour()).collect()
}

/// Plain Linux, partitions of whole sockets, and partitions that mix on cores and sockets.
fn fixed_point(c: &mut Criterion) {
    let (machine, apps) = (machine(), behaviours());
    let confined = |sets: [&str; 4]| {
        let mut occupancy = Occupancy::idle(&machine, 4);
        for (app, set) in sets.iter().enumerate() {
            let set: CpuSet = set.parse().unwrap_or_else(|error| panic!("{error}"));
            occupancy.confine(&machine, app, 80.0, &set);
        }
        occupancy
    };
    let situations = [
        ("linux", Occupancy::pool(&machine, &[80.0; 4])),
        (
            "sockets",
            confined(["0-9,40-49", "10-19,50-59", "20-29,60-69", "30-39,70-79"]),
        ),
        (
            "mixed",
            confined(["0-14,40-44", "15-24,45-54", "25-39,60-64", "55-59,65-79"]),
        ),
    ];
    let mut group = c.benchmark_group("sim_fixed_point");
    for (name, occupancy) in &situations {
        group.bench_function(format!("80_contexts_4_apps_{name}"), |b| {
            b.iter(|| solve(&machine, &Constants::default(), black_box(&apps), occupancy));
        });
    }
    group.finish();
}

criterion_group!(benches, fixed_point);
criterion_main!(benches);
