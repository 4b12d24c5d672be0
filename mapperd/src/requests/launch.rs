//! A program is to start: checking who asks, gathering, admitting, answering.
//!
//! Who asks is told by the kernel: the credentials of the connection. A client may have a process
//! managed that is its own child and acts for its own user, and nobody else's. The process waits
//! until the answer comes; a descriptor of it (pidfd) makes sure that its number has not passed to
//! another process between check and use.

use crate::config::settings::Audience;
use crate::daemon::{App, Daemon, GATHER, Lease};
use crate::machine::watch::Watches;
use crate::registry::accounting::Books;
use crate::registry::page::Page;
use crate::requests::settling::{self, Provenance};
use crate::socket::message::{Answer, Peer, Served};
use crate::store::kept_pages;
use mapper_control::schema::{
    LaunchReply, LaunchRequest, MemoryPolicy, OpenSetting, Partition, RuntimeChoice, Settled,
};
use mapper_control::{ErrorReply, PROTOCOL};
use mapper_host::chain;
use mapper_host::cpus::Usable;
use mapper_host::enforce::{EnforcerKind, Newcomer, masks};
use mapper_model::{AppId, AppName, CpuRange, CpuSet, ThreadId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Applications that may be managed at a time.
const APPLICATIONS: usize = 1024;

/// How long an answer waits at most until the state is written, where it has to be.
pub(crate) const SAVED_FIRST: Duration = Duration::from_millis(200);

/// How far back the descent of a launcher is looked at.
const ANCESTORS: usize = 64;

/// A newcomer that waits for others.
pub(crate) struct Pending {
    peer: Peer,
    request: LaunchRequest,
    settled: Settled,
    provenance: Provenance,
    process: OwnedFd,
    reply: oneshot::Sender<Answer>,
}

/// A launch that may be.
struct Checked {
    process: OwnedFd,
    settled: Settled,
    provenance: Provenance,
}

impl Daemon {
    pub(crate) fn launch(
        &mut self,
        peer: Peer,
        mut request: LaunchRequest,
        reply: oneshot::Sender<Answer>,
    ) {
        match self.check(&peer, &mut request) {
            Ok(Checked {
                process,
                settled,
                provenance,
            }) => {
                self.pending.push(Pending {
                    peer,
                    request,
                    settled,
                    provenance,
                    process,
                    reply,
                });
                self.gather_until(Some(Instant::now() + GATHER));
            }
            Err(error) => {
                self.tally.refused();
                tracing::info!(pid = request.pid, uid = peer.uid, "launch refused: {error}");
                // The client may have hung up.
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Whether this client may have this process managed, and as what. Who asks comes first: rules are matched
    /// against what others send only once they may send it.
    fn check(&self, peer: &Peer, request: &mut LaunchRequest) -> Result<Checked, ErrorReply> {
        let process = self.check_identity(peer, request.pid)?;
        let (settled, provenance) = settling::settle(
            &self.parts.settings.programs,
            &self.parts.shipped_programs,
            peer,
            request,
        );
        self.permit(peer, &request.open, &mut request.spec)?;
        self.check_memory(peer, request.memory)?;
        self.check_cpus(request.spec.cpus)?;
        request.partition = self.check_partition(peer, request)?;
        // What was read belongs to the process of the descriptor only if that still lives.
        if has_ended(&process) {
            return Err(no_process(request.pid));
        }
        Ok(Checked {
            process,
            settled,
            provenance,
        })
    }

    /// The partition that is to be had. What the user asked for and cannot have is refused; where a rule asks, the
    /// program starts without.
    fn check_partition(
        &self,
        peer: &Peer,
        request: &LaunchRequest,
    ) -> Result<Partition, ErrorReply> {
        match request.partition {
            Partition::Member => return Ok(Partition::Member),
            Partition::Isolated => {}
            Partition::Unknown => {
                return Err(ErrorReply::InvalidParameter {
                    message: "partition: give member or isolated".to_owned(),
                });
            }
        }
        let may = self.may_isolate(peer).and_then(|()| {
            let offered = self.parts.enforcer.may_isolate();
            offered.map_err(|error| ErrorReply::InvalidParameter {
                message: format!("isolated: {}", chain(&error)),
            })
        });
        match may {
            Ok(()) => Ok(Partition::Isolated),
            Err(error) if request.open.contains(&OpenSetting::Partition) => {
                tracing::info!(
                    pid = request.pid,
                    uid = peer.uid,
                    "not isolated, as a rule says: {error}"
                );
                Ok(Partition::Member)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether memory can be had as asked.
    pub(crate) fn check_memory(&self, peer: &Peer, memory: MemoryPolicy) -> Result<(), ErrorReply> {
        let refused = |why: &str| {
            Err(ErrorReply::InvalidParameter {
                message: format!("mem {memory}: {why}"),
            })
        };
        match (memory, self.parts.enforcer.kind()) {
            (MemoryPolicy::Unknown, _) => refused("give local, interleave or keep"),
            (MemoryPolicy::Local | MemoryPolicy::Interleave, EnforcerKind::Affinity) => refused(
                "this daemon confines by thread affinity and cannot bind memory; start it with \
                 --enforcer cgroup, or the program without --mem",
            ),
            _ => self.permit_memory(peer, memory),
        }
    }

    /// Whether there can ever be as many CPUs as an application needs: what never can be is not promised.
    pub(crate) fn check_cpus(&self, asked: CpuRange) -> Result<(), ErrorReply> {
        let Ok(Usable { cpus, .. }) = self.read_usable() else {
            // What the kernel does not tell now it may tell when it is needed.
            return Ok(());
        };
        let (least, most) = (asked.min(), cpus.len());
        if least <= most {
            return Ok(());
        }
        Err(ErrorReply::InvalidParameter {
            message: format!(
                "min-cpus {least}: only {most} CPUs ({cpus}) can be given out here; ask for 1 to {most}"
            ),
        })
    }

    /// Whether this client may have anything more managed.
    pub(crate) fn check_caller(&self, peer: &Peer) -> Result<(), ErrorReply> {
        if self.parts.settings.audience == Audience::Owner {
            let owner = rustix::process::geteuid().as_raw();
            if peer.uid != owner {
                return Err(not_permitted(format!(
                    "this daemon serves user {owner} alone, not user {}",
                    peer.uid
                )));
            }
        }
        has_room(self.apps.len() + self.pending.len())?;
        self.may_launch(peer)
    }

    /// Whether this client may have any process managed, and this one in particular. Returns a descriptor of
    /// the process.
    fn check_identity(&self, peer: &Peer, pid: u32) -> Result<OwnedFd, ErrorReply> {
        self.check_caller(peer)?;
        let no_process = || no_process(pid);
        let process = process_descriptor(pid)?;
        let stat = self.parts.proc.stat(pid).map_err(|_| no_process())?;
        if stat.parent != peer.pid {
            return Err(not_permitted(format!(
                "process {pid} is not a child of the caller, process {}",
                peer.pid
            )));
        }
        let uids = self.parts.proc.uids(pid).map_err(|_| no_process())?;
        // Root may launch for others; everybody else for himself.
        if peer.uid != 0 && (uids.real != peer.uid || uids.effective != peer.uid) {
            return Err(not_permitted(format!(
                "process {pid} belongs to user {}, not to the caller, user {}",
                uids.effective, peer.uid
            )));
        }
        let taken =
            self.apps.iter().any(|app| app.first_process.pid == pid) || self.is_pending(pid);
        if taken {
            return Err(not_permitted(format!("process {pid} is managed already")));
        }
        Ok(process)
    }

    /// Whether a process is about to be admitted.
    pub(crate) fn is_pending(&self, pid: u32) -> bool {
        self.pending.iter().any(|p| p.request.pid == pid)
    }

    /// How many of a user's newcomers wait.
    pub(crate) fn pending_of(&self, uid: u32) -> usize {
        self.pending.iter().filter(|p| p.peer.uid == uid).count()
    }

    /// Admits everybody who has waited, decides once for all, and answers.
    pub(crate) fn admit_gathered(&mut self) {
        self.gather_until(None);
        let mut admitted = Vec::new();
        for pending in std::mem::take(&mut self.pending) {
            let Pending {
                peer,
                request,
                settled,
                provenance,
                process,
                reply,
            } = pending;
            if reply.is_closed() {
                continue;
            }
            match self.admit(&peer, request, provenance, process) {
                Ok(app) => admitted.push((app, settled, reply)),
                Err(error) => {
                    tracing::warn!("launch failed: {error}");
                    let _ = reply.send(Err(error));
                }
            }
        }
        if admitted.is_empty() {
            return;
        }
        self.membership_changed();
        // Without groups nothing but the file tells the next daemon which processes are managed. A disk
        // that is slower than this is not waited for.
        if self.parts.enforcer.kind() == EnforcerKind::Affinity {
            self.saved_within(SAVED_FIRST);
        }
        let mut lost = false;
        for (app, settled, reply) in admitted {
            let answer = self.place(app, settled);
            let refused = answer.is_err();
            let unheard = reply.send(answer).is_err();
            if refused || unheard {
                self.forget(app);
                lost = true;
            }
        }
        if lost {
            self.membership_changed();
        }
    }

    fn admit(
        &mut self,
        peer: &Peer,
        request: LaunchRequest,
        provenance: Provenance,
        process: OwnedFd,
    ) -> Result<AppId, ErrorReply> {
        let id = self.next_app;
        let mut spec = request.spec;
        spec.name = self.unique(spec.name);
        let page = match request.runtime {
            RuntimeChoice::On => Some(Page::create().map_err(|error| ErrorReply::Internal {
                message: error.to_string(),
            })?),
            RuntimeChoice::Off => None,
        };
        let newcomer = Newcomer {
            app: id,
            name: spec.name.clone(),
            first_process: request.pid,
            launcher: peer.pid,
        };
        let own_mask = self.mask_of_launch(peer.pid, request.pid);
        self.next_app = AppId(id.0 + 1);
        self.parts
            .enforcer
            .admit(&newcomer)
            .map_err(|error| ErrorReply::Internal {
                message: chain(&error),
            })?;
        if request.partition == Partition::Isolated
            && let Err(error) = self.parts.enforcer.isolate(id)
        {
            tracing::warn!(app = id.0, "not isolated: {}", chain(&error));
        }
        if let Some(page) = &page {
            kept_pages::keep(id, page.writer.as_fd());
        }
        let mut watches = Watches::default();
        watches.process(id, process, self.parts.sender.clone());
        if let Some(events) = self.parts.enforcer.watch(id) {
            watches.group(id, events, self.parts.sender.clone());
        }
        tracing::info!(
            app = id.0,
            name = %spec.name,
            pid = request.pid,
            uid = peer.uid,
            qos = spec.qos.get(),
            teams = %spec.teams,
            teams_by = provenance.teams_by,
            "arrived"
        );
        self.tally.launched();
        self.apps.push(App {
            id,
            spec,
            command: request.command,
            provenance,
            memory: request.memory,
            partition: request.partition,
            adopted: None,
            uid: peer.uid,
            first_process: self.process(request.pid),
            launcher: self.process(peer.pid),
            page,
            planned: None,
            effective: CpuSet::new(),
            set_by_others: None,
            limited: None,
            told_mismatch: None,
            own_mask,
            books: Books::open(self.parts.clock.now_ns()),
            used: None,
            lease: Lease::Held,
            _watches: watches,
        });
        Ok(id)
    }

    /// The mask that a program was launched with, unless it comes from mapper: what is launched from within a
    /// managed application has that one's.
    fn mask_of_launch(&mut self, launcher: u32, first: u32) -> Option<CpuSet> {
        // Groups have sets of their own, of which the kernel leaves what masks allow.
        if self.parts.enforcer.kind() != EnforcerKind::Affinity {
            return None;
        }
        let own = self.own_mask(&[ThreadId(first)])?;
        let enforcer = &mut self.parts.enforcer;
        let mut managed = BTreeSet::new();
        for app in &self.apps {
            managed.extend(enforcer.tasks(app.id).processes);
        }
        // The launcher may have been started since the last look, but what started it was not. Orphans of an
        // application are children of its launcher.
        let parent = |pid: &u32| self.parts.proc.stat(*pid).ok().map(|stat| stat.parent);
        let line = std::iter::successors(Some(launcher), parent).take(ANCESTORS);
        let launched = |pid| self.apps.iter().any(|app| app.launcher.pid == pid);
        let inherited = line
            .enumerate()
            .any(|(nth, pid)| pid != 0 && (managed.contains(&pid) || (nth > 0 && launched(pid))));
        (!inherited).then_some(own)
    }

    /// The CPUs that an application's threads may use, if their masks leave out any that are given out.
    pub(crate) fn own_mask(&self, threads: &[ThreadId]) -> Option<CpuSet> {
        if self.parts.enforcer.kind() != EnforcerKind::Affinity {
            return None;
        }
        let mut mask = CpuSet::new();
        // One that has ended has no mask.
        for of_thread in threads.iter().filter_map(|thread| masks::get(*thread).ok()) {
            mask.insert_all(&of_thread);
        }
        let usable = self.read_usable().ok()?.cpus;
        (!usable.is_subset(&mask) && !mask.is_disjoint(&usable)).then_some(mask)
    }

    /// The answer to a launch, after the decision.
    fn place(&self, app: AppId, settled: Settled) -> Answer {
        let failed = |message: &str| ErrorReply::Internal {
            message: message.to_owned(),
        };
        let app =
            self.apps
                .iter()
                .find(|a| a.id == app)
                .ok_or_else(|| ErrorReply::InvalidParameter {
                    message: "the process has ended".to_owned(),
                })?;
        if app.effective.is_empty() {
            return Err(failed(
                "the process could not be confined; see the daemon's log",
            ));
        }
        let page = app
            .page
            .as_ref()
            .map(|page| page.writer.as_fd().try_clone_to_owned())
            .transpose()
            .map_err(|error| failed(&format!("duplicate the page: {error}")))?;
        // A mask that it inherits (taskset, a batch system) narrows what it can use of its CPUs.
        let cpus = match self.parts.proc.cpus_allowed(app.first_process.pid) {
            Ok(inherited) if !inherited.is_disjoint(&app.effective) => {
                inherited.intersection(&app.effective)
            }
            _ => app.effective.clone(),
        };
        let reply = LaunchReply {
            protocol: PROTOCOL,
            app: app.id,
            name: app.spec.name.clone(),
            cpu_count: cpus.len(),
            cpus,
            machine_cpus: self.usable.len(),
            token: app
                .page
                .as_ref()
                .map(|page| page.writer.token().to_string()),
            settled: Some(settled),
        };
        Ok(Served::place(reply, page))
    }

    /// The name, with a number added if it is taken.
    pub(crate) fn unique(&self, wanted: AppName) -> AppName {
        let taken = |name: &AppName| self.apps.iter().any(|app| app.spec.name == *name);
        if !taken(&wanted) {
            return wanted;
        }
        let mut number = 2u64;
        loop {
            let suffix = format!("-{number}");
            // A name has 64 characters at most, all of one byte each.
            let stem = &wanted.as_str()[..wanted.as_str().len().min(64 - suffix.len())];
            let name = AppName::from_lossy(&format!("{stem}{suffix}"));
            if !taken(&name) {
                return name;
            }
            number += 1;
        }
    }
}

/// Whether one more can be managed beside so many.
fn has_room(applications: usize) -> Result<(), ErrorReply> {
    if applications < APPLICATIONS {
        return Ok(());
    }
    Err(ErrorReply::Unavailable {
        message: format!("{APPLICATIONS} applications are managed already"),
    })
}

/// A descriptor of a process.
pub(crate) fn process_descriptor(pid: u32) -> Result<OwnedFd, ErrorReply> {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| no_process(pid))
        .and_then(|raw| match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(process) => Ok(process),
            Err(Errno::SRCH | Errno::INVAL) => Err(no_process(pid)),
            Err(error) => Err(ErrorReply::Internal {
                message: format!("pid {pid}: pidfd_open: {error}"),
            }),
        })
}

pub(crate) fn no_process(pid: u32) -> ErrorReply {
    ErrorReply::InvalidParameter {
        message: format!("pid {pid}: no such process"),
    }
}

pub(crate) fn not_permitted(message: String) -> ErrorReply {
    ErrorReply::NotPermitted { message }
}

pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_managed_at_a_time_and_not_one_more() {
        assert!(has_room(APPLICATIONS - 1).is_ok());
        let told = has_room(APPLICATIONS).unwrap_err();
        assert!(matches!(told, ErrorReply::Unavailable { .. }), "{told}");
        assert!(told.to_string().contains("1024"), "{told}");
    }
}
