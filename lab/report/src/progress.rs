//! Progress while measuring: on a terminal a bar, elsewhere plain lines.

use super::output::say;
use std::cell::Cell;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Says how far the measuring has come.
pub struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    /// When the last line with a count was written.
    said: Cell<Instant>,
}

/// How often such a line is written.
const EVERY: Duration = Duration::from_secs(5);

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
        Ok(Self {
            bar,
            is_terminal,
            said: Cell::new(Instant::now()),
        })
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

    /// One of many short steps is done; without a terminal a line every few seconds says so.
    pub fn count(&self) {
        self.bar.inc(1);
        if self.said.get().elapsed() >= EVERY {
            self.say_count();
        }
    }

    /// Without a terminal a line says how many steps are done.
    pub fn say_count(&self) {
        self.said.set(Instant::now());
        let (at, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
        if !self.is_terminal && of > 0 {
            say(format_args!("[{at}/{of}] {}", self.bar.prefix()));
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
