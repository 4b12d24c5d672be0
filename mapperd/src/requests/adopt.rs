//! What runs already comes under management, and leaves it.
//!
//! The administrator may adopt anything; a user his own processes, as far as all of them are his, and control
//! groups that were delegated to him: never what acts for somebody else. Promise, weight and number are held
//! against the same grants as a launch. A descriptor of the process (pidfd) that was opened before the checks
//! and lives after them makes sure that the number has not passed to another.
//!
//! Adopted applications have no lease: they are managed until their last process ends or until who had them
//! adopted, or the administrator, releases them.

use crate::daemon::{App, Daemon, Lease};
use crate::machine::watch::Watches;
use crate::registry::accounting::Books;
use crate::requests::launch::{
    SAVED_FIRST, has_ended, no_process, not_permitted, process_descriptor,
};
use crate::requests::settling::Provenance;
use crate::socket::message::{Answer, Peer, Served};
use crate::store::saved::Ending;
use crate::store::saver::Flushed;
use mapper_control::schema::{
    AdoptReply, AdoptRequest, AdoptTarget, MemoryPolicy, OpenSetting, Partition, ReleaseReply,
};
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_host::enforce::{self, Adoptee, Departure, descendants};
use mapper_host::{HostError, chain};
use mapper_model::{AppId, AppName, AppSpec, CpuSet};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The most processes that an ordinary user may have moved by one call: decisions wait for that.
const LARGEST_TREE: usize = 512;

/// How an application was adopted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Adoption {
    /// What it was.
    pub(crate) target: AdoptTarget,
    /// The user who had it adopted, and may release it.
    pub(crate) by: u32,
}

impl Daemon {
    pub(crate) fn adopt(&mut self, peer: &Peer, request: AdoptRequest) -> Answer {
        let target = request.target.clone();
        match self.try_adopt(peer, request) {
            Ok(reply) => Ok(Served::plain(Reply::Adopt(reply))),
            Err(error) => {
                self.tally.refused();
                tracing::info!(uid = peer.uid, "{target} not adopted: {error}");
                Err(error)
            }
        }
    }

    fn try_adopt(&mut self, peer: &Peer, request: AdoptRequest) -> Result<AdoptReply, ErrorReply> {
        self.check_caller(peer)?;
        let AdoptRequest {
            target,
            name,
            qos,
            weight,
            cpus,
            memory,
        } = request;
        self.check_memory(peer, memory)?;
        if memory == MemoryPolicy::Interleave {
            return Err(ErrorReply::InvalidParameter {
                message: "mem interleave: a program that runs has to set such a policy itself; give local or \
                          keep, or start it with mapper-launch --mem interleave"
                    .to_owned(),
            });
        }
        let process = match &target {
            AdoptTarget::Pid(pid) => Some(self.check_process(peer, *pid)?),
            AdoptTarget::Unit(_) if !Self::is_privileged(peer) => {
                return Err(not_permitted(format!(
                    "{target} is not user {}'s to adopt: only root and the daemon's user may adopt \
                     units; adopt a process of your own (--pid)",
                    peer.uid
                )));
            }
            AdoptTarget::Cgroup(_) | AdoptTarget::Unit(_) => None,
        };
        let mut spec = AppSpec::named(name.unwrap_or_else(|| self.name_of(&target)));
        let open = match qos {
            Some(_) => None,
            None => Some(OpenSetting::Qos),
        };
        spec.qos = qos.unwrap_or_default();
        spec.weight = weight;
        spec.cpus = cpus;
        self.permit(peer, &open.into_iter().collect(), &mut spec)?;
        self.check_cpus(spec.cpus)?;
        spec.name = self.unique(spec.name);
        let id = self.next_app;
        self.next_app = AppId(id.0 + 1);
        let adoptee = Adoptee {
            app: id,
            target: of_host(&target),
            owner: (!Self::is_privileged(peer)).then_some(peer.uid),
            usable: self.usable.clone(),
        };
        self.parts
            .enforcer
            .adopt(&adoptee)
            .map_err(|error| refusal(&error))?;
        let descriptor = process.as_ref().map(OwnedFd::try_clone).transpose();
        let descriptor = descriptor.unwrap_or_default();
        self.manage(peer, id, spec, (target.clone(), memory), process);
        if let Err(error) = self.bring_in(&adoptee, descriptor.as_ref()) {
            self.withdraw(id);
            return Err(error);
        }
        tracing::info!(app = id.0, by = peer.uid, "adopted {target}");
        self.tally.adopted();
        self.membership_changed();
        self.adopted_reply(id)
    }

    /// Writes down what an application has now, then moves it to where it can be confined. Whatever becomes of
    /// this daemon from here on, the next one can put it back.
    fn bring_in(&mut self, adoptee: &Adoptee, process: Option<&OwnedFd>) -> Result<(), ErrorReply> {
        self.save(Ending::Running);
        if let Some((why, mend)) = unsaved(self.saved_within(SAVED_FIRST)) {
            return Err(ErrorReply::Internal {
                message: format!(
                    "nothing was changed: what {} has now could not be put back after a crash, since {why}; {mend}",
                    adoptee.target
                ),
            });
        }
        self.parts
            .enforcer
            .move_in(adoptee)
            .map_err(|error| refusal(&error))?;
        match (&adoptee.target, process) {
            // Whatever is there now under its number is not what was checked.
            (enforce::AdoptTarget::Pid(pid), Some(process)) if has_ended(process) => {
                Err(no_process(*pid))
            }
            _ => Ok(()),
        }
    }

    /// Takes an application that was not confined yet out of the books.
    fn withdraw(&mut self, id: AppId) {
        self.apps.retain(|app| app.id != id);
        self.let_go_unmanaged(id);
        self.save(Ending::Running);
    }

    /// What is told of an adoption. One that could not be confined is undone.
    fn adopted_reply(&mut self, id: AppId) -> Result<AdoptReply, ErrorReply> {
        let processes = self.parts.enforcer.tasks(id).processes.len();
        let confined = self
            .apps
            .iter()
            .find(|app| app.id == id && !app.effective.is_empty());
        let Some(app) = confined else {
            self.forget(id);
            self.membership_changed();
            return Err(ErrorReply::Internal {
                message: "it ended, or could not be confined; see the daemon's log".to_owned(),
            });
        };
        let adopted = app.adopted.clone();
        Ok(AdoptReply {
            protocol: PROTOCOL,
            app: id,
            name: app.spec.name.clone(),
            adopted: adopted.map_or(AdoptTarget::Pid(app.first_process.pid), |adopted| {
                adopted.target
            }),
            processes: u32::try_from(processes).unwrap_or(u32::MAX),
            cpus: app.effective.clone(),
            cpu_count: app.effective.len(),
        })
    }

    fn manage(
        &mut self,
        peer: &Peer,
        id: AppId,
        spec: AppSpec,
        (target, memory): (AdoptTarget, MemoryPolicy),
        process: Option<OwnedFd>,
    ) {
        let first = match &target {
            AdoptTarget::Pid(pid) => *pid,
            _ => self.parts.enforcer.first_process(id).unwrap_or_default(),
        };
        let uid = self
            .parts
            .proc
            .uids(first)
            .map_or(peer.uid, |uids| uids.real);
        let mut watches = Watches::default();
        if let Some(process) = process {
            watches.process(id, process, self.parts.sender.clone());
        }
        if let Some(events) = self.parts.enforcer.watch(id) {
            watches.group(id, events, self.parts.sender.clone());
        }
        let threads = self.parts.enforcer.tasks(id).threads;
        let own_mask = self.own_mask(&threads);
        self.apps.push(App {
            id,
            spec,
            command: String::new(),
            provenance: Provenance::default(),
            memory,
            partition: Partition::Member,
            adopted: Some(Adoption {
                target,
                by: peer.uid,
            }),
            uid,
            first_process: self.process(first),
            launcher: crate::store::saved::Process::default(),
            page: None,
            planned: None,
            effective: CpuSet::new(),
            set_by_others: None,
            limited: None,
            told_mismatch: None,
            own_mask,
            books: Books::open(self.parts.clock.now_ns()),
            used: None,
            lease: Lease::Ended,
            _watches: watches,
        });
    }

    /// Whether this client may have this process managed, with everything below it. Returns a descriptor.
    fn check_process(&mut self, peer: &Peer, pid: u32) -> Result<OwnedFd, ErrorReply> {
        if pid <= 2 || pid == std::process::id() {
            return Err(not_permitted(format!(
                "process {pid} is the system's or the daemon itself; give a program's"
            )));
        }
        let process = process_descriptor(pid)?;
        // First, as it costs next to nothing: who asks for what is not his makes no work.
        if !Self::is_privileged(peer) {
            self.check_owner(peer, pid, pid)?;
        }
        if self.is_pending(pid) {
            return Err(not_permitted(format!("process {pid} is being launched")));
        }
        // What an application has started since the last look is its own, too.
        if let Err(error) = self.parts.enforcer.refresh() {
            tracing::warn!("processes not looked at: {}", chain(&error));
        }
        let apps: Vec<AppId> = self.apps.iter().map(|app| app.id).collect();
        for app in apps {
            if self.parts.enforcer.tasks(app).processes.contains(&pid) {
                return Err(not_permitted(format!(
                    "process {pid} is managed already, as part of application {app}; release that one first"
                )));
            }
        }
        let proc = &self.parts.proc;
        let all = proc.processes().map_err(|error| ErrorReply::Internal {
            message: chain(&error),
        })?;
        let tree = descendants(&all, pid);
        let Some(first) = tree.first() else {
            return Err(no_process(pid));
        };
        if first.parent == 2 {
            return Err(not_permitted(format!(
                "process {pid} is a thread of the kernel; give a program's"
            )));
        }
        if !Self::is_privileged(peer) {
            may_move(pid, tree.len())?;
            for member in &tree {
                self.check_owner(peer, pid, member.pid)?;
            }
        }
        Ok(process)
    }

    /// Whether a process of a tree that is to be adopted is the caller's. One that has just ended is nobody's.
    fn check_owner(&self, peer: &Peer, first: u32, member: u32) -> Result<(), ErrorReply> {
        match self.parts.proc.uids(member) {
            Ok(uids)
                if uids.real != peer.uid || (member == first && uids.effective != peer.uid) =>
            {
                Err(not_permitted(format!(
                    "process {member} belongs to user {}, not to the caller, user {}; adopt one all of \
                     whose descendants are yours",
                    uids.effective, peer.uid
                )))
            }
            _ => Ok(()),
        }
    }

    /// The name of what is adopted, if none was given.
    fn name_of(&self, target: &AdoptTarget) -> AppName {
        let name = match target {
            AdoptTarget::Pid(pid) => self.parts.proc.command(*pid).unwrap_or_default(),
            AdoptTarget::Cgroup(path) => Path::new(path)
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            AdoptTarget::Unit(unit) => unit
                .rsplit_once('.')
                .map_or(unit.as_str(), |(name, _)| name)
                .to_owned(),
        };
        AppName::from_lossy(&name)
    }

    /// Undoes what the enforcer did.
    fn let_go_unmanaged(&mut self, id: AppId) {
        let everything = self.everything();
        let released = self
            .parts
            .enforcer
            .release(id, &everything, Departure::ForGood);
        if let Err(error) = released {
            tracing::warn!(app = id.0, "release: {}", chain(&error));
        }
    }

    pub(crate) fn release(&mut self, peer: &Peer, asked: &str) -> Answer {
        let app = self.find_visible(peer, asked)?;
        let (id, name) = (app.id, app.spec.name.clone());
        let adopted = match app.adopted.clone() {
            Some(adopted) => adopted,
            // How it came is not known any more, so that it may have been adopted: root decides.
            None if app.is_recovered() => Adoption {
                target: AdoptTarget::Pid(app.first_process.pid),
                by: 0,
            },
            None => {
                return Err(ErrorReply::InvalidParameter {
                    message: format!(
                        "application {name} was launched, not adopted: it is managed until it ends"
                    ),
                });
            }
        };
        if !Self::is_privileged(peer) {
            may_release(peer, &name, &adopted)?;
        }
        let trouble = self.forget(id);
        self.membership_changed();
        Ok(Served::plain(Reply::Release(ReleaseReply {
            protocol: PROTOCOL,
            app: id,
            name,
            adopted: adopted.target,
            trouble,
        })))
    }
}

/// Why what an application has now is not written down, and what would mend it; `None` if it is.
fn unsaved(flushed: Flushed) -> Option<(String, &'static str)> {
    let (why, mend) = match flushed {
        Flushed::Done => return None,
        Flushed::Late => (
            format!(
                "it could not be written down within {} ms",
                SAVED_FIRST.as_millis()
            ),
            "look after the disk of the state directory, then try again",
        ),
        Flushed::Failed => (
            "it could not be written down".to_owned(),
            "look in the daemon's log for the reason, see that the state directory has room and can be \
             written to, then try again",
        ),
        Flushed::Nowhere => (
            "the daemon has no state directory to write it to".to_owned(),
            "have mapperd started with --state-dir, or with state_dir in mapper.toml",
        ),
    };
    Some((why, mend))
}

/// Whether an ordinary user may have a tree of so many processes moved.
fn may_move(first: u32, processes: usize) -> Result<(), ErrorReply> {
    if processes <= LARGEST_TREE {
        return Ok(());
    }
    Err(not_permitted(format!(
        "process {first} has {} descendants, more than the {} that a user may have moved with it at once; \
         start them in a group of your own below one that was delegated to you, and adopt that (--cgroup), \
         or ask root",
        processes - 1,
        LARGEST_TREE - 1
    )))
}

/// Whether an ordinary user may release what was adopted.
fn may_release(peer: &Peer, name: &AppName, adopted: &Adoption) -> Result<(), ErrorReply> {
    if peer.uid == adopted.by {
        return Ok(());
    }
    Err(not_permitted(format!(
        "application {name} was adopted by user {}; only that user and root may release it",
        adopted.by
    )))
}

fn of_host(target: &AdoptTarget) -> enforce::AdoptTarget {
    match target {
        AdoptTarget::Pid(pid) => enforce::AdoptTarget::Pid(*pid),
        AdoptTarget::Cgroup(path) => enforce::AdoptTarget::Cgroup(path.into()),
        AdoptTarget::Unit(name) => enforce::AdoptTarget::Unit(name.clone()),
    }
}

fn refusal(error: &HostError) -> ErrorReply {
    let message = chain(error);
    match error {
        HostError::NotAdoptable { .. } | HostError::Missing(_) | HostError::Systemd { .. } => {
            ErrorReply::InvalidParameter { message }
        }
        _ if error.is_gone() => ErrorReply::InvalidParameter { message },
        _ => ErrorReply::Internal { message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_down_is_not_adopted() {
        assert_eq!(unsaved(Flushed::Done), None);
        for (flushed, says) in [
            (Flushed::Late, "within 200 ms"),
            (Flushed::Failed, "could not be written"),
            (Flushed::Nowhere, "no state directory"),
        ] {
            let (why, _) = unsaved(flushed).unwrap();
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn a_user_may_have_so_many_processes_moved_at_once_and_not_one_more() {
        assert!(may_move(7, LARGEST_TREE).is_ok());
        let told = may_move(7, LARGEST_TREE + 1).unwrap_err().to_string();
        assert!(
            told.contains("has 512 descendants") && told.contains("--cgroup"),
            "{told}"
        );
    }

    #[test]
    fn only_who_had_it_adopted_may_release_it() {
        let adopted = Adoption {
            target: AdoptTarget::Pid(7),
            by: 1000,
        };
        let name = AppName::new("job").unwrap();
        let peer = |uid| Peer {
            pid: 1,
            uid,
            groups: [1000].into(),
        };
        assert!(may_release(&peer(1000), &name, &adopted).is_ok());
        // Neither another user nor one who shares a group with him.
        for uid in [1001, 65534] {
            let told = may_release(&peer(uid), &name, &adopted).unwrap_err();
            assert!(told.to_string().contains("adopted by user 1000"), "{told}");
        }
    }
}
