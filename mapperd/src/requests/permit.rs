//! Permission checks: whether a client may have what it requests.
//!
//! The kernel provides the credentials of the connection. Requests of ordinary users are checked against their grant
//! ([`access`](crate::config::access)). Root and the daemon's user are privileged.

use crate::config::access::{AccessRule, MemoryGrant, See};
use crate::config::accounts::is_privileged;
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::config::types::Audience;
use crate::machine::Machine;
use crate::machine::process;
use crate::registry::Registry;
use crate::registry::app::App;
use mapper_control::ErrorReply;
use mapper_control::schema::MemoryPolicy;
use mapper_host::cpus::Usable;
use mapper_host::enforce::{HeldUp, MemoryBinding};
use mapper_model::{AppSpec, CpuRange, Qos};
use rustix::io::Errno;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::time::Instant;

/// Applications that may be managed at a time.
const APPLICATIONS: usize = 1024;

/// Of these, reserved for root and the daemon's user.
const RESERVED: usize = 64;

pub(crate) const fn not_permitted(message: String) -> ErrorReply {
    ErrorReply::NotPermitted { message }
}

pub(crate) const fn invalid(message: String) -> ErrorReply {
    ErrorReply::InvalidParameter { message }
}

pub(crate) const fn internal(message: String) -> ErrorReply {
    ErrorReply::Internal { message }
}

/// How long newcomers, and who asks which application a process belongs to, wait while the kernel holds up moves.
pub(crate) const HELD_UP_AT_MOST: Duration = Duration::from_secs(5);

/// Whether one that waits since then is refused. Where ordinary moves follow each other, its turn comes.
pub(crate) fn has_waited(since: Instant, held: &HeldUp) -> bool {
    since.elapsed() >= HELD_UP_AT_MOST && held.is_long()
}

/// No process can join a group now.
pub(crate) fn held_up(held: &HeldUp) -> ErrorReply {
    let HeldUp {
        change, lasting, ..
    } = held;
    let s = lasting.as_secs();
    ErrorReply::Unavailable {
        message: format!(
            "the kernel has held up a change of control groups for {s} s ({change}); wait, or end the program \
             that it waits for"
        ),
    }
}

pub(crate) fn no_process(pid: u32) -> ErrorReply {
    invalid(format!("pid {pid}: no such process"))
}

pub(crate) fn open_process(pid: u32) -> Result<OwnedFd, ErrorReply> {
    process::descriptor(pid).map_err(|error| match error {
        Errno::SRCH => no_process(pid),
        error => internal(format!("pid {pid}: pidfd_open: {error}")),
    })
}

/// What a client may do.
pub(crate) struct Permit<'a> {
    pub(crate) peer: &'a Peer,
    audience: Audience,
    /// `None`: everything.
    grant: Option<AccessRule>,
}

impl<'a> Permit<'a> {
    pub(crate) fn of(peer: &'a Peer, settings: &Settings) -> Self {
        Self {
            peer,
            audience: settings.audience,
            grant: (!is_privileged(peer.uid)).then(|| settings.access.grant(peer)),
        }
    }

    /// Whether this client may have one more application managed.
    pub(crate) fn check_caller(
        &self,
        registry: &Registry,
        machine: &Machine,
    ) -> Result<(), ErrorReply> {
        let (uid, owner) = (self.peer.uid, rustix::process::geteuid().as_raw());
        if self.audience == Audience::Owner && uid != owner {
            return Err(not_permitted(format!(
                "this daemon serves user {owner} alone, not user {uid}"
            )));
        }
        let own = registry.count_of(self.peer.account, &machine.accounts);
        self.one_more(own)?;
        self.has_room(registry.count(), own)
    }

    /// Whether one more application can be managed that a rule asks for: no place that is reserved, and nobody's more than
    /// half of what is free.
    pub(crate) fn check_room_by_rule(
        &self,
        registry: &Registry,
        machine: &Machine,
    ) -> Result<(), ErrorReply> {
        let own = match is_privileged(self.peer.account) {
            true => 0,
            false => registry.count_of(self.peer.account, &machine.accounts),
        };
        self.has_room_within(APPLICATIONS - RESERVED, registry.count(), own)
    }

    pub(crate) fn check_reload(&self) -> Result<(), ErrorReply> {
        if self.grant.is_none() {
            return Ok(());
        }
        Err(not_permitted(format!(
            "only root{} may reload the configuration, not user {}",
            match self.audience {
                Audience::Everybody => "",
                Audience::Owner => " and the daemon's user",
            },
            self.peer.uid
        )))
    }

    pub(crate) fn check_memory(
        &self,
        memory: MemoryPolicy,
        binding: MemoryBinding,
    ) -> Result<(), ErrorReply> {
        match (memory, binding) {
            (MemoryPolicy::Unknown, _) => Err(invalid(format!(
                "mem {memory}: give local, interleave or keep"
            ))),
            (MemoryPolicy::Local | MemoryPolicy::Interleave, MemoryBinding::Unavailable) => {
                Err(invalid(format!(
                    "mem {memory}: this daemon confines by thread affinity and cannot bind memory; start it with \
                     --enforcer cgroup, or the program without --mem"
                )))
            }
            _ if !memory.follows_cpus() => Ok(()),
            _ => match &self.grant {
                Some(grant) if grant.mem != MemoryGrant::Any => Err(not_permitted(format!(
                    "mem {memory}: user {} may not move memory, since launches of all users may wait while the \
                     kernel moves it; leave --mem out, or have the administrator set mem = \"any\" under [[access]]",
                    self.peer.uid
                ))),
                _ => Ok(()),
            },
        }
    }

    pub(crate) fn check_isolation(&self) -> Result<(), ErrorReply> {
        if self.grant.as_ref().is_none_or(|grant| grant.isolated) {
            return Ok(());
        }
        Err(not_permitted(format!(
            "user {} may not isolate CPUs; leave --isolated out, or have the administrator allow it \
             under [[access]] (isolated = true)",
            self.peer.uid
        )))
    }

    /// Whether the user may see the details of an application whose processes are this user's, and which counts for another,
    /// if these are not the same.
    pub(crate) fn may_see(&self, uid: u32, requested_by: u32) -> bool {
        let grant = self.grant.as_ref();
        let own = [uid, requested_by].contains(&self.peer.uid);
        own || grant.is_none_or(|grant| grant.see == See::All)
    }

    pub(crate) fn may_see_app(&self, app: &App) -> bool {
        self.may_see(app.record.uid, app.record.requested_by())
    }

    /// Whether the user may have one more application beside those that run.
    fn one_more(&self, running: usize) -> Result<(), ErrorReply> {
        let Some(grant) = &self.grant else {
            return Ok(());
        };
        if !grant.launch {
            return Err(not_permitted(format!(
                "user {} may not launch programs here",
                self.peer.uid
            )));
        }
        let most = grant.max_applications;
        if running >= most as usize {
            return Err(self.too_much("applications beyond", &running, &most));
        }
        Ok(())
    }

    /// Whether one more application can be managed beside so many, of which the user has `own`. Nobody has more than
    /// half of what the others leave; the last places are root's.
    fn has_room(&self, applications: usize, own: usize) -> Result<(), ErrorReply> {
        let limit = match self.grant {
            None => APPLICATIONS,
            Some(_) => APPLICATIONS - RESERVED,
        };
        let own = match self.grant {
            None => 0,
            Some(_) => own,
        };
        self.has_room_within(limit, applications, own)
    }

    fn has_room_within(
        &self,
        limit: usize,
        applications: usize,
        own: usize,
    ) -> Result<(), ErrorReply> {
        let free = limit.saturating_sub(applications);
        if free > 0 && 2 * own <= free {
            return Ok(());
        }
        let message = match free {
            0 => format!("{applications} applications are already managed; end some, or wait"),
            _ => format!(
                "user {} has {own} applications, and only {free} more can be managed for all users; end \
                 some, or wait",
                self.peer.account
            ),
        };
        Err(ErrorReply::Unavailable { message })
    }

    /// Checks a request against the grant. Lowers the bound on CPUs, and the promise unless the user `asked` for it: the
    /// default or a rule's.
    pub(crate) fn check_spec(
        &self,
        asked: Option<Qos>,
        spec: &mut AppSpec,
    ) -> Result<(), ErrorReply> {
        let Some(grant) = &self.grant else {
            return Ok(());
        };
        if spec.qos.get() > grant.max_qos {
            spec.qos = match Qos::new(grant.max_qos) {
                Ok(most) if asked.is_none() => most,
                _ => return Err(self.too_much("qos", &spec.qos, &grant.max_qos)),
            };
        }
        if spec.weight.get() > grant.max_weight {
            return Err(self.too_much("weight", &spec.weight, &grant.max_weight));
        }
        let (least, limit) = (spec.cpus.min(), grant.max_min_cpus());
        if least > limit {
            return Err(self.too_much("min-cpus", &least, &limit));
        }
        if let Some(most) = grant.max_cpus {
            let most = spec.cpus.max().map_or(most, |asked| asked.min(most));
            let range = CpuRange::new(least, Some(most));
            spec.cpus = range.map_err(|_| self.too_much("min-cpus", &least, &most))?;
        }
        Ok(())
    }

    /// Checks another promise for an application of user `uid`.
    pub(crate) fn check_promise(&self, asked: Qos, uid: u32) -> Result<(), ErrorReply> {
        match &self.grant {
            Some(_) if self.peer.uid != uid => Err(not_permitted(format!(
                "the application is user {uid}'s, not user {}'s; only that user and root may change its promise",
                self.peer.uid
            ))),
            Some(grant) if asked.get() > grant.max_qos => {
                Err(self.too_much("qos", &asked, &grant.max_qos))
            }
            _ => Ok(()),
        }
    }

    fn too_much(&self, what: &str, asked: &dyn Display, most: &dyn Display) -> ErrorReply {
        not_permitted(format!(
            "{what} {asked} exceeds the limit of user {}, which is {most}; request less, or have the \
             administrator raise it under [[access]]",
            self.peer.uid
        ))
    }
}

/// Whether the machine can ever have as many CPUs as an application needs.
pub(crate) fn check_cpus(asked: CpuRange, machine: &Machine) -> Result<(), ErrorReply> {
    let Ok(Usable { cpus, .. }) = machine.read_usable() else {
        // What cannot be read now may be readable when it is needed.
        return Ok(());
    };
    let (least, most) = (asked.min(), cpus.len());
    if least <= most {
        return Ok(());
    }
    Err(invalid(format!(
        "min-cpus {least}: only {most} CPUs ({cpus}) can be assigned here; request 1 to {most}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;
    use mapper_model::{AppName, Weight};

    #[test]
    fn nobody_has_more_applications_than_half_of_what_is_free_and_the_last_are_roots() {
        let root = Permit {
            peer: &Peer::of(0, &[]),
            audience: Audience::Everybody,
            grant: None,
        };
        assert!(root.has_room(APPLICATIONS - 1, APPLICATIONS - 1).is_ok());
        let refused = root.has_room(APPLICATIONS, 0).unwrap_err();
        assert!(matches!(refused, ErrorReply::Unavailable { .. }));
        assert_says(&refused, &["1024"]);
        with_permit(&AccessRule::default(), |user| {
            let limit = APPLICATIONS - RESERVED;
            for (applications, own, room) in [
                (limit - 1, 0, true),
                (limit, 0, false),
                (limit - 1, 1, false),
                (limit / 3, limit / 3, true),
                (limit / 2, limit / 2, false),
                (limit - 128, 64, true),
                (limit - 127, 64, false),
            ] {
                let checked = user.has_room(applications, own);
                assert_eq!(checked.is_ok(), room, "{applications} {own}");
            }
        });
    }

    fn with_permit<T>(grant: &AccessRule, test: impl FnOnce(&Permit<'_>) -> T) -> T {
        test(&Permit {
            peer: &Peer::of(1000, &[]),
            audience: Audience::Everybody,
            grant: Some(grant.clone()),
        })
    }

    fn spec(qos: f64, weight: f64, min: u32, max: Option<u32>) -> AppSpec {
        AppSpec {
            qos: Qos::new(qos).unwrap(),
            weight: Weight::new(weight).unwrap(),
            cpus: CpuRange::new(min, max).unwrap(),
            ..AppSpec::named(AppName::new("a").unwrap())
        }
    }

    #[track_caller]
    fn refused(grant: &AccessRule, running: usize, mut spec: AppSpec, says: &str) {
        let checked = with_permit(grant, |permit| {
            permit.one_more(running)?;
            permit.check_spec(Some(spec.qos), &mut spec)
        });
        assert_says(checked.unwrap_err(), &[says, "user 1000"]);
    }

    #[test]
    fn a_request_beyond_a_grant_is_refused_with_the_limit() {
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
            (3, spec(0.9, 1.0, 1, None), "applications beyond 3"),
        ] {
            refused(&grant, running, spec, says);
        }
        let mut fine = spec(0.9, 1.0, 2, None);
        with_permit(&grant, |permit| {
            assert!(permit.one_more(2).is_ok());
            assert!(permit.check_spec(Some(fine.qos), &mut fine).is_ok());
        });
        let closed = AccessRule {
            launch: false,
            ..AccessRule::default()
        };
        refused(&closed, 0, spec(0.5, 1.0, 1, None), "may not launch");
    }

    #[test]
    fn an_open_promise_is_lowered_to_the_users_limit() {
        let grant = AccessRule {
            max_qos: 0.5,
            ..AccessRule::default()
        };
        let checked = |grant: &AccessRule, qos| {
            let mut open = spec(qos, 1.0, 1, None);
            let checked = with_permit(grant, |permit| permit.check_spec(None, &mut open));
            checked.map(|()| open.qos.get())
        };
        // Of a rule, or the default.
        for qos in [0.95, Qos::default().get(), 0.4] {
            assert_eq!(checked(&grant, qos), Ok(qos.min(0.5)));
        }
        let never = AccessRule {
            max_qos: 0.0,
            ..grant
        };
        assert!(checked(&never, 0.8).is_err());
    }

    #[test]
    fn users_change_the_promises_of_their_own_applications_as_far_as_they_may_promise() {
        let grant = AccessRule {
            max_qos: 0.9,
            ..AccessRule::default()
        };
        let checked = |qos, uid| {
            let qos = Qos::new(qos).unwrap();
            with_permit(&grant, |permit| permit.check_promise(qos, uid))
        };
        assert!(checked(0.9, 1000).is_ok());
        assert_says(checked(0.95, 1000).unwrap_err(), &["qos 0.95", "0.9"]);
        assert_says(checked(0.5, 1001).unwrap_err(), &["user 1001's"]);
        let root = Permit {
            peer: &Peer::of(0, &[]),
            audience: Audience::Everybody,
            grant: None,
        };
        assert!(root.check_promise(Qos::new(1.0).unwrap(), 1000).is_ok());
    }

    #[test]
    fn memory_follows_cpus_only_with_a_grant() {
        let check = |mem, memory| {
            let grant = AccessRule {
                mem,
                ..AccessRule::default()
            };
            let binding = MemoryBinding::Available;
            with_permit(&grant, |permit| permit.check_memory(memory, binding))
        };
        assert!(check(MemoryGrant::Keep, MemoryPolicy::Keep).is_ok());
        for memory in [MemoryPolicy::Local, MemoryPolicy::Interleave] {
            let refused = check(MemoryGrant::Keep, memory).unwrap_err();
            assert_says(refused, &["user 1000", "mem = \"any\""]);
            assert!(check(MemoryGrant::Any, memory).is_ok());
        }
    }

    #[test]
    fn a_grants_maximum_of_cpus_always_holds() {
        let grant = AccessRule {
            max_cpus: Some(3),
            ..AccessRule::default()
        };
        for (asked, given) in [(None, 3), (Some(8), 3), (Some(2), 2)] {
            let mut spec = spec(0.8, 1.0, 1, asked);
            with_permit(&grant, |permit| permit.check_spec(None, &mut spec)).unwrap();
            assert_eq!(spec.cpus.max(), Some(given));
        }
        refused(&grant, 0, spec(0.8, 1.0, 4, None), "min-cpus 4");
    }
}
