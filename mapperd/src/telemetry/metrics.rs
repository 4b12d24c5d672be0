//! Metrics in the format of Prometheus, read from the daemon's state for each scrape.
//!
//! Names follow the conventions of Prometheus: base units, `_total` for counters. Ended applications are not reported.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use crate::telemetry::{Telemetry, logging};
use mapper_control::schema::{Account, AdoptTarget};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Metric, Unit};
use std::fmt;
use std::time::Duration;

pub(crate) fn metrics(
    registry: &mut Registry,
    machine: &Machine,
    decider: &Decider,
    telemetry: &Telemetry,
) -> String {
    let now_ns = machine.clock.now_ns();
    for app in &mut registry.apps {
        app.record.accounting.advance(now_ns, app.held());
    }
    let mut metrics = prometheus_client::registry::Registry::with_prefix("mapper");
    metrics.register_with_unit(
        "decision",
        "Time it took to observe, decide and enforce",
        Unit::Seconds,
        telemetry.tally.decision_s.clone(),
    );
    metrics.register_with_unit(
        "launch",
        "Time from reading a launch to its answer, refusals included",
        Unit::Seconds,
        telemetry.tally.launch_s.clone(),
    );
    let families = families(registry, machine, decider, telemetry);
    metrics.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &metrics) {
        tracing::warn!("metrics: {error}");
    }
    text
}

/// A metric at one moment, with a value for each set of labels.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    values: Vec<(Labels, Value)>,
}

type Labels = Vec<(&'static str, String)>;
type Value = Box<dyn Metric>;

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let Some((_, first)) = family.values.first() else {
                continue;
            };
            let (unit, kind) = (family.unit.as_ref(), first.metric_type());
            let mut metric = encoder.encode_descriptor(family.name, family.help, unit, kind)?;
            for (labels, value) in &family.values {
                if labels.is_empty() {
                    value.encode(metric)?;
                    break;
                }
                value.encode(metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

fn count(value: u64) -> Value {
    Box::new(ConstCounter::new(value))
}

fn gauge(value: impl Into<u64>) -> Value {
    Box::new(ConstGauge::new(
        i64::try_from(value.into()).unwrap_or(i64::MAX),
    ))
}

fn number(value: f64) -> Value {
    Box::new(ConstGauge::new(value))
}

fn cpu_time(ns: u64) -> Value {
    Box::new(ConstCounter::new(ns as f64 * 1e-9))
}

/// Metrics, one a line: name, help, unit, values.
macro_rules! families {
    ($($name:literal, $help:literal, $unit:expr => $values:expr;)*) => {
        vec![$(Family { name: $name, help: $help, unit: $unit, values: $values }),*]
    };
}

fn families(
    registry: &Registry,
    machine: &Machine,
    decider: &Decider,
    telemetry: &Telemetry,
) -> Vec<Family> {
    let one = |value: Value| vec![(Labels::new(), value)];
    let tally = &telemetry.tally;
    let errors = tally.errors();
    let errors = errors.map(|(kind, n)| (vec![("kind", kind.to_owned())], count(n)));
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    let accounts: Vec<Account> = registry
        .apps
        .iter()
        .map(|app| app.record.accounting.account())
        .collect();
    let apps = || registry.apps.iter().zip(&accounts);
    // An application without the value is left out.
    let app = |value: &dyn Fn(&App) -> Value| {
        let values = apps().map(|(app, _)| (labels(app), value(app)));
        values.collect()
    };
    let account = |value: &dyn Fn(&Account) -> Option<Value>| {
        let values = apps().map(|(app, account)| Some((labels(app), value(account)?)));
        values.flatten().collect()
    };
    let performance = |value: &dyn Fn(&Account) -> Option<f64>| {
        let values = apps().map(|(app, account)| {
            let value = number(value(account)?);
            let unit = account.performance.as_ref().map(|p| p.unit.clone());
            let mut labels = labels(app);
            labels.push(("source", unit.unwrap_or_default()));
            Some((labels, value))
        });
        values.flatten().collect()
    };
    let origins = registry.apps.iter().map(|app| {
        let mut labels = labels(app);
        labels.push(("origin", origin(app).to_owned()));
        (labels, gauge(1u64))
    });
    let ratios = apps().filter_map(|(app, account)| {
        let ratio = account.achieved? / app.record.spec.qos.get();
        Some((labels(app), number(ratio)))
    });
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu_s = Duration::try_from(used).unwrap_or_default().as_secs_f64();
    let interval_s = decider.pacing.interval_ns() as f64 * 1e-9;
    let fair = |app: &App| app.record.planned.as_ref().map_or(0, |p| p.share.fair);
    families! {
        "cpus_usable", "CPUs that may be assigned", None => one(gauge(machine.usable.len()));
        "cpus_free", "CPUs that no application holds", None => one(gauge(registry.free(&machine.usable).len()));
        "applications", "Applications under management", None => one(gauge(registry.apps.len() as u64));
        "decisions", "Decisions taken", None => one(count(decider.decisions));
        "intervals", "Decisions taken at the end of an interval", None => one(count(tally.intervals));
        "build_info", "The version of this daemon", None => vec![(build, gauge(1u64))];
        "interval_stretched", "Whether that is longer than configured, since a pass takes too long", None
            => one(gauge(u64::from(decider.pacing.stretched().is_some())));
        "interval", "Time between two decisions at present", Some(Unit::Seconds) => one(number(interval_s));
        "launches", "Applications launched", None => one(count(tally.launches));
        "launches_refused", "Launches and adoptions refused", None => one(count(tally.refused));
        "adoptions", "Applications that ran already and were adopted", None => one(count(tally.adoptions));
        "errors", "What failed, by kind", None => errors.collect();
        "log_lines_dropped", "Log lines that its reader did not take in time", None => one(count(logging::dropped()));
        "threads_waiting", "Threads of applications that were not wholly checked in the last interval", None
            => one(gauge(machine.enforcer.waiting_threads() as u64));
        "app_cpus", "CPUs it holds", None => app(&|app| gauge(app.counted_cpus()));
        "app_info", "How it came under management", None => origins.collect();
        "app_fair_cpus", "CPUs of its fair share", None => app(&|app| gauge(fair(app)));
        "app_promised_ratio", "The promise: a share of its fair-share performance", None
            => app(&|app| number(app.record.spec.qos.get()));
        "app_achieved_ratio", "Median share of its fair-share performance since its launch", None
            => account(&|account| account.achieved.map(number));
        "app_achieved_of_promised_ratio", "That share as a share of the promise: below 1 it was not kept", None
            => ratios.collect();
        "app_performance", "Performance in the unit of its source", None
            => performance(&|account| Some(account.performance.as_ref()?.value));
        "app_floor", "Promised performance in the unit of its source", None => performance(&|account| account.floor);
        "app_judged_intervals", "Intervals in which performance and promise were known", None
            => account(&|account| Some(count(account.judged_intervals)));
        "app_violations", "Judged intervals where the median of three of the same phase is below the promise", None
            => account(&|account| Some(count(account.violations)));
        "app_moves", "How often its CPUs were changed", None => account(&|account| Some(count(account.moves)));
        "app_given_cpu", "Time on CPUs that it was given, summed over them", Some(Unit::Seconds)
            => account(&|account| Some(cpu_time(account.given_cpu_ns)));
        "app_borrowed_cpu", "Time on CPUs of idle applications that it had, summed over them", Some(Unit::Seconds)
            => account(&|account| Some(cpu_time(account.borrowed_cpu_ns)));
        "app_used_cpu", "CPU time that it used", Some(Unit::Seconds)
            => account(&|account| account.used_cpu_ns.map(cpu_time));
        "daemon_resident_memory", "Memory of the daemon", Some(Unit::Bytes) => one(gauge(resident_bytes()));
        "daemon_open_descriptors", "Open descriptors of the daemon", None => one(gauge(descriptors as u64));
        "daemon_cpu", "CPU time of the daemon", Some(Unit::Seconds) => one(Box::new(ConstCounter::new(cpu_s)));
    }
}

fn labels(app: &App) -> Labels {
    let record = &app.record;
    vec![
        ("app", record.id.to_string()),
        ("name", record.spec.name.to_string()),
        ("uid", record.uid.to_string()),
    ]
}

fn origin(app: &App) -> &'static str {
    let adoption = app.record.origin.adoption();
    match adoption.map(|adoption| &adoption.target) {
        None => "launched",
        Some(AdoptTarget::Pid(_)) => "adopted_pid",
        Some(AdoptTarget::Cgroup(_)) => "adopted_cgroup",
        Some(AdoptTarget::Unit(_)) => "adopted_unit",
    }
}

/// The memory of the daemon in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = statm.split_ascii_whitespace();
    let pages = fields.nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
