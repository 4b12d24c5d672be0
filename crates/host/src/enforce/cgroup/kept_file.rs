//! A file of a group that is read at every decision, or more often, and so is kept open.

use super::group_dir::GroupDir;
use crate::HostError;
use mapper_model::CpuSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The kernel makes such a file anew for each read from its beginning. Each takes a descriptor, and a page of the kernel's
/// memory.
#[derive(Debug)]
pub(super) struct KeptFile {
    name: &'static str,
    file: Option<File>,
}

impl KeptFile {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, file: None }
    }

    /// What the file of this name in `dir` contains. Always to be called with the same directory.
    pub(super) fn read(&mut self, dir: &GroupDir) -> Result<String, HostError> {
        // An open file ends when its controller is taken away. If it was given back, there is a new file.
        if let Some(Ok(text)) = self.file.as_ref().map(contents) {
            return Ok(text);
        }
        self.file = None;
        let file = File::from(dir.open_file(self.name)?);
        let text = contents(&file)
            .map_err(|source| HostError::file("read", dir.file(self.name), source))?;
        self.file = Some(file);
        Ok(text)
    }

    pub(super) fn read_cpus(&mut self, dir: &GroupDir) -> Result<CpuSet, HostError> {
        let text = self.read(dir)?;
        dir.cpu_list(self.name, &text)
    }
}

fn contents(file: &File) -> io::Result<String> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = file.read_at(&mut buffer, bytes.len() as u64)?;
        bytes.extend_from_slice(&buffer[..read]);
        if read < buffer.len() {
            return String::from_utf8(bytes).map_err(io::Error::other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_file_that_is_kept_open_shows_changes_and_that_it_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let group = GroupDir::open(dir.path()).unwrap();
        let mut cpus = KeptFile::new("cpuset.cpus");
        for set in ["0-3", "1"] {
            std::fs::write(dir.path().join("cpuset.cpus"), set).unwrap();
            assert_eq!(cpus.read_cpus(&group).unwrap(), set.parse().unwrap());
        }
        // More than is read at a time, or just as much.
        for length in [4096, 5000] {
            let text = "x".repeat(length);
            std::fs::write(dir.path().join("cpuset.cpus"), &text).unwrap();
            assert_eq!(cpus.read(&group).unwrap(), text);
        }
        // As with a group, what is open of a process ends with it.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let of_child = GroupDir::open(format!("/proc/{}", child.id()).as_ref()).unwrap();
        let mut stat = KeptFile::new("stat");
        assert!(stat.read(&of_child).unwrap().contains("(cat)"));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(stat.read(&of_child).unwrap_err().is_gone());
    }
}
