//! Writing down every observation and the plan that followed.
//!
//! The format is that of [`mapper_pipeline::record`], so that the decisions can be looked at and
//! taken again. A recording that cannot be written is given up with a warning: it must not stop the
//! daemon.

use anyhow::Context;
use mapper_model::{Observation, Plan};
use mapper_pipeline::{Controller, Header, record};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Recorder {
    /// Starts a recording of what a controller decides from now on.
    pub(crate) fn create(path: &Path, controller: &Controller) -> anyhow::Result<Self> {
        let context = || format!("create recording {}", path.display());
        let file = File::create(path).with_context(context)?;
        let mut file = BufWriter::new(file);
        let header = Header::of(controller).line().with_context(context)?;
        append(&mut file, &header).with_context(context)?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
        })
    }

    /// Adds a decision.
    pub(crate) fn write(&mut self, observation: &Observation, plan: &Plan) {
        let Some(file) = &mut self.file else {
            return;
        };
        let written = record::line(observation, plan)
            .map_err(io::Error::from)
            .and_then(|line| append(file, &line));
        if let Err(error) = written {
            tracing::warn!(file = %self.path.display(), "recording given up: {error}");
            self.file = None;
        }
    }
}

/// Whole lines only, so that a daemon that is killed leaves a readable recording.
fn append(file: &mut BufWriter<File>, line: &str) -> io::Result<()> {
    file.write_all(line.as_bytes())?;
    file.write_all(b"\n")?;
    file.flush()
}
