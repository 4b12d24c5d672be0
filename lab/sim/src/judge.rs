//! The value of a division of the machine without running it: the mean speed of all programs, each in turn in all its
//! parts while the others are in their longest one. A run costs ten to a hundred times as much.

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
        match self {
            _ if count == 0.0 => 0.0,
            Self::Geometric => f64::exp(sum / count),
            Self::Harmonic => count / sum,
        }
    }
}

pub(crate) struct Judge<'a> {
    programs: Vec<Program>,
    /// The longest parallel part of each.
    longest: Vec<usize>,
    speeds: Speeds<'a>,
    aim: Aim,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(scenario: &'a Scenario, aim: Aim) -> Self {
        let speeds = Speeds::new(scenario);
        let jobs = scenario.jobs.iter().enumerate();
        let programs: Vec<Program> = jobs.map(|(n, job)| speeds.program(job, n)).collect();
        let longest = |program: &Program| {
            let parts = program.cycle.parts().iter().enumerate();
            let parallel = parts.filter(|(_, part)| part.parallel);
            let longest = parallel.max_by(|a, b| a.1.share.total_cmp(&b.1.share));
            longest.map_or(0, |(at, _)| at)
        };
        Self {
            longest: programs.iter().map(longest).collect(),
            programs,
            speeds,
            aim,
        }
    }

    /// The mean of the speeds on these sets, one for each program.
    pub(crate) fn value(&mut self, sets: &[CpuSet]) -> f64 {
        let (aim, programs) = (self.aim, 0..self.programs.len());
        let speed = |of: usize| {
            let mut time = 0.0;
            for part in 0..self.programs[of].cycle.parts().len() {
                let share = self.programs[of].cycle.parts()[part].share;
                time += share / self.progress(sets, of, part).max(1e-9);
            }
            1.0 / time
        };
        aim.value(programs.map(speed))
    }

    fn progress(&mut self, sets: &[CpuSet], of: usize, part: usize) -> f64 {
        let sets = sets.iter().enumerate();
        let places = sets.map(|(program, set)| Place {
            program: &self.programs[program],
            part: match program == of {
                true => part,
                false => self.longest[program],
            },
            set: Some(set),
            idle_time: None,
        });
        let places: Vec<Place<'_>> = places.collect();
        let paces = self.speeds.paces(&places);
        paces.get(of).map_or(0.0, |pace| pace.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aims_are_the_means_of_their_names() {
        let speeds = [0.25, 1.0];
        assert!((Aim::Geometric.value(speeds.into_iter()) - 0.5).abs() < 1e-12);
        assert!((Aim::Harmonic.value(speeds.into_iter()) - 0.4).abs() < 1e-12);
        assert_eq!(Aim::Geometric.value(std::iter::empty()), 0.0);
    }
}
