//! Figures and tables out of what was seen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mapper_report::statistics::geometric_mean;
use mapper_report::table::{Mark, Row, Table, texts};

use super::plan::Setting;
use super::record::{ProgramRun, Records, Run, Sample};

/// What a setting came to.
#[derive(Default)]
struct Total {
    over_plain: Vec<f64>,
    over_static: Vec<f64>,
    judged: u64,
    below: u64,
}

/// The part of its time in which a program's speed settles.
const SETTLING: f64 = 0.4;

impl ProgramRun {
    fn from(&self, part: f64) -> Option<&Sample> {
        let first = self.samples.first()?.at_s;
        let last = self.samples.last()?.at_s;
        self.samples
            .iter()
            .find(|sample| sample.done > 0 && sample.at_s >= first + part * (last - first))
    }

    /// What it does in a second, over all of its time but for the first `part`.
    fn speed(&self, part: f64) -> Option<f64> {
        self.from(part)?.speed_until(self.samples.last()?)
    }

    /// Answers at the pace of its requests.
    fn is_service(&self) -> bool {
        self.samples.iter().any(|sample| !sample.latency.is_empty())
    }

    /// The latency that 99 of 100 requests keep to.
    fn p99_ms(&self) -> Option<f64> {
        let (first, last) = (self.from(SETTLING)?, self.samples.last()?);
        let before = |class: usize| first.latency.get(class).copied().unwrap_or(0);
        let counts = last
            .latency
            .iter()
            .enumerate()
            .map(|(class, &count)| count - before(class));
        let counts: Vec<u64> = counts.collect();
        let (all, mut so_far) = (counts.iter().sum::<u64>(), 0);
        let class = counts.iter().position(|&count| {
            so_far += count;
            so_far * 100 >= all * 99
        })?;
        // The upper end of the class, a quarter of a doubling.
        (all > 0).then(|| ((class + 1) as f64 / 4.0).exp2() / 1e3)
    }

    /// The CPUs that it had, with the second of each change.
    fn cpus(&self) -> String {
        let mut text = String::new();
        let mut before = None;
        for sample in &self.samples {
            let Some(decision) = &sample.decision else {
                continue;
            };
            if before != Some(decision.cpus) {
                let _ = match before {
                    None => write!(text, "{}", decision.cpus),
                    Some(_) => write!(text, ", {} from {:.0} s", decision.cpus, sample.at_s),
                };
                before = Some(decision.cpus);
            }
        }
        text
    }

    /// What was said, with the second from which on, without repetitions.
    fn sentences(&self) -> String {
        let mut text = String::new();
        let mut before = "";
        for sample in &self.samples {
            let Some(decision) = &sample.decision else {
                continue;
            };
            if decision.sentence != before {
                let _ = writeln!(
                    text,
                    "    {:4.0} s  {:2} CPUs  {}",
                    sample.at_s, decision.cpus, decision.sentence
                );
                before = &decision.sentence;
            }
        }
        text
    }
}

/// Everything for people.
pub(super) fn text(records: &Records, counts: impl Fn(&Run) -> bool) -> String {
    let check = &records.check;
    let scaling = check
        .scaling
        .iter()
        .map(|at| format!("{:.2} with {}", at.speedup, at.threads));
    let text = format!(
        "independent programs differ by {:.1} % at most; speed of one program: {}\n\n",
        100.0 * check.unequal(),
        scaling.collect::<Vec<_>>().join(", ")
    );
    let find = |mix: &str, setting: &Setting, name: &str| {
        let run = records
            .runs
            .iter()
            .find(|run| run.mix == mix && run.setting == *setting);
        run.filter(|run| counts(run))?
            .programs
            .iter()
            .find(|program| program.name == name)
    };
    let mut totals: BTreeMap<&Setting, Total> = BTreeMap::new();
    let mut rows = Vec::new();
    let mut said = String::new();
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
    };
    for run in records.runs.iter().filter(|run| counts(run)) {
        let total = totals.entry(&run.setting).or_default();
        for program in &run.programs {
            let ratio = |to: Setting| {
                let other = find(&run.mix, &to, &program.name)?;
                Some(program.speed(0.0)? / other.speed(0.0)?)
            };
            let (plain, fair) = (ratio(Setting::Plain), ratio(Setting::Static));
            if !program.is_service() {
                total.over_plain.extend(plain);
                total.over_static.extend(fair);
            }
            if let Some(promise) = &program.promise {
                total.judged += promise.judged;
                total.below += promise.below;
            }
            let promise = program.promise.as_ref();
            rows.push(Row {
                cells: texts([
                    run.mix.clone(),
                    run.setting.to_string(),
                    program.name.clone(),
                    shown(program.speed(0.0), 2),
                    shown(program.speed(SETTLING), 2),
                    shown(plain, 2),
                    shown(fair, 2),
                    shown(program.p99_ms(), 1),
                    promise.map_or(String::new(), |promise| {
                        format!("{} of {}", promise.below, promise.judged)
                    }),
                    program.cpus(),
                ]),
                mark: Mark::None,
            });
            if run.setting.is_mapper() {
                let _ = write!(
                    said,
                    "{}, {}, {}:\n{}",
                    run.mix,
                    run.setting,
                    program.name,
                    program.sentences()
                );
            }
        }
    }
    let header = [
        "mix",
        "setting",
        "program",
        "a second",
        "at the end",
        "over plain",
        "of static",
        "p99, ms",
        "below promise",
        "CPUs",
    ];
    let table = Table {
        title: "What each program did in a second of the guest".to_owned(),
        header: texts(header),
        rows,
    };
    let rows = totals.iter().map(|(setting, total)| {
        let least = total.over_static.iter().copied().min_by(f64::total_cmp);
        let kept =
            (total.judged > 0).then(|| 100.0 * (1.0 - total.below as f64 / total.judged as f64));
        Row {
            cells: texts([
                setting.to_string(),
                shown(geometric_mean(total.over_plain.iter().copied()), 3),
                shown(geometric_mean(total.over_static.iter().copied()), 3),
                shown(least, 2),
                shown(kept, 1),
            ]),
            mark: Mark::None,
        }
    });
    let summary = Table {
        title: "All programs but services, geometric means".to_owned(),
        header: texts([
            "setting",
            "over plain",
            "of static",
            "worst program, of static",
            "promises kept, %",
        ]),
        rows: rows.collect(),
    };
    text + &table.terminal() + "\n" + &summary.terminal() + "\n" + &said
}

#[cfg(test)]
mod tests {
    use super::super::plan::Member;
    use super::super::record::Decision;
    use super::*;

    fn program(samples: &[(f64, u64, u64)]) -> ProgramRun {
        let sample = |&(at_s, done, done_at_ns): &(f64, u64, u64)| Sample {
            at_s,
            done,
            done_at_ns,
            ..Sample::default()
        };
        ProgramRun {
            name: "a".to_owned(),
            member: "a".parse::<Member>().unwrap(),
            samples: samples.iter().map(sample).collect(),
            promise: None,
        }
    }

    #[test]
    fn a_speed_is_that_of_whole_iterations_from_the_first_or_from_where_it_has_settled() {
        let seconds = [
            (1.0, 0, 0),
            (2.0, 10, 2_000_000_000),
            (6.0, 30, 6_000_000_000),
            (12.0, 90, 12_000_000_000),
        ];
        let program = program(&seconds);
        assert_eq!(program.speed(0.0), Some(8.0));
        assert_eq!(program.speed(SETTLING), Some(10.0));
        assert_eq!(program.p99_ms(), None);
    }

    #[test]
    fn a_latency_is_counted_from_where_the_program_has_settled() {
        let mut program = program(&[(1.0, 1, 1), (2.0, 2, 2), (3.0, 102, 3)]);
        program.samples[1].latency = vec![0, 0, 0, 7];
        program.samples[2].latency = [&[0; 3][..], &[107], &[0; 36], &[1]].concat();
        assert_eq!(program.p99_ms(), Some(0.002));
    }

    #[test]
    fn cpus_and_sentences_are_shown_when_they_change() {
        let mut program = program(&[(1.0, 1, 1), (2.0, 2, 2), (3.0, 3, 3)]);
        for (sample, cpus) in program.samples.iter_mut().zip([4, 4, 6]) {
            sample.decision = Some(Decision {
                cpus,
                state: String::new(),
                sentence: format!("{cpus} CPUs"),
                performance: None,
                floor: None,
                spare_cpus: 0,
                curve: Vec::new(),
            });
        }
        assert_eq!(program.cpus(), "4, 6 from 3 s");
        assert_eq!(program.sentences().lines().count(), 2);
    }
}
