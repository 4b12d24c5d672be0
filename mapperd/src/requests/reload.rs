//! Reading the configuration again while applications run.
//!
//! Everything is read and checked before anything is changed: a file with an error leaves the daemon
//! as it is. What can change without touching applications is taken over at once, and the next
//! decision goes by it: the interval, the policies and their settings, reserved CPUs. What is learned
//! of applications stays; a policy that cannot read what another one remembered starts anew.
//! Everything else is told as waiting for a restart, which applications outlive.

use crate::config::interval::Interval;
use crate::config::settings::{Audience, Settings};
use crate::daemon::Daemon;
use crate::machine::profile;
use crate::machine::selection::EnforcerChoice;
use crate::socket::message::{Answer, Peer, Served};
use crate::telemetry::service;
use anyhow::{Context, ensure};
use mapper_control::schema::ReloadReply;
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_host::counters::Choice as CounterChoice;
use mapper_host::cpus::UsableCpus;
use mapper_model::{CpuSet, Trigger};
use mapper_pipeline::{Controller, OverheadBudget, PipelineConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

impl Daemon {
    /// A client asks for it.
    pub(crate) fn reload_for(&mut self, peer: &Peer) -> Answer {
        if !Self::is_privileged(peer) {
            return Err(ErrorReply::NotPermitted {
                message: format!(
                    "the configuration is read again for root{} alone, not for user {}",
                    match self.parts.settings.audience {
                        Audience::Everybody => "",
                        Audience::Owner => " and the daemon's user",
                    },
                    peer.uid
                ),
            });
        }
        self.reload()
            .map(|reply| Served::plain(Reply::Reload(reply)))
            .map_err(|error| ErrorReply::InvalidParameter {
                message: format!("{error:#}"),
            })
    }

    /// A signal asks for it: there is nobody to answer but the log.
    pub(crate) fn reload_for_signal(&mut self) {
        // What there is to say has been logged.
        let _ = self.reload();
    }

    fn reload(&mut self) -> anyhow::Result<ReloadReply> {
        service::reloading();
        let result = self.try_reload();
        match &result {
            Ok(reply) => {
                for change in &reply.changed {
                    tracing::info!("configuration: {change}");
                }
                for change in &reply.needs_restart {
                    tracing::warn!("configuration, after a restart: {change}");
                }
                service::reloaded("configuration read again");
            }
            Err(error) => {
                tracing::error!("configuration kept as it was: {error:#}");
                service::reloaded("a configuration with an error was not taken over");
            }
        }
        result
    }

    fn try_reload(&mut self) -> anyhow::Result<ReloadReply> {
        let mut new = self.parts.settings.gather_again()?;
        new.reserve_is_here()?;
        let topology = self.parts.controller.topology();
        new.pipeline.machine =
            profile::thresholds(&new.machine_profile, &new.pipeline.machine, topology)?;
        let old = &self.parts.settings;
        let mut changes = Changes::default();
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

        let usable_cpus = UsableCpus::system(new.reserve.clone());
        let usable = usable_cpus.read(
            &self.parts.enforcer.limit()?,
            &self.parts.enforcer.exclusive(),
        )?;
        ensure!(
            !usable.cpus.is_empty(),
            "reserve {} would leave no CPU to give out",
            new.reserve
        );
        if old.pipeline != new.pipeline {
            self.parts.controller = self.successor(&new.pipeline)?;
            if self.parts.recorder.take().is_some() {
                tracing::warn!("recording ended: it holds the decisions of one configuration");
            }
        }
        let pace_changed =
            old.interval != new.interval || old.overhead_budget != new.overhead_budget;
        self.parts.usable_cpus = usable_cpus;
        let Settings {
            interval,
            overhead_budget,
            reserve,
            pipeline,
            access,
            programs,
            ..
        } = new;
        let settings = &mut self.parts.settings;
        (settings.interval, settings.overhead_budget) = (interval, overhead_budget);
        settings.reserve = reserve;
        (settings.pipeline, settings.access) = (pipeline, access);
        settings.programs = programs;
        if pace_changed {
            self.pacing.set(interval.nanoseconds(), overhead_budget);
            self.told_interval_ns = None;
        }
        if !self.apps.is_empty() {
            self.decide(Trigger::Membership);
            if pace_changed {
                self.restart_interval();
            }
        }
        Ok(ReloadReply {
            protocol: PROTOCOL,
            changed: changes.now,
            needs_restart: changes.later,
        })
    }

    /// A controller with other settings that remembers what the present one knows.
    fn successor(&self, config: &PipelineConfig) -> anyhow::Result<Controller> {
        let present = &self.parts.controller;
        let mut next = Controller::new(config.clone(), present.topology().clone())
            .context("configuration names no policy")?;
        if let Err(error) = next.restore(present.save()) {
            tracing::info!("the allocation policy starts anew: {error}");
            next.restore_without_policy(present.save())?;
        }
        Ok(next)
    }
}

fn compare_policies(changes: &mut Changes, old: &PipelineConfig, new: &PipelineConfig) {
    changes.now("allocation", &old.allocation, &new.allocation);
    changes.now("mapping", &old.mapping, &new.mapping);
    for (section, differs) in [
        ("[monitor]", old.monitor != new.monitor),
        ("[allocate]", old.allocate != new.allocate),
        ("[map]", old.map != new.map),
        ("[machine]", old.machine != new.machine),
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

/// A setting as it is told to people, which is as it is written in the file.
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
