//! A topology from a JSON file: the [`Description`] of `mapper-model`.

use super::{TopologyReadError, TopologySource};
use crate::procfs::read_small;
use mapper_model::Topology;
use mapper_model::topology::Description;
use std::path::PathBuf;

/// A file that describes a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescriptionFile {
    /// Where it is.
    pub path: PathBuf,
}

impl TopologySource for DescriptionFile {
    fn describe(&self) -> String {
        format!("description {}", self.path.display())
    }

    fn read(&self) -> Result<Topology, TopologyReadError> {
        let text = read_small(&self.path)?;
        let description: Description =
            serde_json::from_str(&text).map_err(|source| TopologyReadError::Format {
                origin: self.path.display().to_string(),
                source,
            })?;
        Topology::new(description).map_err(|source| TopologyReadError::NoMachine {
            origin: self.path.display().to_string(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;

    #[test]
    fn a_saved_description_is_read_back() {
        let topology = Topology::regular(Shape {
            sockets: 4,
            cores_per_socket: 10,
            threads_per_core: 2,
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine.json");
        std::fs::write(&path, serde_json::to_string(&topology).unwrap()).unwrap();
        assert_eq!(DescriptionFile { path }.read().unwrap(), topology);
    }

    #[test]
    fn a_file_that_is_no_description_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine.json");
        let source = DescriptionFile { path: path.clone() };
        for text in ["{", "{\"threads\": []}"] {
            std::fs::write(&path, text).unwrap();
            let error = source.read().unwrap_err().to_string();
            assert!(error.contains("machine.json"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            source
                .read()
                .unwrap_err()
                .to_string()
                .contains("machine.json")
        );
    }
}
