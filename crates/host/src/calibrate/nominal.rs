//! The clock that a processor is sold with, as the kernel reports it.
//!
//! Rates are per nominal cycle [MAPPER Table 1]. A busy CPU beside idle ones runs faster, by half on some servers,
//! which would make every rate that much smaller than the default thresholds expect.

use crate::procfs::read_small;
use mapper_model::CpuId;
use std::path::Path;

/// The files that hold it, below a CPU's directory, and their unit in hertz.
const FILES: [(&str, f64); 2] = [
    // intel_pstate, in kHz.
    ("cpufreq/base_frequency", 1e3),
    // Where the firmware describes its clocks (AMD, Arm, Intel), in MHz.
    ("acpi_cppc/nominal_freq", 1e6),
];

pub(super) fn nominal_hz(cpus: &Path, cpu: CpuId) -> Option<f64> {
    let folder = cpus.join(format!("cpu{cpu}"));
    FILES.iter().find_map(|(name, unit_hz)| {
        let text = read_small(&folder.join(name)).ok()?;
        let value: u32 = text.trim().parse().ok()?;
        (value > 0).then(|| f64::from(value) * unit_hz)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_in_the_unit_of_its_file_and_not_guessed() {
        let cpufreq = "cpu3/cpufreq/base_frequency";
        let cppc = "cpu3/acpi_cppc/nominal_freq";
        for (files, expected) in [
            (&[(cpufreq, "2300000\n")][..], Some(2.3e9)),
            (&[(cppc, "2450\n")], Some(2.45e9)),
            (&[], None),
            (&[(cppc, "0\n")], None),
            (&[(cpufreq, "fast\n")], None),
        ] {
            let cpus = crate::procfs::fake_files(files);
            assert_eq!(nominal_hz(cpus.path(), CpuId(3)), expected, "{files:?}");
        }
    }
}
