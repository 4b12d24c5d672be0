//! Progress while measuring: on a terminal a bar, elsewhere plain lines.

use super::output::say;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Says how far the measuring has come.
pub struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Progress {
    /// For `steps` steps, named together by `what`.
    pub fn start(what: &str, steps: usize) -> anyhow::Result<Self> {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        bar.set_style(ProgressStyle::with_template(
            "{prefix:>12} [{bar:30}] {pos}/{len} {elapsed_precise} {wide_msg}",
        )?);
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Self { bar, is_terminal })
    }

    /// What is done next.
    pub fn doing(&self, what: String) {
        self.bar.set_message(what);
    }

    /// What came of it.
    pub fn done(&self, what: &str) {
        self.bar.inc(1);
        if !self.is_terminal {
            let (at, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
            say(format_args!("[{at}/{of}] {what}"));
        }
    }

    /// One of many short steps is done, with nothing to say of it.
    pub fn count(&self) {
        self.bar.inc(1);
        let (at, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
        if !self.is_terminal && at % 20 == 0 {
            say(format_args!("[{at}/{of}]"));
        }
    }

    /// A remark that stays.
    pub fn note(&self, what: &str) {
        self.bar.suspend(|| say(format_args!("note: {what}")));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
