//! All applications: routes each reading to its application and keeps them in order of arrival.

use crate::app::{AppMonitor, Basis, Moment, Surroundings};
use crate::config::CharacteriserConfig;
use mapper_model::{AppId, MachineProfile, Observation, Profile, Topology, Trigger};
use serde::{Deserialize, Serialize};

/// The memory of a characteriser: serialises, for restarts and for replays from the middle.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CharacteriserState {
    /// In the order of the last observation.
    apps: Vec<AppMonitor>,
    /// Time of the last regular reading.
    last_interval_ns: Option<u64>,
}

/// Turns observations into profiles. See the [crate](crate).
#[derive(Clone, Debug, Default)]
pub struct Characteriser {
    config: CharacteriserConfig,
    state: CharacteriserState,
}

impl Characteriser {
    /// A characteriser without any observation.
    pub fn new(config: CharacteriserConfig) -> Self {
        Self {
            config,
            state: CharacteriserState::default(),
        }
    }

    /// Processes an observation. An unknown application is new; a missing one has left and is
    /// forgotten. With [`Trigger::Membership`] nothing counts as a sample, nor do readings of those that
    /// ran on CPUs [with others](Basis::CpusWithOthers).
    pub fn observe(
        &mut self,
        observation: &Observation,
        topology: &Topology,
        machine: &MachineProfile,
        basis: impl Fn(AppId) -> Basis,
    ) {
        self.align(observation);
        let moment = Moment {
            tick: observation.tick,
            now_ns: observation.now_ns,
            trigger: observation.trigger,
            interval_ns: self
                .state
                .last_interval_ns
                .and_then(|last| observation.now_ns.checked_sub(last)),
        };
        let surroundings = Surroundings {
            topology,
            machine,
            config: &self.config,
        };
        for (characteriser, app) in self.state.apps.iter_mut().zip(&observation.apps) {
            characteriser.observe(app, basis(app.app), moment, surroundings);
        }
        if observation.trigger == Trigger::Interval {
            self.state.last_interval_ns = Some(observation.now_ns);
        }
    }

    /// The profile of each application, in the order of the last observation.
    pub fn profiles(&self) -> impl ExactSizeIterator<Item = &Profile> {
        self.state.apps.iter().map(|app| &app.profile)
    }

    /// The profile of one application.
    pub fn profile(&self, app: AppId) -> Option<&Profile> {
        let apps = &self.state.apps;
        // The daemon observes them in the order of their numbers.
        let place = apps.binary_search_by_key(&app, |known| known.profile.app);
        let place = place.or_else(|_| {
            apps.iter()
                .position(|known| known.profile.app == app)
                .ok_or(())
        });
        place.ok().map(|place| &apps[place].profile)
    }

    /// The settings.
    pub const fn config(&self) -> &CharacteriserConfig {
        &self.config
    }

    /// Its memory.
    pub const fn state(&self) -> &CharacteriserState {
        &self.state
    }

    /// Continues from a saved state.
    pub fn restore(&mut self, state: CharacteriserState) {
        self.state = state;
    }

    /// Brings the applications into the order of the observation: adds new ones, drops those that left.
    fn align(&mut self, observation: &Observation) {
        let apps = &mut self.state.apps;
        for (place, app) in observation.apps.iter().enumerate() {
            if apps.get(place).is_some_and(|a| a.profile.app == app.app) {
                continue;
            }
            // After one has left, all that follow are found one place behind.
            match (place..apps.len()).find(|&i| apps[i].profile.app == app.app) {
                Some(found) => apps.swap(place, found),
                None => apps.insert(place, AppMonitor::new(app.app)),
            }
        }
        apps.truncate(observation.apps.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;
    use mapper_model::{
        AppName, AppObservation, AppSpec, CounterValue, Counters, CpuSet, Event, PerformanceSource,
        PhaseChange, Reading, RuntimeProgress, ThreadId, ThreadReading,
    };

    const SECOND: u64 = 1_000_000_000;

    /// A machine of 1 GHz on which applications run at any rate.
    struct Machine {
        characteriser: Characteriser,
        topology: Topology,
        profile: MachineProfile,
        tick: u64,
        now_ns: u64,
        counted: u64,
    }

    impl Machine {
        fn new() -> Self {
            Self {
                characteriser: Characteriser::new(CharacteriserConfig::default()),
                topology: Topology::regular(Shape {
                    sockets: 2,
                    cores_per_socket: 4,
                    threads_per_core: 1,
                }),
                profile: MachineProfile {
                    clock_hz: 1e9,
                    ..MachineProfile::default()
                },
                tick: 0,
                now_ns: 5 * SECOND,
                counted: 0,
            }
        }

        fn observe(&mut self, trigger: Trigger, after_ns: u64, apps: Vec<AppObservation>) {
            self.tick += 1;
            self.now_ns += after_ns;
            let observation = Observation {
                tick: self.tick,
                now_ns: self.now_ns,
                trigger,
                usable: self.topology.cpus().clone(),
                apps,
            };
            self.characteriser
                .observe(&observation, &self.topology, &self.profile, |_| {
                    Basis::OwnCpus
                });
        }

        /// One application that retired `ipc` instructions per nominal cycle in the last `after_ns`.
        fn run(&mut self, trigger: Trigger, after_ns: u64, cpus: u32, ipc: f64) -> &Profile {
            self.counted += (after_ns as f64 * ipc) as u64;
            let app = counting(1, cpus, self.counted, self.now_ns + after_ns);
            self.observe(trigger, after_ns, vec![app]);
            self.first()
        }

        fn first(&self) -> &Profile {
            self.characteriser.profile(AppId(1)).unwrap()
        }

        /// A machine on which one application ran for three intervals.
        fn warm(cpus: u32, ipc: f64) -> Self {
            let mut machine = Self::new();
            for _ in 0..3 {
                machine.run(Trigger::Interval, SECOND, cpus, ipc);
            }
            machine
        }

        /// A reading of the first application that was lost.
        fn lose(&mut self, trigger: Trigger, after_ns: u64, cpus: u32) {
            self.observe(trigger, after_ns, vec![app(1, cpus, Reading::default())]);
        }

        /// Some intervals of one application in a region that retires `ipc`; the profile after each.
        fn in_region(&mut self, times: usize, region: u64, cpus: u32, ipc: f64) -> Vec<Profile> {
            (0..times)
                .map(|_| in_region(self, region, cpus, ipc, 0.0))
                .collect()
        }
    }

    fn app(id: u64, cpus: u32, reading: Reading) -> AppObservation {
        AppObservation {
            app: AppId(id),
            spec: AppSpec::named(AppName::new(&format!("a{id}")).unwrap()),
            effective: CpuSet::first(cpus),
            allowed: None,
            fixed: None,
            reading,
        }
    }

    fn counting(id: u64, cpus: u32, instructions: u64, enabled_ns: u64) -> AppObservation {
        let mut counters = Counters::default();
        // Two cycles an instruction: no core is busy.
        for (event, value) in [
            (Event::Instructions, instructions),
            (Event::Cycles, 2 * instructions),
        ] {
            let value = CounterValue {
                value,
                enabled_ns,
                running_ns: enabled_ns,
            };
            counters.set(event, value);
        }
        let thread = ThreadReading {
            tid: ThreadId(1),
            started: 1,
            counters,
        };
        let reading = Reading {
            threads: vec![thread],
            ..Reading::default()
        };
        app(id, cpus, reading)
    }

    #[test]
    fn the_first_reading_is_no_sample_and_the_second_is() {
        let mut machine = Machine::new();
        assert_eq!(machine.run(Trigger::Interval, SECOND, 2, 1.0).samples, 0);
        let profile = machine.run(Trigger::Interval, SECOND, 2, 1.5);
        assert_eq!(profile.samples, 1);
        let performance = profile.performance.unwrap();
        assert_eq!(performance.source, PerformanceSource::Ipc);
        assert!((performance.value - 1.5).abs() < 1e-6);
        assert_eq!(profile.curve.at(2).unwrap().perf, performance.value);
    }

    #[test]
    fn a_change_of_cpus_by_the_decision_after_a_reading_gives_a_sample_at_the_new_count() {
        let mut machine = Machine::warm(2, 0.4);
        let profile = machine.run(Trigger::Interval, SECOND, 4, 0.8);
        assert_eq!(profile.measured_cpus, 4);
        assert!((profile.curve.at(4).unwrap().perf - 0.8).abs() < 1e-6);
        assert!((profile.curve.at(2).unwrap().perf - 0.4).abs() < 1e-6);
        assert_eq!(profile.phase, PhaseChange::Same);
    }

    #[test]
    fn a_membership_step_is_no_sample_and_the_next_interval_starts_from_its_reading() {
        let mut machine = Machine::warm(4, 2.0);
        let before = machine.first().clone();
        let profile = machine.run(Trigger::Membership, SECOND / 2, 4, 2.0);
        assert_eq!(profile.samples, before.samples);
        assert_eq!(profile.performance, None);
        let profile = machine.run(Trigger::Interval, SECOND / 2, 2, 1.0);
        assert!((profile.curve.at(2).unwrap().perf - 1.0).abs() < 1e-6);
        assert!((profile.curve.at(4).unwrap().perf - 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_membership_step_without_a_reading_voids_the_interval() {
        let mut machine = Machine::warm(4, 2.0);
        machine.lose(Trigger::Membership, SECOND / 2, 4);
        let profile = machine.run(Trigger::Interval, SECOND / 2, 2, 1.0);
        assert_eq!(profile.performance, None);
        let profile = machine.run(Trigger::Interval, SECOND, 2, 1.0);
        assert!(profile.performance.is_some());
    }

    #[test]
    fn a_remnant_of_an_interval_is_measured_together_with_the_next() {
        let mut machine = Machine::warm(2, 1.0);
        machine.run(Trigger::Membership, SECOND * 9 / 10, 2, 1.0);
        let profile = machine.run(Trigger::Interval, SECOND / 10, 2, 7.0);
        assert_eq!(profile.performance, None);
        let profile = machine.run(Trigger::Interval, SECOND, 2, 1.0);
        let expected = (0.1 * 7.0 + 1.0) / 1.1;
        assert!((profile.performance.unwrap().value - expected).abs() < 1e-6);
    }

    #[test]
    fn a_lost_reading_is_bridged_unless_the_count_changed_meanwhile() {
        for (later, measured) in [(2, true), (4, false)] {
            let mut machine = Machine::warm(2, 1.0);
            machine.counted += SECOND;
            machine.lose(Trigger::Interval, SECOND, 2);
            let profile = machine.run(Trigger::Interval, SECOND, later, 1.0);
            assert_eq!(profile.performance.is_some(), measured);
        }
    }

    #[test]
    fn runtime_progress_takes_precedence_and_clears_what_ipc_had_measured() {
        use PerformanceSource::{Ipc, Runtime};
        let mut machine = Machine::new();
        let mut sources = Vec::new();
        for second in 0..9u64 {
            let now_ns = machine.now_ns + SECOND;
            let mut observed = counting(1, 2, second * SECOND, now_ns);
            if second >= 3 {
                observed.reading.runtime = Some(RuntimeProgress {
                    regions: 100 * (second - 2),
                    last_ns: now_ns,
                    ..RuntimeProgress::default()
                });
            }
            machine.observe(Trigger::Interval, SECOND, vec![observed]);
            sources.push(machine.first().performance.map(|p| p.source));
        }
        assert_eq!(sources[0], None);
        assert_eq!(sources[1..6], [Some(Ipc); 5]);
        assert_eq!(sources[6..], [Some(Runtime); 3]);
        let profile = machine.first();
        assert_eq!(profile.epoch, 2);
        assert!((profile.curve.at(2).unwrap().perf - 100.0).abs() < 1e-6);
    }

    /// One application in a region at a time that retires `ipc` and waits a part of each second.
    fn in_region(machine: &mut Machine, region: u64, cpus: u32, ipc: f64, waited: f64) -> Profile {
        machine.counted += (SECOND as f64 * ipc) as u64;
        let now_ns = machine.now_ns + SECOND;
        let mut observed = counting(1, cpus, machine.counted, now_ns);
        // Its one thread is always on a CPU; the region never ends, so there is no progress to go by.
        observed.reading.cpu_time_ns = Some(now_ns);
        observed.reading.runtime = Some(RuntimeProgress {
            region,
            wait_ns: Some((now_ns as f64 * waited) as u64),
            ..RuntimeProgress::default()
        });
        machine.observe(Trigger::Interval, SECOND, vec![observed]);
        machine.first().clone()
    }

    #[test]
    fn instructions_of_spinning_do_not_count_as_performance() {
        let mut machine = Machine::new();
        let mut profile = in_region(&mut machine, 1, 1, 1.0, 0.25);
        for _ in 0..3 {
            profile = in_region(&mut machine, 1, 1, 1.0, 0.25);
        }
        assert!((profile.spun.unwrap() - 0.25).abs() < 1e-6);
        let performance = profile.performance.unwrap();
        assert_eq!(performance.source, PerformanceSource::Ipc);
        // A spinning loop retires at most 0.6 instructions a cycle, a quarter of the time.
        assert!((performance.value - 0.85).abs() < 1e-6, "{performance:?}");
    }

    #[test]
    fn threads_that_the_readings_do_not_show_are_counted_from_the_runtime_or_not_at_all() {
        // One thread shows, on its CPU all the time; a second waits asleep, and half the time counts.
        let spun = |threads, shown: bool| {
            let mut machine = Machine::new();
            let mut profile = None;
            for _ in 0..4 {
                let now_ns = machine.now_ns + SECOND;
                let mut observed = counting(1, 2, now_ns, now_ns);
                observed.reading.cpu_time_ns = Some(now_ns);
                if !shown {
                    observed.reading.threads.clear();
                }
                observed.reading.runtime = Some(RuntimeProgress {
                    wait_ns: Some(now_ns / 2),
                    threads,
                    ..RuntimeProgress::default()
                });
                machine.observe(Trigger::Interval, SECOND, vec![observed]);
                profile = machine.first().spun;
            }
            profile
        };
        assert_eq!(spun(2, true), Some(0.0));
        assert_eq!(spun(1, true), Some(0.5));
        assert_eq!(spun(2, false), None);
    }

    #[test]
    fn a_phase_that_returns_brings_back_what_was_measured_in_it() {
        let mut machine = Machine::new();
        let mut run = |region, cpus, ipc| {
            let profiles = machine.in_region(12, region, cpus, ipc);
            let announced = profiles.iter().map(|p| p.phase);
            let announced = announced.filter(|p| *p != PhaseChange::Same);
            (announced.collect(), profiles.last().unwrap().clone())
        };
        // The first region scales, the second does not.
        run(0xa, 2, 1.0);
        let (_, first) = run(0xa, 4, 2.0);
        assert_eq!(first.region_phase.unwrap().count, 1);
        let (announced, second): (Vec<_>, _) = run(0xb, 4, 0.5);
        assert_eq!(announced, [PhaseChange::Changed]);
        assert_eq!(second.region_phase.unwrap().number, 2);
        run(0xb, 2, 0.5);
        let (announced, back) = run(0xa, 2, 1.0);
        assert_eq!(announced, [PhaseChange::Returned]);
        let at = |profile: &Profile, cpus| profile.curve.at(cpus).map(|point| point.perf);
        assert_eq!(back.region_phase.unwrap().number, 1);
        assert_eq!(back.region_phase.unwrap().count, 2);
        assert!((at(&back, 4).unwrap() - 2.0).abs() < 1e-6, "{back:?}");
        assert!(!back.curve.at(4).unwrap().carried_over);
        // And the second again: it is flat.
        let (_, back) = run(0xb, 2, 0.5);
        assert!((at(&back, 4).unwrap() - 0.5).abs() < 1e-6, "{back:?}");
        assert_eq!(back.region_phase.unwrap().count, 2);
    }

    #[test]
    fn a_change_that_shows_before_its_region_is_filed_under_the_new_phase() {
        let mut machine = Machine::new();
        machine.in_region(12, 0xa, 4, 2.0);
        // The region that completed last is still of the old phase.
        let early = in_region(&mut machine, 0xa, 4, 0.5, 0.0);
        assert_eq!(early.phase, PhaseChange::Changed);
        machine.in_region(12, 0xb, 4, 0.5);
        let back = machine.in_region(4, 0xa, 4, 2.0).pop().unwrap();
        assert_eq!(back.phase, PhaseChange::Returned);
        let point = back.curve.at(4).unwrap();
        assert!((point.perf - 2.0).abs() < 1e-6, "{point:?}");
        assert!(!point.carried_over);
    }

    #[test]
    fn a_change_that_is_none_of_regions_is_reported_and_judged() {
        let mut machine = Machine::new();
        let seen = |machine: &mut Machine, regions: &[u64], ipc| -> Vec<(PhaseChange, bool)> {
            let one = |region: &u64| machine.in_region(1, *region, 4, ipc).remove(0);
            let profiles = regions.iter().map(one);
            profiles
                .map(|p| (p.phase, p.performance.is_some()))
                .collect()
        };
        let (same, changed) = (PhaseChange::Same, PhaseChange::Changed);
        machine.in_region(12, 0xa, 4, 2.0);
        assert_eq!(
            seen(&mut machine, &[0xb, 0xb, 0xa, 0xa], 1.0),
            [(same, false), (same, false), (changed, true), (same, true)]
        );
        // Nor is it withheld for ever where no region shows any more.
        machine.in_region(12, 0xa, 4, 1.0);
        assert_eq!(
            seen(&mut machine, &[0xc, 0, 0], 2.0),
            [(same, false), (changed, true), (same, true)]
        );
    }

    #[test]
    fn a_phase_of_the_same_speed_is_measured_anew() {
        let mut machine = Machine::new();
        machine.in_region(12, 0xa, 2, 1.0);
        machine.in_region(12, 0xa, 4, 2.0);
        let seen = machine.in_region(12, 0xb, 4, 2.0);
        let changed = |p: &&Profile| p.phase == PhaseChange::Changed;
        assert_eq!(seen.iter().filter(changed).count(), 1);
        let curve = &seen[11].curve;
        assert!(curve.at(2).unwrap().carried_over);
        assert!(!curve.at(4).unwrap().carried_over);
    }

    #[test]
    fn applications_keep_their_memory_when_others_come_and_go() {
        let mut machine = Machine::new();
        let observe = |machine: &mut Machine, ids: &[u64]| {
            let at = machine.now_ns + SECOND;
            let apps = ids
                .iter()
                .map(|&id| counting(id, 1, at * id / 8, at))
                .collect();
            machine.observe(Trigger::Interval, SECOND, apps);
            let profiles = machine.characteriser.profiles();
            assert!(profiles.map(|p| p.app.0).eq(ids.iter().copied()));
        };
        observe(&mut machine, &[1, 2, 3, 4]);
        observe(&mut machine, &[1, 2, 3, 4]);
        observe(&mut machine, &[2, 4, 5]);
        observe(&mut machine, &[4, 2, 5]);
        let samples = |id| machine.characteriser.profile(AppId(id)).map(|p| p.samples);
        assert_eq!(
            [1, 2, 3, 4, 5].map(samples),
            [None, Some(3), None, Some(3), Some(1)]
        );
    }

    #[test]
    fn a_saved_state_that_is_read_back_continues_the_same() {
        let mut machine = Machine::new();
        for i in 0..8 {
            machine.run(Trigger::Interval, SECOND, 2, 1.0 + 0.01 * f64::from(i % 3));
        }
        let text = serde_json::to_string(machine.characteriser.state()).unwrap();
        let mut other = Characteriser::new(CharacteriserConfig::default());
        other.restore(serde_json::from_str(&text).unwrap());
        assert_eq!(other.state(), machine.characteriser.state());
    }
}
