//! CPU sets of systemd's units, which systemd writes itself: the next `daemon-reload` undoes what others write there.
//!
//! So `AllowedCPUs=` is set over D-Bus, at run time only (until the next boot). A bus may be slow or stuck, and
//! decisions must not wait for it: a thread makes the calls, and callers wait a bounded time.

use crate::HostError;
use mapper_model::{CpuId, CpuSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};
use zbus::{Connection, connection};

const SYSTEMD: &str = "org.freedesktop.systemd1";
const ROOT_OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// Where systemd itself listens for root, if there is no bus.
const PRIVATE_SOCKET: &str = "/run/systemd/private";

/// How long one call is waited for, and all calls of one interval together: systemd mostly answers within some milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// How long each unit is waited for while the daemon stops.
pub(super) const STOPPING: Duration = Duration::from_millis(500);

/// What was asked about a unit is not used any more after this time.
const LOOKED_FOR: Duration = Duration::from_secs(1);

/// How long the thread itself waits for an answer before it takes the connection for dead.
const GIVEN_UP: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct UnitName(String);

impl UnitName {
    pub(super) fn new(name: &str) -> Result<Self, HostError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ":_.\\@-".contains(c);
        let fits = name.len() <= 255 && name.chars().all(allowed);
        let kind = ["service", "scope", "slice"].into_iter().find(|kind| {
            name.strip_suffix(kind)
                .is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
        });
        if !fits || kind.is_none() {
            return Err(HostError::NotAdoptable(
                format!("unit {name:?}"),
                "it is no name of a unit with processes".to_owned(),
                "give one that ends in .service, .scope or .slice".to_owned(),
            ));
        }
        Ok(Self(name.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn interface(&self) -> &'static str {
        match self.0.rsplit_once('.').map(|(_, kind)| kind) {
            Some("scope") => "org.freedesktop.systemd1.Scope",
            Some("slice") => "org.freedesktop.systemd1.Slice",
            _ => "org.freedesktop.systemd1.Service",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UnitState {
    /// Its group below the mount, without a slash before it; empty while it has none.
    pub(super) group: String,
    /// Its `AllowedCPUs=`; empty if none are set.
    pub(super) allowed: CpuSet,
    /// Its `AllowedMemoryNodes=`, in the form of a CPU list; empty if none are set.
    pub(super) nodes: CpuSet,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Property {
    Cpus,
    MemoryNodes,
}

impl Property {
    const fn name(self) -> &'static str {
        match self {
            Self::Cpus => "AllowedCPUs",
            Self::MemoryNodes => "AllowedMemoryNodes",
        }
    }

    const fn action(self) -> &'static str {
        match self {
            Self::Cpus => "set AllowedCPUs of",
            Self::MemoryNodes => "set AllowedMemoryNodes of",
        }
    }
}

#[derive(Default)]
pub(super) enum Systemd {
    #[default]
    NeverAsked,
    Thread(Sender<Job>),
    /// Answers before the caller waits, so that no answer is late by chance.
    #[cfg(test)]
    Scripted(Scripted),
}

impl std::fmt::Debug for Systemd {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Systemd").finish_non_exhaustive()
    }
}

pub(super) enum Job {
    /// The answer is used until this time.
    Look(UnitName, Instant, Sender<Result<UnitState, String>>),
    Set(UnitName, Property, CpuSet, Sender<Result<(), String>>),
}

#[derive(Debug)]
pub(super) struct Outstanding(Receiver<Result<(), String>>);

#[derive(Debug)]
pub(super) enum Change {
    Done,
    Late(Outstanding),
}

impl Outstanding {
    /// The answer, if it has come: what systemd said, or that its thread gave up.
    pub(super) fn answer(&self) -> Option<Result<(), String>> {
        match self.0.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(thread_ended())),
        }
    }
}

/// What systemd was asked about a unit.
#[derive(Debug)]
pub(super) struct Look {
    unit: UnitName,
    since: Instant,
    answered: Receiver<Result<UnitState, String>>,
}

impl Look {
    pub(super) fn is_at(&self, unit: &UnitName) -> bool {
        self.unit == *unit
    }

    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() > LOOKED_FOR
    }

    /// [`HostError::SystemdLate`] if the answer does not come within this time.
    pub(super) fn answer(&self, patience: Duration) -> Result<UnitState, HostError> {
        match self.answered.recv_timeout(patience) {
            Ok(Ok(state)) => Ok(state),
            Ok(Err(why)) => Err(failed("look at", &self.unit, why)),
            Err(RecvTimeoutError::Timeout) => {
                let (unit, waited) = (self.unit.0.clone(), self.since.elapsed());
                Err(HostError::SystemdLate("look at", unit, waited.as_millis()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(failed("look at", &self.unit, thread_ended()))
            }
        }
    }
}

impl Systemd {
    pub(super) fn look(&mut self, unit: &UnitName) -> Result<Look, HostError> {
        let (answer, answered) = channel();
        let since = Instant::now();
        self.submit(Job::Look(unit.clone(), since + LOOKED_FOR, answer), unit)?;
        Ok(Look {
            unit: unit.clone(),
            since,
            answered,
        })
    }

    /// Sets the CPUs or memory nodes of a unit; an empty set lifts what was set.
    pub(super) fn set(
        &mut self,
        unit: &UnitName,
        property: Property,
        cpus: &CpuSet,
        patience: Duration,
    ) -> Result<Change, HostError> {
        let (answer, answered) = channel();
        self.submit(Job::Set(unit.clone(), property, cpus.clone(), answer), unit)?;
        match answered.recv_timeout(patience) {
            Ok(Ok(())) => Ok(Change::Done),
            Ok(Err(why)) => Err(failed(property.action(), unit, why)),
            Err(RecvTimeoutError::Timeout) => Ok(Change::Late(Outstanding(answered))),
            Err(RecvTimeoutError::Disconnected) => {
                Err(failed(property.action(), unit, thread_ended()))
            }
        }
    }

    fn submit(&mut self, job: Job, unit: &UnitName) -> Result<(), HostError> {
        if let Self::NeverAsked = self {
            let (jobs, arriving) = channel();
            std::thread::Builder::new()
                .name("systemd".to_owned())
                .spawn(move || serve(&arriving))
                .map_err(|error| failed("ask for", unit, error.to_string()))?;
            *self = Self::Thread(jobs);
        }
        let taken = match self {
            Self::NeverAsked => false,
            Self::Thread(jobs) => jobs.send(job).is_ok(),
            #[cfg(test)]
            Self::Scripted(scripted) => {
                scripted.serve(job);
                true
            }
        };
        match taken {
            true => Ok(()),
            false => Err(failed("ask for", unit, thread_ended())),
        }
    }
}

pub(super) fn failed(action: &'static str, unit: &UnitName, why: String) -> HostError {
    HostError::Systemd(action, unit.0.clone(), why)
}

fn thread_ended() -> String {
    "its thread has ended".to_owned()
}

fn serve(jobs: &Receiver<Job>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return;
    };
    let mut connection = None;
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Look(_, until, _) if Instant::now() > until => {}
            Job::Look(unit, _, answer) => {
                let state = with(&mut connection, async |systemd| look(systemd, &unit).await);
                let _ = answer.send(runtime.block_on(state));
            }
            Job::Set(unit, property, cpus, answer) => {
                let done = with(&mut connection, async |systemd| {
                    set(systemd, &unit, property, &cpus).await
                });
                let _ = answer.send(runtime.block_on(done));
            }
        }
    }
}

async fn with<T>(
    connection: &mut Option<Connection>,
    call: impl AsyncFnOnce(&Connection) -> zbus::Result<T>,
) -> Result<T, String> {
    let attempt = async {
        let systemd = match connection.take() {
            Some(systemd) => systemd,
            None => connect().await?,
        };
        let message = call(&systemd).await;
        // An error that systemd replies is no fault of the connection.
        if message.is_ok() || matches!(message, Err(zbus::Error::MethodError(..))) {
            *connection = Some(systemd);
        }
        message
    };
    match tokio::time::timeout(GIVEN_UP, attempt).await {
        Ok(message) => message.map_err(|error| match error {
            zbus::Error::MethodError(name, Some(message), _) => format!("{message} ({name})"),
            other => other.to_string(),
        }),
        Err(_elapsed) => Err(format!("no answer within {} s", GIVEN_UP.as_secs())),
    }
}

/// By the system's bus; where none runs, straight to systemd.
async fn connect() -> zbus::Result<Connection> {
    let bus = connection::Builder::system()?.build().await;
    let Err(no_bus) = bus else {
        return bus;
    };
    let Ok(stream) = tokio::net::UnixStream::connect(PRIVATE_SOCKET).await else {
        return Err(zbus::Error::Failure(format!(
            "{no_bus}; if the daemon's unit keeps systemd from it, install the drop-in adopt.conf (see \
             \"Manage what runs already\" in operating.md)"
        )));
    };
    connection::Builder::unix_stream(stream).p2p().build().await
}

async fn manager<B>(systemd: &Connection, method: &str, body: &B) -> zbus::Result<zbus::Message>
where
    B: serde::Serialize + zbus::zvariant::DynamicType,
{
    systemd
        .call_method(Some(SYSTEMD), ROOT_OBJECT, Some(MANAGER), method, body)
        .await
}

async fn look(systemd: &Connection, unit: &UnitName) -> zbus::Result<UnitState> {
    let reply = manager(systemd, "GetUnit", &(unit.as_str(),)).await?;
    let object: OwnedObjectPath = reply.body().deserialize()?;
    let group: String = property(systemd, &object, unit, "ControlGroup").await?;
    let allowed: Vec<u8> = property(systemd, &object, unit, Property::Cpus.name()).await?;
    let nodes: Vec<u8> = property(systemd, &object, unit, Property::MemoryNodes.name()).await?;
    Ok(UnitState {
        group: group.trim_start_matches('/').to_owned(),
        allowed: from_bits(&allowed),
        nodes: from_bits(&nodes),
    })
}

async fn property<T: TryFrom<OwnedValue>>(
    systemd: &Connection,
    object: &OwnedObjectPath,
    unit: &UnitName,
    name: &str,
) -> zbus::Result<T> {
    let reply = systemd
        .call_method(
            Some(SYSTEMD),
            object,
            Some("org.freedesktop.DBus.Properties"),
            "Get",
            &(unit.interface(), name),
        )
        .await?;
    let value: OwnedValue = reply.body().deserialize()?;
    T::try_from(value).map_err(|_| {
        zbus::Error::Failure(format!("property {name} is of another type than expected"))
    })
}

async fn set(
    systemd: &Connection,
    unit: &UnitName,
    property: Property,
    cpus: &CpuSet,
) -> zbus::Result<()> {
    let at_run_time_only = true;
    let properties = vec![(property.name(), Value::from(to_bits(cpus)))];
    let change = (unit.as_str(), at_run_time_only, properties);
    manager(systemd, "SetUnitProperties", &change).await?;
    Ok(())
}

/// A set as systemd takes it: one bit for each CPU, the lowest first.
fn to_bits(cpus: &CpuSet) -> Vec<u8> {
    let words = cpus.as_words().iter();
    let mut bits: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    bits.truncate(
        bits.iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1),
    );
    bits
}

fn from_bits(bits: &[u8]) -> CpuSet {
    const MOST: u32 = 1024;
    let all = (0..MOST * 8).zip(
        bits.iter()
            .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1)),
    );
    all.filter(|(_, bit)| *bit == 1)
        .map(|(cpu, _)| CpuId(cpu))
        .collect()
}

#[cfg(test)]
pub(super) fn outstanding() -> (Sender<Result<(), String>>, Outstanding) {
    let (tell, message) = channel();
    (tell, Outstanding(message))
}

#[cfg(test)]
pub(super) type Script = Box<dyn FnMut(&UnitName, &CpuSet) -> Option<Result<(), String>> + Send>;

#[cfg(test)]
pub(super) struct Scripted {
    state: UnitState,
    script: Script,
    unanswered: Vec<Sender<Result<(), String>>>,
    /// Each look is answered later, if there is a list.
    looks: Option<Vec<Sender<Result<UnitState, String>>>>,
}

#[cfg(test)]
impl Scripted {
    fn serve(&mut self, job: Job) {
        match job {
            Job::Look(_, _, answer) => match &mut self.looks {
                Some(looks) => looks.push(answer),
                None => {
                    let _ = answer.send(Ok(self.state.clone()));
                }
            },
            Job::Set(unit, _, cpus, answer) => match (self.script)(&unit, &cpus) {
                Some(message) => {
                    let _ = answer.send(message);
                }
                None => self.unanswered.push(answer),
            },
        }
    }
}

#[cfg(test)]
impl Systemd {
    pub(super) fn scripted(state: UnitState, script: Script) -> Self {
        Self::Scripted(Scripted {
            state,
            script,
            unanswered: Vec::new(),
            looks: None,
        })
    }

    /// From here on looks are answered by [`answer_looks`](Self::answer_looks).
    pub(super) fn answer_late(&mut self) {
        if let Self::Scripted(scripted) = self {
            scripted.looks = Some(Vec::new());
        }
    }

    /// Answers the looks that wait, and returns how many there were.
    pub(super) fn answer_looks(&mut self) -> usize {
        let Self::Scripted(Scripted { looks, state, .. }) = self else {
            return 0;
        };
        let looks = looks.as_mut().map(std::mem::take).unwrap_or_default();
        let sent = looks
            .iter()
            .filter(|look| look.send(Ok(state.clone())).is_ok());
        sent.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_one_bit_for_each_cpu_and_comes_back() {
        for (list, bits) in [
            ("", &[][..]),
            ("0", &[1]),
            ("1,3,8", &[0b1010, 1]),
            ("16", &[0, 0, 1]),
        ] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(to_bits(&cpus), bits, "{list}");
            assert_eq!(from_bits(bits), cpus, "{list}");
        }
    }

    #[test]
    fn only_names_of_units_with_processes_are_taken() {
        let escaped = "a@b\\x2d.service";
        for name in ["a.service", "session-3.scope", "user-1000.slice", escaped] {
            assert_eq!(UnitName::new(name).unwrap().as_str(), name);
        }
        let long = format!("{}.service", "a".repeat(300));
        let names = [
            "",
            "a",
            "a.mount",
            ".service",
            "a b.service",
            "../a.service",
        ];
        for name in names.into_iter().chain([&*long]) {
            let error = UnitName::new(name).unwrap_err();
            error.says(&[".service, .scope or .slice"]);
        }
    }
}
