//! Is the mean field good enough for plain Linux? Its scheduler is played here context by context: whole
//! threads in run queues, woken in random places, one of them moved every 4 ms from the longest queue to
//! the shortest, and in each queue one that runs. How fast programs are at each of many moments, with who runs
//! then, is averaged and held against [`Occupancy::pool`], which spreads everybody evenly at once.
//!
//! Linux's known load-balancing bugs are in neither.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use mapper_model::{CpuId, CpuSet};
use mapper_sim::noise::Noise;
use mapper_sim::{Constants, Machine, Occupancy, presets, solve};

/// Linux looks for imbalance this often.
const BALANCE_S: f64 = 4e-3;
const LENGTH_S: f64 = 20.0;
/// What the specification allows between the two.
const ALLOWED: f64 = 0.03;

/// After so many balancings a look at who runs where: every 24 ms, two slices with two threads on a context.
const LOOK_EVERY: usize = 6;

/// The program of a thread of a queue, which are counted by program.
fn program_of(queue: &[usize], thread: usize) -> usize {
    let mut before = 0;
    let with = queue.iter().position(|threads| {
        before += threads;
        thread < before
    });
    with.unwrap_or(queue.len() - 1)
}

/// Which program's thread runs on each context, at many moments: 1 for it, 0 for the others.
fn played(machine: &Machine, runnable: &[usize], seed: u64) -> Vec<Vec<Vec<f64>>> {
    let contexts = machine.contexts() as usize;
    let cores = machine.cores() as usize;
    let mut noise = Noise::new(seed, 1);
    let mut random = |below: usize| ((noise.unit() * below as f64) as usize).min(below - 1);
    // Threads by program in each queue.
    let mut queues = vec![vec![0usize; runnable.len()]; contexts];
    let mut lengths = vec![0usize; contexts];
    for (app, threads) in runnable.iter().enumerate() {
        for _ in 0..*threads {
            let at = random(contexts);
            queues[at][app] += 1;
            lengths[at] += 1;
        }
    }
    let moves_per_s = Constants::default().balancer_moves_per_s;
    let every = (1.0 / (moves_per_s * BALANCE_S)) as usize;
    let mut seen = Vec::new();
    let steps = (LENGTH_S / BALANCE_S) as usize;
    for step in 0..steps {
        // Everybody pulls once: those with nothing to do first from whole idle cores.
        for at in 0..contexts {
            let sibling = (at + cores) % contexts;
            let alone = contexts == cores || lengths[sibling] == 0;
            let from = random(contexts);
            let longest = (0..contexts)
                .map(|i| (from + i) % contexts)
                .max_by_key(|i| lengths[*i])
                .unwrap();
            let crowded = lengths[longest] >= lengths[at] + 2;
            // A thread beside another in one core goes to an idle core.
            let paired = (0..contexts).find(|&i| {
                let sibling = (i + cores) % contexts;
                contexts > cores && lengths[i] == 1 && lengths[sibling] >= 1 && i != at
            });
            let source = match (crowded, lengths[at], alone, paired) {
                (true, ..) => longest,
                (false, 0, true, Some(paired)) => paired,
                _ => continue,
            };
            let app = program_of(&queues[source], random(lengths[source]));
            queues[source][app] -= 1;
            lengths[source] -= 1;
            queues[at][app] += 1;
            lengths[at] += 1;
        }
        // Threads block and are woken elsewhere as often as the model has Linux move them.
        for at in 0..contexts {
            if lengths[at] > 0 && random(every) == 0 {
                let app = (0..runnable.len())
                    .find(|app| queues[at][*app] > 0)
                    .unwrap();
                let to = random(contexts);
                if lengths[to] <= lengths[at] {
                    queues[at][app] -= 1;
                    lengths[at] -= 1;
                    queues[to][app] += 1;
                    lengths[to] += 1;
                }
            }
        }
        if step % LOOK_EVERY == LOOK_EVERY - 1 {
            // Whose turn it is has nothing to do with whose it was at the look before.
            let mut turn = |(queue, length): (&Vec<usize>, &usize)| -> Vec<f64> {
                let mut row = vec![0.0; queue.len()];
                if *length > 0 {
                    row[program_of(queue, random(*length))] = 1.0;
                }
                row
            };
            seen.push(queues.iter().zip(&lengths).map(&mut turn).collect());
        }
    }
    seen
}

#[test]
fn the_mean_field_of_linux_is_within_three_per_cent_of_single_run_queues() {
    let machine = presets::machine("hsw80").unwrap();
    let cases: [&[(&str, usize)]; 6] = [
        &[("SGD", 80), ("canneal", 80)],
        &[("ferret", 322), ("moldyn", 80)],
        &[("SVD", 80), ("freqmine", 80), ("x264", 82)],
        &[("SGD", 80), ("SVD", 80), ("BSGD", 80), ("LSGD", 80)],
        // One in its serial part, and both.
        &[("SGD", 1), ("canneal", 80)],
        &[("SGD", 20), ("BSGD", 20)],
    ];
    for case in cases {
        let behaviours: Vec<_> = case
            .iter()
            .map(|(name, _)| presets::app(name).unwrap().behaviour())
            .collect();
        let runnable: Vec<usize> = case.iter().map(|(_, threads)| *threads).collect();
        let threads: Vec<f64> = runnable.iter().map(|threads| *threads as f64).collect();
        let mean = Occupancy::pool(&machine, &threads);
        let speeds = |occupancy: &Occupancy| {
            let constants = Constants::default();
            let solution = solve(&machine, &constants, &behaviours, occupancy);
            let apps = solution.apps.into_iter();
            apps.map(|s| s.instructions).collect::<Vec<f64>>()
        };
        let moments = played(&machine, &runnable, 7);
        let mut granular = vec![0.0; case.len()];
        for moment in &moments {
            let mut occupancy = Occupancy::idle(&machine, case.len());
            for (context, row) in moment.iter().enumerate() {
                let one: CpuSet = std::iter::once(CpuId(context as u32)).collect();
                for (app, share) in row.iter().enumerate() {
                    occupancy.spread(&machine, app, *share, &one);
                }
            }
            for (sum, speed) in granular.iter_mut().zip(speeds(&occupancy)) {
                *sum += speed / moments.len() as f64;
            }
        }
        let pairs = granular.into_iter().zip(speeds(&mean));
        for ((name, _), (granular, mean)) in case.iter().zip(pairs) {
            let off = granular / mean - 1.0;
            println!("{name} in {case:?}: {:+.2} %", 100.0 * off);
            assert!(off.abs() < ALLOWED, "{name} in {case:?}: {off:+.4}");
        }
    }
}
