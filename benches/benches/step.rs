//! The whole decision, and its mapping alone, on machines of several sizes.
//!
//! Each step is taken in a running loop: threads count on, plans take effect, so that the monitor
//! has pairs of readings to scale, curves to keep and the policies something to decide. Only the
//! step itself is timed.

#![allow(missing_docs, reason = "made by criterion's macros")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mapper_benches::World;
use mapper_placement::PlacementConfig;
use std::hint::black_box;
use std::time::Duration;

/// CPUs, applications, threads of each.
const SIZES: [(u32, u32, u32); 3] = [(80, 4, 20), (80, 80, 1), (1024, 256, 4)];

fn name(cpus: u32, apps: u32) -> String {
    format!("{cpus}_cpus_{apps}_apps")
}

fn step(c: &mut Criterion) {
    let mut group = c.benchmark_group("step");
    for (cpus, apps, threads) in SIZES {
        let mut world = World::new("mapper", "sam_mph", cpus, apps, threads);
        // Past the first measurements, into the explorations.
        (0..8).for_each(|_| {
            world.step();
        });
        group.bench_function(name(cpus, apps), |b| {
            b.iter_custom(|steps| (0..steps).map(|_| world.step()).sum::<Duration>());
        });
    }
    group.finish();
}

/// Four applications on ever larger machines.
fn step_by_cpus(c: &mut Criterion) {
    let mut group = c.benchmark_group("step_by_cpus");
    for cpus in [16u32, 32, 64, 128, 256, 512, 1024] {
        let mut world = World::new("mapper", "sam_mph", cpus, 4, cpus / 4);
        (0..8).for_each(|_| {
            world.step();
        });
        group.bench_with_input(BenchmarkId::from_parameter(cpus), &cpus, |b, _| {
            b.iter_custom(|steps| (0..steps).map(|_| world.step()).sum::<Duration>());
        });
    }
    group.finish();
}

/// Ever more applications of four threads each on the largest machine.
fn step_by_apps(c: &mut Criterion) {
    let mut group = c.benchmark_group("step_by_apps");
    for apps in [1u32, 4, 16, 64, 256, 500, 1000] {
        let mut world = World::new("mapper", "sam_mph", 1024, apps, 4);
        (0..8).for_each(|_| {
            world.step();
        });
        group.bench_with_input(BenchmarkId::from_parameter(apps), &apps, |b, _| {
            b.iter_custom(|steps| (0..steps).map(|_| world.step()).sum::<Duration>());
        });
    }
    group.finish();
}

fn map(c: &mut Criterion) {
    let mut group = c.benchmark_group("map");
    for (cpus, apps, threads) in SIZES {
        let mut world = World::new("mapper", "sam_mph", cpus, apps, threads);
        (0..30).for_each(|_| {
            world.step();
        });
        let Ok(entry) = mapper_placement::find("sam_mph") else {
            return;
        };
        let policy = (entry.build)(&PlacementConfig::default());
        world.with_snapshot(|snapshot, allocation| {
            group.bench_function(name(cpus, apps), |b| {
                b.iter(|| black_box(policy.place(snapshot, allocation)));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, step, step_by_cpus, step_by_apps, map);
criterion_main!(benches);
