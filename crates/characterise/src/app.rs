//! One application: its open pair of readings and everything learned from it.

use crate::bottleneck::{self, BottleneckFilter};
use crate::config::{CharacteriserConfig, RuntimeHints};
use crate::history::{HistoryRules, SharingHistory};
use crate::phase::{Detection, PhaseDetector};
use crate::progress::{CpuCount, Progress, ReportedTracker, RuntimeTracker};
use crate::rates::{self, IntervalRates};
use crate::region_phase::{self, Evidence, RegionPhases, Shift};
use crate::source::{Continuity, Selection, SourceSelector};
use crate::waiting::{self, SleepCredit, ThreadTime};
use mapper_model::{
    Activity, AppId, AppObservation, CpuSet, MachineProfile, MemoryTraffic, NodeTraffic,
    Performance, PerformanceCurve, PhaseChange, Profile, Reading, RuntimeProgress, ThreadReading,
    Topology, Trigger,
};
use serde::{Deserialize, Serialize};

/// Weight in samples of a curve point when the application comes back to it after a while.
const WORTH_AFTER_ABSENCE: f64 = 4.0;

/// A reported performance beyond this is nonsense; its square would overflow.
const PLAUSIBLE: f64 = 1e100;

/// The reading that the next one is compared with.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Pair {
    now_ns: u64,
    /// CPUs in force when it was opened; the decision that followed may have changed them.
    cpus_before: u32,
    /// CPUs in force since, once seen.
    cpus: Option<u32>,
    threads: Vec<ThreadReading>,
    cpu_time_ns: Option<u64>,
    #[serde(default)]
    memory: Option<MemoryTraffic>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    memory_by_node: Vec<NodeTraffic>,
    /// Time waited at barriers so far, where the runtime reports it.
    #[serde(default)]
    waited_ns: Option<u64>,
    /// Time in parallel regions so far, where the runtime reports it.
    #[serde(default)]
    parallel_ns: Option<u64>,
    #[serde(default)]
    runtime_threads: u32,
    /// Regions and iterations completed.
    #[serde(default)]
    completed: u64,
}

/// What is remembered of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AppMonitor {
    pub(crate) profile: Profile,
    pair: Option<Pair>,
    /// Something changed within the interval and no reading was taken: the pair is void.
    interrupted: bool,
    /// It was idle in the interval before, and so perhaps at the start of this one.
    #[serde(default)]
    was_idle: bool,
    runtime: RuntimeTracker,
    reported: ReportedTracker,
    selector: SourceSelector,
    history: SharingHistory,
    bottleneck: BottleneckFilter,
    phase: PhaseDetector,
    #[serde(default)]
    sleep_credit: SleepCredit,
    #[serde(default)]
    region_phases: RegionPhases,
    /// The present phase's curve was carried over to what may be another phase.
    #[serde(default)]
    carried: bool,
    /// The interval may belong to another phase.
    #[serde(default)]
    doubtful: bool,
    /// A change that was not announced, as it is not clear yet whether the phase is new.
    #[serde(default)]
    withheld: bool,
    /// The curve as it was before performance changed, for as long as regions may follow.
    #[serde(default)]
    before_change: Option<BeforeChange>,
}

/// The curve before performance changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct BeforeChange {
    curve: PerformanceCurve,
    /// Intervals since.
    age: u32,
}

/// What an application ran on in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Basis {
    /// Its own CPUs: its speed there is a sample.
    #[default]
    OwnCpus,
    /// CPUs that others run on, too: how fast it was says nothing of a number of CPUs.
    CpusWithOthers,
}

/// When and why a reading was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) tick: u64,
    pub(crate) now_ns: u64,
    pub(crate) trigger: Trigger,
    /// Time since the last regular reading, if there was one.
    pub(crate) interval_ns: Option<u64>,
}

/// The machine and the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) machine: &'a MachineProfile,
    pub(crate) config: &'a CharacteriserConfig,
}

impl AppMonitor {
    pub(crate) fn new(app: AppId) -> Self {
        Self {
            profile: Profile::unknown(app),
            ..Self::default()
        }
    }

    /// Processes a reading of this application.
    pub(crate) fn observe(
        &mut self,
        app: &AppObservation,
        basis: Basis,
        moment: Moment,
        surroundings: Surroundings<'_>,
    ) {
        self.profile.phase = PhaseChange::Same;
        self.profile.spun = None;
        self.profile.performance = None;
        self.profile.measured_cpus = 0;
        let reading = &app.reading;
        let lost = is_lost(reading);
        let was_serial = !self.profile.serial_phase.is_none();
        if !lost {
            self.profile.spare_cpus = reading.spare_cpus;
            self.profile.serial_phase = reading.serial_phase;
            self.profile.runnable_threads = reading.runnable_threads;
        }
        // It needed one CPU in some part of the interval: its speed says nothing of the others.
        let partly_serial = was_serial || !self.profile.serial_phase.is_none();
        let cpus = app.effective.len();
        if moment.trigger == Trigger::Membership {
            // Not a sample. The next pair starts here, if anything was read.
            if lost {
                self.interrupted = true;
            } else {
                self.open(reading, moment.now_ns, cpus);
            }
            return;
        }
        let Some(pair) = self.pair.as_mut().filter(|_| !self.interrupted) else {
            self.open(reading, moment.now_ns, cpus);
            return;
        };
        let Some(elapsed_ns) = moment.now_ns.checked_sub(pair.now_ns) else {
            // The clock ran backwards.
            self.open(reading, moment.now_ns, cpus);
            return;
        };
        let count = match pair.cpus {
            Some(since) if since != cpus => CpuCount::Mixed,
            Some(_) => CpuCount::Same,
            None if pair.cpus_before != cpus => CpuCount::JustChanged,
            None => CpuCount::Same,
        };
        pair.cpus.get_or_insert(cpus);
        // The rest of an interval cut short by a membership change may be too little to measure.
        let short = moment
            .interval_ns
            .is_some_and(|interval| elapsed_ns < interval / 4);
        if lost || elapsed_ns == 0 || short {
            if count == CpuCount::Mixed {
                self.interrupted = true;
            }
            return;
        }

        let interval = rates::between(
            &pair.threads,
            &reading.threads,
            elapsed_ns,
            surroundings.machine.clock_hz,
        );
        let used_ns = pair
            .cpu_time_ns
            .zip(reading.cpu_time_ns)
            .and_then(|(before, now)| now.checked_sub(before));
        let busy_cpus =
            used_ns.map(|used_ns| (used_ns as f64 / elapsed_ns as f64).min(f64::from(cpus)));
        self.profile.activity = used_ns.map_or(Activity::Active, |used_ns| {
            Activity::of(used_ns, elapsed_ns, reading.runnable_threads)
        });
        self.profile.utilisation = busy_cpus
            .filter(|_| cpus > 0)
            .map(|busy| (busy / f64::from(cpus)).clamp(0.0, 1.0));
        let parallel_ns = reading.runtime.and_then(|runtime| runtime.parallel_ns);
        self.profile.parallel_share = pair
            .parallel_ns
            .zip(parallel_ns)
            .and_then(|(before, now)| now.checked_sub(before))
            .map(|parallel_ns| (parallel_ns as f64 / elapsed_ns as f64).min(1.0));
        self.profile.memory = pair
            .memory
            .zip(reading.memory)
            .map(|(before, now)| rates::memory_between(before, now, elapsed_ns));
        self.profile.memory_by_node =
            rates::by_node_between(&pair.memory_by_node, &reading.memory_by_node, elapsed_ns);
        let shares = basis == Basis::CpusWithOthers;
        if shares {
            self.profile.utilisation = None;
        }
        if self.profile.activity == Activity::Idle || partly_serial || shares {
            self.pause(reading, moment.now_ns, cpus);
            return;
        }
        let hints = surroundings.config.runtime_hints == RuntimeHints::Used;
        if hints {
            self.profile.spun = self.spun(reading, moment.now_ns);
        }
        self.characterise(interval.as_ref(), &app.effective, surroundings);
        if hints {
            self.enter_phase(reading);
        }
        self.measure(
            interval.as_ref(),
            busy_cpus,
            count,
            app,
            moment,
            surroundings,
        );
        self.was_idle = false;
        self.reopen(reading, moment.now_ns, cpus);
    }

    /// An interval in which it was idle, needed one CPU, or had to share: no sample. The next pair starts here, and
    /// progress counts from the first work that begins after it.
    fn pause(&mut self, reading: &Reading, now_ns: u64, cpus: u32) {
        self.profile.rates = None;
        self.open(reading, now_ns, cpus);
        self.runtime.pause();
        self.reported.pause();
        self.was_idle = true;
    }

    /// Rates, class and bottleneck.
    fn characterise(
        &mut self,
        interval: Option<&IntervalRates>,
        effective: &CpuSet,
        Surroundings {
            topology,
            machine,
            config,
        }: Surroundings<'_>,
    ) {
        let profile = &mut self.profile;
        profile.rates = interval.map(|i| i.rates);
        let Some(interval) = interval else {
            return;
        };
        let rules = HistoryRules::of(machine, config.history);
        let verdict = match &interval.sharing {
            Some(sample) => self.history.observe(sample, &rules),
            // Nothing ran: the history stays as it is.
            None => self.history.verdict(&rules),
        };
        profile.class = verdict.class;
        profile.ipc_high = verdict.ipc_high;
        profile.spc = verdict.spc.filter(|v| v.is_finite());
        profile.ipc = verdict.ipc.filter(|v| v.is_finite());
        if interval.rates.active_threads == 0 {
            return;
        }
        let nodes = if interval.rates.llc_misses_per_s.is_some() {
            let here = |node: &&mapper_model::topology::Node| !node.cpus.is_disjoint(effective);
            topology.nodes().iter().filter(here).count() as u32
        } else {
            1
        };
        let shown = bottleneck::shown(&interval.rates, nodes, machine);
        let believed = self.bottleneck.observe(shown, config.bottleneck_intervals);
        if believed != profile.bottleneck {
            profile.bottleneck = believed;
            profile.phase = PhaseChange::Changed;
        }
        profile.severity = bottleneck::severity(believed, &interval.rates, machine);
    }

    /// Which phase the program is in by its regions, and so which curve is in use.
    ///
    /// Performance shows a change before regions identify it. Until they do, nothing is announced, so
    /// that a phase that returns is not reported as a new one.
    fn enter_phase(&mut self, reading: &Reading) {
        self.before_change = self.before_change.take().and_then(BeforeChange::pass);
        let (mut region, mut evidence) = (0, Evidence::Stale);
        if let Some(runtime) = &reading.runtime {
            region = runtime.region;
            let before = self.pair.as_ref().map_or(0, |pair| pair.completed);
            let now = completed(runtime);
            if now == 0 || now != before {
                evidence = Evidence::Fresh;
            }
        }
        let profile = &mut self.profile;
        let before = self.before_change.as_ref().map(|before| &before.curve);
        let known = before.unwrap_or(&profile.curve);
        let shift = self.region_phases.observe(region, evidence, known);
        profile.region_phase = self.region_phases.present();
        // Where no region is known, waiting would not help.
        self.doubtful = region != 0 && self.region_phases.is_wavering();
        match shift {
            Shift::None if self.doubtful => {
                if profile.phase == PhaseChange::Changed {
                    profile.phase = PhaseChange::Same;
                    self.withheld = true;
                }
                return;
            }
            // These were members of the phase: what changed is something else.
            Shift::None if self.withheld => profile.phase = PhaseChange::Changed,
            Shift::None => {}
            Shift::Back(mut curve) if !curve.is_empty() => {
                let counts: Vec<u32> = curve.points().iter().map(|point| point.cpus).collect();
                for cpus in counts {
                    curve.limit_samples(cpus, WORTH_AFTER_ABSENCE);
                }
                profile.curve = curve;
                profile.phase = PhaseChange::Returned;
                self.phase.reset();
                self.before_change = None;
            }
            Shift::New | Shift::Back(_) => {
                profile.phase = PhaseChange::Changed;
                // Only its first intervals are known; where these were like those before, they were
                // added to the curve of the old phase.
                if !self.carried && self.before_change.is_none() {
                    profile.curve.rescale(1.0);
                    self.phase.reset();
                }
                self.before_change = None;
            }
        }
        self.carried = false;
        self.withheld = false;
    }

    /// Performance by the source in use, its phase, and its point on the curve.
    fn measure(
        &mut self,
        interval: Option<&IntervalRates>,
        busy_cpus: Option<f64>,
        count: CpuCount,
        app: &AppObservation,
        moment: Moment,
        Surroundings { config, .. }: Surroundings<'_>,
    ) {
        let cpus = app.effective.len();
        // Where it was idle before, it may have been in a part of this interval, too.
        let divided = count == CpuCount::Mixed || self.was_idle;
        let whole = |value: Option<f64>| match value.filter(|v| v.is_finite() && *v >= 0.0) {
            Some(_) if divided || cpus == 0 => Progress::Pending,
            Some(value) => Progress::Rate(value),
            None => Progress::Absent,
        };
        let counted = interval
            .filter(|i| i.lost_threads == 0)
            .and_then(|i| i.rates.ipc_sum)
            // Instructions retired by spinning are no work.
            .map(|sum| match (self.profile.spun, busy_cpus) {
                (Some(share), Some(busy)) => waiting::without_spinning(sum, share, busy),
                _ => sum,
            });
        let offers = [
            self.reported
                .observe(app.reading.reported.as_ref(), moment.now_ns, count),
            self.runtime
                .observe(app.reading.runtime.as_ref(), moment.now_ns, count),
            whole(counted),
            whole(busy_cpus),
        ];
        let selection = self.selector.select(
            &offers,
            config.source_upgrade_intervals,
            config.source_patience_intervals,
        );
        let Selection::Value {
            source,
            value,
            continuity,
        } = selection
        else {
            return;
        };
        if cpus == 0 || !(0.0..=PLAUSIBLE).contains(&value) {
            return;
        }
        let profile = &mut self.profile;
        if continuity == Continuity::Restarted {
            profile.curve.clear();
            profile.epoch += 1;
            self.phase.reset();
            self.region_phases.forget_curves();
            self.before_change = None;
        }
        profile.performance = Some(Performance { value, source });
        profile.measured_cpus = cpus;
        profile.samples += 1;
        if count == CpuCount::JustChanged {
            profile.curve.limit_samples(cpus, WORTH_AFTER_ABSENCE);
        }
        let detection = self.phase.observe(
            value,
            cpus,
            profile.curve.noise(),
            config.phase_threshold,
            config.phase_test,
        );
        let record = |curve: &mut PerformanceCurve, value: f64| {
            curve.record(cpus, value, moment.tick, config.fading);
        };
        match detection {
            Detection::Same => record(&mut profile.curve, value),
            Detection::Suspect => {}
            Detection::Changed { ratio, held } => {
                if self.doubtful {
                    self.carried = true;
                    self.withheld = true;
                } else {
                    self.before_change = profile.region_phase.map(|_| BeforeChange {
                        curve: profile.curve.clone(),
                        age: 0,
                    });
                    // The return of an earlier phase includes that it changed.
                    if profile.phase != PhaseChange::Returned {
                        profile.phase = PhaseChange::Changed;
                    }
                }
                profile.curve.rescale(ratio);
                for value in held.into_iter().chain([value]) {
                    record(&mut profile.curve, value);
                }
            }
        }
        if self.doubtful && (self.carried || detection == Detection::Suspect) {
            // No judgement before it is clear which phase the value belongs to.
            profile.performance = None;
            profile.measured_cpus = 0;
        }
    }

    /// The share of its CPU time that it spun at barriers since the pair was opened, where all
    /// inputs are known. Also updates the sleep credit, as a wait may span several intervals.
    fn spun(&mut self, reading: &Reading, now_ns: u64) -> Option<f64> {
        let pair = self.pair.as_ref()?;
        let runtime = reading.runtime?;
        if reading.threads.is_empty() {
            // It has tasks, but their number is not known.
            return None;
        }
        let threads = u32::try_from(in_either(&pair.threads, &reading.threads)).ok()?;
        let time = ThreadTime {
            elapsed_ns: now_ns.checked_sub(pair.now_ns)?,
            threads: threads.max(runtime.threads).max(pair.runtime_threads),
            busy_ns: reading.cpu_time_ns?.checked_sub(pair.cpu_time_ns?)?,
            waited_ns: runtime.wait_ns?.checked_sub(pair.waited_ns?)?,
        };
        Some(self.sleep_credit.spun_share(time))
    }

    /// Opens a pair at a reading before which nothing counts.
    fn open(&mut self, reading: &Reading, now_ns: u64, cpus: u32) {
        // Only for the sleep credit.
        let _ = self.spun(reading, now_ns);
        if let Some(runtime) = &reading.runtime {
            self.runtime.restart(runtime, now_ns);
        }
        if let Some(reported) = &reading.reported {
            self.reported.restart(reported, now_ns);
        }
        self.reopen(reading, now_ns, cpus);
    }

    /// Opens a pair at a reading that closed the one before.
    fn reopen(&mut self, reading: &Reading, now_ns: u64, cpus: u32) {
        self.interrupted = false;
        let pair = self.pair.get_or_insert_default();
        pair.now_ns = now_ns;
        pair.cpus_before = cpus;
        pair.cpus = None;
        pair.cpu_time_ns = reading.cpu_time_ns;
        pair.memory = reading.memory;
        pair.memory_by_node.clone_from(&reading.memory_by_node);
        pair.waited_ns = reading.runtime.and_then(|runtime| runtime.wait_ns);
        pair.parallel_ns = reading.runtime.and_then(|runtime| runtime.parallel_ns);
        pair.completed = reading.runtime.as_ref().map_or(0, completed);
        pair.runtime_threads = reading.runtime.map_or(0, |runtime| runtime.threads);
        pair.threads.clear();
        pair.threads.extend_from_slice(&reading.threads);
        if !pair.threads.is_sorted_by_key(|t| t.tid) {
            pair.threads.sort_by_key(|t| t.tid);
        }
    }
}

impl BeforeChange {
    /// One interval later, unless regions that begin a phase would have shown by now.
    fn pass(self) -> Option<Self> {
        let age = self.age + 1;
        (age <= region_phase::CONFIRMED as u32).then_some(Self { age, ..self })
    }
}

/// What a runtime has completed so far.
const fn completed(runtime: &RuntimeProgress) -> u64 {
    runtime.regions.saturating_add(runtime.iterations)
}

/// Threads that were present at either of two readings, both in ascending order of id.
fn in_either(before: &[ThreadReading], now: &[ThreadReading]) -> usize {
    let is_new =
        |thread: &&ThreadReading| before.binary_search_by_key(&thread.tid, |t| t.tid).is_err();
    before.len() + now.iter().filter(is_new).count()
}

/// Whether a reading is empty: lost, or not taken.
fn is_lost(reading: &Reading) -> bool {
    reading.threads.is_empty()
        && reading.runtime.is_none()
        && reading.reported.is_none()
        && reading.cpu_time_ns.is_none()
}
