//! The clock that a processor is sold with, as the kernel tells it.
//!
//! Rates are per nominal cycle [MAPPER Table 1]. What a busy CPU reaches beside idle ones is more, by half on some
//! servers, and would make every rate that much smaller than the thresholds that keep their defaults are meant for.

use crate::procfs::read_small;
use mapper_model::CpuId;
use std::path::Path;

/// The files that tell it, below a CPU's directory, and their unit in hertz.
const FILES: [(&str, f64); 2] = [
    // intel_pstate, in kHz.
    ("cpufreq/base_frequency", 1e3),
    // Where the firmware describes its clocks (AMD, Arm, Intel), in MHz.
    ("acpi_cppc/nominal_freq", 1e6),
];

/// That of `cpu`, below the kernel's directory of CPUs; `None` where it is not told, as in virtual machines.
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

    fn message(files: &[(&str, &str)]) -> Option<f64> {
        let cpus = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = cpus.path().join("cpu3").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        nominal_hz(cpus.path(), CpuId(3))
    }

    #[test]
    fn the_clock_is_read_in_the_unit_of_its_file() {
        assert_eq!(
            message(&[("cpufreq/base_frequency", "2300000\n")]),
            Some(2.3e9)
        );
        assert_eq!(
            message(&[("acpi_cppc/nominal_freq", "2450\n")]),
            Some(2.45e9)
        );
    }

    #[test]
    fn an_unknown_clock_is_not_guessed() {
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[("acpi_cppc/nominal_freq", "0\n")]), None);
        assert_eq!(message(&[("cpufreq/base_frequency", "fast\n")]), None);
    }
}
