//! Writing down every observation and the plan that followed.
//!
//! One JSON line each, so that a decision can be looked at and taken again later. A recording that
//! cannot be written is given up with a warning: it must not stop the daemon.

use anyhow::Context;
use mapper_model::{Observation, Plan};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

#[derive(Serialize)]
struct Line<'a> {
    observation: &'a Observation,
    plan: &'a Plan,
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("create recording {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(BufWriter::new(file)),
        })
    }

    pub(crate) fn write(&mut self, observation: &Observation, plan: &Plan) {
        let Some(file) = &mut self.file else {
            return;
        };
        let line = Line { observation, plan };
        let written = serde_json::to_writer(&mut *file, &line)
            .map_err(std::io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.flush());
        if let Err(error) = written {
            tracing::warn!(file = %self.path.display(), "recording given up: {error}");
            self.file = None;
        }
    }
}
