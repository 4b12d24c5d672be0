//! Spreading a program's memory over NUMA nodes.
//!
//! The kernel keeps a policy for each thread; a child inherits it, also across `execve`. So the launcher sets it for
//! itself before it forks. The daemon chooses the nodes, by `cpuset.mems` of the program's group: with
//! `MPOL_F_STATIC_NODES` the policy names all nodes, and those of the group count.

use crate::failure::Failure;

/// `MPOL_INTERLEAVE` with `MPOL_F_STATIC_NODES` (linux/mempolicy.h).
const INTERLEAVE_STATIC: libc::c_long = 3 | (1 << 15);
const NODES: &str = "/sys/devices/system/node/has_memory";

/// Nodes that a mask has room for: more than any kernel has.
const MOST_NODES: usize = 1024;

/// Makes the memory of this process, and of what it starts, come from all allowed nodes in turn.
pub(crate) fn interleave() -> Result<(), Failure> {
    let text = std::fs::read_to_string(NODES);
    let nodes: mapper_model::CpuSet = match text.map(|text| text.parse()) {
        Ok(Ok(nodes)) => nodes,
        // A kernel without NUMA has one node, over which there is nothing to spread.
        _ => return Ok(()),
    };
    let mut mask = [0 as libc::c_ulong; MOST_NODES / libc::c_ulong::BITS as usize];
    for node in &nodes {
        let bits = libc::c_ulong::BITS as usize;
        if let Some(word) = mask.get_mut(node.index() / bits) {
            *word |= 1 << (node.index() % bits);
        }
    }
    // SAFETY: the kernel reads as many bits as are stated from a mask that is at least as long, and
    // writes nothing.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            INTERLEAVE_STATIC,
            mask.as_ptr(),
            MOST_NODES as libc::c_ulong,
        )
    };
    if outcome == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Failure::own(format!(
        "mem interleave: set_mempolicy for nodes {nodes}: {error}; leave --mem out"
    )))
}
