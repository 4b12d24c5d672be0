//! Permission checks: whether a client may have what it asks for.
//!
//! Who asks is known from the kernel: the credentials of the connection. What an ordinary user asks for is
//! checked against that user's grant ([`access`](crate::config::access)). Root and the user who runs the
//! daemon are privileged.

use crate::config::access::{AccessRule, MemoryGrant, See};
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::config::types::Audience;
use crate::machine::Machine;
use crate::machine::process::OpenProcessError;
use crate::registry::Registry;
use mapper_control::ErrorReply;
use mapper_control::schema::MemoryPolicy;
use mapper_host::cpus::Usable;
use mapper_host::enforce::MemoryBinding;
use mapper_model::{AppSpec, CpuRange, Qos};
use std::fmt::Display;

/// Applications that may be managed at a time.
const APPLICATIONS: usize = 1024;

/// Whether a user may do everything.
pub(crate) fn is_privileged(peer: &Peer) -> bool {
    peer.uid == 0 || peer.uid == rustix::process::geteuid().as_raw()
}

pub(crate) const fn not_permitted(message: String) -> ErrorReply {
    ErrorReply::NotPermitted { message }
}

pub(crate) const fn invalid(message: String) -> ErrorReply {
    ErrorReply::InvalidParameter { message }
}

pub(crate) const fn internal(message: String) -> ErrorReply {
    ErrorReply::Internal { message }
}

pub(crate) fn no_process(pid: u32) -> ErrorReply {
    OpenProcessError::NoProcess(pid).into()
}

impl From<OpenProcessError> for ErrorReply {
    fn from(error: OpenProcessError) -> Self {
        match error {
            OpenProcessError::NoProcess(_) => invalid(error.to_string()),
            OpenProcessError::Failed { .. } => internal(error.to_string()),
        }
    }
}

/// Whether this client may have anything more managed.
pub(crate) fn check_caller(
    peer: &Peer,
    settings: &Settings,
    registry: &Registry,
) -> Result<(), ErrorReply> {
    if settings.audience == Audience::Owner {
        let owner = rustix::process::geteuid().as_raw();
        if peer.uid != owner {
            return Err(not_permitted(format!(
                "this daemon serves user {owner} alone, not user {}",
                peer.uid
            )));
        }
    }
    has_room(registry.apps.len() + registry.pending.len())?;
    if is_privileged(peer) {
        return Ok(());
    }
    let running = registry.count_of(peer.uid);
    one_more(&settings.access.grant(peer), peer, running)
}

/// Checks what a launch asks for against what its user may ask for; `asked` is the promise that the user asked for.
pub(crate) fn check_spec(
    peer: &Peer,
    settings: &Settings,
    asked: Option<Qos>,
    spec: &mut AppSpec,
) -> Result<(), ErrorReply> {
    if is_privileged(peer) {
        return Ok(());
    }
    within(&settings.access.grant(peer), peer, asked, spec)
}

/// Whether memory can be placed as requested.
pub(crate) fn check_memory(
    peer: &Peer,
    memory: MemoryPolicy,
    settings: &Settings,
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
        _ if is_privileged(peer) => Ok(()),
        _ => memory_within(&settings.access.grant(peer), peer, memory),
    }
}

/// Whether there can ever be as many CPUs as an application needs.
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

/// Whether a user may have an application isolated.
pub(crate) fn check_isolation(peer: &Peer, settings: &Settings) -> Result<(), ErrorReply> {
    if is_privileged(peer) || settings.access.grant(peer).isolated {
        return Ok(());
    }
    Err(not_permitted(format!(
        "user {} may not isolate CPUs; leave --isolated out, or have the administrator allow it \
         under [[access]] (isolated = true)",
        peer.uid
    )))
}

/// Whether a user may see the details of applications of user `uid`.
pub(crate) fn may_see(peer: &Peer, settings: &Settings, uid: u32) -> bool {
    peer.uid == uid || is_privileged(peer) || settings.access.grant(peer).see == See::All
}

/// Whether one more can be managed beside so many.
fn has_room(applications: usize) -> Result<(), ErrorReply> {
    if applications < APPLICATIONS {
        return Ok(());
    }
    Err(ErrorReply::Unavailable {
        message: format!("{APPLICATIONS} applications are already managed"),
    })
}

/// That a user may not ask for so much.
fn too_much(
    peer: &Peer,
    what: &str,
    asked: &dyn Display,
    most: &dyn Display,
) -> Result<(), ErrorReply> {
    Err(not_permitted(format!(
        "{what} {asked} exceeds the limit of user {}, which is {most}; request less, or have the administrator raise it under [[access]]",
        peer.uid
    )))
}

/// Whether a grant lets its user have one more application beside those that run.
fn one_more(grant: &AccessRule, peer: &Peer, running: usize) -> Result<(), ErrorReply> {
    if !grant.launch {
        return Err(not_permitted(format!(
            "user {} may not launch programs here",
            peer.uid
        )));
    }
    if running >= grant.max_applications as usize {
        let most = &grant.max_applications;
        return too_much(peer, "applications beyond", &running, most);
    }
    Ok(())
}

/// Holds a request against a grant. Returns what is left of it: the bound on CPUs may be lower, and so may a
/// promise that the user did not name, but that is the default or a rule's.
fn within(
    grant: &AccessRule,
    peer: &Peer,
    asked: Option<Qos>,
    spec: &mut AppSpec,
) -> Result<(), ErrorReply> {
    let refuse =
        |what: &str, asked: &dyn Display, most: &dyn Display| too_much(peer, what, asked, most);
    if spec.qos.get() > grant.max_qos {
        spec.qos = match Qos::new(grant.max_qos) {
            Ok(most) if asked.is_none() => most,
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
    Err(not_permitted(format!(
        "mem {memory}: user {} may not move memory, since other applications wait while the kernel moves it; leave \
             --mem out, or have the administrator set mem = \"any\" under [[access]]",
        peer.uid
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{AppName, Weight};

    #[test]
    fn the_number_of_applications_is_limited() {
        assert!(has_room(APPLICATIONS - 1).is_ok());
        let told = has_room(APPLICATIONS).unwrap_err();
        assert!(matches!(told, ErrorReply::Unavailable { .. }), "{told}");
        assert!(told.to_string().contains("1024"), "{told}");
    }

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
            .and_then(|()| within(grant, &peer, Some(spec.qos), &mut spec))
            .unwrap_err()
            .to_string()
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
            let text = refusal(&grant, running, spec);
            assert!(text.contains(says) && text.contains("user 1000"), "{text}");
        }
        let mut fine = spec(0.9, 1.0, 2, None);
        let user = peer(1000, &[]);
        assert!(one_more(&grant, &user, 2).is_ok());
        assert!(within(&grant, &user, Some(fine.qos), &mut fine).is_ok());
        let closed = AccessRule {
            launch: false,
            ..AccessRule::default()
        };
        assert!(refusal(&closed, 0, spec(0.5, 1.0, 1, None)).contains("may not launch"));
    }

    #[test]
    fn an_open_promise_is_lowered_to_the_users_limit() {
        let grant = AccessRule {
            max_qos: 0.5,
            ..AccessRule::default()
        };
        let user = peer(1000, &[]);
        // Of a rule, or the default.
        for qos in [0.95, Qos::default().get(), 0.4] {
            let mut asked = spec(qos, 1.0, 1, None);
            within(&grant, &user, None, &mut asked).unwrap();
            assert_eq!(asked.qos.get(), qos.min(0.5));
        }
        let never = AccessRule {
            max_qos: 0.0,
            ..grant
        };
        assert!(within(&never, &user, None, &mut spec(0.8, 1.0, 1, None)).is_err());
    }

    #[test]
    fn memory_follows_cpus_only_with_a_grant() {
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
    fn a_grants_maximum_of_cpus_always_holds() {
        let grant = AccessRule {
            max_cpus: Some(3),
            ..AccessRule::default()
        };
        for (asked, given) in [(None, 3), (Some(8), 3), (Some(2), 2)] {
            let mut spec = spec(0.8, 1.0, 1, asked);
            within(&grant, &peer(1000, &[]), None, &mut spec).unwrap();
            assert_eq!(spec.cpus.max(), Some(given));
        }
        assert!(refusal(&grant, 0, spec(0.8, 1.0, 4, None)).contains("min-cpus 4"));
    }
}
