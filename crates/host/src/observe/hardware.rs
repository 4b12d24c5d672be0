//! Hardware counters of each thread, through `perf_event_open(2)`.
//!
//! Cycles and instructions of one thread must come from the same stretch of time, or their ratio means nothing. So the
//! events of a thread form one group that the kernel counts together and that is read in one call, with the share of
//! time in which it counted. Where the counters do not suffice, a thread has several groups, between which the kernel
//! switches; each value comes with the times of its own group. On a hybrid machine each kind of core has groups, whose
//! values are added up.
//!
//! Only user mode is counted, which needs no privilege up to `kernel.perf_event_paranoid` 2. An event that the
//! processor lacks ([`super::event_table`]) is reported; without cycles and instructions the whole source is missing.
//!
//! Each event of each thread is a file descriptor. Beyond the limit of open files an application is counted by its
//! control group on each of its CPUs ([`super::budget`]), and without one further threads are not counted. What a group
//! used on a CPU is reported as a thread with a number that no thread has.
//!
//! Reading takes time that grows with the threads, and opening more. So of each account (a user with the subordinate
//! uids) so many threads are counted ([`THREADS`]), and so many begin to be in an interval ([`OPENED`]).

use super::budget::{Needs, Way, way};
use super::offer::{Described, Offer, Wanted, lack};
use super::perf_group::{Target, ThreadCounters, groups_that_fit, open_groups};
use super::refusal::explain;
use super::source::{CounterSource, Subject};
use super::switch_cost;
use crate::Missing;
use crate::enforce::Extent;
use crate::procfs::ProcFs;
use mapper_model::{AppId, CpuId, Event, Reading, ThreadId, ThreadReading};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Threads of one account that are counted.
const THREADS: usize = 1024;

/// Threads of one account whose counters are opened in an interval.
const OPENED: usize = 256;

/// The part of the descriptors that counters may take: connections and applications need the rest.
const PART_OF_FILES: u64 = 2;

#[derive(Debug)]
pub(crate) struct HardwareCounters {
    proc: ProcFs,
    groups: Vec<Vec<Wanted>>,
    apps: BTreeMap<AppId, AppCounters>,
    /// What each account has.
    accounts: BTreeMap<u32, Part>,
    open: u64,
    most_open: u64,
    limit_logged: bool,
    /// Counts the counters opened on CPUs, so that those opened anew are not taken for those before.
    opened_on_cpus: u64,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) counters: HardwareCounters,
    /// The micro-architectures whose event tables are used; empty when none describes this machine.
    pub(crate) processors: Vec<String>,
    pub(crate) described: Vec<Described>,
    pub(crate) missing: Vec<Missing>,
}

impl Found {
    /// Leaves what speed and memory bandwidth need, where every counter makes a context switch much longer.
    pub(crate) fn give_up_sharing(&mut self) -> Reduced {
        let kept = |event| {
            matches!(
                event,
                Event::Cycles | Event::Instructions | Event::LlcMisses
            )
        };
        let groups = &mut self.counters.groups;
        let given_up: Vec<Event> = groups
            .iter()
            .flatten()
            .map(|wanted| wanted.event)
            .filter(|event| !kept(*event))
            .collect();
        for group in groups.iter_mut() {
            group.retain(|wanted| kept(wanted.event));
        }
        groups.retain(|group| !group.is_empty());
        self.described.retain(|described| kept(described.event));
        if given_up.is_empty() {
            return Reduced::NothingToGiveUp;
        }
        for event in Event::ALL.into_iter().filter(|e| given_up.contains(e)) {
            self.missing.push(lack(
                event,
                "with it a context switch takes too long here",
                "choose counters hardware to have it all the same",
            ));
        }
        Reduced::CountsLess
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduced {
    CountsLess,
    NothingToGiveUp,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    counted: usize,
    /// At this moment so many were opened.
    opened: (u64, usize),
}

#[derive(Debug, Default)]
struct AppCounters {
    account: u32,
    threads: BTreeMap<ThreadId, ThreadCounters>,
    cpus: BTreeMap<ThreadId, ThreadCounters>,
    group_refused: bool,
}

impl AppCounters {
    fn way(&self) -> Way {
        if self.cpus.is_empty() {
            Way::Threads
        } else {
            Way::Group
        }
    }
}

/// Numbers from here on stand for CPUs: threads have none above 2^22.
const FIRST_OF_CPUS: u32 = 1 << 30;

impl HardwareCounters {
    /// Tries every event on this process; an error when cycles or instructions cannot be counted.
    pub(crate) fn probe() -> Result<Found, Missing> {
        let proc = ProcFs::system().map_err(|error| {
            Missing::new("hardware counters", crate::chain(&error), "mount /proc")
        })?;
        let mut offer = Offer::read(Path::new("/sys"), Path::new("/proc"));
        for event in Event::ALL {
            let refused = offer.pmus.iter().find_map(|pmu| {
                let wanted = pmu.wanted.iter().find(|wanted| wanted.event == event)?;
                wanted.builder().observe_self().any_cpu().build().err()
            });
            let Some(error) = refused else { continue };
            let why = explain(&error);
            if matches!(event, Event::Cycles | Event::Instructions) {
                return Err(why);
            }
            offer.missing(event, &why);
        }
        let groups = groups_that_fit(&offer.pmus).map_err(|error| explain(&error))?;
        Ok(Found {
            counters: Self::with_groups(proc, groups),
            processors: offer.names,
            described: offer.described,
            missing: offer.lacks,
        })
    }

    /// What counting adds to each context switch on this machine, if known. Takes some ten milliseconds.
    pub(crate) fn switch_cost(&mut self) -> Option<Duration> {
        let open = self.open;
        let cost = switch_cost::measured(|thread| self.open(thread));
        self.open = open;
        cost
    }

    fn with_groups(proc: ProcFs, groups: Vec<Vec<Wanted>>) -> Self {
        Self {
            proc,
            groups,
            apps: BTreeMap::new(),
            accounts: BTreeMap::new(),
            open: 0,
            most_open: crate::raise_file_limit() / PART_OF_FILES,
            limit_logged: false,
            opened_on_cpus: 0,
        }
    }

    fn events_of_a_thread(&self) -> u64 {
        self.groups.iter().map(|group| group.len() as u64).sum()
    }

    fn open(&mut self, thread: ThreadId) -> Option<ThreadCounters> {
        let wanted = self.events_of_a_thread();
        if self.open + wanted > self.most_open {
            if !std::mem::replace(&mut self.limit_logged, true) {
                tracing::warn!(
                    open = self.open,
                    "no more descriptors for counters of further threads; raise LimitNOFILE"
                );
            }
            return None;
        }
        let started = self.proc.thread_stat(thread).ok()?.started_ticks;
        match open_groups(Target::Thread(thread), &self.groups) {
            Ok(groups) => {
                self.open += wanted;
                Some(ThreadCounters { started, groups })
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
        let counted = |event: &Event| self.groups.iter().flatten().any(|w| w.event == *event);
        let names: Vec<&str> = Event::ALL.iter().filter(|e| counted(e)).map(name).collect();
        format!("hardware counters ({})", names.join(", "))
    }

    fn read(&mut self, subject: &Subject<'_>, reading: &mut Reading) {
        let mut app = self.apps.remove(&subject.app).unwrap_or_default();
        app.account = subject.account;
        let mut part = self.part_of_others(subject, &app);
        let each = self.events_of_a_thread();
        let held = (app.threads.len() + app.cpus.len()) as u64 * each;
        let group = subject.group.filter(|_| !app.group_refused);
        // A list that was cut stands for more than may be counted.
        let threads = match subject.tasks.extent {
            Extent::Whole => subject.tasks.threads.len() as u64 * each,
            Extent::Part => u64::MAX,
        };
        let needs = Needs {
            threads,
            group: group.map(|_| u64::from(subject.cpus.len()) * each),
        };
        let left = self
            .most_open
            .saturating_sub(self.open.saturating_sub(held));
        let of_account = THREADS.saturating_sub(part.counted) as u64 * each;
        match (way(app.way(), needs, left, of_account), group) {
            (Way::Group, Some(group)) => {
                self.close(&mut app.threads, |_| true);
                self.follow_group(subject, group, &mut app);
            }
            _ => {
                self.close(&mut app.cpus, |_| true);
                self.follow_threads(subject, &mut app.threads, &mut part);
            }
        }
        for (number, counters) in app.threads.iter_mut().chain(&mut app.cpus) {
            if let Ok(values) = counters.read() {
                reading.threads.push(ThreadReading {
                    tid: *number,
                    started: counters.started,
                    counters: values,
                });
            }
        }
        part.counted += app.threads.len();
        self.accounts.insert(subject.account, part);
        self.apps.insert(subject.app, app);
    }

    fn forget(&mut self, app: AppId) {
        if let Some(mut app) = self.apps.remove(&app) {
            let counted = app.threads.len();
            self.close(&mut app.threads, |_| true);
            self.close(&mut app.cpus, |_| true);
            if let Some(part) = self.accounts.get_mut(&app.account) {
                part.counted = part.counted.saturating_sub(counted);
                if part.counted == 0 {
                    self.accounts.remove(&app.account);
                }
            }
        }
    }
}

impl HardwareCounters {
    /// What the account of an application has besides it.
    fn part_of_others(&self, subject: &Subject<'_>, app: &AppCounters) -> Part {
        let part = self.accounts.get(&subject.account);
        let mut part = part.copied().unwrap_or_default();
        part.counted = part.counted.saturating_sub(app.threads.len());
        if part.opened.0 != subject.now_ns {
            part.opened = (subject.now_ns, 0);
        }
        part
    }

    fn close(
        &mut self,
        counters: &mut BTreeMap<ThreadId, ThreadCounters>,
        done: impl Fn(ThreadId) -> bool,
    ) {
        let before = counters.len();
        counters.retain(|number, _| !done(*number));
        let closed = (before - counters.len()) as u64 * self.events_of_a_thread();
        self.open = self.open.saturating_sub(closed);
    }

    fn follow_threads(
        &mut self,
        subject: &Subject<'_>,
        counters: &mut BTreeMap<ThreadId, ThreadCounters>,
        part: &mut Part,
    ) {
        let live = &subject.tasks.threads;
        self.close(counters, |thread| live.binary_search(&thread).is_err());
        for thread in live {
            if counters.contains_key(thread) {
                continue;
            }
            if part.opened.1 >= OPENED || part.counted + counters.len() >= THREADS {
                break;
            }
            part.opened.1 += 1;
            if let Some(opened) = self.open(*thread) {
                counters.insert(*thread, opened);
            }
        }
    }

    fn follow_group(&mut self, subject: &Subject<'_>, group: &Path, app: &mut AppCounters) {
        let number = |cpu: CpuId| ThreadId(FIRST_OF_CPUS + cpu.0);
        if app.cpus.is_empty() {
            tracing::info!(
                app = subject.app.0,
                threads = subject.tasks.threads.len(),
                "counted by its control group on each CPU: no descriptors for all of its threads"
            );
        }
        let held: Vec<ThreadId> = subject.cpus.iter().map(number).collect();
        self.close(&mut app.cpus, |number| !held.contains(&number));
        for cpu in subject.cpus {
            if app.cpus.contains_key(&number(cpu)) {
                continue;
            }
            let opened = File::open(group)
                .and_then(|file| open_groups(Target::GroupOn(&file, cpu), &self.groups));
            match opened {
                Ok(groups) => {
                    self.opened_on_cpus += 1;
                    self.open += self.events_of_a_thread();
                    let started = self.opened_on_cpus;
                    app.cpus
                        .insert(number(cpu), ThreadCounters { started, groups });
                }
                // A part of its CPUs would not show its speed: from the next interval on as many threads as fit.
                Err(error) => {
                    tracing::warn!(
                        app = subject.app.0,
                        "control group not counted on CPU {}: {error}; as many threads as there are \
                         descriptors for are counted instead",
                        cpu.0
                    );
                    self.close(&mut app.cpus, |_| true);
                    app.group_refused = true;
                    return;
                }
            }
        }
    }
}

#[must_use]
pub(crate) const fn name(event: &Event) -> &'static str {
    match event {
        Event::Cycles => "cycles",
        Event::Instructions => "instructions",
        Event::LlcMisses => "last-level cache misses",
        Event::SnoopHit => "snoop hits",
        Event::SnoopHitModified => "modified snoop hits",
        Event::RemoteHitModified => "remote modified hits",
        Event::L2PendingStalls => "stalls behind L2",
    }
}

#[cfg(test)]
mod tests {
    use super::super::perf_group::{software, split};
    use super::*;
    use crate::enforce::Tasks;
    use mapper_model::CpuSet;
    use std::path::PathBuf;
    use std::sync::{Arc, Barrier};

    fn with_software_events() -> HardwareCounters {
        let events = vec![software(Event::Cycles, 1), software(Event::Instructions, 2)];
        HardwareCounters::with_groups(ProcFs::system().unwrap(), vec![events])
    }

    fn tasks(threads: &[ThreadId]) -> Tasks {
        Tasks {
            processes: vec![std::process::id()],
            threads: threads.to_vec(),
            extent: Extent::Whole,
        }
    }

    fn read(counters: &mut HardwareCounters, threads: &[ThreadId]) -> Reading {
        let mut reading = Reading::default();
        counters.read(&Subject::of(AppId(1), &tasks(threads)), &mut reading);
        reading
    }

    fn spin(rounds: u64) {
        let sum: u64 = (0..rounds).map(std::hint::black_box).sum();
        assert!(sum > 0);
    }
    #[test]
    fn threads_are_followed_as_they_come_and_go() {
        let mut counters = with_software_events();
        let own = switch_cost::own_id();
        let gone = ThreadId(u32::MAX >> 1);
        let first = read(&mut counters, &[own, gone]);
        assert_eq!(first.threads.len(), 1, "{first:?}");
        spin(2_000_000);
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

    fn root_group() -> PathBuf {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mut places = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let counts = kind == "cgroup2" || options.split(',').any(|o| o == "perf_event");
            counts.then(|| (kind == "cgroup2", PathBuf::from(path)))
        });
        places
            .clone()
            .find(|(v2, _)| !v2)
            .or_else(|| places.next())
            .unwrap()
            .1
    }

    #[test]
    fn beyond_the_limit_an_application_is_counted_by_its_group_on_each_of_its_cpus() {
        let mut counters = with_software_events();
        let own = ThreadId(std::process::id());
        // Room for two CPUs with two events, not for three threads.
        counters.most_open = 5;
        let cpus = crate::enforce::masks::get(own).unwrap();
        let cpus: CpuSet = cpus.iter().take(2).collect();
        let group = root_group();
        let mut read = |threads: &[u32]| {
            let threads: Vec<_> = threads.iter().map(|tid| ThreadId(*tid)).collect();
            let tasks = tasks(&threads);
            let subject = Subject {
                cpus: &cpus,
                group: Some(&group),
                ..Subject::of(AppId(1), &tasks)
            };
            let mut reading = Reading::default();
            counters.read(&subject, &mut reading);
            (reading, counters.open)
        };
        let (first, open) = read(&[1, 2, 3]);
        if first.threads.is_empty() {
            eprintln!("no right to count a control group here");
            assert_eq!(read(&[own.0]).0.threads.len(), 1);
            return;
        }
        let both = (first.threads.len() as u32, open);
        assert_eq!(both, (cpus.len(), 2 * u64::from(cpus.len())));
        let mut of_cpus = first.threads.iter().map(|t| t.tid.0 >= FIRST_OF_CPUS);
        assert!(of_cpus.all(|is_of_cpu| is_of_cpu), "{first:?}");
        spin(20_000_000);
        let (second, _) = read(&[1, 2, 3]);
        let total = |r: &Reading| -> u64 {
            let value = |t: &ThreadReading| t.counters.get(Event::Cycles).unwrap().value;
            r.threads.iter().map(value).sum()
        };
        assert!(total(&second) > total(&first), "{first:?} {second:?}");
        assert_eq!(first.threads[0].started, second.threads[0].started);
        // Few enough again: each thread by itself, and the group's counters are closed.
        let (last, open) = read(&[own.0]);
        assert_eq!(last.threads.len(), 1);
        assert_eq!((last.threads[0].tid, open), (own, 2));
    }

    #[test]
    fn a_group_that_cannot_be_counted_is_tried_once_and_threads_are_counted_instead() {
        let mut counters = with_software_events();
        counters.most_open = 2;
        let own = ThreadId(std::process::id());
        let tasks = tasks(&[own, ThreadId(u32::MAX >> 1)]);
        let subject = Subject {
            cpus: &CpuSet::first(1),
            group: Some(Path::new("/no/such/group")),
            ..Subject::of(AppId(1), &tasks)
        };
        counters.read(&subject, &mut Reading::default());
        assert!(counters.apps[&AppId(1)].group_refused);
        let mut reading = Reading::default();
        counters.read(&subject, &mut reading);
        assert_eq!(reading.threads.len(), 1);
        assert_eq!(counters.open, 2);
    }

    /// A program with idle threads.
    struct Idle(Vec<std::thread::JoinHandle<()>>, Arc<Barrier>);

    impl Idle {
        fn new(threads: usize) -> (Self, Vec<ThreadId>) {
            let end = Arc::new(Barrier::new(threads + 1));
            let (sender, numbers) = std::sync::mpsc::channel();
            let idle = |_| {
                let (sender, end) = (sender.clone(), end.clone());
                let idle = std::thread::Builder::new().stack_size(64 << 10);
                let idle = idle.spawn(move || {
                    sender.send(switch_cost::own_id()).unwrap();
                    end.wait();
                });
                idle.unwrap()
            };
            let all = (0..threads).map(idle).collect();
            let mut numbers: Vec<ThreadId> = numbers.iter().take(threads).collect();
            numbers.sort_unstable();
            (Self(all, end), numbers)
        }
    }

    impl Drop for Idle {
        fn drop(&mut self) {
            self.1.wait();
            for thread in self.0.drain(..) {
                let _ = thread.join();
            }
        }
    }

    #[test]
    fn of_each_account_so_many_threads_are_counted_and_begin_to_be_in_an_interval() {
        let mut counters = with_software_events();
        counters.most_open = 1 << 20;
        let (_idle, threads) = Idle::new(THREADS + OPENED);
        let all = tasks(&threads);
        let mut counted = |app: u64, account, tasks: &Tasks, now_ns| {
            let subject = Subject {
                account,
                now_ns,
                ..Subject::of(AppId(app), tasks)
            };
            let mut reading = Reading::default();
            counters.read(&subject, &mut reading);
            reading.threads.len()
        };
        // Each interval some more, until the account has its part.
        assert_eq!(counted(1, 7, &all, 1), OPENED);
        assert_eq!(counted(2, 7, &all, 1), 0);
        assert_eq!(counted(1, 7, &all, 2), 2 * OPENED);
        // That of another account is its own.
        assert_eq!(counted(3, 8, &all, 2), OPENED);
        for now_ns in 3..9 {
            counted(1, 7, &all, now_ns);
        }
        assert_eq!(counted(1, 7, &all, 9), THREADS);
        assert_eq!(counted(2, 7, &all, 9), 0);
        // Those that ended leave room.
        let few = tasks(&threads[..10]);
        assert_eq!(counted(1, 7, &few, 10), 10);
        assert_eq!(counted(2, 7, &all, 10), OPENED);
        counters.forget(AppId(2));
        assert_eq!(counters.accounts[&7].counted, 10);
        counters.forget(AppId(1));
        assert_eq!(counters.accounts.keys().collect::<Vec<_>>(), [&8]);
    }

    #[test]
    fn the_events_of_sharing_can_be_given_up_alone() {
        let all: Vec<Wanted> = Event::ALL.map(|event| software(event, 1)).into();
        let groups = split(&all, &[Event::Cycles, Event::Instructions], 3);
        let mut found = Found {
            counters: HardwareCounters::with_groups(ProcFs::system().unwrap(), groups),
            processors: vec![],
            described: vec![],
            missing: vec![],
        };
        assert_eq!(found.give_up_sharing(), Reduced::CountsLess);
        let [group] = &found.counters.groups[..] else {
            panic!("{found:?}");
        };
        assert_eq!(group.len(), 3);
        assert_eq!(found.missing.len(), 4);
        assert_eq!(found.give_up_sharing(), Reduced::NothingToGiveUp);
    }

    #[test]
    fn raw_events_of_the_table_are_opened_where_there_is_a_pmu() {
        let Ok(found) = HardwareCounters::probe() else {
            return;
        };
        let events = found.counters.groups.concat().len() + found.missing.len();
        assert!(events >= Event::ALL.len(), "{found:?}");
        let mut counters = found.counters;
        let own = switch_cost::own_id();
        read(&mut counters, &[own]);
        // Where others use the PMU too, it may take some turns until these events have theirs.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            spin(2_000_000);
            let reading = read(&mut counters, &[own]);
            let counted = |event| reading.threads[0].counters.get(event);
            let more_than = |event, least| counted(event).is_some_and(|n| n.value > least);
            if more_than(Event::Instructions, 1_000_000) && more_than(Event::Cycles, 0) {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{reading:?}");
        }
    }
}
