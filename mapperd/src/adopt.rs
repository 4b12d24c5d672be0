//! What runs already comes under management, and leaves it.
//!
//! The administrator may adopt anything; a user his own processes, as far as all of them are his, and control
//! groups that were delegated to him: never what acts for somebody else. Promise, weight and number are held
//! against the same grants as a launch. A descriptor of the process (pidfd) that was opened before the checks
//! and lives after them makes sure that the number has not passed to another.
//!
//! Adopted applications have no lease: they are managed until their last process ends or until who had them
//! adopted, or the administrator, releases them.

use crate::account::Books;
use crate::launch::{has_ended, no_process, not_permitted, process_descriptor};
use crate::message::{Answer, Peer, Served};
use crate::settling::Provenance;
use crate::state::{App, Daemon, Lease};
use crate::watch::Watches;
use mapper_control::schema::{
    AdoptReply, AdoptRequest, AdoptTarget, MemoryPolicy, OpenSetting, ReleaseReply,
};
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_host::enforce::{self, Adoptee, Departure, descendants};
use mapper_host::{HostError, chain};
use mapper_model::{AppId, AppName, AppSpec, CpuSet};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::Path;

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
        } = request;
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
        spec.name = self.unique(spec.name);
        let id = self.next_app;
        self.next_app = AppId(id.0 + 1);
        let adoptee = Adoptee {
            app: id,
            target: of_host(&target),
            owner: (!Self::is_privileged(peer)).then_some(peer.uid),
        };
        self.parts
            .enforcer
            .adopt(&adoptee)
            .map_err(|error| refusal(&error))?;
        if let (AdoptTarget::Pid(pid), Some(process)) = (&target, &process)
            && has_ended(process)
        {
            // Whatever is there now under its number is not what was checked.
            self.let_go_unmanaged(id);
            return Err(no_process(*pid));
        }
        self.manage(peer, id, spec, target, process);
        self.membership_changed();
        self.adopted_reply(id)
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
        target: AdoptTarget,
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
        tracing::info!(
            app = id.0,
            name = %spec.name,
            uid,
            by = peer.uid,
            qos = spec.qos.get(),
            "adopted {target}"
        );
        self.tally.adopted();
        self.apps.push(App {
            id,
            spec,
            command: String::new(),
            provenance: Provenance::default(),
            memory: MemoryPolicy::Keep,
            adopted: Some(Adoption {
                target,
                by: peer.uid,
            }),
            uid,
            first_process: self.process(first),
            launcher: crate::saved::Process::default(),
            page: None,
            planned: None,
            effective: CpuSet::new(),
            set_by_others: None,
            told_mismatch: None,
            books: Books::open(self.parts.clock.now_ns()),
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
        if self.is_pending(pid) {
            return Err(not_permitted(format!("process {pid} is being launched")));
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
            for member in &tree {
                // One that has just ended is nobody's.
                let Ok(uids) = proc.uids(member.pid) else {
                    continue;
                };
                if uids.real != peer.uid || (member.pid == pid && uids.effective != peer.uid) {
                    return Err(not_permitted(format!(
                        "process {} belongs to user {}, not to the caller, user {}; adopt one all of \
                         whose descendants are yours",
                        member.pid, uids.effective, peer.uid
                    )));
                }
            }
        }
        Ok(process)
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

    /// Undoes what the enforcer did, before the application is in the books.
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
        let Some(adopted) = app.adopted.clone() else {
            return Err(ErrorReply::InvalidParameter {
                message: format!(
                    "application {name} was launched, not adopted: it is managed until it ends"
                ),
            });
        };
        if peer.uid != adopted.by && !Self::is_privileged(peer) {
            return Err(not_permitted(format!(
                "application {name} was adopted by user {}; only that user and root may release it",
                adopted.by
            )));
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
