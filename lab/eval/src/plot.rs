//! The plots of the page: speeds of mixes, and which CPUs each program held.

use super::run_spec::Held;
use super::tables::{Cell, MixRow, SuiteTable};
use mapper_model::{CpuId, CpuSet};
use mapper_report::plot::{Bar, BarGroup, Sample, Span, bars_in_parts};
use maud::Markup;
use std::collections::{BTreeSet, HashMap};

/// A bar for every policy of every mix, with a line from its slowest program to its fastest, and the means over all
/// mixes below. Plots to be shown below each other.
pub(super) fn speeds(table: &SuiteTable) -> anyhow::Result<Vec<Markup>> {
    let mut groups = groups(table, &|_, cell| Some(cell.value));
    for (group, mix) in groups.iter_mut().zip(&table.mixes) {
        for bar in &mut group.bars {
            let policy = table.suite.policies.get(bar.colour);
            let cell = policy.and_then(|of| mix.policies.get(of));
            let several = cell.filter(|cell| cell.apps.len() > 1);
            bar.interval = several.map(|cell| [cell.least(), cell.most()]);
        }
    }
    if table.mixes.len() > 1 {
        let policies = table.suite.policies.iter().enumerate();
        let mean = |(at, policy): (usize, &String)| Some(bar(at, *table.overall.get(policy)?));
        let bars = policies.filter_map(mean);
        groups.push(BarGroup {
            name: "geometric mean".into(),
            bars: bars.collect(),
        });
    }
    bars_in_parts(&groups, "speed", Some(1.0))
}

/// A bar for every policy of every mix, of something else than its speed. Plots to be shown below each other.
pub(super) fn of_cells(
    table: &SuiteTable,
    reference: Option<f64>,
    value: &dyn Fn(&MixRow, &Cell) -> Option<f64>,
) -> anyhow::Result<Vec<Markup>> {
    bars_in_parts(&groups(table, value), "", reference)
}

fn groups(table: &SuiteTable, value: &dyn Fn(&MixRow, &Cell) -> Option<f64>) -> Vec<BarGroup> {
    let mixes = table.mixes.iter().zip(labels(&table.mixes));
    let group = |(mix, name): (&MixRow, String)| {
        let policies = table.suite.policies.iter().enumerate();
        let of =
            |(at, policy): (usize, &String)| Some(bar(at, value(mix, mix.policies.get(policy)?)?));
        let bars = policies.filter_map(of).collect();
        BarGroup { name, bars }
    };
    mixes.map(group).collect()
}

fn bar(colour: usize, value: f64) -> Bar {
    Bar {
        colour,
        value,
        label: format!("{value:.3}"),
        interval: None,
        samples: Vec::new(),
    }
}

/// What the rows of mixes are called: all without the thread counts that the programs of a mix have in common,
/// or, where two would then be called the same, all with them.
fn labels(mixes: &[MixRow]) -> Vec<String> {
    let different: BTreeSet<String> = mixes.iter().map(|row| short(&row.mix)).collect();
    let label = |row: &MixRow| {
        let star = if row.assumed { " *" } else { "" };
        match different.len() == mixes.len() {
            true => format!("{}{star}", short(&row.mix)),
            false => format!("{}{star}", row.mix),
        }
    };
    mixes.iter().map(label).collect()
}

/// A mix without the thread counts that all its programs have in common.
fn short(mix: &str) -> String {
    let programs = mix.split(", ");
    let counts = programs.map(|program| Some(program.split_once(' ')?.0));
    let counts: BTreeSet<Option<&str>> = counts.collect();
    match counts.first() {
        Some(Some(count)) if mix.contains(", ") && counts.len() == 1 => {
            mix.replace(&format!("{count} "), "")
        }
        _ => mix.to_owned(),
    }
}

/// How many CPUs every program held.
pub(super) fn samples(held: &[Held], until_s: f64) -> Vec<Sample> {
    let shown = held.iter().filter(|held| held.at_s <= until_s);
    let sample = |held: &Held| Sample {
        at_s: held.at_s,
        held: held.cpus.iter().map(CpuSet::len).collect(),
    };
    let mut samples: Vec<Sample> = shown.map(sample).collect();
    samples.extend(samples.last().cloned().map(|last| Sample {
        at_s: until_s,
        ..last
    }));
    samples
}

/// Which CPUs every program held, as NuPoCo's Figure 13 has it.
pub(super) fn spans(held: &[Held], cpus: u32, until_s: f64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    // Where the span of the CPU before is that has the same times and holder.
    let mut below: HashMap<_, usize> = HashMap::new();
    for cpu in 0..cpus {
        for span in of_cpu(held, cpu, until_s) {
            let key = (span.from_s.to_bits(), span.to_s.to_bits(), span.colour);
            match below.get(&key).map(|&at| &mut spans[at]) {
                Some(same) if same.last + 1 == cpu => same.last = cpu,
                _ => {
                    below.insert(key, spans.len());
                    spans.push(span);
                }
            }
        }
    }
    spans
}

/// The times of one CPU, each with one holder.
fn of_cpu(held: &[Held], cpu: u32, until_s: f64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let ends = held.iter().skip(1).map(|next| next.at_s).chain([until_s]);
    for (held, to_s) in held.iter().zip(ends) {
        let (from_s, to_s) = (held.at_s, to_s.min(until_s));
        let mut holders = (0..held.cpus.len()).filter(|&at| held.cpus[at].contains(CpuId(cpu)));
        let (Some(holder), other) = (holders.next(), holders.next()) else {
            continue;
        };
        let colour = other.is_none().then_some(holder);
        match spans.last_mut() {
            Some(last) if last.to_s == from_s && last.colour == colour => last.to_s = to_s,
            _ if from_s < to_s => spans.push(Span {
                from_s,
                to_s,
                first: cpu,
                last: cpu,
                colour,
            }),
            _ => {}
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;

    #[test]
    fn thread_counts_are_left_out_where_they_are_all_the_same_and_stay_where_mixes_differ_by_them()
    {
        assert_eq!(short("80 canneal, 80 SGD"), "canneal, SGD");
        assert_eq!(short("12 ALS, 14 SGD"), "12 ALS, 14 SGD");
        assert_eq!(short("20 ALS, SGD"), "20 ALS, SGD");
        assert_eq!(short("BT, FT"), "BT, FT");
        assert_eq!(short("20 ALS"), "20 ALS", "beside 10 ALS");

        let mixes = ["20 SVD, 20 SGD", "5 SVD, 5 SGD", "20 ALS, 20 SGD"];
        let rows = mixes.map(|mix| format!("s | {mix} | p 1"));
        let table = &examples::tables_of(&rows.each_ref().map(String::as_str))[0];
        assert_eq!(labels(&table.mixes), mixes);
        assert_eq!(labels(&table.mixes[1..]), ["SVD, SGD", "ALS, SGD"]);
    }

    #[test]
    fn every_mix_and_their_mean_have_a_bar_for_each_policy_and_mixes_a_line() {
        let plots = speeds(&examples::many_mixes()).unwrap();
        let count =
            |part: &str| -> usize { plots.iter().map(|svg| svg.0.matches(part).count()).sum() };
        assert_eq!(count("fill=\"var(--s1)\""), 41, "with the means");
        assert_eq!(count("stroke=\"var(--ink)\""), 40 * 2);
        for svg in &plots {
            roxmltree::Document::parse(&svg.0).unwrap();
        }
    }

    fn held(at_s: f64, cpus: [&str; 2]) -> Held {
        Held {
            at_s,
            cpus: cpus.iter().map(|list| list.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn a_cpu_is_one_span_until_its_holder_changes_and_like_neighbours_are_one() {
        let held = [
            held(0.0, ["0-3", "4-7"]),
            held(5.0, ["0-5", "5-7"]),
            held(10.0, ["0", "1"]),
        ];
        let found = spans(&held, 8, 10.0);
        let found = found.iter();
        let found = found.map(|of| ([of.first, of.last], [of.from_s, of.to_s], of.colour));
        let found: Vec<_> = found.collect();
        assert_eq!(
            found,
            [
                ([0, 3], [0.0, 10.0], Some(0)),
                ([4, 5], [0.0, 5.0], Some(1)),
                ([4, 4], [5.0, 10.0], Some(0)),
                ([5, 5], [5.0, 10.0], None),
                ([6, 7], [0.0, 10.0], Some(1)),
            ]
        );
        let counts = samples(&held, 8.0);
        let counts: Vec<_> = counts.iter().map(|of| (of.at_s, of.held.clone())).collect();
        assert_eq!(
            counts,
            [(0.0, vec![4, 4]), (5.0, vec![6, 3]), (8.0, vec![6, 3])]
        );
    }
}
