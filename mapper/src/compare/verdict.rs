//! What the times say: how many times as fast mapper was, and whether that is more than the runs vary.

use super::program::{Ended, Program, Promise, Setting};
use anyhow::Context;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Seek};

/// How far from 1 all rounds must be for a difference. Smaller ones nobody notices.
const MARGIN: f64 = 0.02;

/// One value for each setting.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub(crate) struct PerSetting<T> {
    pub(crate) plain: T,
    pub(crate) passive: T,
    pub(crate) mapper: T,
}

impl<T> PerSetting<T> {
    fn of(&mut self, setting: Setting) -> &mut T {
        match setting {
            Setting::Plain => &mut self.plain,
            Setting::Passive => &mut self.passive,
            Setting::Mapper => &mut self.mapper,
        }
    }
}

/// What a program wrote to standard output, compared over all runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Output {
    /// The same in all runs.
    Equal,
    /// Not the same in all runs under plain Linux, so that it says nothing.
    Varies,
    /// Under plain Linux always the same, but another with passive waiting.
    DiffersPassive,
    /// Under plain Linux always the same, but another under mapper.
    DiffersMapper,
}

/// All runs of one program.
#[derive(Debug)]
pub(crate) struct Measured {
    compared: Compared,
    /// The output of its first run.
    reference: Option<File>,
    /// Whether a run's output was another than the first's.
    differs: PerSetting<bool>,
}

/// What was measured of one program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    /// From the start of the first program to its end, for each round.
    pub(crate) seconds: PerSetting<Vec<f64>>,
    pub(crate) promise: Promise,
    pub(crate) output: Output,
}

impl Measured {
    pub(crate) fn new(program: &Program) -> Self {
        let words = program.command.iter();
        Self {
            compared: Compared {
                name: program.name.to_string(),
                command: words
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect(),
                seconds: PerSetting::default(),
                promise: Promise::default(),
                output: Output::Equal,
            },
            reference: None,
            differs: PerSetting::default(),
        }
    }

    /// Takes in a run.
    ///
    /// # Errors
    /// Where its output cannot be read.
    pub(crate) fn add(&mut self, setting: Setting, mut ended: Ended) -> anyhow::Result<()> {
        let compared = &mut self.compared;
        compared.seconds.of(setting).push(ended.after.as_secs_f64());
        compared.promise.judged_intervals += ended.promise.judged_intervals;
        compared.promise.below += ended.promise.below;
        match &mut self.reference {
            None => self.reference = Some(ended.output),
            Some(first) => {
                let same = same(first, &mut ended.output).context("compare outputs")?;
                *self.differs.of(setting) |= !same;
            }
        }
        Ok(())
    }

    fn compared(mut self) -> Compared {
        self.compared.output = match self.differs {
            PerSetting { plain: true, .. } => Output::Varies,
            PerSetting { mapper: true, .. } => Output::DiffersMapper,
            PerSetting { passive: true, .. } => Output::DiffersPassive,
            _ => Output::Equal,
        };
        self.compared
    }
}

fn same(one: &mut File, other: &mut File) -> io::Result<bool> {
    let mut left = one.metadata()?.len();
    if left != other.metadata()?.len() {
        return Ok(false);
    }
    one.rewind()?;
    other.rewind()?;
    let (mut here, mut there) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    while left > 0 {
        let size = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        one.read_exact(&mut here[..size])?;
        other.read_exact(&mut there[..size])?;
        if here[..size] != there[..size] {
            return Ok(false);
        }
        left -= size as u64;
    }
    Ok(true)
}

/// How many times as fast the programs ran: of each round the geometric mean over the programs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Speedup {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// What a speedup means, beside how much it varies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// In every round.
    Faster,
    /// Too little to be noticed.
    NoDifference,
    /// In some rounds only.
    Unclear,
    /// In every round.
    Slower,
}

impl Speedup {
    pub(crate) fn effect(self) -> Effect {
        match self {
            _ if self.least > 1.0 + MARGIN => Effect::Faster,
            _ if self.most < 1.0 - MARGIN => Effect::Slower,
            _ if (self.median - 1.0).abs() <= 2.0 * MARGIN => Effect::NoDifference,
            _ => Effect::Unclear,
        }
    }
}

/// The whole comparison. Times are in seconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) programs: Vec<Compared>,
    pub(crate) over_plain: Speedup,
    pub(crate) over_passive: Speedup,
}

impl Comparison {
    pub(crate) fn of(measured: Vec<Measured>) -> Self {
        let programs: Vec<_> = measured.into_iter().map(Measured::compared).collect();
        Self {
            over_plain: speedup(&programs, |seconds| &seconds.plain),
            over_passive: speedup(&programs, |seconds| &seconds.passive),
            programs,
        }
    }
}

fn speedup(programs: &[Compared], over: impl Fn(&PerSetting<Vec<f64>>) -> &Vec<f64>) -> Speedup {
    let rounds = programs
        .first()
        .map_or(0, |program| program.seconds.mapper.len());
    let of_round = |round: usize| {
        let logarithms = programs.iter().map(|program| {
            let (over, mapper) = (over(&program.seconds)[round], program.seconds.mapper[round]);
            (over / mapper).ln()
        });
        (logarithms.sum::<f64>() / programs.len() as f64).exp()
    };
    let ratios: Vec<f64> = (0..rounds).map(of_round).collect();
    Speedup {
        median: median(&ratios),
        least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        most: ratios.iter().copied().fold(0.0, f64::max),
    }
}

/// Of at least one value; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::io::Write;
    use std::time::Duration;

    fn ended(seconds: f64, output: &str) -> Ended {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(output.as_bytes()).unwrap();
        let promise = Promise::default();
        let after = Duration::from_secs_f64(seconds);
        Ended {
            after,
            output: file,
            promise,
        }
    }

    /// Two programs, the second always taking twice as long; outputs are those of the first.
    pub(in crate::compare) fn comparison(times: [[f64; 3]; 3], outputs: [&str; 3]) -> Comparison {
        let programs =
            Program::several(&["./fit-a", "--deep", "::", "./fit-b"].map(OsString::from));
        let mut measured: Vec<_> = programs.iter().map(Measured::new).collect();
        for (place, setting) in Setting::ALL.into_iter().enumerate() {
            for seconds in times[place] {
                measured[0]
                    .add(setting, ended(seconds, outputs[place]))
                    .unwrap();
                measured[1]
                    .add(setting, ended(2.0 * seconds, "same"))
                    .unwrap();
            }
        }
        Comparison::of(measured)
    }

    #[test]
    fn a_difference_counts_when_every_round_shows_it() {
        let effect = |plain: [f64; 3]| {
            comparison([plain, [1.0; 3], [1.0; 3]], ["", "", ""])
                .over_plain
                .effect()
        };
        assert_eq!(effect([2.0, 3.0, 2.5]), Effect::Faster);
        assert_eq!(effect([0.5, 0.9, 0.8]), Effect::Slower);
        assert_eq!(effect([2.0, 3.0, 0.99]), Effect::Unclear);
        assert_eq!(effect([0.9, 1.0, 1.3]), Effect::NoDifference);
        assert_eq!(effect([1.01, 1.01, 1.01]), Effect::NoDifference);
    }

    #[test]
    fn a_speedup_is_the_median_over_rounds_of_geometric_means() {
        let compared = comparison([[2.0, 4.0, 3.0], [1.0; 3], [1.0; 3]], ["", "", ""]);
        let speedup = compared.over_plain;
        let rounded =
            [speedup.median, speedup.least, speedup.most].map(|x| (x * 1e9).round() / 1e9);
        assert_eq!(rounded, [3.0, 2.0, 4.0]);
    }

    #[test]
    fn an_output_differs_only_where_it_is_always_the_same_plainly() {
        let output = |outputs| comparison([[1.0; 3]; 3], outputs).programs[0].output;
        assert_eq!(output(["1", "1", "1"]), Output::Equal);
        assert_eq!(output(["1", "1", "2"]), Output::DiffersMapper);
        assert_eq!(output(["1", "3", "1"]), Output::DiffersPassive);
        let programs = Program::several(&["a".into()]);
        let mut measured = Measured::new(&programs[0]);
        for (round, text) in ["1", "2", "3"].into_iter().enumerate() {
            measured
                .add(Setting::ALL[round % 2], ended(1.0, text))
                .unwrap();
        }
        assert_eq!(measured.compared().output, Output::Varies);
    }

    #[test]
    fn long_outputs_are_compared_to_the_last_byte() {
        let mut long = vec![b'x'; 200_000];
        let text = String::from_utf8(long.clone()).unwrap();
        let mut one = ended(1.0, &text).output;
        assert!(same(&mut one, &mut ended(1.0, &text).output).unwrap());
        long[199_999] = b'y';
        let text = String::from_utf8(long).unwrap();
        assert!(!same(&mut one, &mut ended(1.0, &text).output).unwrap());
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
