//! How each micro-architecture counts the events that mapper wants.
//!
//! Other events than cycles and instructions have no name of the kernel's, or one that means something else on each
//! processor: `cache-misses` are misses of L2 on AMD and refills of L1 on Arm. So each micro-architecture has a data
//! file in `events/` with the raw encodings, the published name and source of each, what a count includes beyond its
//! name, and for an event that is not offered the reason.
//!
//! Invariants, tested for every file: each event is either encoded or lacking; each encoding is the one that
//! `events/recorded.tsv` has from independent sources; no processor is described by two files of the same PMU.

use super::processor::Processor;
use mapper_model::Event;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILES: [&str; 18] = [
    include_str!("../../events/intel_haswell.toml"),
    include_str!("../../events/intel_haswell_ep.toml"),
    include_str!("../../events/intel_broadwell.toml"),
    include_str!("../../events/intel_broadwell_ep.toml"),
    include_str!("../../events/intel_skylake.toml"),
    include_str!("../../events/intel_skylake_sp.toml"),
    include_str!("../../events/intel_ice_lake.toml"),
    include_str!("../../events/intel_ice_lake_sp.toml"),
    include_str!("../../events/intel_sapphire_rapids.toml"),
    include_str!("../../events/intel_alder_lake_core.toml"),
    include_str!("../../events/intel_alder_lake_atom.toml"),
    include_str!("../../events/amd_zen2.toml"),
    include_str!("../../events/amd_zen3.toml"),
    include_str!("../../events/amd_zen4.toml"),
    include_str!("../../events/amd_zen5.toml"),
    include_str!("../../events/arm_neoverse_n1.toml"),
    include_str!("../../events/arm_neoverse_v1.toml"),
    include_str!("../../events/arm_neoverse_v2.toml"),
];

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventTable {
    pub(crate) name: String,
    #[allow(dead_code, reason = "for readers of the files; the tests require it")]
    pub(crate) source: String,
    pub(crate) pmu: Option<String>,
    /// Programmable counters that a hardware thread can rely on.
    pub(crate) programmable: u32,
    /// Events that have counters of their own.
    pub(crate) fixed: Vec<Event>,
    processors: Processors,
    pub(crate) events: BTreeMap<Event, Encoding>,
    #[serde(default)]
    pub(crate) lacks: BTreeMap<Event, String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Processors {
    X86 {
        vendor: String,
        family: u32,
        /// Ranges, both ends included.
        models: Vec<[u32; 2]>,
    },
    Arm {
        implementer: u32,
        parts: Vec<u32>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Encoding {
    pub(crate) from: Vec<String>,
    /// Event select; up to 12 bits on AMD, 16 on Arm.
    event: u16,
    #[serde(default)]
    umask: u8,
    /// Counter mask: counts cycles with at least so many events.
    #[serde(default)]
    cmask: u8,
    pub(crate) note: Option<String>,
}

impl EventTable {
    /// The tables of a processor, one for each kind of core. An error if a data file is damaged, which the tests exclude.
    pub(crate) fn of(processor: &Processor) -> Result<Vec<Self>, toml::de::Error> {
        let mut tables = Self::all()?;
        tables.retain(|table| table.processors.include(processor));
        Ok(tables)
    }

    fn all() -> Result<Vec<Self>, toml::de::Error> {
        FILES.iter().map(|text| toml::from_str(text)).collect()
    }

    /// `config` of `perf_event_attr`, as the kernel's `format` directory of the PMU describes it.
    #[must_use]
    pub(crate) fn config(&self, event: Event) -> Option<u64> {
        let encoding = self.events.get(&event)?;
        let select = u64::from(encoding.event);
        Some(match self.processors {
            // event: config:0-7,32-35 (the upper part on AMD alone), umask: 8-15, cmask: 24-31
            Processors::X86 { .. } => {
                (select & 0xff)
                    | (select >> 8) << 32
                    | u64::from(encoding.umask) << 8
                    | u64::from(encoding.cmask) << 24
            }
            // event: config:0-15
            Processors::Arm { .. } => select,
        })
    }
}

impl Processors {
    fn include(&self, processor: &Processor) -> bool {
        match (self, processor) {
            (
                Self::X86 {
                    vendor,
                    family,
                    models,
                },
                Processor::X86 {
                    vendor: v,
                    family: f,
                    model,
                },
            ) => {
                vendor == v
                    && family == f
                    && models
                        .iter()
                        .any(|[first, last]| (first..=last).contains(&model))
            }
            (
                Self::Arm { implementer, parts },
                Processor::Arm {
                    implementer: i,
                    part,
                },
            ) => implementer == i && parts.contains(part),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x86(vendor: &str, family: u32, model: u32) -> Processor {
        Processor::X86 {
            vendor: vendor.to_owned(),
            family,
            model,
        }
    }

    fn names(processor: &Processor) -> Vec<String> {
        let tables = EventTable::of(processor).unwrap();
        tables.into_iter().map(|table| table.name).collect()
    }

    #[test]
    fn every_event_is_encoded_or_said_to_be_lacking() {
        for table in EventTable::all().unwrap() {
            for event in Event::ALL {
                let of_the_kernel = matches!(event, Event::Cycles | Event::Instructions);
                let ways = [
                    of_the_kernel,
                    table.events.contains_key(&event),
                    table.lacks.contains_key(&event),
                ];
                let found = ways.iter().filter(|way| **way).count();
                assert_eq!(found, 1, "{}: {event:?}", table.name);
            }
            assert!(!table.source.is_empty() && table.programmable >= 4);
        }
    }

    fn perf_words(text: &str) -> (u16, u8, u8) {
        let mut found = (0, 0, 0);
        for word in text.split(',') {
            let (key, value) = word.split_once('=').unwrap();
            let value = value.strip_prefix("0x").map_or_else(
                || value.parse().unwrap(),
                |hex| u16::from_str_radix(hex, 16).unwrap(),
            );
            match key {
                "event" => found.0 = value,
                "umask" => found.1 = u8::try_from(value).unwrap(),
                "cmask" => found.2 = u8::try_from(value).unwrap(),
                other => panic!("{other} in {text}"),
            }
        }
        found
    }

    #[test]
    fn every_encoding_is_the_one_that_others_publish() {
        let recorded: BTreeMap<&str, (u16, u8, u8)> = include_str!("../../events/recorded.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let mut columns = line.split('\t');
                (columns.next().unwrap(), perf_words(columns.next().unwrap()))
            })
            .collect();
        let mut used = std::collections::BTreeSet::new();
        for table in EventTable::all().unwrap() {
            for (event, encoding) in &table.events {
                let place = format!("{} {event:?}", table.name);
                assert!(!encoding.from.is_empty(), "{place} has no source");
                let mut sum = (0, 0, 0);
                for name in &encoding.from {
                    let (select, umask, cmask) = recorded[name.as_str()];
                    assert!(sum.0 == 0 || sum.0 == select, "{place} adds unlike events");
                    sum = (select, sum.1 | umask, cmask);
                    used.insert(name.clone());
                }
                let own = (encoding.event, encoding.umask, encoding.cmask);
                assert_eq!(own, sum, "{place}");
            }
        }
        assert_eq!(used.len(), recorded.len(), "a record that nothing uses");
    }

    #[test]
    fn the_encodings_are_those_of_the_kernels_registers() {
        let skylake = &EventTable::of(&x86("GenuineIntel", 6, 0x55)).unwrap()[0];
        // libpfm: 0x55105a3 and 0x5104d3, less the bits of user mode, kernel mode and enabling.
        assert_eq!(skylake.config(Event::L2PendingStalls), Some(0x0500_05a3));
        assert_eq!(skylake.config(Event::RemoteHitModified), Some(0x04d3));
        let arm = Processor::Arm {
            implementer: 0x41,
            part: 0xd40,
        };
        let v1 = &EventTable::of(&arm).unwrap()[0];
        assert_eq!(v1.config(Event::L2PendingStalls), Some(0x4005));
        assert_eq!(v1.config(Event::SnoopHit), None);
    }

    #[test]
    fn a_processor_finds_its_table() {
        let rapids = "Intel Sapphire Rapids and Emerald Rapids";
        for (processor, name) in [
            (x86("GenuineIntel", 6, 0x3f), "Intel Haswell-EP"),
            (x86("GenuineIntel", 6, 0x6a), "Intel Ice Lake-SP"),
            (x86("GenuineIntel", 6, 0x8f), rapids),
            (x86("AuthenticAMD", 0x17, 0x31), "AMD Zen 2"),
            (x86("AuthenticAMD", 0x19, 0x01), "AMD Zen 3"),
            (x86("AuthenticAMD", 0x19, 0x11), "AMD Zen 4"),
            (x86("AuthenticAMD", 0x1a, 0x02), "AMD Zen 5"),
        ] {
            assert_eq!(names(&processor), [name], "{processor}");
        }
        // Zen 1, and processors without a table.
        for unknown in [
            x86("AuthenticAMD", 0x17, 0x01),
            x86("GenuineIntel", 6, 0xfe),
            x86("AuthenticAMD", 6, 0x3f),
        ] {
            assert!(names(&unknown).is_empty(), "{unknown}");
        }
    }

    #[test]
    fn tables_of_one_processor_are_of_different_pmus() {
        for (vendor, family) in [
            ("GenuineIntel", 6),
            ("AuthenticAMD", 0x17),
            ("AuthenticAMD", 0x19),
            ("AuthenticAMD", 0x1a),
        ] {
            for model in 0..=0xff {
                let processor = x86(vendor, family, model);
                let tables = EventTable::of(&processor).unwrap();
                let pmus: Vec<_> = tables.iter().map(|table| table.pmu.as_deref()).collect();
                assert!(
                    matches!(pmus[..], [] | [None] | [Some("cpu_core"), Some("cpu_atom")]),
                    "{processor}: {pmus:?}"
                );
            }
        }
    }
}
