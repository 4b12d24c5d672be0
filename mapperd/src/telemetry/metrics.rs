//! Metrics in the format of Prometheus, read from the daemon's state for each scrape.
//!
//! Names follow the conventions of Prometheus: base units, `_total` for counters. Ended applications are not reported.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use crate::telemetry::Telemetry;
use mapper_control::schema::{Account, AdoptTarget};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;

/// All metrics, as text.
pub(crate) fn metrics(
    registry: &mut Registry,
    machine: &Machine,
    decider: &Decider,
    telemetry: &Telemetry,
) -> String {
    let now_ns = machine.clock.now_ns();
    for app in &mut registry.apps {
        app.record.accounting.advance(now_ns, app.effective.len());
    }
    let mut metrics = prometheus_client::registry::Registry::with_prefix("mapper");
    metrics.register_with_unit(
        "decision",
        "Time it took to observe, decide and enforce",
        Unit::Seconds,
        telemetry.tally.decision_s.clone(),
    );
    let snapshot = Snapshot::of(registry, machine, decider, telemetry);
    metrics.register_collector(Box::new(snapshot));
    let mut text = String::new();
    if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &metrics) {
        tracing::warn!("metrics: {error}");
    }
    text
}

#[derive(Debug)]
struct Snapshot {
    usable: u64,
    free: u64,
    decisions: u64,
    interval_s: f64,
    launches: u64,
    refused: u64,
    adoptions: u64,
    errors: Vec<(&'static str, u64)>,
    apps: Vec<AppNumbers>,
    process: ProcessNumbers,
}

#[derive(Debug)]
struct AppNumbers {
    labels: AppLabels,
    origin: &'static str,
    cpus: u64,
    fair_cpus: u64,
    qos: f64,
    account: Account,
}

impl AppNumbers {
    fn of(app: &App) -> Self {
        let record = &app.record;
        Self {
            labels: AppLabels {
                app: record.id.0,
                name: record.spec.name.to_string(),
                uid: record.uid,
            },
            origin: origin(app),
            cpus: app.effective.len().into(),
            fair_cpus: record.planned.as_ref().map_or(0, |p| p.share.fair.into()),
            qos: record.spec.qos.get(),
            account: record.accounting.account(),
        }
    }
    fn with_source(&self) -> SourceLabels {
        let performance = self.account.performance.as_ref();
        SourceLabels {
            app: self.labels.clone(),
            source: performance.map_or_else(String::new, |p| p.unit.clone()),
        }
    }

    fn with_origin(&self) -> OriginLabels {
        OriginLabels {
            app: self.labels.clone(),
            origin: self.origin,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppLabels {
    app: u64,
    name: String,
    uid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    #[prometheus(flatten)]
    app: AppLabels,
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabels {
    #[prometheus(flatten)]
    app: AppLabels,
    origin: &'static str,
}

/// How an application came under management: `launched`, or what was adopted.
fn origin(app: &App) -> &'static str {
    let adoption = app.record.origin.adoption();
    match adoption.map(|adoption| &adoption.target) {
        None => "launched",
        Some(AdoptTarget::Pid(_)) => "adopted_pid",
        Some(AdoptTarget::Cgroup(_)) => "adopted_cgroup",
        Some(AdoptTarget::Unit(_)) => "adopted_unit",
    }
}

/// What the daemon itself uses.
#[derive(Clone, Copy, Debug, Default)]
struct ProcessNumbers {
    resident_bytes: u64,
    open_descriptors: u64,
    cpu_s: f64,
}

impl ProcessNumbers {
    fn now() -> Self {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut fields = statm.split_ascii_whitespace();
        let pages = fields.nth(1).and_then(|pages| pages.parse().ok());
        let pages: u64 = pages.unwrap_or_default();
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Self {
            resident_bytes: pages * rustix::param::page_size() as u64,
            open_descriptors: std::fs::read_dir("/proc/self/fd")
                .map_or(0, |entries| entries.count() as u64),
            cpu_s: used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9,
        }
    }
}

impl Snapshot {
    fn of(
        registry: &Registry,
        machine: &Machine,
        decider: &Decider,
        telemetry: &Telemetry,
    ) -> Self {
        let tally = &telemetry.tally;
        Self {
            usable: machine.usable.len().into(),
            free: registry.free(&machine.usable).len().into(),
            decisions: decider.decisions,
            interval_s: decider.pacing.interval_ns() as f64 * 1e-9,
            launches: tally.launches,
            refused: tally.refused,
            adoptions: tally.adoptions,
            errors: tally.errors.iter().map(|(kind, n)| (*kind, *n)).collect(),
            apps: registry.apps.iter().map(AppNumbers::of).collect(),
            process: ProcessNumbers::now(),
        }
    }
}

struct Writer<'e>(DescriptorEncoder<'e>);

impl Writer<'_> {
    fn one(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        metric: &impl EncodeMetric,
    ) -> fmt::Result {
        let encoder = self
            .0
            .encode_descriptor(name, help, unit, metric.metric_type())?;
        metric.encode(encoder)
    }

    fn family<M: EncodeMetric, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (L, M)>,
    ) -> fmt::Result {
        let mut values = values.into_iter().peekable();
        let Some((_, first)) = values.peek() else {
            return Ok(());
        };
        let mut encoder = self
            .0
            .encode_descriptor(name, help, unit, first.metric_type())?;
        for (labels, metric) in values {
            metric.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Writes metrics: name, help, unit, value.
macro_rules! metrics {
    ($to:ident; $($name:literal, $help:literal, $unit:expr => $value:expr;)*) => {
        $($to.one($name, $help, $unit, &$value)?;)*
    };
}

/// Writes metrics of each application: name, help, unit, labels and value; `None` leaves one out.
macro_rules! families {
    ($to:ident, $apps:expr; $($name:literal, $help:literal, $unit:expr => |$app:ident| $labels:expr, $value:expr;)*) => {
        $($to.family($name, $help, $unit, $apps.iter().filter_map(|$app| Some(($labels, $value))))?;)*
    };
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        let count = |value: u64| ConstCounter::new(value);
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let (process, apps) = (&self.process, self.apps.len() as u64);
        metrics! { to;
            "cpus_usable", "CPUs that may be assigned", None => gauge(self.usable);
            "cpus_free", "CPUs that no application holds", None => gauge(self.free);
            "applications", "Applications under management", None => gauge(apps);
            "decisions", "Decisions taken", None => count(self.decisions);
            "interval", "Time between two decisions at present", Some(&Unit::Seconds) => ConstGauge::new(self.interval_s);
            "launches", "Applications launched", None => count(self.launches);
            "launches_refused", "Launches and adoptions refused", None => count(self.refused);
            "adoptions", "Applications that ran already and were adopted", None => count(self.adoptions);
        }
        families! { to, self.errors;
            "errors", "What failed, by kind", None => |error| KindLabel { kind: error.0 }, count(error.1);
        }
        families! { to, self.apps;
            "app_cpus", "CPUs it holds", None => |app| app.labels.clone(), gauge(app.cpus);
            "app_info", "How it came under management", None => |app| app.with_origin(), gauge(1);
            "app_fair_cpus", "CPUs of its fair share", None => |app| app.labels.clone(), gauge(app.fair_cpus);
            "app_promised_ratio", "The promise: a share of its fair-share performance", None
                => |app| app.labels.clone(), ConstGauge::new(app.qos);
            "app_achieved_ratio", "Mean share of its fair-share performance since its launch", None
                => |app| app.labels.clone(), ConstGauge::new(app.account.achieved?);
            "app_performance", "Performance in the unit of its source", None
                => |app| app.with_source(), ConstGauge::new(app.account.performance.as_ref()?.value);
            "app_floor", "Promised performance in the unit of its source", None
                => |app| app.with_source(), ConstGauge::new(app.account.floor?);
            "app_judged_intervals", "Intervals in which performance and promise were known", None
                => |app| app.labels.clone(), count(app.account.judged_intervals);
            "app_violations", "Judged intervals with performance below the promise", None
                => |app| app.labels.clone(), count(app.account.violations);
            "app_moves", "How often its CPUs were changed", None => |app| app.labels.clone(), count(app.account.moves);
            "app_given_cpu", "Time on CPUs that it was given, summed over them", Some(&Unit::Seconds)
                => |app| app.labels.clone(), ConstCounter::new(seconds(app.account.given_cpu_ns));
            "app_used_cpu", "CPU time that it used", Some(&Unit::Seconds)
                => |app| app.labels.clone(), ConstCounter::new(seconds(app.account.used_cpu_ns?));
        }
        metrics! { to;
            "daemon_resident_memory", "Memory of the daemon", Some(&Unit::Bytes) => gauge(process.resident_bytes);
            "daemon_open_descriptors", "Open descriptors of the daemon", None => gauge(process.open_descriptors);
            "daemon_cpu", "CPU time of the daemon", Some(&Unit::Seconds) => ConstCounter::new(process.cpu_s);
        }
        Ok(())
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}
