//! Jobs of Slurm that share a node, adopted by a rule.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mapper_model::CpuSet;
use serde_json::Value;

use crate::adopt_rules::Rules;
use crate::adopting::kill_daemon;
use crate::daemon::{output_of, status, systemctl};
use crate::drop_in::DropIn;
use crate::kernel::{effective_cpus, groups_below, online_cpus, wait_for, wait_long_for};
use crate::users::User;

const CONFIGURATION: &str = "/etc/slurm/slurm.conf";

/// What this machine needs beside what the book has for a site.
const MACHINE: &str = "\
ClusterName=guest
SlurmctldHost=mapper-guest(192.0.2.1)
SlurmUser=root
SlurmctldPidFile=/run/slurm-of-test/slurmctld.pid
SlurmdPidFile=/run/slurm-of-test/slurmd.pid
StateSaveLocation=/run/slurm-of-test/state
SlurmdSpoolDir=/run/slurm-of-test/spool
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/cgroup
";

const BOOK: &str = include_str!("../../../docs/book/src/operate/slurm.md");

/// Of the node and the controller.
const ADDRESS: &str = "192.0.2.1";

const JOBS: &str = "/sys/fs/cgroup/system.slice/mapper-guest_slurmstepd.scope";

const PROGRAM: &str = "/usr/lib/mapper-tests/tick-libgomp";

/// What it takes to start a step or to end one where processors are emulated.
const PATIENCE: Duration = Duration::from_secs(90);

/// A controller and a node, this machine. They end with it.
struct Slurm;

impl Slurm {
    fn start() -> Result<Self> {
        fs::create_dir_all("/etc/slurm")?;
        // The indented lines of the book that set something, with this machine for the site's nodes.
        let of_book = BOOK.lines().filter(|line| line.starts_with("       "));
        let set = of_book.filter(|line| line.contains('=') && !line.contains(" = "));
        let site: String = set
            .map(|line| line.trim().replace("node[1-9]", "mapper-guest Default=YES") + "\n")
            .collect();
        ensure!(site.contains("OverSubscribe"), "the page has {site}");
        let cpus = online_cpus()?.len();
        let node = format!("NodeName=mapper-guest NodeAddr={ADDRESS} CPUs={cpus}\n");
        fs::write("/etc/slurm/cgroup.conf", "ConstrainCores=yes\n")?;
        fs::write(CONFIGURATION, format!("{MACHINE}{node}{site}"))?;
        let plugin = BOOK
            .lines()
            .find(|line| line.trim().starts_with("optional /"));
        let plugin = plugin.context("the page has no line for plugstack.conf")?;
        fs::write("/etc/slurm/plugstack.conf", plugin.trim().to_owned() + "\n")?;
        let slurm = Self;
        fs::create_dir_all("/run/slurm-of-test/state")?;
        fs::create_dir_all("/run/slurm-of-test/spool")?;
        // Slurm takes no address where the machine has none but the loopback's.
        asked("busybox", &["ip", "address", "add", ADDRESS, "dev", "lo"])?;
        for unit in ["munge", "slurmctld", "slurmd"] {
            systemctl(&["start", unit])?;
        }
        wait_long_for(PATIENCE, "the node", || {
            let state = asked("sinfo", &["--noheader", "--format=%t"])?;
            ensure!(state.trim() == "idle", "it is {state}");
            Ok(())
        })?;
        Ok(slurm)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let _ = asked("scancel", &["--user=alice"]);
        let _ = asked("scancel", &["--user=bob"]);
        let _ = wait_for("the jobs to end", || {
            ensure!(jobs()?.is_empty(), "some are left");
            Ok(())
        });
        for unit in [
            "slurmd",
            "slurmctld",
            "munge",
            "mapper-guest_slurmstepd.scope",
        ] {
            let _ = systemctl(&["stop", unit]);
        }
        let _ = asked("busybox", &["ip", "address", "del", ADDRESS, "dev", "lo"]);
        for place in ["/etc/slurm", "/run/slurm-of-test"] {
            let _ = fs::remove_dir_all(place);
        }
    }
}

fn asked(program: &str, arguments: &[&str]) -> Result<String> {
    output_of(User::Root.command(program)?.args(arguments))
}

/// The groups of jobs that run.
fn jobs() -> Result<Vec<PathBuf>> {
    match Path::new(JOBS).exists() {
        true => {
            let mut groups = groups_below(Path::new(JOBS))?;
            groups.retain(|group| group.file_name().is_some_and(|name| name != "system"));
            Ok(groups)
        }
        false => Ok(Vec::new()),
    }
}

/// A job, by its number.
struct Job(String);

impl Job {
    /// One that asks for all CPUs of the node.
    fn submit(user: User, work: &str) -> Result<Self> {
        let cpus = format!("--cpus-per-task={}", online_cpus()?.len());
        Self::submit_with(user, &[&cpus], work)
    }

    fn submit_with(user: User, options: &[&str], work: &str) -> Result<Self> {
        let wrap = format!("--wrap={work}");
        let words = ["--parsable", "--chdir=/tmp", "--output=/dev/null", &wrap];
        let number = output_of(user.command("sbatch")?.args(words).args(options))?;
        Ok(Self(number.trim().to_owned()))
    }

    fn group(&self) -> PathBuf {
        Path::new(JOBS).join(format!("job_{}", self.0))
    }

    /// What the daemon says of it, if it manages it.
    fn managed(&self) -> Result<Option<Value>> {
        let cgroup = format!("/system.slice/mapper-guest_slurmstepd.scope/job_{}", self.0);
        let status = status()?;
        let apps = status["apps"].as_array().context("no applications")?;
        let mut apps = apps.iter();
        Ok(apps.find(|app| app["adopted"]["cgroup"] == cgroup).cloned())
    }

    /// Waits until it is managed with this promise, and counts for this user.
    fn is_promised(&self, qos: f64, user: User) -> Result<()> {
        let uid = user.uid()?;
        wait_long_for(PATIENCE, "the promise to the job", || {
            let app = self.managed()?.context("it is not managed")?;
            let counts_for = app["account"].as_u64().or(app["uid"].as_u64());
            ensure!(app["qos"] == qos && counts_for == Some(uid.into()), "{app}");
            Ok(())
        })
    }

    /// Waits until it is managed; gives its CPUs.
    fn adopted(&self) -> Result<CpuSet> {
        wait_long_for(PATIENCE, "the job's adoption", || {
            let app = self.managed()?.context("it is not managed")?;
            ensure!(app["qos"] == 0.8, "{app}");
            effective_cpus(&self.group())
        })
    }

    fn state(&self) -> Result<String> {
        let said = asked("scontrol", &["show", "job", &self.0])?;
        let mut words = said.split_whitespace();
        let state = words.find_map(|word| word.strip_prefix("JobState="));
        let state = state.with_context(|| format!("scontrol said {said}"))?;
        let exit = words.find_map(|word| word.strip_prefix("ExitCode="));
        Ok(format!("{state} {}", exit.unwrap_or_default()))
    }

    fn becomes(&self, wanted: &str) -> Result<()> {
        wait_long_for(PATIENCE, "the job", || {
            let state = self.state()?;
            ensure!(state == wanted, "it is {state}, and not {wanted}");
            Ok(())
        })
    }
}

pub(crate) fn jobs_of_slurm_that_share_a_node_have_cpus_of_their_own() -> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let _rules = Rules::of_book(BOOK)?;
    let _slurm = Slurm::start()?;
    let long = Job::submit(User::Alice, PROGRAM)?;
    let all = online_cpus()?;
    let alone = long.adopted()?;
    ensure!(alone == all, "alone it has {alone} of {all}");
    let all_cpus = format!("--cpus-per-task={}", all.len());
    let work = format!("srun --overlap {PROGRAM} 100");
    let promised = |share| Job::submit_with(User::Bob, &[&all_cpus, share], &work);
    let refused = promised("--qos-share=2").err();
    let refused = refused.context("a job has twice its fair share")?;
    ensure!(
        format!("{refused:#}").contains("mapper: --qos-share=2"),
        "{refused:#}"
    );
    let short = promised("--qos-share=0.95")?;
    // Each counts for its user, who alone may give it another promise.
    long.is_promised(0.8, User::Alice)?;
    short.is_promised(0.95, User::Bob)?;
    let name = format!("job_{}", short.0);
    let refused = output_of(
        User::Alice
            .command("mapperctl")?
            .args(["promise", &name, "0.6"]),
    );
    ensure!(refused.is_err(), "another user may");
    let apart = || {
        let (mine, theirs) = (
            effective_cpus(&long.group())?,
            effective_cpus(&short.group())?,
        );
        ensure!(mine.is_disjoint(&theirs), "{mine} and {theirs} overlap");
        Ok(())
    };
    wait_for("CPUs of their own", apart)?;
    kill_daemon()?;
    wait_for("CPUs of their own under the next daemon", apart)?;
    // Slurm has given it a part of the node for itself.
    let part = Job::submit_with(User::Bob, &["--cpus-per-task=1"], &format!("{PROGRAM} 100"))?;
    wait_long_for(PATIENCE, "what Slurm gives it", || {
        let cpus = effective_cpus(&part.group())?;
        ensure!(cpus.len() == 1, "it has {cpus}");
        Ok(())
    })?;
    std::thread::sleep(Duration::from_secs(3));
    ensure!(part.managed()?.is_none(), "it was adopted");
    // It runs although it can have no such promise.
    let options = [
        "--array=1-2",
        &all_cpus,
        "--export=ALL,MAPPER_QOS=2",
        "--output=/tmp/job-of-array",
    ];
    let array = Job::submit_with(User::Bob, &options, &format!("{PROGRAM} 100"))?;
    // Its last task has the number of all.
    array.adopted()?;
    short.becomes("COMPLETED 0:0")?;
    part.becomes("COMPLETED 0:0")?;
    // What it got, for its user only.
    let report = |user: User| output_of(user.command("mapperctl")?.args(["report", &name]));
    ensure!(report(User::Alice).is_err(), "another user may");
    let got = report(User::Bob)?;
    ensure!(got.contains(&name), "{got}");
    for task in 1..=2 {
        let task = Job(format!("{}_{task}", array.0));
        task.becomes("COMPLETED 0:0")?;
    }
    let said = fs::read_to_string("/tmp/job-of-array")?;
    let why = "mapper: no promise of its own: ";
    ensure!(said.contains(why), "the job says {said}");
    wait_for("all CPUs", || {
        let cpus = effective_cpus(&long.group())?;
        ensure!(cpus == all, "it has {cpus}");
        Ok(())
    })?;
    asked("scancel", &[&long.0])?;
    long.becomes("CANCELLED 0:15")?;
    wait_for("nothing to be left over", || {
        let (left, status) = (jobs()?, status()?);
        ensure!(left.is_empty(), "{left:?}");
        ensure!(
            status["apps"].as_array().is_some_and(Vec::is_empty),
            "{status}"
        );
        Ok(())
    })
}
