//! `cargo xtask vm live`: the installed daemon and real programs on a machine of more CPUs than there are.
//!
//! A dilated guest (see [`Dilation`]) runs mixes of programs under plain Linux, on static fair shares and under mapper.
//! First it checks itself: independent programs have to run at one speed, and one program has to gain by threads what it
//! gains on a real machine. A run in which the guest's processors had different shares of the host does not count.
//!
//! - [`plan`]: the mixes; [`guest`] carries them out there; [`record`]: what it saw; [`judge`] makes figures of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::image::{self, Kernel, output, write};
use super::machine::{Accelerator, Dilation, Line, Machine, STARTED_AGAIN};
use super::scratch::Scratch;
use super::sockets::Sockets;
use mapper_report::workspace;

mod guest;
mod judge;
mod plan;
mod record;

use plan::{Catalogue, Setting};
use record::{RUN_BEGINS, RUN_ENDS, Records};

const PROGRAMS: [&str; 3] = ["kernel", "stages", "service"];
const PLAN: &str = "plan.json";
const RECORDS: &str = "records.json";

/// How far the CPU time of one of the guest's processors may be from the mean in a run that counts.
const MOST_UNEVEN: f64 = 0.03;
/// Seconds of the guest for boot and check, and for what is done between runs.
const BEFORE_RUNS_S: u64 = 120;
const BETWEEN_RUNS_S: u64 = 20;

/// How many CPUs the guest has.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Cpus {
    #[value(name = "8")]
    Eight,
    #[value(name = "16")]
    Sixteen,
}

// What is compared; the comments of its fields are help.
#[derive(clap::Args)]
pub(super) struct Live {
    /// CPUs of the guest, on two sockets.
    #[arg(long, value_enum, default_value = "8")]
    cpus: Cpus,
    /// Only these mixes, with commas between.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    mix: Vec<String>,
    /// Allocation policies of mapper.
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "mapper,mapper-next"
    )]
    policy: Vec<String>,
    /// Team modes under mapper: those of `mapper-launch --teams`, or default.
    #[arg(
        long,
        value_name = "MODE,...",
        value_delimiter = ',',
        default_value = "virtual"
    )]
    teams: Vec<String>,
    /// Leave out plain Linux and the static fair share.
    #[arg(long)]
    only_mapper: bool,
    /// Seconds of the guest that a run takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 24)]
    seconds: u32,
    /// How many times slower than the host's the guest's clock runs.
    #[arg(long, value_name = "auto|TIMES", default_value_t = Dilation::Auto)]
    dilate: Dilation,
    #[command(flatten)]
    kernel: Kernel,
    /// Write all samples and what mapper said at each.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show also what does not count, as the guest failed its check or its processors had different shares of the host.
    #[arg(long)]
    invalid: bool,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Results<'a> {
    cpus: u32,
    dilation: f64,
    seconds: u32,
    /// Whether every run counts.
    valid: bool,
    records: &'a Records,
}

impl Cpus {
    fn topology(self) -> Sockets {
        let cores = match self {
            Self::Eight => 4,
            Self::Sixteen => 8,
        };
        Sockets {
            sockets: 2,
            cores,
            threads: 1,
        }
    }
}

impl Live {
    fn settings(&self) -> Vec<Setting> {
        let mut settings = match self.only_mapper {
            true => Vec::new(),
            false => vec![Setting::Plain, Setting::Static],
        };
        for policy in &self.policy {
            settings.extend(self.teams.iter().map(|teams| Setting::Mapper {
                policy: policy.clone(),
                teams: teams.clone(),
            }));
        }
        settings
    }

    pub(super) fn run(&self) -> Result<()> {
        let mut plan = Catalogue::read()?.plan(&self.mix, &self.settings(), self.seconds)?;
        plan.unchecked = self.invalid;
        let payload = staged(&serde_json::to_string(&plan)?)?;
        let count = plan.runs.len() as u64;
        let machine = Machine {
            topology: self.cpus.topology(),
            timeout: BEFORE_RUNS_S + count * (u64::from(self.seconds) + BETWEEN_RUNS_S),
            accel: Accelerator::Tcg,
            dilate: Some(self.dilate),
            kernel: self.kernel.clone(),
        };
        let image = image::ensure(&machine.kernel, false)?;
        let results = Scratch::create("results")?;
        let mut shares = HostShares::default();
        let status = machine.run(&image, payload.path(), Some(results.path()), |line| {
            eprintln!("{}", line.text);
            shares.read(line);
        });
        let records = read(&results.file(RECORDS));
        // The error of the run says more than that of a file which is missing.
        let status = status?;
        ensure!(status == 0, "the guest returned {status}");
        let mut records = records?;
        for (run, uneven) in records.runs.iter_mut().zip(shares.uneven) {
            run.uneven = Some(uneven);
        }
        let is_even = |run: &record::Run| run.uneven.is_some_and(|uneven| uneven <= MOST_UNEVEN);
        let uneven = records.runs.iter().filter(|run| !is_even(run)).count();
        let results = Results {
            cpus: machine.topology.cpus(),
            dilation: machine.times_slower(),
            seconds: self.seconds,
            valid: uneven == 0 && !self.invalid,
            records: &records,
        };
        if let Some(path) = &self.json {
            write(path, &serde_json::to_string(&results)?)?;
        }
        let counts = |run: &record::Run| self.invalid || is_even(run);
        println!("{}", judge::text(&records, counts));
        ensure!(
            uneven == 0 || self.invalid,
            "{uneven} of {count} runs do not count: CPU times of the guest's processors differed by more than {:.0} %, as the \
             host was busy; repeat them",
            100.0 * MOST_UNEVEN
        );
        Ok(())
    }
}

fn read(path: &Path) -> Result<Records> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
}

/// How equal the shares were that the guest's processors had of the host.
#[derive(Default)]
struct HostShares {
    begun: Vec<Duration>,
    /// Of each run, how far the CPU time of one is from the mean.
    uneven: Vec<f64>,
}

impl HostShares {
    fn read(&mut self, line: &Line<'_>) {
        if line.text == STARTED_AGAIN {
            *self = Self::default();
        } else if line.text.starts_with(RUN_BEGINS) {
            self.begun.clone_from(&line.cpu_times);
        } else if line.text.starts_with(RUN_ENDS) {
            let had = line.cpu_times.iter().zip(&self.begun);
            let had: Vec<_> = had
                .map(|(now, begun)| now.saturating_sub(*begun).as_secs_f64())
                .collect();
            let mean = had.iter().sum::<f64>() / had.len() as f64;
            let apart = had.iter().map(|time| (time / mean - 1.0).abs());
            self.uneven.push(apart.fold(0.0, f64::max));
        }
    }
}

/// The folder that goes into the guest.
fn staged(plan: &str) -> Result<Scratch> {
    let payload = Scratch::create("payload")?;
    let built = workspace::build_product()?;
    let mut install = workspace::cargo();
    install
        .args(["xtask", "install", "--prefix", "/usr", "--built"])
        .arg(&built);
    output(install.arg("--destdir").arg(payload.file("tree")))?;
    let programs = payload.file("programs");
    fs::create_dir(&programs).with_context(|| format!("create {}", programs.display()))?;
    for program in PROGRAMS {
        let source = format!("tests/guest/programs/{program}.c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-o"]);
        gcc.arg(programs.join(program))
            .arg(workspace::root().join(source));
        gcc.arg("-I")
            .arg(workspace::root().join("crates/client-c/include"));
        output(
            gcc.arg(built.join("libmapper.a"))
                .args(["-pthread", "-ldl", "-lm"]),
        )?;
    }
    let itself = std::env::current_exe().context("find this program")?;
    let copy = payload.file("live");
    fs::copy(&itself, &copy).with_context(|| format!("copy {}", itself.display()))?;
    write(&payload.file(PLAN), plan)?;
    let script = format!(
        "#!/bin/sh\ncp -r --preserve=mode tree/. / && systemctl daemon-reload && \
         exec ./live in-guest {PLAN} /result/{RECORDS}\n"
    );
    let run = payload.file("run.sh");
    write(&run, &script)?;
    output(Command::new("chmod").arg("755").arg(run))?;
    Ok(payload)
}

/// What `cargo xtask vm live` runs in the guest.
#[derive(clap::Args)]
pub(super) struct InGuest {
    plan: PathBuf,
    records: PathBuf,
}

impl InGuest {
    pub(super) fn run(&self) -> Result<()> {
        guest::run(&self.plan, &self.records)
    }
}
