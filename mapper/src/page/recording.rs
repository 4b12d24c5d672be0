//! The picture of a recording that `mapperd --record FILE` wrote. Speeds are computed from it again.

use super::live::MOST_PROGRAMS;
use super::picture::{Decision, Ended, Picture, Program, Source};
use super::timeline::{Sample, Seen, Timeline, median};
use anyhow::{Context, bail};
use mapper_control::schema::{Account, SocketLayout, TopologyStatus};
use mapper_model::{AppId, CpuSet, Observation, Plan, PlannedApp, Reason, Topology};
use mapper_pipeline::{Changes, Decided, Replay};
use mapperctl::{harmless, span};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::mem::Discriminant;
use std::path::Path;

/// Decisions that are kept of a program, the latest.
const DECISIONS: usize = 20;

/// Reads a recording. A last line that is not whole is left out: the daemon may still write it.
///
/// # Errors
/// Where the file cannot be read, or is no recording.
pub(super) fn read(path: &Path) -> anyhow::Result<Picture> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("open recording {name}"))?;
    let mut lines = BufReader::new(file).split(b'\n');
    let mut next = || {
        let line = lines.next().transpose();
        let line = line.with_context(|| format!("read {name}"))?;
        let text = line.map(|line| String::from_utf8_lossy(&line).into_owned());
        anyhow::Ok(text)
    };
    let Some(header) = next()? else {
        bail!("{name} is empty; give a file written by `mapperd --record FILE`");
    };
    let replay = Replay::start(&header, &Changes::default()).with_context(|| name.to_string())?;
    let mut story = Story::new(replay);
    let mut line = next()?;
    while let Some(text) = line {
        line = next()?;
        match story.add(&text) {
            Err(_) if line.is_none() => break,
            added => added.with_context(|| name.to_string())?,
        }
    }
    let short = path.file_name().unwrap_or(path.as_os_str());
    Ok(story.into_picture(harmless(&short.to_string_lossy())))
}

/// What was read so far.
struct Story {
    replay: Replay,
    timeline: Timeline,
    begun_ns: Option<u64>,
    lives: BTreeMap<AppId, Life>,
    /// The last decision about programs.
    last: Option<(Observation, Plan)>,
    now_ns: u64,
}

/// One program.
struct Life {
    program: Program,
    account: Account,
    begun_ns: u64,
    seen_ns: u64,
    /// Which reasons the latest decision had.
    reasons: Vec<Discriminant<Reason>>,
    speeds: Vec<f64>,
}

impl Story {
    fn new(replay: Replay) -> Self {
        Self {
            replay,
            timeline: Timeline::default(),
            begun_ns: None,
            lives: BTreeMap::new(),
            last: None,
            now_ns: 0,
        }
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let Decided {
            observation,
            recorded,
            ..
        } = self.replay.next(line)?;
        let begun_ns = *self.begun_ns.get_or_insert(observation.now_ns);
        self.now_ns = observation.now_ns.saturating_sub(begun_ns);
        let mut programs = Vec::new();
        for planned in &recorded.apps {
            programs.push(self.take_in(planned, &observation));
        }
        self.timeline.add(Sample {
            at_ns: self.now_ns,
            programs,
        });
        if !recorded.apps.is_empty() {
            self.last = Some((observation, recorded));
        }
        Ok(())
    }

    fn take_in(&mut self, planned: &PlannedApp, observation: &Observation) -> Seen {
        let profile = self.replay.controller().profile(planned.app);
        let performance = profile.and_then(|profile| profile.performance);
        let speed = performance.zip(planned.share.floor);
        let speed = speed.map(|(performance, floor)| performance.value / floor);
        let speed = speed.filter(|speed| speed.is_finite() && *speed >= 0.0);
        let mut all = observation.apps.iter();
        let spec = all.find(|app| app.app == planned.app).map(|app| &app.spec);
        let now_ns = self.now_ns;
        let life = self.lives.entry(planned.app).or_insert_with(|| Life {
            program: Program {
                id: planned.app,
                name: harmless(planned.name.as_str()),
                command: String::new(),
                cpus: planned.cpus.clone(),
                borrowed: planned.cpus.difference(&planned.own()),
                state: String::new(),
                fair_cpus: planned.share.fair,
                qos: spec.map_or_else(Default::default, |spec| spec.qos),
                measured_by: None,
                sentence: String::new(),
                decisions: Vec::new(),
            },
            account: Account {
                fewest_cpus: u32::MAX,
                ..Account::default()
            },
            begun_ns: now_ns,
            seen_ns: now_ns,
            reasons: Vec::new(),
            speeds: Vec::new(),
        });
        life.seen_ns = now_ns;
        life.speeds.extend(speed);
        life.decide(planned, now_ns);
        if let Some(performance) = performance {
            life.program.measured_by = Some(performance.source.to_string());
        }
        Seen {
            id: planned.app,
            cpus: planned.cpus.clone(),
            borrowed: planned.cpus.difference(&planned.own()),
            speed,
        }
    }

    fn into_picture(self, name: String) -> Picture {
        let machine = self.last.as_ref().map(|(observation, plan)| {
            machine(self.replay.controller().topology(), observation, plan)
        });
        let mut lives: Vec<Life> = self.lives.into_values().collect();
        let ended = lives.iter().filter(|life| life.seen_ns < self.now_ns);
        let mut ended: Vec<_> = ended.collect();
        ended.sort_by_key(|life| std::cmp::Reverse(life.seen_ns));
        let ended = ended.into_iter().map(Life::ended).collect();
        let all = lives.len();
        // Those that ran for longest, in order of arrival.
        lives.sort_by_key(|life| std::cmp::Reverse(life.seen_ns - life.begun_ns));
        lives.truncate(MOST_PROGRAMS);
        lives.sort_by_key(|life| (life.begun_ns, life.program.id));
        for life in &mut lives {
            if life.seen_ns < self.now_ns {
                life.program.state = format!("ended at {}", span(life.seen_ns));
            }
            // The map shows one moment.
            let mut at_last = self.last.iter().flat_map(|(_, plan)| &plan.apps);
            if !at_last.any(|planned| planned.app == life.program.id) {
                life.program.cpus = CpuSet::new();
            }
        }
        Picture {
            source: Source::Recording(name),
            machine,
            more_programs: all - lives.len(),
            programs: lives.into_iter().map(|life| life.program).collect(),
            timeline: self.timeline.thinned(),
            ended,
        }
    }
}

impl Life {
    fn decide(&mut self, planned: &PlannedApp, now_ns: u64) {
        let reasons = planned.share.explanation.reasons.iter();
        let reasons: Vec<_> = reasons.map(std::mem::discriminant).collect();
        let program = &mut self.program;
        let is_same = program.cpus == planned.cpus && self.reasons == reasons;
        let decision = Decision {
            when: format!("at {}", span(now_ns)),
            cpus: planned.cpus.clone(),
            sentence: harmless(&planned.sentence),
        };
        match program.decisions.first_mut() {
            Some(latest) if is_same => latest.sentence.clone_from(&decision.sentence),
            _ => {
                program.decisions.insert(0, decision);
                program.decisions.truncate(DECISIONS);
            }
        }
        self.reasons = reasons;
        program.cpus.clone_from(&planned.cpus);
        program.borrowed = planned.cpus.difference(&planned.own());
        program.state = harmless(&planned.share.state);
        program.fair_cpus = planned.share.fair;
        program.sentence = harmless(&planned.sentence);
        let account = &mut self.account;
        account.managed_ns = now_ns.saturating_sub(self.begun_ns);
        account.fewest_cpus = account.fewest_cpus.min(planned.share.cpus);
        account.most_cpus = account.most_cpus.max(planned.share.cpus);
    }

    fn ended(&self) -> Ended {
        Ended {
            id: self.program.id,
            name: self.program.name.clone(),
            command: self.program.command.clone(),
            when: format!("at {}", span(self.seen_ns)),
            ran: self.account.time_in_words(),
            speed: median(&self.speeds),
            exit_status: None,
        }
    }
}

fn machine(topology: &Topology, observation: &Observation, plan: &Plan) -> TopologyStatus {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    TopologyStatus {
        cpus: topology.cpus().len(),
        cores: count(topology.cores().len()),
        sockets: count(topology.sockets().len()),
        nodes: count(topology.nodes().len()),
        usable: observation.usable.clone(),
        free: plan.free.clone(),
        source: String::new(),
        layout: SocketLayout::of(topology),
    }
}
