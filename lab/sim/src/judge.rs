//! What a division of the machine is worth without running it: everybody's mean speed if each went
//! through its parts while the others are in their longest one.
//!
//! A run costs ten to a hundred times as much; searches judge first and run what is left.

use crate::scenario::Scenario;
use crate::speeds::{Place, Program, Speeds};
use mapper_model::CpuSet;

/// How the speeds of programs that run together become one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Aim {
    /// The geometric mean.
    #[default]
    Geometric,
    /// The harmonic mean.
    Harmonic,
}

impl Aim {
    /// The mean of speeds; 0 for none.
    #[must_use]
    pub fn value(self, speeds: impl Iterator<Item = f64>) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for speed in speeds {
            let speed = speed.max(1e-12);
            sum += match self {
                Self::Geometric => speed.ln(),
                Self::Harmonic => 1.0 / speed,
            };
            count += 1.0;
        }
        if count == 0.0 {
            return 0.0;
        }
        match self {
            Self::Geometric => f64::exp(sum / count),
            Self::Harmonic => count / sum,
        }
    }
}

/// Judges divisions of one scenario.
pub(crate) struct Judge {
    programs: Vec<Program>,
    /// The part of each that lasts longest of those in which all its threads work.
    longest: Vec<usize>,
    speeds: Speeds,
    aim: Aim,
}

impl Judge {
    pub(crate) fn new(scenario: &Scenario, aim: Aim) -> Self {
        let speeds = Speeds::new(&scenario.machine, &scenario.constants, scenario.teams);
        let jobs = scenario.jobs.iter().enumerate();
        let programs: Vec<Program> = jobs.map(|(n, job)| speeds.program(job, n)).collect();
        let longest = programs
            .iter()
            .map(|program| {
                let parts = program.cycle.parts().iter().enumerate();
                parts
                    .filter(|(_, part)| part.parallel)
                    .max_by(|a, b| a.1.share.total_cmp(&b.1.share))
                    .map_or(0, |(at, _)| at)
            })
            .collect();
        Self {
            programs,
            longest,
            speeds,
            aim,
        }
    }

    /// The mean of the speeds on these sets, one for each program.
    pub(crate) fn value(&mut self, sets: &[CpuSet]) -> f64 {
        let aim = self.aim;
        let speeds: Vec<f64> = (0..self.programs.len())
            .map(|of| {
                let shares: Vec<f64> = self.programs[of]
                    .cycle
                    .parts()
                    .iter()
                    .map(|part| part.share)
                    .collect();
                let time: f64 = shares
                    .iter()
                    .enumerate()
                    .map(|(part, share)| share / self.progress(sets, of, part).max(1e-9))
                    .sum();
                1.0 / time
            })
            .collect();
        aim.value(speeds.into_iter())
    }

    fn progress(&mut self, sets: &[CpuSet], of: usize, part: usize) -> f64 {
        let places: Vec<Place<'_>> = sets
            .iter()
            .enumerate()
            .map(|(program, set)| Place {
                program,
                part: if program == of {
                    part
                } else {
                    self.longest[program]
                },
                set: Some(set),
                rank: None,
            })
            .collect();
        let paces = self.speeds.paces(&self.programs, &places);
        paces.get(of).map_or(0.0, |pace| pace.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aims_are_the_means_they_are_called_by() {
        let speeds = [0.25, 1.0];
        assert!((Aim::Geometric.value(speeds.into_iter()) - 0.5).abs() < 1e-12);
        assert!((Aim::Harmonic.value(speeds.into_iter()) - 0.4).abs() < 1e-12);
        assert_eq!(Aim::Geometric.value(std::iter::empty()), 0.0);
    }
}
