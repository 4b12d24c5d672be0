//! Hardware counters of each thread, through `perf_event_open(2)`.
//!
//! The problem: cycles and instructions of one thread must come from the same stretch of time, or
//! their ratio means nothing; there may be more events than registers; threads come and go. So the
//! events of a thread form one group that the kernel counts together and that is read in one call,
//! with the times that tell which share was really counted. Groups are opened when a thread is first
//! seen and closed when it is gone.
//!
//! Events here are those the kernel knows on every architecture: cycles, instructions, last-level
//! cache misses. Only user mode is counted, which needs no privilege up to
//! `kernel.perf_event_paranoid` 2. An event that the processor lacks is left out and reported; without
//! cycles and instructions there is nothing to measure speed with, and the whole source is missing.
//!
//! Each event of each thread is a file descriptor. The limit of open files is raised as far as
//! allowed; beyond it further threads are not counted (the monitor sees which are).

use super::{CounterSource, Subject, switch_cost};
use crate::Missing;
use crate::procfs::ProcFs;
use mapper_model::{AppId, CounterValue, Counters, Event, Reading, ThreadId, ThreadReading};
use perf_event::events::Hardware;
use perf_event::{Builder, Counter, ReadFormat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Descriptors that are left for everything else.
const OTHER_FILES: u64 = 256;

/// Reads hardware counters. See the [module](self).
#[derive(Debug)]
pub struct HardwareCounters {
    proc: ProcFs,
    events: Vec<Wanted>,
    apps: BTreeMap<AppId, BTreeMap<ThreadId, Group>>,
    open: u64,
    most_open: u64,
    told_of_limit: bool,
}

/// An event to be counted.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    event: Event,
    /// How the kernel is asked for it.
    ask: fn() -> Builder<'static>,
}

const EVENTS: [Wanted; 3] = [
    Wanted {
        event: Event::Cycles,
        ask: || Builder::new(Hardware::CPU_CYCLES),
    },
    Wanted {
        event: Event::Instructions,
        ask: || Builder::new(Hardware::INSTRUCTIONS),
    },
    Wanted {
        event: Event::LlcMisses,
        ask: || Builder::new(Hardware::CACHE_MISSES),
    },
];

/// Counters that work here, and what the processor lacks.
#[derive(Debug)]
pub struct Found {
    /// Ready to be read.
    pub counters: HardwareCounters,
    /// Events that are not there.
    pub missing: Vec<Missing>,
}

/// The open counters of one thread.
#[derive(Debug)]
struct Group {
    started: u64,
    leader: Counter,
    members: Vec<Counter>,
    events: Vec<Event>,
}

impl HardwareCounters {
    /// Tries every event on this process.
    ///
    /// # Errors
    /// [`Missing`] when cycles or instructions cannot be counted.
    pub fn probe() -> Result<Found, Missing> {
        let proc = ProcFs::system().map_err(|error| Missing {
            what: "hardware counters",
            why: crate::chain(&error),
            mend: "mount /proc".to_owned(),
        })?;
        let mut events = Vec::new();
        let mut missing = Vec::new();
        for wanted in EVENTS {
            match (wanted.ask)().observe_self().any_cpu().build() {
                Ok(_counter) => events.push(wanted),
                Err(error) => {
                    let lack = explain(&error);
                    if matches!(wanted.event, Event::Cycles | Event::Instructions) {
                        return Err(lack);
                    }
                    missing.push(Missing {
                        what: "counter of last-level cache misses",
                        ..lack
                    });
                }
            }
        }
        Ok(Found {
            counters: Self::with_events(proc, events),
            missing,
        })
    }

    /// What counting adds to each change of threads on this machine; nothing when that cannot be
    /// found out. Takes some ten milliseconds.
    pub fn switch_cost(&mut self) -> Option<Duration> {
        let open = self.open;
        let cost = switch_cost::measured(|thread| self.open(thread));
        // All of those are closed again.
        self.open = open;
        cost
    }

    fn with_events(proc: ProcFs, events: Vec<Wanted>) -> Self {
        Self {
            proc,
            events,
            apps: BTreeMap::new(),
            open: 0,
            most_open: raise_file_limit().saturating_sub(OTHER_FILES),
            told_of_limit: false,
        }
    }

    fn open(&mut self, thread: ThreadId) -> Option<Group> {
        let wanted = self.events.len() as u64;
        if self.open + wanted > self.most_open {
            if !self.told_of_limit {
                tracing::warn!(
                    open = self.open,
                    "no more descriptors for counters of further threads; raise LimitNOFILE"
                );
                self.told_of_limit = true;
            }
            return None;
        }
        let started = self.proc.thread_started_ticks(thread).ok()?;
        match Group::open(thread, started, &self.events) {
            Ok(group) => {
                self.open += wanted;
                Some(group)
            }
            // The thread ended, or belongs to a program with other privileges.
            Err(error) => {
                tracing::debug!(thread = thread.0, "counters not opened: {error}");
                None
            }
        }
    }
}

impl CounterSource for HardwareCounters {
    fn describe(&self) -> String {
        let names: Vec<&str> = self
            .events
            .iter()
            .map(|wanted| match wanted.event {
                Event::Cycles => "cycles",
                Event::Instructions => "instructions",
                Event::LlcMisses => "last-level cache misses",
                _ => "other events",
            })
            .collect();
        format!("hardware counters ({})", names.join(", "))
    }

    fn read(&mut self, subject: &Subject<'_>, reading: &mut Reading) {
        let mut groups = self.apps.remove(&subject.app).unwrap_or_default();
        let before = groups.len();
        groups.retain(|thread, _| subject.tasks.threads.binary_search(thread).is_ok());
        self.open = self
            .open
            .saturating_sub((before - groups.len()) as u64 * self.events.len() as u64);
        for thread in &subject.tasks.threads {
            if !groups.contains_key(thread)
                && let Some(group) = self.open(*thread)
            {
                groups.insert(*thread, group);
            }
            if let Some(group) = groups.get_mut(thread)
                && let Ok(counters) = group.read()
            {
                reading.threads.push(ThreadReading {
                    tid: *thread,
                    started: group.started,
                    counters,
                });
            }
        }
        self.apps.insert(subject.app, groups);
    }

    fn forget(&mut self, app: AppId) {
        if let Some(groups) = self.apps.remove(&app) {
            let closed = groups.len() as u64 * self.events.len() as u64;
            self.open = self.open.saturating_sub(closed);
        }
    }
}

impl Group {
    fn open(thread: ThreadId, started: u64, events: &[Wanted]) -> io::Result<Self> {
        let pid = i32::try_from(thread.0).map_err(io::Error::other)?;
        let [first, others @ ..] = events else {
            return Err(io::Error::other("no event to count"));
        };
        let format = ReadFormat::GROUP
            | ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID;
        let mut leader = (first.ask)()
            .observe_pid(pid)
            .any_cpu()
            .read_format(format)
            .build()?;
        let mut members = Vec::with_capacity(others.len());
        for other in others {
            members.push(
                (other.ask)()
                    .observe_pid(pid)
                    .any_cpu()
                    .read_format(format)
                    .build_with_group(&mut leader)?,
            );
        }
        leader.enable_group()?;
        Ok(Self {
            started,
            leader,
            members,
            events: events.iter().map(|wanted| wanted.event).collect(),
        })
    }

    fn read(&mut self) -> io::Result<Counters> {
        let data = self.leader.read_group()?;
        let nanoseconds = |time: Option<Duration>| {
            time.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX))
        };
        let enabled_ns = nanoseconds(data.time_enabled());
        let running_ns = nanoseconds(data.time_running());
        let mut counters = Counters::default();
        let all = std::iter::once(&self.leader).chain(&self.members);
        for (event, counter) in self.events.iter().zip(all) {
            if let Some(entry) = data.get(counter) {
                counters.set(
                    *event,
                    CounterValue {
                        value: entry.value(),
                        enabled_ns,
                        running_ns,
                    },
                );
            }
        }
        Ok(counters)
    }
}

/// Why the kernel refuses a counter, in words that lead to a remedy.
fn explain(error: &io::Error) -> Missing {
    let (why, mend) = match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => (
            format!("the processor offers none to this system ({error})"),
            "on a virtual machine, ask for a virtual PMU".to_owned(),
        ),
        Some(Errno::ACCESS | Errno::PERM) => {
            let path = std::path::Path::new("/proc/sys/kernel/perf_event_paranoid");
            let level = crate::procfs::read_small(path).unwrap_or_default();
            (
                format!(
                    "not permitted, kernel.perf_event_paranoid is {} ({error})",
                    level.trim()
                ),
                "set kernel.perf_event_paranoid to 2 or lower, or give mapperd CAP_PERFMON"
                    .to_owned(),
            )
        }
        Some(Errno::NOSYS) => (
            format!("the kernel has no perf_event_open ({error})"),
            "use a kernel with CONFIG_PERF_EVENTS, and allow the call in the container".to_owned(),
        ),
        Some(Errno::MFILE | Errno::NFILE) => (error.to_string(), "raise LimitNOFILE".to_owned()),
        Some(Errno::BUSY) => (
            format!("the counters are taken by somebody else ({error})"),
            "stop other profilers, or the NMI watchdog".to_owned(),
        ),
        _ => (error.to_string(), "see perf_event_open(2)".to_owned()),
    };
    Missing {
        what: "hardware counters",
        why,
        mend,
    }
}

/// Raises the soft limit of open files to the hard one, and returns it.
fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised,
        Err(_) => limit,
    };
    limit.current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforce::Tasks;
    use perf_event::events::Software;

    /// Software events are there on every machine whose kernel has perf events at all; the way
    /// through groups, threads and readings is the same.
    fn with_software_events() -> HardwareCounters {
        HardwareCounters::with_events(
            ProcFs::system().unwrap(),
            vec![
                Wanted {
                    event: Event::Cycles,
                    ask: || Builder::new(Software::TASK_CLOCK),
                },
                Wanted {
                    event: Event::Instructions,
                    ask: || Builder::new(Software::PAGE_FAULTS),
                },
            ],
        )
    }

    fn read(counters: &mut HardwareCounters, threads: &[ThreadId]) -> Reading {
        let tasks = Tasks {
            processes: vec![std::process::id()],
            threads: threads.to_vec(),
        };
        let mut reading = Reading::default();
        let subject = Subject {
            app: AppId(1),
            tasks: &tasks,
            page: None,
            group_cpu_time_ns: None,
            now_ns: 0,
        };
        counters.read(&subject, &mut reading);
        reading
    }

    #[test]
    fn threads_are_followed_as_they_come_and_go() {
        let mut counters = with_software_events();
        // SAFETY: the call takes no argument and cannot fail.
        let own = ThreadId(unsafe { libc::gettid() } as u32);
        let gone = ThreadId(u32::MAX >> 1);
        let first = read(&mut counters, &[own, gone]);
        assert_eq!(first.threads.len(), 1, "{first:?}");
        let spin: u64 = (0..2_000_000u64).map(std::hint::black_box).sum();
        assert!(spin > 0);
        let second = read(&mut counters, &[own]);
        let value = |r: &Reading| r.threads[0].counters.get(Event::Cycles).unwrap();
        assert!(value(&second).value > value(&first).value);
        assert!(value(&second).running_ns <= value(&second).enabled_ns);
        assert_eq!(counters.open, 2);
        assert!(read(&mut counters, &[]).threads.is_empty());
        assert_eq!(counters.open, 0);
    }

    #[test]
    fn beyond_the_limit_of_descriptors_threads_are_not_counted() {
        let mut counters = with_software_events();
        counters.most_open = 1;
        let own = ThreadId(std::process::id());
        assert!(read(&mut counters, &[own]).threads.is_empty());
    }

    #[test]
    fn a_refusal_names_cause_and_remedy() {
        for (errno, why, mend) in [
            (libc::ENOENT, "processor offers none", "virtual PMU"),
            (libc::EACCES, "perf_event_paranoid is", "CAP_PERFMON"),
            (libc::ENOSYS, "no perf_event_open", "CONFIG_PERF_EVENTS"),
        ] {
            let lack = explain(&io::Error::from_raw_os_error(errno));
            assert!(lack.why.contains(why) && lack.mend.contains(mend), "{lack}");
        }
    }
}
