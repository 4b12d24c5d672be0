//! Who may launch what, and who may look at what.
//!
//! The problem: many users share a machine and its daemon, and what one is given another has not.
//! A promise of 100 %, a weight of 100 or a minimum of all CPUs would take from everybody else. So
//! each request is held against a *grant*: what this user may ask for. Grants stand in the
//! configuration as rules (`[[access]]`); the first that names the user, or a group the user is in,
//! decides, else the default grant. Root and the user who runs the daemon may do everything.
//!
//! Users and groups are those that the kernel tells of the connection, at the time it was made. Names
//! in rules are looked up when the configuration is read; one that does not exist is an error, since
//! a rule that silently fits nobody may open what it was to close.

use crate::daemon::Daemon;
use crate::socket::message::Peer;
use mapper_control::ErrorReply;
use mapper_control::schema::{MemoryPolicy, OpenSetting};
use mapper_model::{AppSpec, Qos};
use nix::unistd::{Group, User};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Display;

/// A rule: whom it is for, and what they may do.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AccessRule {
    /// Users it is for, by name or number.
    pub(crate) users: Vec<String>,
    /// Groups whose members it is for, by name or number. Without users and groups it is for everybody.
    pub(crate) groups: Vec<String>,
    /// Whether they may launch programs at all.
    pub(crate) launch: bool,
    /// The highest promise they may ask for.
    #[schemars(range(min = 0.0, max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub(crate) max_qos: f64,
    /// The largest weight.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub(crate) max_weight: f64,
    /// The largest number of CPUs they may ask to have at least; 4, or `max_cpus` if that is less.
    #[schemars(range(min = 1))]
    pub(crate) max_min_cpus: Option<u32>,
    /// The most CPUs that an application of theirs is given.
    #[schemars(range(min = 1))]
    pub(crate) max_cpus: Option<u32>,
    /// How many applications they may have at a time.
    pub(crate) max_applications: u32,
    /// What they may have done with memory: "keep" it where it is, or "any" (`--mem local`, `--mem interleave`).
    pub(crate) mem: MemoryGrant,
    /// Whether an application of theirs may have its CPUs to itself, which keeps everybody else off them.
    pub(crate) isolated: bool,
    /// Whose applications they may look into: their "own", or "all".
    pub(crate) see: See,
}

/// What a user may have done with memory. While the kernel moves memory of one group, whoever writes CPUs to
/// another or moves a process waits for it (before Linux 6.18, in `cpuset_write_resmask` and
/// `cpuset_post_attach`): decisions and launches of everybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemoryGrant {
    /// It stays where it is.
    #[default]
    Keep,
    /// It may follow the CPUs, which takes the kernel as long as there is much of it.
    Any,
}

/// Whose applications a user may look into.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum See {
    /// The user's own. Of others' the name and the CPUs are told.
    #[default]
    Own,
    /// Everybody's.
    All,
}

impl Default for AccessRule {
    fn default() -> Self {
        Self {
            users: Vec::new(),
            groups: Vec::new(),
            launch: true,
            max_qos: 1.0,
            max_weight: 1.0,
            max_min_cpus: None,
            max_cpus: None,
            max_applications: 64,
            mem: MemoryGrant::Keep,
            isolated: false,
            see: See::Own,
        }
    }
}

/// The largest number of CPUs that may be asked for at least, where a rule does not say.
const MAX_MIN_CPUS: u32 = 4;

impl AccessRule {
    fn max_min_cpus(&self) -> u32 {
        let unsaid = MAX_MIN_CPUS.min(self.max_cpus.unwrap_or(MAX_MIN_CPUS));
        self.max_min_cpus.unwrap_or(unsaid)
    }
}

/// The rules with names looked up.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Access(Vec<Resolved>);

#[derive(Clone, PartialEq, Debug)]
struct Resolved {
    whom: Whom,
    rule: AccessRule,
}

/// For whom a rule is: users and groups by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Whom {
    uids: Vec<u32>,
    gids: Vec<u32>,
}

impl Whom {
    /// Looks the names in rule `number` up.
    pub(crate) fn resolve(
        number: usize,
        users: &[String],
        groups: &[String],
    ) -> Result<Self, UnknownName> {
        let unknown = |what, name: &String| UnknownName {
            number,
            what,
            name: name.clone(),
        };
        let uid = |name: &String| {
            let found = || Some(User::from_name(name).ok()??.uid.as_raw());
            name.parse()
                .ok()
                .or_else(found)
                .ok_or_else(|| unknown("user", name))
        };
        let gid = |name: &String| {
            let found = || Some(Group::from_name(name).ok()??.gid.as_raw());
            name.parse()
                .ok()
                .or_else(found)
                .ok_or_else(|| unknown("group", name))
        };
        Ok(Self {
            uids: users.iter().map(uid).collect::<Result<_, _>>()?,
            gids: groups.iter().map(gid).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the rule is for this user. One that names nobody is for everybody.
    pub(crate) fn includes(&self, peer: &Peer) -> bool {
        (self.uids.is_empty() && self.gids.is_empty())
            || self.uids.contains(&peer.uid)
            || self.gids.iter().any(|gid| peer.groups.contains(gid))
    }
}

/// A rule that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {number}: {what} {name:?} does not exist; give the name or number of one that does")]
pub(crate) struct UnknownName {
    number: usize,
    what: &'static str,
    name: String,
}

impl UnknownName {
    /// Which rule it is, counted from 1.
    pub(crate) const fn number(&self) -> usize {
        self.number
    }
}

impl Access {
    /// Looks names up.
    pub(crate) fn resolve(rules: &[AccessRule]) -> Result<Self, UnknownName> {
        let one = |(place, rule): (usize, &AccessRule)| {
            Ok(Resolved {
                whom: Whom::resolve(place + 1, &rule.users, &rule.groups)?,
                rule: rule.clone(),
            })
        };
        rules
            .iter()
            .enumerate()
            .map(one)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// What a user may do.
    fn grant(&self, peer: &Peer) -> AccessRule {
        self.0
            .iter()
            .find(|rule| rule.whom.includes(peer))
            .map_or_else(AccessRule::default, |found| found.rule.clone())
    }
}

/// That a user may not ask for so much.
fn too_much(
    peer: &Peer,
    what: &str,
    asked: &dyn Display,
    most: &dyn Display,
) -> Result<(), ErrorReply> {
    Err(ErrorReply::NotPermitted {
        message: format!(
            "{what} {asked} is more than user {} may ask for, {most}; ask for less, or have the \
             administrator raise it under [[access]]",
            peer.uid
        ),
    })
}

/// Whether a grant lets its user have one more application beside those that run.
fn one_more(grant: &AccessRule, peer: &Peer, running: usize) -> Result<(), ErrorReply> {
    if !grant.launch {
        return Err(ErrorReply::NotPermitted {
            message: format!("user {} may not launch programs here", peer.uid),
        });
    }
    if running >= grant.max_applications as usize {
        let most = &grant.max_applications;
        return too_much(peer, "one application more than", &running, most);
    }
    Ok(())
}

/// Holds a request against a grant. Returns what is left of it: the bound on CPUs may be lower, and so may a
/// promise that the user did not name, but that is the default or a rule's.
fn within(
    grant: &AccessRule,
    peer: &Peer,
    open: &BTreeSet<OpenSetting>,
    spec: &mut AppSpec,
) -> Result<(), ErrorReply> {
    let refuse =
        |what: &str, asked: &dyn Display, most: &dyn Display| too_much(peer, what, asked, most);
    if spec.qos.get() > grant.max_qos {
        spec.qos = match Qos::new(grant.max_qos) {
            Ok(most) if open.contains(&OpenSetting::Qos) => most,
            _ => return refuse("qos", &spec.qos, &grant.max_qos),
        };
    }
    if spec.weight.get() > grant.max_weight {
        return refuse("weight", &spec.weight, &grant.max_weight);
    }
    if spec.cpus.min() > grant.max_min_cpus() {
        return refuse("min-cpus", &spec.cpus.min(), &grant.max_min_cpus());
    }
    if let Some(most) = grant.max_cpus {
        let most = spec.cpus.max().map_or(most, |asked| asked.min(most));
        match mapper_model::CpuRange::new(spec.cpus.min(), Some(most)) {
            Ok(range) => spec.cpus = range,
            Err(_) => return refuse("min-cpus", &spec.cpus.min(), &most),
        }
    }
    Ok(())
}

/// Whether a grant lets memory follow the CPUs.
fn memory_within(grant: &AccessRule, peer: &Peer, memory: MemoryPolicy) -> Result<(), ErrorReply> {
    if grant.mem == MemoryGrant::Any || !memory.follows_cpus() {
        return Ok(());
    }
    Err(ErrorReply::NotPermitted {
        message: format!(
            "mem {memory}: user {} may not have memory moved, as others wait while the kernel moves it; leave \
             --mem out, or have the administrator set mem = \"any\" under [[access]]",
            peer.uid
        ),
    })
}

impl Daemon {
    /// Whether a user may do everything.
    pub(crate) fn is_privileged(peer: &Peer) -> bool {
        peer.uid == 0 || peer.uid == rustix::process::geteuid().as_raw()
    }

    /// Whether a user may launch one more program, whatever it is.
    pub(crate) fn may_launch(&self, peer: &Peer) -> Result<(), ErrorReply> {
        if Self::is_privileged(peer) {
            return Ok(());
        }
        let grant = self.parts.settings.access.grant(peer);
        let asked_for = self.apps.iter().filter(|app| app.asked_by() == peer.uid);
        let running = asked_for.count() + self.pending_of(peer.uid);
        one_more(&grant, peer, running)
    }

    /// Holds what a launch asks for against what its user may ask for; `open` is what the user left open.
    pub(crate) fn permit(
        &self,
        peer: &Peer,
        open: &BTreeSet<OpenSetting>,
        spec: &mut AppSpec,
    ) -> Result<(), ErrorReply> {
        if Self::is_privileged(peer) {
            return Ok(());
        }
        within(&self.parts.settings.access.grant(peer), peer, open, spec)
    }

    /// Holds what is asked for memory against what the user may ask for.
    pub(crate) fn permit_memory(
        &self,
        peer: &Peer,
        memory: MemoryPolicy,
    ) -> Result<(), ErrorReply> {
        if Self::is_privileged(peer) {
            return Ok(());
        }
        memory_within(&self.parts.settings.access.grant(peer), peer, memory)
    }

    /// Whether a user may have an application isolated.
    pub(crate) fn may_isolate(&self, peer: &Peer) -> Result<(), ErrorReply> {
        if Self::is_privileged(peer) || self.parts.settings.access.grant(peer).isolated {
            return Ok(());
        }
        Err(ErrorReply::NotPermitted {
            message: format!(
                "user {} may not have CPUs isolated; leave --isolated out, or have the administrator allow it \
                 under [[access]] (isolated = true)",
                peer.uid
            ),
        })
    }

    /// Whether a user may look into the applications of user `uid`.
    pub(crate) fn may_look_at(&self, peer: &Peer, uid: u32) -> bool {
        peer.uid == uid
            || Self::is_privileged(peer)
            || self.parts.settings.access.grant(peer).see == See::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{AppName, CpuRange, Weight};

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer {
            pid: 1,
            uid,
            groups: groups.into(),
        }
    }

    fn spec(qos: f64, weight: f64, min: u32, max: Option<u32>) -> AppSpec {
        AppSpec {
            qos: Qos::new(qos).unwrap(),
            weight: Weight::new(weight).unwrap(),
            cpus: CpuRange::new(min, max).unwrap(),
            ..AppSpec::named(AppName::new("a").unwrap())
        }
    }

    fn refusal(grant: &AccessRule, running: usize, mut spec: AppSpec) -> String {
        let peer = peer(1000, &[]);
        one_more(grant, &peer, running)
            .and_then(|()| within(grant, &peer, &BTreeSet::new(), &mut spec))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_first_rule_that_names_user_or_group_decides() {
        let rule = |users: &[&str], groups: &[&str], max_weight| AccessRule {
            users: users.iter().map(ToString::to_string).collect(),
            groups: groups.iter().map(ToString::to_string).collect(),
            max_weight,
            ..AccessRule::default()
        };
        let access = Access::resolve(&[
            rule(&["1001"], &[], 2.0),
            rule(&["root"], &["50"], 3.0),
            rule(&[], &[], 4.0),
        ])
        .unwrap();
        for (peer, weight) in [
            (peer(1001, &[50]), 2.0),
            (peer(1002, &[7, 50]), 3.0),
            (peer(0, &[]), 3.0),
            (peer(1003, &[7]), 4.0),
        ] {
            assert_eq!(access.grant(&peer).max_weight, weight, "{peer:?}");
        }
        assert_eq!(
            Access::default().grant(&peer(1, &[])),
            AccessRule::default()
        );
    }

    #[test]
    fn a_name_that_does_not_exist_is_an_error() {
        let rule = AccessRule {
            groups: vec!["no-such-group".into()],
            ..AccessRule::default()
        };
        let error = Access::resolve(&[AccessRule::default(), rule]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("rule 2") && text.contains("no-such-group"),
            "{text}"
        );
    }

    #[test]
    fn what_is_beyond_a_grant_is_refused_with_the_limit() {
        let grant = AccessRule {
            max_qos: 0.9,
            max_weight: 1.0,
            max_min_cpus: Some(2),
            max_applications: 3,
            ..AccessRule::default()
        };
        for (running, spec, says) in [
            (0, spec(0.95, 1.0, 1, None), "qos 0.95"),
            (0, spec(0.9, 1.5, 1, None), "weight 1.5"),
            (0, spec(0.9, 1.0, 3, None), "min-cpus 3"),
            (3, spec(0.9, 1.0, 1, None), "one application more than 3"),
        ] {
            let text = refusal(&grant, running, spec);
            assert!(text.contains(says) && text.contains("user 1000"), "{text}");
        }
        let mut fine = spec(0.9, 1.0, 2, None);
        let user = peer(1000, &[]);
        assert!(one_more(&grant, &user, 2).is_ok());
        assert!(within(&grant, &user, &BTreeSet::new(), &mut fine).is_ok());
        let closed = AccessRule {
            launch: false,
            ..AccessRule::default()
        };
        assert!(refusal(&closed, 0, spec(0.5, 1.0, 1, None)).contains("may not launch"));
    }

    #[test]
    fn applications_count_to_who_asked_for_them_whoever_their_processes_run_as() {
        use crate::fake::{Machine, root, user};
        let one = AccessRule {
            max_applications: 1,
            ..AccessRule::default()
        };
        let user = user();
        // What root has managed of the user's is no matter of the user's.
        let mut machine = Machine::with_processes_of(user.uid);
        machine.daemon.parts.settings.access = Access::resolve(std::slice::from_ref(&one)).unwrap();
        machine.adopt(&root(), "/jobs/1").unwrap();
        machine.adopt(&user, "/jobs/2").unwrap();
        // What the user has managed is, also if somebody else runs in it.
        let mut machine = Machine::with_processes_of(user.uid + 1);
        machine.daemon.parts.settings.access = Access::resolve(&[one]).unwrap();
        machine.adopt(&user, "/jobs/1").unwrap();
        let told = machine.adopt(&user, "/jobs/2").unwrap_err().to_string();
        assert!(told.contains("one application more than 1"), "{told}");
    }

    #[test]
    fn a_promise_that_the_user_left_open_is_lowered_to_what_he_may_have() {
        let grant = AccessRule {
            max_qos: 0.5,
            ..AccessRule::default()
        };
        let (user, open) = (peer(1000, &[]), [OpenSetting::Qos].into());
        // Of a rule, or the default.
        for qos in [0.95, Qos::default().get(), 0.4] {
            let mut asked = spec(qos, 1.0, 1, None);
            within(&grant, &user, &open, &mut asked).unwrap();
            assert_eq!(asked.qos.get(), qos.min(0.5));
        }
        let never = AccessRule {
            max_qos: 0.0,
            ..grant
        };
        assert!(within(&never, &user, &open, &mut spec(0.8, 1.0, 1, None)).is_err());
    }

    #[test]
    fn memory_follows_cpus_for_those_alone_whom_a_rule_lets() {
        let (user, granted) = (peer(1000, &[]), AccessRule::default());
        assert!(memory_within(&granted, &user, MemoryPolicy::Keep).is_ok());
        let any = AccessRule {
            mem: MemoryGrant::Any,
            ..granted.clone()
        };
        for memory in [MemoryPolicy::Local, MemoryPolicy::Interleave] {
            let told = memory_within(&granted, &user, memory).unwrap_err();
            let told = told.to_string();
            assert!(
                told.contains("user 1000") && told.contains("mem = \"any\""),
                "{told}"
            );
            assert!(memory_within(&any, &user, memory).is_ok());
        }
    }

    #[test]
    fn a_bound_on_cpus_holds_whatever_was_asked_for() {
        let grant = AccessRule {
            max_cpus: Some(3),
            ..AccessRule::default()
        };
        for (asked, given) in [(None, 3), (Some(8), 3), (Some(2), 2)] {
            let mut spec = spec(0.8, 1.0, 1, asked);
            within(&grant, &peer(1000, &[]), &BTreeSet::new(), &mut spec).unwrap();
            assert_eq!(spec.cpus.max(), Some(given));
        }
        assert!(refusal(&grant, 0, spec(0.8, 1.0, 4, None)).contains("min-cpus 4"));
    }
}
