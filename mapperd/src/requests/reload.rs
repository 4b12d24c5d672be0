//! Reading the configuration again while applications run.
//!
//! Everything is read and checked before anything is changed: a file with an error changes nothing. The next decision
//! uses the new interval, policies with their settings, and reserved CPUs. What was learned about applications stays; a
//! policy that cannot read another policy's history starts without. Other changes need a restart and are reported so.

use crate::config::args::Args;
use crate::config::former_places;
use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::machine::{Machine, profile};
use crate::requests::effect::Effect;
use crate::telemetry::Telemetry;
use anyhow::{Context, ensure};
use mapper_control::PROTOCOL;
use mapper_control::schema::ReloadReply;
use mapper_host::cpus::UsableCpus;
use mapper_model::{Lending, Topology};
use mapper_pipeline::{Controller, PipelineConfig};
use std::fmt::Display;
use std::path::PathBuf;

pub(crate) struct Reloaded {
    pub(crate) reply: ReloadReply,
    pub(crate) effect: Effect,
}

/// What the configuration says now, with the thresholds of the profile that it names.
pub(crate) fn read(sources: Args, topology: &Topology) -> anyhow::Result<Settings> {
    let mut new = Settings::gather(sources)?;
    new.reserve_is_here()?;
    former_places::warn_of(&new.moved);
    new.pipeline.machine =
        profile::thresholds(&new.machine_profile, &new.pipeline.machine, topology)?;
    Ok(new)
}

/// Applies the settings that can change while applications run.
pub(crate) fn reload(
    read: anyhow::Result<Settings>,
    settings: &mut Settings,
    machine: &mut Machine,
    decider: &mut Decider,
    telemetry: &mut Telemetry,
) -> anyhow::Result<Reloaded> {
    let result = read.and_then(|new| apply(new, settings, machine, decider, telemetry));
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

fn apply(
    new: Settings,
    settings: &mut Settings,
    machine: &mut Machine,
    decider: &mut Decider,
    telemetry: &mut Telemetry,
) -> anyhow::Result<Reloaded> {
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
    settings.adopt = new.adopt;
    let mut effect = Effect::Decide;
    if pace_changed {
        decider.set_pace(settings.interval, settings.overhead_budget);
        effect = Effect::NewPace;
    }
    let reply = ReloadReply {
        protocol: PROTOCOL,
        changed: changes.now,
        needs_restart: changes.later,
    };
    Ok(Reloaded { reply, effect })
}

/// A controller with new settings and the history of the present one.
fn successor(present: &Controller, config: &PipelineConfig) -> anyhow::Result<Controller> {
    let mut next = Controller::new(config.clone(), present.topology().clone())
        .context("configuration names no policy")?;
    if let Err(error) = next.restore(present.save()) {
        tracing::info!("the allocation policy starts without its history: {error}");
        next.restore_without_policy(present.save())?;
    }
    Ok(next)
}

/// What differs between two configurations, in words.
struct Changes {
    now: Vec<String>,
    later: Vec<String>,
}

impl Changes {
    fn between(old: &Settings, new: &Settings) -> Self {
        let (were, are) = (&old.pipeline, &new.pipeline);
        let sections = [
            ("[[access]]", old.access != new.access),
            ("[[program]]", old.programs != new.programs),
            ("[[adopt]]", old.adopt != new.adopt),
            ("[expert.characterise]", were.monitor != are.monitor),
            ("[expert.allocate]", were.allocate != are.allocate),
            ("[expert.placement]", were.map != are.map),
            ("[expert.machine]", were.machine != are.machine),
        ];
        let sections = sections.into_iter().filter(|(_, differs)| *differs);
        let mut now = changed(NOW.map(|(key, words)| (key, words(old), words(new))));
        now.extend(sections.map(|(section, _)| section.to_owned()));
        Self {
            now,
            later: changed(LATER.map(|(key, words)| (key, words(old), words(new)))),
        }
    }
}

/// A key and its value in words, which are as in the file.
type Key = (&'static str, fn(&Settings) -> String);

const NOW: [Key; 6] = [
    ("interval", |s| s.interval.to_string()),
    ("overhead_budget", |s| s.overhead_budget.share().to_string()),
    ("reserve", |s| {
        or_none(Some(&s.reserve).filter(|cpus| !cpus.is_empty()))
    }),
    ("lend", |s| {
        (s.pipeline.lending == Lending::WhenIdle).to_string()
    }),
    ("allocation", |s| s.pipeline.allocation.clone()),
    ("mapping", |s| s.pipeline.mapping.clone()),
];

const LATER: [Key; 8] = [
    ("metrics.socket", |s| or_none(shown(&s.metrics.socket))),
    ("metrics.tcp", |s| or_none(s.metrics.tcp)),
    ("expert.socket", |s| s.socket.display().to_string()),
    ("enforcer", |s| s.enforcer.name().to_owned()),
    ("cgroup_root", |s| or_none(shown(&s.cgroup_root))),
    ("counters", |s| s.counters.to_string()),
    ("record", |s| or_none(shown(&s.record))),
    ("state_dir", |s| or_none(shown(&s.state_dir))),
];

fn shown(path: &Option<PathBuf>) -> Option<std::path::Display<'_>> {
    path.as_ref().map(|path| path.display())
}

fn or_none(value: Option<impl Display>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn changed<const N: usize>(keys: [(&str, String, String); N]) -> Vec<String> {
    let changed = keys.into_iter().filter(|(_, old, new)| old != new);
    let words = changed.map(|(key, old, new)| format!("{key}: {old} → {new}"));
    words.collect()
}
