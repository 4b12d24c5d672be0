//! What the PMUs of this machine can count, before anything is opened.
//!
//! A machine with one kind of core has one PMU, which takes raw events. One with several (hybrid x86, big.LITTLE) has a
//! PMU for each kind that counts a thread only while it runs on such a core; an event must then be counted by all of
//! them, and every PMU is addressed by its number.
//!
//! Without a [table](super::event_table) only events of the kernel with a sure meaning are counted: cycles,
//! instructions, and on Intel, where it is architectural, misses of the last-level cache.

use super::event_table::EventTable;
use super::processor::Processor;
use crate::Missing;
use crate::procfs::read_small;
use mapper_model::Event;
use perf_event::Builder;
use perf_event::events::Raw;
use std::fs;
use std::path::Path;

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_RAW` of `perf_event_open(2)`.
const TYPE_HARDWARE: u32 = 0;
const TYPE_RAW: u32 = 4;
/// `PERF_COUNT_HW_CPU_CYCLES`, `PERF_COUNT_HW_INSTRUCTIONS`, `PERF_COUNT_HW_CACHE_MISSES`.
const HW_CYCLES: u64 = 0;
const HW_INSTRUCTIONS: u64 = 1;
const HW_CACHE_MISSES: u64 = 3;
/// The upper half of `config` names the PMU of a hardware event (`PERF_PMU_TYPE_SHIFT`).
const PMU_TYPE_SHIFT: u32 = 32;
/// Without a table: what the first x86 and Arm PMUs with programmable counters had.
const PROGRAMMABLE_AT_LEAST: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) event: Event,
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

impl Wanted {
    pub(crate) fn builder(self) -> Builder<'static> {
        let mut builder = Builder::new(Raw::new(self.config));
        builder.attrs_mut().type_ = self.kind;
        builder
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pmu {
    pub(crate) wanted: Vec<Wanted>,
    /// Programmable counters that may be used together.
    pub(crate) programmable: u32,
    pub(crate) fixed: Vec<Event>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Described {
    pub(crate) event: Event,
    pub(crate) text: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) names: Vec<String>,
    pub(crate) pmus: Vec<Pmu>,
    pub(crate) described: Vec<Described>,
    pub(crate) lacks: Vec<Missing>,
}

impl Offer {
    /// Reads the machine whose `/sys` and `/proc` these are.
    pub(crate) fn read(sys: &Path, proc: &Path) -> Self {
        let cpuinfo = read_small(&proc.join("cpuinfo")).unwrap_or_default();
        let processor = Processor::parse(&cpuinfo);
        let kinds = core_kinds(&sys.join("bus/event_source/devices"));
        let tables = processor.as_ref().map_or(Ok(Vec::new()), EventTable::of);
        let (tables, trouble) = match tables {
            Ok(tables) => (tables, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let tables: Vec<EventTable> = match &kinds[..] {
            [] => tables.into_iter().filter(|t| t.pmu.is_none()).collect(),
            kinds => kinds
                .iter()
                .filter_map(|kind| {
                    let own = |t: &&EventTable| t.pmu.as_deref() == Some(&kind.name);
                    tables.iter().find(own).cloned()
                })
                .collect(),
        };
        let described_all = !tables.is_empty() && tables.len() == kinds.len().max(1);
        if described_all {
            return Self::of_tables(&tables, &kinds);
        }
        let mut offer = Self::of_the_kernel(processor.as_ref(), &kinds);
        let name = processor.map_or("this processor".to_owned(), |p| p.to_string());
        let why = trouble.unwrap_or_else(|| format!("no event table describes {name}"));
        for event in Event::ALL {
            let mut wanted = offer.pmus.iter().flat_map(|pmu| &pmu.wanted);
            if wanted.all(|wanted| wanted.event != event) {
                let hint = "tell the developers the processor above";
                offer.lacks.push(lack(event, &why, hint));
            }
        }
        offer
    }

    pub(crate) fn missing(&mut self, event: Event, why: &Missing) {
        for pmu in &mut self.pmus {
            pmu.wanted.retain(|wanted| wanted.event != event);
        }
        self.described.retain(|described| described.event != event);
        self.lacks.push(lack(event, &why.why, &why.hint));
    }

    fn of_tables(tables: &[EventTable], kinds: &[CoreKind]) -> Self {
        let mut lacks = Vec::new();
        let mut described = Vec::new();
        let common: Vec<Event> = Event::ALL
            .into_iter()
            .filter(|event| {
                let reason = tables.iter().find_map(|table| table.lacks.get(event));
                if let Some(reason) = reason {
                    let hint = "nothing: the processor cannot count it";
                    lacks.push(lack(*event, reason, hint));
                }
                reason.is_none()
            })
            .collect();
        for event in &common {
            if let Some(encoding) = tables.iter().find_map(|table| table.events.get(event)) {
                let mut text = encoding.from.join(" + ");
                if let Some(note) = &encoding.note {
                    text = format!("{text}: {note}");
                }
                described.push(Described {
                    event: *event,
                    text,
                });
            }
        }
        let pmus = tables.iter().enumerate().map(|(at, table)| {
            let kind = kinds.get(at).map(|kind| kind.number);
            let wanted = common.iter().filter_map(|event| {
                Some(match event {
                    Event::Cycles => of_the_kernel(*event, HW_CYCLES, kind),
                    Event::Instructions => of_the_kernel(*event, HW_INSTRUCTIONS, kind),
                    _ => Wanted {
                        event: *event,
                        kind: kind.unwrap_or(TYPE_RAW),
                        config: table.config(*event)?,
                    },
                })
            });
            Pmu {
                wanted: wanted.collect(),
                programmable: table.programmable,
                fixed: table.fixed.clone(),
            }
        });
        Self {
            names: tables.iter().map(|table| table.name.clone()).collect(),
            pmus: pmus.collect(),
            described,
            lacks,
        }
    }

    fn of_the_kernel(processor: Option<&Processor>, kinds: &[CoreKind]) -> Self {
        let mut events = vec![
            (Event::Cycles, HW_CYCLES),
            (Event::Instructions, HW_INSTRUCTIONS),
        ];
        if matches!(processor, Some(Processor::X86 { vendor, .. }) if vendor == "GenuineIntel") {
            events.push((Event::LlcMisses, HW_CACHE_MISSES));
        }
        let pmu = |kind: Option<u32>| Pmu {
            wanted: events
                .iter()
                .map(|(event, id)| of_the_kernel(*event, *id, kind))
                .collect(),
            programmable: PROGRAMMABLE_AT_LEAST,
            fixed: Vec::new(),
        };
        let pmus = match kinds {
            [] => vec![pmu(None)],
            kinds => kinds.iter().map(|kind| pmu(Some(kind.number))).collect(),
        };
        Self {
            pmus,
            ..Self::default()
        }
    }
}

fn of_the_kernel(event: Event, id: u64, kind: Option<u32>) -> Wanted {
    Wanted {
        event,
        kind: TYPE_HARDWARE,
        config: id | u64::from(kind.unwrap_or(0)) << PMU_TYPE_SHIFT,
    }
}

pub(crate) fn lack(event: Event, why: &str, hint: &str) -> Missing {
    let (what, rule) = match event {
        Event::Cycles => ("counter of cycles", "instructions per cycle"),
        Event::Instructions => ("counter of instructions", "instructions per cycle"),
        Event::LlcMisses => (
            "counter of last-level cache misses",
            "memory bandwidth as a bottleneck",
        ),
        Event::SnoopHit => ("counter of snoop hits", "sharing of clean data in a socket"),
        Event::SnoopHitModified => (
            "counter of modified snoop hits",
            "sharing of modified data in a socket",
        ),
        Event::RemoteHitModified => (
            "counter of remote modified hits",
            "sharing of data across sockets",
        ),
        Event::L2PendingStalls => (
            "counter of stalls behind L2",
            "placing the sharing threads on one core",
        ),
    };
    Missing::new(what, format!("{why}; off without it: {rule}"), hint)
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct CoreKind {
    name: String,
    number: u32,
}

fn core_kinds(devices: &Path) -> Vec<CoreKind> {
    let Ok(entries) = fs::read_dir(devices) else {
        return Vec::new();
    };
    let mut kinds: Vec<CoreKind> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let of_cores = matches!(&name[..], "cpu_core" | "cpu_atom" | "cpu_lowpower")
                || name.starts_with("armv8_")
                || name.starts_with("armv9_");
            if !of_cores {
                return None;
            }
            let number = read_small(&devices.join(&name).join("type")).ok()?;
            Some(CoreKind {
                number: number.trim().parse().ok()?,
                name,
            })
        })
        .collect();
    kinds.sort_by_key(|kind| kind.number);
    // A single one is that of a machine whose cores are alike, except on hybrids of which firmware shows one kind.
    if kinds.len() == 1 && !kinds[0].name.starts_with("cpu_") {
        kinds.clear();
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::fake_files;

    fn offer(cpuinfo: &str, pmus: &[(&str, &str)]) -> Offer {
        let dir = fake_files(&[("cpuinfo", cpuinfo)]);
        let devices = dir.path().join("bus/event_source/devices");
        for (name, number) in pmus {
            fs::create_dir_all(devices.join(name)).unwrap();
            fs::write(devices.join(name).join("type"), number).unwrap();
        }
        Offer::read(dir.path(), dir.path())
    }

    fn intel(model: u32) -> String {
        format!("vendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\n")
    }

    fn find(pmu: &Pmu, event: Event) -> Option<Wanted> {
        pmu.wanted.iter().copied().find(|w| w.event == event)
    }

    #[test]
    fn a_known_server_counts_every_event_by_raw_number() {
        let offer = offer(&intel(0x3f), &[("cpu", "4"), ("uncore_imc_0", "9")]);
        let [pmu] = &offer.pmus[..] else {
            panic!("{offer:?}");
        };
        assert_eq!(pmu.wanted.len(), Event::ALL.len());
        assert!(offer.lacks.is_empty());
        let expected = Wanted {
            event: Event::RemoteHitModified,
            kind: TYPE_RAW,
            config: 0x10d3,
        };
        assert_eq!(find(pmu, Event::RemoteHitModified), Some(expected));
        assert_eq!(find(pmu, Event::Cycles).unwrap().kind, TYPE_HARDWARE);
    }

    #[test]
    fn the_cores_of_a_hybrid_count_what_all_of_them_can() {
        let pmus = [("cpu_atom", "10\n"), ("cpu_core", "4\n")];
        let offer = offer(&intel(0x97), &pmus);
        let [core, atom] = &offer.pmus[..] else {
            panic!("{offer:?}");
        };
        let all = [Event::Cycles, Event::Instructions, Event::LlcMisses];
        for (pmu, number) in [(core, 4), (atom, 10)] {
            let events: Vec<Event> = pmu.wanted.iter().map(|w| w.event).collect();
            assert_eq!(events, all);
            assert_eq!(find(pmu, Event::LlcMisses).unwrap().kind, number);
            let cycles = find(pmu, Event::Cycles).unwrap();
            assert_eq!(cycles.config, u64::from(number) << 32);
        }
        let lacks: Vec<&str> = offer.lacks.iter().map(|l| l.what).collect();
        assert!(lacks.contains(&"counter of snoop hits"), "{lacks:?}");
    }

    #[test]
    fn an_unknown_processor_counts_only_what_means_the_same_everywhere() {
        let events = |offer: &Offer| -> Vec<Event> {
            offer.pmus[0].wanted.iter().map(|w| w.event).collect()
        };
        let zen = "vendor_id : AuthenticAMD\ncpu family : 99\nmodel : 1\n";
        let amd = offer(zen, &[]);
        assert_eq!(events(&amd), [Event::Cycles, Event::Instructions]);
        let misses = amd.lacks.iter().find(|l| l.what.contains("last-level"));
        let why = &misses.unwrap().why;
        for says in ["AuthenticAMD family 0x63", "off without it: memory"] {
            assert!(why.contains(says), "{why}");
        }
        let unknown = offer(&intel(0xfe), &[]);
        assert!(events(&unknown).contains(&Event::LlcMisses));
        assert_eq!(offer("", &[]).lacks.len(), 5);
    }

    #[test]
    fn the_cores_of_a_big_little_are_counted_one_and_all() {
        let cpuinfo = "CPU implementer : 0x41\nCPU part : 0xd05\n";
        let pmus = [("armv8_cortex_a55", "8"), ("armv8_cortex_a76", "9")];
        let pmus = offer(cpuinfo, &pmus).pmus;
        let numbers: Vec<u64> = pmus.iter().map(|p| p.wanted[0].config >> 32).collect();
        assert_eq!(numbers, [8, 9]);
    }

    #[test]
    fn a_server_with_one_arm_pmu_is_no_hybrid() {
        let cpuinfo = "CPU implementer : 0x41\nCPU part : 0xd40\n";
        let offer = offer(cpuinfo, &[("armv8_pmuv3_0", "8"), ("arm_cmn_0", "11")]);
        assert_eq!(offer.names, ["Arm Neoverse V1"]);
        assert_eq!(find(&offer.pmus[0], Event::LlcMisses).unwrap().config, 0x37);
    }
}
