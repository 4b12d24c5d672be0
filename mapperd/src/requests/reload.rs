//! Reading the configuration again while applications run.
//!
//! Everything is read and checked before anything is changed: a file with an error changes nothing. What can
//! change without touching applications applies to the next decision: the interval, the policies and their
//! settings, reserved CPUs. What was learned about applications stays; a policy that cannot read another
//! policy's history starts without. Everything else is reported as waiting for a restart.

use crate::config::former_places;
use crate::config::interval::Interval;
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::config::types::{Audience, EnforcerChoice};
use crate::decider::Decider;
use crate::machine::{Machine, profile};
use crate::requests::effect::Effect;
use crate::requests::permit::{is_privileged, not_permitted};
use crate::telemetry::Telemetry;
use anyhow::{Context, ensure};
use mapper_control::schema::ReloadReply;
use mapper_control::{ErrorReply, PROTOCOL};
use mapper_host::cpus::UsableCpus;
use mapper_host::observe::Choice as CounterChoice;
use mapper_model::CpuSet;
use mapper_pipeline::{Controller, OverheadBudget, PipelineConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Whether a client may have the configuration read again.
pub(crate) fn check(peer: &Peer, settings: &Settings) -> Result<(), ErrorReply> {
    if is_privileged(peer) {
        return Ok(());
    }
    Err(not_permitted(format!(
        "only root{} may reload the configuration, not user {}",
        match settings.audience {
            Audience::Everybody => "",
            Audience::Owner => " and the daemon's user",
        },
        peer.uid
    )))
}

/// What has changed, and what has to follow.
pub(crate) struct Reloaded {
    pub(crate) reply: ReloadReply,
    pub(crate) effect: Effect,
}

/// Reads the configuration again and takes over what can change at once.
pub(crate) fn reload(
    settings: &mut Settings,
    machine: &mut Machine,
    decider: &mut Decider,
    telemetry: &mut Telemetry,
) -> anyhow::Result<Reloaded> {
    let result = try_reload(settings, machine, decider, telemetry);
    match &result {
        Ok(Reloaded { reply, .. }) => {
            for change in &reply.changed {
                tracing::info!("configuration: {change}");
            }
            for change in &reply.needs_restart {
                tracing::warn!("configuration, after a restart: {change}");
            }
        }
        Err(error) => tracing::error!("configuration unchanged: {error:#}"),
    }
    result
}

fn try_reload(
    settings: &mut Settings,
    machine: &mut Machine,
    decider: &mut Decider,
    telemetry: &mut Telemetry,
) -> anyhow::Result<Reloaded> {
    let mut new = settings.gather_again()?;
    new.reserve_is_here()?;
    former_places::warn_of(&new.moved);
    new.pipeline.machine = profile::thresholds(
        &new.machine_profile,
        &new.pipeline.machine,
        decider.topology(),
    )?;
    let changes = Changes::between(settings, &new);
    let usable_cpus = UsableCpus::system(new.reserve.clone());
    let limit = machine.enforcer.limit()?;
    let usable = usable_cpus.read(&limit, &machine.enforcer.exclusive())?;
    ensure!(
        !usable.cpus.is_empty(),
        "reserve {} would leave no CPU to give out",
        new.reserve
    );
    if settings.pipeline != new.pipeline {
        decider.controller = successor(&decider.controller, &new.pipeline)?;
        telemetry.end_recording("a recording is for one configuration");
    }
    machine.usable_cpus = usable_cpus;
    let pace_changed =
        settings.interval != new.interval || settings.overhead_budget != new.overhead_budget;
    settings.interval = new.interval;
    settings.overhead_budget = new.overhead_budget;
    settings.reserve = new.reserve;
    settings.pipeline = new.pipeline;
    settings.access = new.access;
    settings.programs = new.programs;
    let effect = if pace_changed {
        decider.set_pace(settings.interval, settings.overhead_budget);
        Effect::NewPace
    } else {
        Effect::Decide
    };
    Ok(Reloaded {
        reply: ReloadReply {
            protocol: PROTOCOL,
            changed: changes.now,
            needs_restart: changes.later,
        },
        effect,
    })
}

/// A controller with other settings that remembers what the present one knows.
fn successor(present: &Controller, config: &PipelineConfig) -> anyhow::Result<Controller> {
    let mut next = Controller::new(config.clone(), present.topology().clone())
        .context("configuration names no policy")?;
    if let Err(error) = next.restore(present.save()) {
        tracing::info!("the allocation policy starts without its history: {error}");
        next.restore_without_policy(present.save())?;
    }
    Ok(next)
}

fn compare_policies(changes: &mut Changes, old: &PipelineConfig, new: &PipelineConfig) {
    changes.now("allocation", &old.allocation, &new.allocation);
    changes.now("mapping", &old.mapping, &new.mapping);
    for (section, differs) in [
        ("[expert.characterise]", old.monitor != new.monitor),
        ("[expert.allocate]", old.allocate != new.allocate),
        ("[expert.placement]", old.map != new.map),
        ("[expert.machine]", old.machine != new.machine),
    ] {
        if differs {
            changes.now.push(section.to_owned());
        }
    }
}

/// What differs between two configurations, in words.
#[derive(Debug, Default)]
struct Changes {
    now: Vec<String>,
    later: Vec<String>,
}

impl Changes {
    fn between(old: &Settings, new: &Settings) -> Self {
        let mut changes = Self::default();
        changes.now("interval", &old.interval, &new.interval);
        changes.now(
            "overhead_budget",
            &old.overhead_budget,
            &new.overhead_budget,
        );
        changes.now("reserve", &old.reserve, &new.reserve);
        if old.access != new.access {
            changes.now.push("[[access]]".to_owned());
        }
        if old.programs != new.programs {
            changes.now.push("[[program]]".to_owned());
        }
        let (were, are) = (&old.metrics, &new.metrics);
        changes.later("metrics.socket", &were.socket, &are.socket);
        changes.later("metrics.tcp", &were.tcp, &are.tcp);
        compare_policies(&mut changes, &old.pipeline, &new.pipeline);
        changes.later("socket", &old.socket, &new.socket);
        changes.later("enforcer", &old.enforcer, &new.enforcer);
        changes.later("cgroup_root", &old.cgroup_root, &new.cgroup_root);
        changes.later("counters", &old.counters, &new.counters);
        changes.later("record", &old.record, &new.record);
        changes.later("state_dir", &old.state_dir, &new.state_dir);
        changes
    }

    fn now<T: PartialEq + InWords>(&mut self, key: &str, old: &T, new: &T) {
        Self::compare(&mut self.now, key, old, new);
    }

    fn later<T: PartialEq + InWords>(&mut self, key: &str, old: &T, new: &T) {
        Self::compare(&mut self.later, key, old, new);
    }

    fn compare<T: PartialEq + InWords>(to: &mut Vec<String>, key: &str, old: &T, new: &T) {
        if old != new {
            to.push(format!("{key}: {} → {}", old.in_words(), new.in_words()));
        }
    }
}

/// A setting as users see it, which is as it is written in the file.
trait InWords {
    fn in_words(&self) -> String;
}

impl<T: InWords> InWords for Option<T> {
    fn in_words(&self) -> String {
        self.as_ref()
            .map_or_else(|| "none".to_owned(), InWords::in_words)
    }
}

impl InWords for PathBuf {
    fn in_words(&self) -> String {
        self.display().to_string()
    }
}

impl InWords for CpuSet {
    fn in_words(&self) -> String {
        match self.is_empty() {
            true => "none".to_owned(),
            false => self.to_string(),
        }
    }
}

/// Settings whose own text is what the file says.
macro_rules! in_own_words {
    ($($setting:ty),*) => {$(
        impl InWords for $setting {
            fn in_words(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

in_own_words!(String, SocketAddr, Interval, CounterChoice);

impl InWords for OverheadBudget {
    fn in_words(&self) -> String {
        self.share().to_string()
    }
}

impl InWords for EnforcerChoice {
    fn in_words(&self) -> String {
        match self {
            Self::Auto => "auto",
            Self::Cgroup => "cgroup",
            Self::Affinity => "affinity",
        }
        .to_owned()
    }
}
