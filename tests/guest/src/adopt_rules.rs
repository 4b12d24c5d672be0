//! What rules of the configuration name is adopted whenever it starts.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::adopting::{Service, WITH_CHILD, kill_daemon, mapperctl};
use crate::daemon::{UNIT, status_of, systemctl};
use crate::drop_in::DropIn;
use crate::kernel::{online_cpus, wait_for};
use crate::users::User;

const CONFIGURATION: &str = "/etc/mapper/mapper.toml";

/// How often the unit is restarted, unless `MAPPER_RESTARTS` says otherwise.
const RESTARTS: u32 = 5;

/// In which a unit is found and adopted: it is looked twice a second, tried again half a second later if its last life has
/// not ended by then, and systemd takes its time where processors are emulated.
const SOON: Duration = Duration::from_secs(10);

/// Rules in the configuration that the daemon has; taken out again with this.
pub(crate) struct Rules(String);

impl Rules {
    pub(crate) fn add(rules: &str) -> Result<Self> {
        let before = fs::read_to_string(CONFIGURATION).context("read the configuration")?;
        fs::write(CONFIGURATION, format!("{before}\n{rules}"))?;
        let added = Self(before);
        systemctl(&["reload", UNIT])?;
        Ok(added)
    }

    /// The rules that a page of the book shows, each in its indented block.
    pub(crate) fn of_book(page: &str) -> Result<Self> {
        let mut rules = String::new();
        let mut is_rule = false;
        for line in page.lines() {
            let shown = line.strip_prefix("    ").map(str::trim);
            is_rule = shown.is_some_and(|shown| is_rule || shown.starts_with("[[adopt]]"));
            if let Some(shown) = shown.filter(|_| is_rule) {
                rules += &format!("{shown}\n");
            }
        }
        ensure!(!rules.is_empty(), "the page shows no rule");
        Self::add(&rules)
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        let _ = fs::write(CONFIGURATION, &self.0);
        let _ = systemctl(&["reload", UNIT]);
    }
}

/// Makes a group below its own that is named like a unit of a rule, with a process in it.
const NAMED_LIKE_ANOTHER: &str = "cd /sys/fs/cgroup/system.slice/own.service; \
     mkdir ruled-own.service; sleep 1000 & echo $! >ruled-own.service/cgroup.procs; exec sleep 1000";

pub(crate) fn what_a_rule_names_is_adopted_at_every_start_until_it_is_released() -> Result<()> {
    let restarts = std::env::var("MAPPER_RESTARTS").ok();
    let restarts = restarts.map_or(Ok(RESTARTS), |count| count.parse())?;
    let _allowed = DropIn::for_adopting()?;
    let early = Service::start("ruled-early.service", &[], WITH_CHILD)?;
    let _rules = Rules::add("[[adopt]]\nunit = \"ruled-*.service\"\nqos = 0.7\nmax_cpus = 3\n")?;
    // Its group is empty between the two processes, and stays the same.
    let prepared = ["ExecStartPre=/bin/sleep 2"];
    let prepared = Service::start("ruled-prepared.service", &prepared, WITH_CHILD)?;
    let _own = Service::start("own.service", &["Delegate=yes"], NAMED_LIKE_ANOTHER)?;
    let adopted = |service: &Service| {
        let name = service.0.trim_end_matches(".service");
        let started = Instant::now();
        wait_for("its adoption", || {
            let status = status_of(name)?;
            ensure!(status["pid"] == service.pid()?, "of before: {status}");
            ensure!(status["adopted"]["unit"] == service.0, "{status}");
            ensure!(status["qos"] == 0.7, "{status}");
            let count = status["cpu_count"].as_u64();
            ensure!(count.is_some_and(|count| count <= 3), "{status}");
            Ok(())
        })?;
        Ok::<_, anyhow::Error>(started.elapsed())
    };
    adopted(&early)?;
    adopted(&prepared)?;
    // However often it is restarted.
    let often = ["StartLimitIntervalSec=0"];
    let service = Service::start("ruled-1.service", &often, WITH_CHILD)?;
    let mut longest = adopted(&service)?;
    for _ in 0..restarts {
        systemctl(&["restart", service.0])?;
        longest = longest.max(adopted(&service)?);
    }
    println!("# {restarts} restarts, adopted within {longest:.1?}");
    ensure!(longest < SOON, "it took {longest:?}");
    kill_daemon()?;
    adopted(&service)?;
    ensure!(
        status_of("ruled-own").is_err(),
        "a group within a service was adopted for its name"
    );

    mapperctl(User::Root, &["release", "ruled-1"])?;
    kill_daemon()?;
    std::thread::sleep(Duration::from_secs(3));
    ensure!(status_of("ruled-1").is_err(), "it was adopted again");
    let all = online_cpus()?;
    let cpus = crate::kernel::effective_cpus(&service.group()?)?;
    ensure!(cpus == all, "released it has {cpus} of {all}");
    systemctl(&["restart", service.0])?;
    adopted(&service)?;
    Ok(())
}
