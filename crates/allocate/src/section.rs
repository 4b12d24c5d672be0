//! Whether an application is in a parallel or a serial section.
//!
//! NuPoCo and its Equal policy give an application that runs serially a single CPU
//! [NuPoCo §5.2, §7.3]. Their runtime tells them; here it is read off what the application does: how
//! many of its threads ran in the interval, or, without counters, how many CPUs it kept busy, or, on
//! one CPU, how many threads wanted to run. A section is believed after two intervals in a row, and
//! an application of which nothing is known counts as parallel.

use mapper_model::Profile;
use serde::{Deserialize, Serialize};

/// Intervals in a row that make a section.
const BELIEVED_AFTER: u32 = 2;
/// CPUs that a serial application keeps busy, with some room for helpers.
const SERIAL_BUSY: f64 = 1.1;

/// The kind of section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Several threads work.
    #[default]
    Parallel,
    /// One thread works.
    Serial,
}

impl Section {
    /// What an interval with `cpus` CPUs showed; `None` when it showed nothing.
    #[must_use]
    pub fn shown(profile: &Profile, cpus: u32) -> Option<Self> {
        let of = |parallel: bool| {
            Some(if parallel {
                Self::Parallel
            } else {
                Self::Serial
            })
        };
        match (&profile.rates, profile.utilisation) {
            (Some(rates), _) if rates.active_threads > 0 => of(rates.active_threads > 1),
            (_, Some(used)) if cpus > 1 => of(used * f64::from(cpus) > SERIAL_BUSY),
            _ => profile.runnable_threads.and_then(|threads| of(threads > 1)),
        }
    }
}

/// Follows the sections of one application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SectionWatch {
    section: Section,
    contrary: u32,
}

impl SectionWatch {
    /// Takes in an interval and returns the section that is believed.
    pub fn observe(&mut self, shown: Option<Section>) -> Section {
        match shown {
            Some(shown) if shown != self.section => {
                self.contrary += 1;
                if self.contrary >= BELIEVED_AFTER {
                    self.section = shown;
                    self.contrary = 0;
                }
            }
            Some(_) => self.contrary = 0,
            None => {}
        }
        self.section
    }

    /// The section that is believed.
    #[must_use]
    pub const fn section(&self) -> Section {
        self.section
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{AppId, Rates};

    #[test]
    fn threads_that_ran_tell_before_cpu_time_does() {
        let mut profile = Profile::unknown(AppId(1));
        assert_eq!(Section::shown(&profile, 4), None);
        profile.utilisation = Some(0.25);
        assert_eq!(Section::shown(&profile, 4), Some(Section::Serial));
        assert_eq!(Section::shown(&profile, 8), Some(Section::Parallel));
        profile.rates = Some(Rates {
            active_threads: 3,
            ..Rates::default()
        });
        assert_eq!(Section::shown(&profile, 4), Some(Section::Parallel));
    }

    #[test]
    fn on_one_cpu_the_threads_that_want_to_run_tell() {
        let mut profile = Profile::unknown(AppId(1));
        profile.utilisation = Some(1.0);
        assert_eq!(Section::shown(&profile, 1), None);
        profile.runnable_threads = Some(3);
        assert_eq!(Section::shown(&profile, 1), Some(Section::Parallel));
    }

    #[test]
    fn one_interval_does_not_make_a_section() {
        let mut watch = SectionWatch::default();
        let seen: Vec<Section> = [
            Section::Serial,
            Section::Parallel,
            Section::Serial,
            Section::Serial,
        ]
        .into_iter()
        .map(|shown| watch.observe(Some(shown)))
        .collect();
        use Section::{Parallel, Serial};
        assert_eq!(seen, [Parallel, Parallel, Parallel, Serial]);
    }
}
