//! What an administrator changes of the daemon's unit, for the time of a test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::daemon::{UNIT, systemctl};

const FOLDER: &str = "/run/systemd/system/mapperd.service.d";

/// A drop-in under which the daemon runs; removed, and the daemon restarted, when it is dropped.
pub(crate) struct DropIn(PathBuf);

impl DropIn {
    pub(crate) fn install(name: &str, text: &str) -> Result<Self> {
        std::fs::create_dir_all(FOLDER).with_context(|| format!("create {FOLDER}"))?;
        let path = Path::new(FOLDER).join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        let drop_in = Self(path);
        systemctl(&["daemon-reload"])?;
        systemctl(&["restart", UNIT])?;
        Ok(drop_in)
    }

    /// What lets the daemon adopt.
    pub(crate) fn for_adopting() -> Result<Self> {
        Self::install("adopt.conf", include_str!("../../../deploy/adopt.conf"))
    }

    /// What lets it isolate.
    pub(crate) fn for_isolating() -> Result<Self> {
        let text = include_str!("../../../deploy/partitions.conf");
        Self::install("partitions.conf", text)
    }
}

impl Drop for DropIn {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        // Others may keep something there.
        let _ = std::fs::remove_dir(FOLDER);
        let _ = systemctl(&["daemon-reload"]);
        let _ = systemctl(&["restart", UNIT]);
    }
}
