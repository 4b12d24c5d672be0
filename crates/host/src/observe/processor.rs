//! Which processor this is, by CPUID or Arm's `MIDR`, as `/proc/cpuinfo` shows them. Only the first is read: where the
//! cores of a machine differ (hybrid), the kernel offers one PMU for each kind.

use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Processor {
    /// CPUID leaf 0 and 1.
    X86 {
        vendor: String,
        /// With the extended family added.
        family: u32,
        /// With the extended model added.
        model: u32,
    },
    /// `MIDR_EL1`.
    Arm {
        /// The maker: 0x41 is Arm.
        implementer: u32,
        part: u32,
    },
}

impl Processor {
    #[must_use]
    pub(crate) fn parse(cpuinfo: &str) -> Option<Self> {
        let field = |name: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim_end() == name).then(|| value.trim())
            })
        };
        let decimal = |name| field(name)?.parse().ok();
        let hexadecimal = |name| u32::from_str_radix(field(name)?.strip_prefix("0x")?, 16).ok();
        if let Some(vendor) = field("vendor_id") {
            return Some(Self::X86 {
                vendor: vendor.chars().take(16).collect(),
                family: decimal("cpu family")?,
                model: decimal("model")?,
            });
        }
        Some(Self::Arm {
            implementer: hexadecimal("CPU implementer")?,
            part: hexadecimal("CPU part")?,
        })
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86 {
                vendor,
                family,
                model,
            } => write!(f, "{vendor} family {family:#x} model {model:#x}"),
            Self::Arm { implementer, part } => {
                write!(f, "Arm implementer {implementer:#x} part {part:#x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_is_known_by_family_and_model_and_arm_by_part() {
        let zen = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n\
                   model name\t: AMD EPYC\n";
        let zen = Processor::parse(zen).unwrap();
        assert_eq!(zen.to_string(), "AuthenticAMD family 0x1a model 0x2");
        let neoverse = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
                        CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n";
        let expected = Processor::Arm {
            implementer: 0x41,
            part: 0xd0c,
        };
        assert_eq!(Processor::parse(neoverse), Some(expected));
    }

    #[test]
    fn what_names_no_processor_is_none() {
        let vendor_alone = "vendor_id : GenuineIntel\n";
        for text in ["", vendor_alone, "CPU part : d0c\n", ":::\n"] {
            assert_eq!(Processor::parse(text), None, "{text:?}");
        }
    }
}
