//! Whether an application is in a parallel or a serial section.
//!
//! NuPoCo and its Equal policy give an application that runs serially a single CPU [NuPoCo §5.2, §7.3]. Here it is
//! shown by the threads that ran in the interval, or, without counters, the busy CPUs, or, on one CPU, the runnable
//! threads. A section is believed after two intervals in a row; an unknown application counts as parallel.

use mapper_model::Profile;
use serde::{Deserialize, Serialize};

/// Intervals in a row that make a section.
const BELIEVED_AFTER: u32 = 2;
/// CPUs that a serial application keeps busy, with some room for helpers.
const SERIAL_BUSY: f64 = 1.1;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Section {
    /// Several threads work.
    #[default]
    Parallel,
    /// One thread works.
    Serial,
}

impl Section {
    /// What an interval with `cpus` CPUs showed; `None` when it showed nothing.
    pub(crate) fn shown(profile: &Profile, cpus: u32) -> Option<Self> {
        let of = |parallel| {
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

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SectionWatch {
    section: Section,
    contrary: u32,
}

impl SectionWatch {
    /// Ingests an interval and returns the section that is believed.
    pub(crate) fn observe(&mut self, shown: Option<Section>) -> Section {
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

    pub(crate) const fn section(&self) -> Section {
        self.section
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{AppId, Rates};

    #[test]
    fn running_threads_count_before_cpu_time_and_on_one_cpu_runnable_ones() {
        let mut profile = Profile::unknown(AppId(1));
        assert_eq!(Section::shown(&profile, 4), None);
        profile.utilisation = Some(0.25);
        assert_eq!(Section::shown(&profile, 4), Some(Section::Serial));
        assert_eq!(Section::shown(&profile, 8), Some(Section::Parallel));
        assert_eq!(Section::shown(&profile, 1), None);
        profile.runnable_threads = Some(3);
        assert_eq!(Section::shown(&profile, 1), Some(Section::Parallel));
        profile.rates = Some(Rates {
            active_threads: 3,
            ..Rates::default()
        });
        assert_eq!(Section::shown(&profile, 4), Some(Section::Parallel));
    }

    #[test]
    fn one_interval_does_not_make_a_section() {
        use Section::{Parallel, Serial};
        let mut watch = SectionWatch::default();
        let seen = [Serial, Parallel, Serial, Serial].map(|shown| watch.observe(Some(shown)));
        assert_eq!(seen, [Parallel, Parallel, Parallel, Serial]);
    }
}
