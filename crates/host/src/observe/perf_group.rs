//! Events that the processor counts together: of one thread, or of a control group on one CPU.
//!
//! The kernel puts a group of events onto the PMU as a whole or not at all, and reads it in one call.

use super::offer::{Pmu, Wanted};
use mapper_model::{CounterValue, Counters, CpuId, Event, ThreadId};
use perf_event::{Builder, Counter, ReadFormat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::time::Duration;

#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Thread(ThreadId),
    GroupOn(&'a File, CpuId),
}

#[derive(Debug)]
pub(super) struct ThreadCounters {
    pub(super) started: u64,
    pub(super) groups: Vec<Group>,
}

#[derive(Debug)]
pub(super) struct Group {
    leader: Counter,
    members: Vec<Counter>,
    events: Vec<Event>,
}

impl ThreadCounters {
    /// The same event of several groups is that of several kinds of cores, one at a time: counts and times add up.
    pub(super) fn read(&mut self) -> io::Result<Counters> {
        let mut counters = Counters::default();
        for group in &mut self.groups {
            group.read(&mut counters)?;
        }
        Ok(counters)
    }
}

/// A virtual machine may show fewer counters than the processor has: ever smaller groups are tried, on this process.
pub(super) fn groups_that_fit(pmus: &[Pmu]) -> io::Result<Vec<Vec<Wanted>>> {
    let this = ThreadId(std::process::id());
    let mut groups = Vec::new();
    for pmu in pmus {
        // One is left to the NMI watchdog, which pins a counter for good.
        let mut room = pmu.programmable.saturating_sub(1).max(1);
        loop {
            let split = split(&pmu.wanted, &pmu.fixed, room);
            match open_groups(Target::Thread(this), &split) {
                Ok(_opened) => {
                    groups.extend(split);
                    break;
                }
                Err(error) if room > 1 && Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                    room -= 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(groups)
}

/// Fills groups in order, each with at most `room` events that need a programmable counter.
pub(super) fn split(wanted: &[Wanted], fixed: &[Event], room: u32) -> Vec<Vec<Wanted>> {
    let mut groups: Vec<Vec<Wanted>> = Vec::new();
    let mut left = 0;
    for event in wanted {
        let cost = u32::from(!fixed.contains(&event.event));
        match groups.last_mut() {
            Some(group) if left >= cost => {
                group.push(*event);
                left -= cost;
            }
            _ => {
                groups.push(vec![*event]);
                left = room.saturating_sub(cost);
            }
        }
    }
    groups
}

pub(super) fn open_groups(target: Target<'_>, groups: &[Vec<Wanted>]) -> io::Result<Vec<Group>> {
    let groups = groups.iter();
    groups.map(|group| Group::open(target, group)).collect()
}

impl<'a> Target<'a> {
    fn observed_by<'b>(self, builder: &'b mut Builder<'a>) -> io::Result<&'b mut Builder<'a>> {
        Ok(match self {
            Self::Thread(thread) => {
                let pid = i32::try_from(thread.0).map_err(io::Error::other)?;
                builder.observe_pid(pid).any_cpu()
            }
            Self::GroupOn(group, cpu) => builder.observe_cgroup(group).one_cpu(cpu.0 as usize),
        })
    }
}

impl Group {
    fn open(target: Target<'_>, events: &[Wanted]) -> io::Result<Self> {
        let [first, others @ ..] = events else {
            return Err(io::Error::other("no event to count"));
        };
        let format = ReadFormat::GROUP
            | ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID;
        let build = |wanted: &Wanted, leader: Option<&mut Counter>| {
            let mut builder = wanted.builder();
            let builder = target.observed_by(&mut builder)?.read_format(format);
            match leader {
                None => builder.build(),
                Some(leader) => builder.build_with_group(leader),
            }
        };
        let mut leader = build(first, None)?;
        let members = others.iter().map(|other| build(other, Some(&mut leader)));
        let members = members.collect::<io::Result<_>>()?;
        leader.enable_group()?;
        Ok(Self {
            leader,
            members,
            events: events.iter().map(|wanted| wanted.event).collect(),
        })
    }

    fn read(&mut self, counters: &mut Counters) -> io::Result<()> {
        let data = self.leader.read_group()?;
        let nanoseconds = |time: Option<Duration>| {
            time.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX))
        };
        let enabled_ns = nanoseconds(data.time_enabled());
        let running_ns = nanoseconds(data.time_running());
        let all = std::iter::once(&self.leader).chain(&self.members);
        for (event, counter) in self.events.iter().zip(all) {
            if let Some(entry) = data.get(counter) {
                let other = counters.get(*event).unwrap_or_default();
                let sum = CounterValue {
                    value: other.value.saturating_add(entry.value()),
                    enabled_ns: other.enabled_ns.max(enabled_ns),
                    running_ns: other.running_ns.saturating_add(running_ns),
                };
                counters.set(*event, sum);
            }
        }
        Ok(())
    }
}

/// `PERF_TYPE_SOFTWARE`, on every machine whose kernel has perf events: 1 is the task's clock, 2 its page faults.
#[cfg(test)]
pub(super) const fn software(event: Event, config: u64) -> Wanted {
    Wanted {
        event,
        kind: 1,
        config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_two_kinds_of_cores_is_added_up() {
        let groups = vec![
            vec![software(Event::Cycles, 1), software(Event::Instructions, 2)],
            vec![software(Event::Cycles, 1)],
        ];
        let own = ThreadId(std::process::id());
        let mut counters = ThreadCounters {
            started: 0,
            groups: open_groups(Target::Thread(own), &groups).unwrap(),
        };
        let read = counters.read().unwrap();
        let both = read.get(Event::Cycles).unwrap();
        let one = read.get(Event::Instructions).unwrap();
        assert!(both.running_ns >= one.running_ns, "{read:?}");
        assert!(both.enabled_ns < both.running_ns + one.enabled_ns + 1);
    }

    #[test]
    fn groups_are_filled_up_to_the_counters_there_are() {
        let wanted: Vec<Wanted> = Event::ALL.map(|event| software(event, 1)).into();
        let sizes = |fixed: &[Event], room| -> Vec<usize> {
            let groups = split(&wanted, fixed, room);
            assert_eq!(groups.concat(), wanted);
            groups.iter().map(Vec::len).collect()
        };
        let fixed = [Event::Cycles, Event::Instructions];
        assert_eq!(sizes(&fixed, 7), [7]);
        assert_eq!(sizes(&fixed, 3), [5, 2]);
        assert_eq!(sizes(&[], 5), [5, 2]);
        assert_eq!(sizes(&[], 1), [1; 7]);
        assert!(split(&[], &fixed, 3).is_empty());
    }
}
