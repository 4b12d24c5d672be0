//! `mapper compare`: programs side by side under plain Linux, with passive waiting and under mapper, in turns; then what
//! mapper made of it, in a table and a sentence.
//!
//! [`run`] runs the programs, [`verdict`] judges what was measured, [`view`] and [`page`] show it.

mod page;
mod program;
mod run;
mod verdict;
mod view;

use anyhow::{Context, ensure};
use clap::ValueHint;
use indicatif::{ProgressBar, ProgressStyle};
use mapper_model::Qos;
use page::PageFile;
use program::{Program, Setting};
use run::Launcher;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use verdict::{Comparison, Measured};

pub(crate) use verdict::median;

/// Fewer rounds do not show how much times vary.
const FEWEST_ROUNDS: u32 = 3;

/// What to compare, and how.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How often all programs run in each setting
    #[arg(long, value_name = "N", default_value_t = FEWEST_ROUNDS, conflicts_with = "time",
          value_parser = clap::value_parser!(u32).range(i64::from(FEWEST_ROUNDS)..))]
    runs: u32,

    /// Begin no further round after this time, such as 90s or 2m; at least three rounds are run
    #[arg(long = "for", id = "time", value_name = "TIME", value_parser = humantime::parse_duration)]
    time: Option<Duration>,

    /// Share of its fair-share performance that each program is promised, such as 0.85 or 85%
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    qos: Option<Qos>,

    /// Print what was measured as JSON
    #[arg(long)]
    json: bool,

    /// Write a page with the table, the verdict and every run into this file, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    page: Option<PathBuf>,

    /// The programs with their arguments, separated by `::`; they must end by themselves
    #[arg(last = true, required = true, value_name = "PROGRAM", value_hint = ValueHint::AnyPath)]
    words: Vec<OsString>,
}

/// Compares the programs, and prints the result to standard output.
///
/// # Errors
/// Where a program cannot be started or fails, in any setting; nothing is compared then.
pub fn compare(options: &Options, socket: Option<&Path>) -> anyhow::Result<()> {
    let programs = Program::several(&options.words);
    ensure!(
        programs.iter().all(|program| !program.command.is_empty()),
        "a program is missing before or after `::`; write `mapper compare -- ./a :: ./b`"
    );
    let page = options.page.as_deref().map(PageFile::new).transpose()?;
    let launcher = Launcher::new(socket, options.qos)?;
    launcher.check()?;
    let comparison = measure(&programs, &launcher, options)?;
    let text = match options.json {
        true => serde_json::to_string_pretty(&comparison).context("write JSON")? + "\n",
        false => {
            let page = options.page.as_deref();
            let page = page.map(|file| format!("The page is {}.\n", file.display()));
            view::view(&comparison, mapperctl::Width::of_terminal()) + &page.unwrap_or_default()
        }
    };
    if let Some(page) = page {
        page.write(&comparison)?;
    }
    let mut out = anstream::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown.context("write to standard output"),
    }
}

fn measure(
    programs: &[Program],
    launcher: &Launcher,
    options: &Options,
) -> anyhow::Result<Comparison> {
    let mut measured: Vec<_> = programs.iter().map(Measured::new).collect();
    let bar = bar(options);
    let begun = Instant::now();
    for round in 0.. {
        let goes_on = match options.time {
            Some(time) => begun.elapsed() < time,
            None => round < options.runs,
        };
        if round >= FEWEST_ROUNDS && !goes_on {
            break;
        }
        for setting in turns(round) {
            bar.set_message(format!("round {}, {}", round + 1, setting.name()));
            let ended = run::together(programs, setting, launcher)?;
            for (measured, ended) in measured.iter_mut().zip(ended) {
                measured.add(setting, ended)?;
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(Comparison::of(measured))
}

/// Every setting is first, second and last equally often, as what ran before may matter.
fn turns(round: u32) -> [Setting; 3] {
    let mut turns = Setting::ALL;
    turns.rotate_left(round as usize % Setting::ALL.len());
    turns
}

/// Drawn on standard error, if that is a terminal.
fn bar(options: &Options) -> ProgressBar {
    let steps = u64::from(options.runs) * Setting::ALL.len() as u64;
    let (bar, template) = match options.time {
        None => (ProgressBar::new(steps), "{bar:30} {elapsed}  {msg}"),
        Some(_) => (ProgressBar::new_spinner(), "{spinner} {elapsed}  {msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_every_turn_equally_often() {
        for place in 0..3 {
            let mut here: Vec<_> = (0..3).map(|round| turns(round)[place]).collect();
            here.sort_unstable();
            assert_eq!(here, Setting::ALL);
        }
    }
}
