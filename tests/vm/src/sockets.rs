//! The shape of the guest's processors.

use std::fmt;
use std::str::FromStr;

/// The guest's processors: one NUMA node a socket, hardware threads of a core numbered adjacently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sockets {
    pub(super) sockets: u32,
    pub(super) cores: u32,
    pub(super) threads: u32,
}

impl Sockets {
    /// 4 sockets of 2 cores of 2 threads: enough for every level of sharing to occur.
    pub(crate) const DEFAULT: Self = Self {
        sockets: 4,
        cores: 2,
        threads: 2,
    };

    pub(super) fn cpus_of_socket(self) -> u32 {
        self.cores * self.threads
    }

    pub(super) fn cpus(self) -> u32 {
        self.sockets * self.cpus_of_socket()
    }
}

impl fmt::Display for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.sockets, self.cores, self.threads)
    }
}

impl FromStr for Sockets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let positive = |field: &str| field.parse().ok().filter(|&number: &u32| number > 0);
        let numbers: Option<Vec<u32>> = text.split('x').map(positive).collect();
        let Some(&[sockets, cores, threads]) = numbers.as_deref() else {
            return Err(format!(
                "\"{text}\" is not SOCKETSxCORESxTHREADS, such as 4x2x2"
            ));
        };
        Ok(Self {
            sockets,
            cores,
            threads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_reads_as_it_is_written_and_anything_else_is_refused_with_an_example() {
        let sockets: Sockets = "2x12x1".parse().unwrap();
        assert_eq!(sockets.to_string(), "2x12x1");
        assert_eq!(sockets.cpus(), 24);
        for text in ["", "4", "4x2", "4x2x2x2", "4x0x2", "4xax2", "-4x2x2"] {
            let error = text.parse::<Sockets>().err().unwrap_or_default();
            let quoted = format!("\"{text}\"");
            assert!(
                error.contains(&quoted) && error.contains("4x2x2"),
                "{error}"
            );
        }
    }
}
