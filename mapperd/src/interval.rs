//! One decision: observe, step, check, enforce, read back.

use crate::daemon::{App, Daemon};
use crate::machine::surroundings::Surroundings;
use crate::registry::accounting::Showed;
use crate::registry::page;
use crate::store::saved::Ending;
use mapper_host::chain;
use mapper_host::counters::Subject;
use mapper_host::cpus::Usable;
use mapper_host::procfs::ProcFs;
use mapper_model::{
    Action, Activity, AppId, AppObservation, CpuSet, NodeId, Observation, Plan, Reading, ThreadId,
    Trigger,
};
use mapper_pipeline::pacing::Change;
use mapper_pipeline::{Severity, check};
use std::time::{Duration, Instant};

impl Daemon {
    /// Takes one decision and puts it in force.
    pub(crate) fn decide(&mut self, trigger: Trigger) {
        let started = Instant::now();
        let cpu_time = ThreadCpuTime::now();
        // Whatever is logged in between belongs to this interval, and says so. Numbers are taken when the
        // observation is.
        let span = tracing::info_span!("interval", interval = self.decisions + 1, cause = ?trigger);
        let _entered = span.enter();
        if let Err(error) = self.parts.enforcer.refresh() {
            self.tally.error("processes");
            tracing::warn!("processes not looked at: {}", chain(&error));
        }
        let trigger = match self.look_around() {
            Surroundings::AsBefore => trigger,
            // What was measured across the change is no sample.
            Surroundings::Changed => Trigger::Membership,
        };
        let observation = self.observe(trigger);
        let observed = started.elapsed();
        let floors: Vec<Option<f64>> = self.floors();
        let plan = self.parts.controller.step(&observation);
        let decided = started.elapsed();
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.write(&observation, &plan);
        }
        self.write_books(&observation, &floors);
        self.shrink_limited();
        if self.may_be_enforced(&plan, &observation) {
            self.enforce(&plan);
            // Arrivals and departures are saved when all that belongs to them is done.
            if trigger == Trigger::Interval && !plan.actions.is_empty() {
                self.save(Ending::Running);
            }
        }
        self.place_limited();
        self.tally.decided(started.elapsed());
        let times = Times {
            observe_ns: nanoseconds(observed),
            decide_ns: nanoseconds(decided - observed),
            enforce_ns: nanoseconds(started.elapsed() - decided),
        };
        self.tell_decision(&plan, &times);
        // What an arrival costs, such as opening counters, is not what the next interval costs.
        if trigger == Trigger::Interval {
            self.adapt_interval(cpu_time.elapsed_ns());
        }
    }

    /// Stretches the interval when a pass costs more than the budget, and ends that when it does not.
    fn adapt_interval(&mut self, cost_ns: u64) {
        match self.pacing.passed(cost_ns) {
            Change::None => {}
            Change::Stretched(stretched) => {
                // Costs scatter, and with them the interval: only what differs by half is worth a line.
                let told = self.told_interval_ns;
                let news = told.is_none_or(|told| {
                    let (less, more) = (
                        told.min(stretched.interval_ns),
                        told.max(stretched.interval_ns),
                    );
                    more > less + less / 2
                });
                if news {
                    self.told_interval_ns = Some(stretched.interval_ns);
                    tracing::info!(
                        interval_ns = stretched.interval_ns,
                        pass_ns = stretched.pass_ns,
                        budget = ?self.parts.settings.overhead_budget,
                        "decisions {stretched}"
                    );
                }
            }
            Change::AsAsked => {
                self.told_interval_ns = None;
                tracing::info!(
                    interval_ns = self.pacing.interval_ns(),
                    "decisions every {} as set: a pass is within the budget again",
                    self.parts.settings.interval
                );
            }
        }
    }

    /// Has memory follow an application's CPUs, if it is to. Only after all have moved: the kernel moves the
    /// memory with it, which takes its time.
    pub(crate) fn bind_memory(&mut self, app: AppId, cpus: &CpuSet) {
        let follows = |known: &&App| known.id == app && known.memory.follows_cpus();
        if cpus.is_empty() || !self.apps.iter().any(|known| follows(&known)) {
            return;
        }
        let topology = self.parts.controller.topology();
        let nodes: Vec<NodeId> = topology
            .nodes()
            .iter()
            .filter(|node| !node.cpus.is_disjoint(cpus))
            .map(|node| node.id)
            .collect();
        match self.parts.enforcer.bind_memory(app, &nodes) {
            Ok(()) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => {
                self.tally.error("memory");
                tracing::warn!(app = app.0, "memory not bound: {}", chain(&error));
            }
        }
    }

    /// One line for each interval: at level info if something was moved, else at debug, so that a steady
    /// machine does not fill the journal.
    fn tell_decision(&self, plan: &Plan, times: &Times) {
        let Times {
            observe_ns,
            decide_ns,
            enforce_ns,
        } = *times;
        let (applications, decisions, moves) =
            (self.apps.len(), plan.apps.len(), plan.actions.len());
        if moves == 0 {
            tracing::debug!(
                applications,
                decisions,
                moves,
                observe_ns,
                decide_ns,
                enforce_ns,
                "decided: nothing to move"
            );
        } else {
            tracing::info!(
                applications,
                decisions,
                moves,
                observe_ns,
                decide_ns,
                enforce_ns,
                "decided"
            );
        }
    }

    pub(crate) fn read_usable(&self) -> anyhow::Result<Usable> {
        let limit = self.parts.enforcer.limit()?;
        Ok(self
            .parts
            .usable_cpus
            .read(&limit, &self.parts.enforcer.exclusive())?)
    }

    fn observe(&mut self, trigger: Trigger) -> Observation {
        self.decisions += 1;
        let now_ns = self.parts.clock.now_ns();
        let usable = self.less_housekeeping(self.left_by_others());
        let enforcer = &mut self.parts.enforcer;
        let counters = &mut self.parts.counters;
        let proc = &self.parts.proc;
        let apps_count = u32::try_from(self.apps.len()).unwrap_or(u32::MAX);
        let equal_share = usable.len() / apps_count.max(1);
        let apps = self
            .apps
            .iter_mut()
            .filter(|app| app.set_by_others.is_none() && app.limited.is_none())
            .map(|app| {
                // A newcomer has nothing in force that was decided for it.
                if app.planned.is_some()
                    && let Ok(effective) = enforcer.effective(app.id)
                {
                    app.effective = effective;
                }
                let tasks = enforcer.tasks(app.id);
                let group = enforcer.group(app.id);
                let subject = Subject {
                    app: app.id,
                    tasks: &tasks,
                    cpus: &app.effective,
                    group: group.as_deref(),
                    page: app.page.as_ref().map(|page| &page.reader),
                    group_cpu_time_ns: enforcer.cpu_time_ns(app.id),
                    now_ns,
                };
                let mut reading = Reading::default();
                for source in counters.iter_mut() {
                    source.read(&subject, &mut reading);
                }
                // On one CPU, CPU time does not tell whether others wait for it; and who used none was
                // idle, or was not let.
                let used = Used {
                    at_ns: now_ns,
                    cpu_time_ns: reading.cpu_time_ns,
                };
                let activity = app
                    .used
                    .replace(used)
                    .map_or(Activity::Active, |before| used.since(before));
                if app.effective.len() == 1 && reading.threads.is_empty()
                    || activity == Activity::Idle
                {
                    reading.runnable_threads = Some(runnable(proc, &tasks.threads));
                }
                let wish = app
                    .page
                    .as_ref()
                    .and_then(|page| page.reader.own_report(now_ns).cpus);
                let mut spec = app.spec.clone();
                spec.cpus = page::narrowed(spec.cpus, wish, equal_share);
                AppObservation {
                    app: app.id,
                    spec,
                    effective: app.effective.clone(),
                    allowed: app.own_mask.clone(),
                    reading,
                }
            })
            .collect();
        Observation {
            tick: self.decisions,
            now_ns,
            trigger,
            usable,
            apps,
        }
    }

    /// The promises that the interval was planned by.
    fn floors(&self) -> Vec<Option<f64>> {
        let floor = |app: &App| app.planned.as_ref()?.share.floor;
        self.apps.iter().map(floor).collect()
    }

    /// Sums up what the interval gave to each application.
    fn write_books(&mut self, observation: &Observation, floors: &[Option<f64>]) {
        let profile = |app| self.parts.controller.profile(app);
        for (app, floor) in self.apps.iter_mut().zip(floors) {
            let observed = observation.apps.iter().find(|o| o.app == app.id);
            let profile = observed.and_then(|o| profile(o.app));
            app.books.write_up(Showed {
                now_ns: observation.now_ns,
                cpus: app.effective.len(),
                used_cpu_ns: observed.and_then(|o| o.reading.cpu_time_ns),
                performance: profile
                    .filter(|_| observation.trigger == Trigger::Interval)
                    .and_then(|profile| profile.performance),
                activity: profile.map_or(Activity::Active, |profile| profile.activity),
                floor: *floor,
                qos: app.spec.qos,
            });
        }
    }

    /// Looks the plan over. A plan with an error is a mistake in a policy: nothing of it is put in
    /// force, and everybody keeps what he has.
    fn may_be_enforced(&mut self, plan: &Plan, observation: &Observation) -> bool {
        let usable = self.parts.controller.usable(observation);
        let mut allowed = true;
        for finding in check(plan, observation, &usable) {
            match finding.severity {
                Severity::Warning => tracing::warn!(tick = plan.tick, "plan: {finding}"),
                Severity::Error => {
                    self.tally.error("plan");
                    tracing::error!(tick = plan.tick, "plan not enforced: {finding}");
                    allowed = false;
                }
            }
        }
        allowed
    }

    fn enforce(&mut self, plan: &Plan) {
        for action in &plan.actions {
            let app = action.app();
            match self.parts.enforcer.apply(app, action.to()) {
                Ok(()) => {}
                // It has just ended; its end will be noticed.
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    self.tally.error("enforce");
                    tracing::warn!(
                        app = app.0,
                        "{}: {}",
                        match action {
                            Action::Shrink { .. } => "not shrunk",
                            Action::Set { .. } => "not confined",
                        },
                        chain(&error)
                    );
                }
            }
        }
        for action in &plan.actions {
            self.bind_memory(action.app(), action.to());
        }
        let most = self.usable.len();
        for planned in &plan.apps {
            let Some(app) = self.apps.iter_mut().find(|a| a.id == planned.app) else {
                continue;
            };
            let acted = plan
                .actions
                .iter()
                .any(|action| action.app() == planned.app);
            if acted {
                app.books.moved(planned.cpus.len());
                match self.parts.enforcer.effective(app.id) {
                    Ok(effective) => app.effective = effective,
                    Err(error) => tracing::warn!(app = app.id.0, "{}", chain(&error)),
                }
                tracing::info!(app = app.id.0, name = %app.spec.name, cpus = %planned.cpus, "{}", planned.sentence);
            }
            let changed = app
                .planned
                .as_ref()
                .is_none_or(|before| before.cpus != planned.cpus);
            if changed && let Some(page) = &mut app.page {
                let topology = self.parts.controller.topology();
                page.writer
                    .publish(&page::allocation(&planned.cpus, &app.spec, topology, most));
            }
            app.planned = Some(planned.clone());
            tell_mismatch(app);
        }
    }
}

/// Where the time of a decision went.
#[derive(Clone, Copy, Debug)]
struct Times {
    observe_ns: u64,
    decide_ns: u64,
    enforce_ns: u64,
}

/// The CPU time that an application had used at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    at_ns: u64,
    cpu_time_ns: Option<u64>,
}

impl Used {
    /// Whether it seems to have done anything since.
    fn since(self, before: Self) -> Activity {
        let used_ns = self
            .cpu_time_ns
            .zip(before.cpu_time_ns)
            .and_then(|(now, then)| now.checked_sub(then));
        used_ns.map_or(Activity::Active, |used_ns| {
            Activity::of(used_ns, self.at_ns.saturating_sub(before.at_ns), None)
        })
    }
}

/// The CPU time of this thread at a moment.
#[derive(Clone, Copy, Debug)]
struct ThreadCpuTime(Duration);

impl ThreadCpuTime {
    fn now() -> Self {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // The kernel gives neither part below 0.
        let seconds = u64::try_from(used.tv_sec).unwrap_or_default();
        let ns = u64::try_from(used.tv_nsec).unwrap_or_default();
        Self(Duration::from_secs(seconds) + Duration::from_nanos(ns))
    }

    fn elapsed_ns(self) -> u64 {
        nanoseconds(Self::now().0.saturating_sub(self.0))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How many of these threads, or of the first of many, run or wait for a CPU.
fn runnable(proc: &ProcFs, threads: &[ThreadId]) -> u32 {
    const LOOKED_AT: usize = 64;
    let runs = |thread: &&ThreadId| proc.stat(thread.0).is_ok_and(|stat| stat.state == 'R');
    threads.iter().take(LOOKED_AT).filter(runs).map(|_| 1).sum()
}

/// Logs once when something else is in force than was planned.
fn tell_mismatch(app: &mut App) {
    let planned = app.planned.as_ref().map(|planned| &planned.cpus);
    if planned == Some(&app.effective) {
        app.told_mismatch = None;
    } else if app.told_mismatch.as_ref() != Some(&app.effective) {
        tracing::warn!(
            app = app.id.0,
            name = %app.spec.name,
            planned = %planned.map(ToString::to_string).unwrap_or_default(),
            in_force = %app.effective,
            "other CPUs are in force than planned; decisions go on from what is in force"
        );
        app.told_mismatch = Some(app.effective.clone());
    }
}
