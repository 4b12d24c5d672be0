//! Which signals to pass on to the program.
//!
//! | sent | by | the program |
//! |---|---|---|
//! | to the launcher alone | a user, a shell, `timeout`, a service manager | must get it from us |
//! | to the process group | the terminal (Ctrl-C), a shell (`kill %1`) | has got it, being a member |
//! | by the program or its children | `kill(0, …)`, `kill(getppid(), …)` | knows of it |
//!
//! The signal shows whether the kernel or a process sent it, and which process; not whether it was for the group. The
//! [witness](crate::witness) finds that out. A program that has left the launcher's group gets what the group gets:
//! started by itself it would have been the group's leader and could not have left.

use nix::unistd::{Pid, getpgid, getpgrp};
use std::ffi::c_int;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The kernel: a terminal, a limit, the end of a child.
    Kernel,
    /// A process outside the program's tree, or one that is gone.
    Outside,
    Program,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Addressee {
    Launcher,
    Group,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Membership {
    Member,
    Left,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) signal: c_int,
    pub(crate) origin: Origin,
    pub(crate) addressee: Addressee,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    PassOn,
    /// The program has it already, or shall not have it.
    Keep,
}

pub(crate) fn decide(arrival: Arrival, membership: Membership) -> Decision {
    use Decision::{Keep, PassOn};
    match (arrival.origin, arrival.addressee) {
        (Origin::Program, _) => Keep,
        (Origin::Kernel | Origin::Outside, Addressee::Group) => match membership {
            Membership::Member => Keep,
            Membership::Left if arrival.signal == libc::SIGCHLD => Keep,
            Membership::Left => PassOn,
        },
        (Origin::Outside, Addressee::Launcher) => PassOn,
        // A terminal that goes away signals the session's leader. Other signals of the kernel to the launcher are not
        // for the program.
        (Origin::Kernel, Addressee::Launcher) if arrival.signal == libc::SIGHUP => PassOn,
        (Origin::Kernel, Addressee::Launcher) => Keep,
    }
}

pub(crate) fn origin(code: c_int, sender: u32, parent_of: impl Fn(u32) -> Option<u32>) -> Origin {
    if code > 0 {
        return Origin::Kernel;
    }
    let launcher = std::process::id();
    let mut process = sender;
    // Deeper than any tree of processes.
    for _ in 0..1024 {
        match parent_of(process) {
            Some(parent) if parent == launcher => return Origin::Program,
            Some(parent) if parent > 1 => process = parent,
            _ => return Origin::Outside,
        }
    }
    Origin::Outside
}

pub(crate) fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

pub(crate) fn membership(child: Pid) -> Membership {
    match getpgid(Some(child)) {
        Ok(group) if group != getpgrp() => Membership::Left,
        _ => Membership::Member,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(signal: c_int, origin: Origin, addressee: Addressee, place: Membership) -> bool {
        let arrival = Arrival {
            signal,
            origin,
            addressee,
        };
        decide(arrival, place) == Decision::PassOn
    }

    #[test]
    fn the_program_gets_every_signal_exactly_once() {
        use Addressee::{Group, Launcher};
        use Membership::{Left, Member};
        use Origin::{Kernel, Outside, Program};
        for (origin, addressee, place, expected) in [
            (Outside, Launcher, Member, true),
            (Outside, Launcher, Left, true),
            (Outside, Group, Member, false),
            (Outside, Group, Left, true),
            (Kernel, Group, Member, false),
            (Kernel, Group, Left, true),
            (Kernel, Launcher, Member, false),
            (Program, Launcher, Member, false),
            (Program, Group, Left, false),
        ] {
            let found = passed_on(libc::SIGINT, origin, addressee, place);
            assert_eq!(found, expected, "{origin:?} {addressee:?} {place:?}");
        }
    }

    #[test]
    fn a_lost_terminal_is_reported_to_the_program_of_a_session_leader() {
        let text =
            |addressee| passed_on(libc::SIGHUP, Origin::Kernel, addressee, Membership::Member);
        assert!(text(Addressee::Launcher));
        assert!(!text(Addressee::Group));
    }

    #[test]
    fn a_sender_is_known_by_its_ancestors() {
        let launcher = std::process::id();
        // Numbers that no process has, this one either.
        const CHILD: u32 = i32::MAX as u32;
        const GRANDCHILD: u32 = CHILD - 1;
        const STRANGER: u32 = CHILD - 2;
        const GONE: u32 = CHILD - 3;
        let tree = |process| match process {
            GRANDCHILD => Some(CHILD),
            CHILD => Some(launcher),
            STRANGER => Some(1),
            _ => None,
        };
        let of = |code, process: u32| origin(code, process, tree);
        assert_eq!(of(libc::SI_USER, GRANDCHILD), Origin::Program);
        assert_eq!(of(libc::SI_QUEUE, STRANGER), Origin::Outside);
        assert_eq!(of(libc::SI_USER, GONE), Origin::Outside);
        assert_eq!(of(libc::SI_KERNEL, 0), Origin::Kernel);
        let circle = |process: u32| Some(process ^ 1);
        let found = origin(libc::SI_USER, GONE, circle);
        assert_eq!(found, Origin::Outside);
        let own = std::os::unix::process::parent_id();
        assert_eq!(parent_of(launcher), Some(own));
    }
}
