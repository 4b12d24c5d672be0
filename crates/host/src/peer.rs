//! Who is at the other end of a Unix socket, beyond its user: the groups.

use nix::sys::socket::{UnixCredentials, getsockopt, sockopt::PeerCredentials};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// The most groups the kernel lets a process have (`NGROUPS_MAX`).
const MOST: usize = 65_536;

/// Who connected, or listens, as the kernel noted it then. The process is 0 where this PID namespace does not have it,
/// which the type of `rustix` cannot hold.
///
/// # Errors
/// Where `socket` is no Unix socket.
pub fn credentials(socket: &impl AsFd) -> std::io::Result<UnixCredentials> {
    Ok(getsockopt(socket, PeerCredentials)?)
}

/// The primary and further groups of the process that connected, as they were then.
pub fn groups(socket: impl AsFd) -> Result<Vec<u32>, Errno> {
    let mut groups = further_groups(&socket)?;
    let credentials = getsockopt(&socket, PeerCredentials)
        .map_err(|error| Errno::from_raw_os_error(error as i32))?;
    groups.push(credentials.gid());
    Ok(groups)
}

fn further_groups(socket: &impl AsFd) -> Result<Vec<u32>, Errno> {
    let mut room = 64;
    loop {
        let mut groups: Vec<libc::gid_t> = vec![0; room];
        let mut bytes =
            libc::socklen_t::try_from(room * size_of::<libc::gid_t>()).map_err(|_| Errno::INVAL)?;
        // SAFETY: `groups` has room for as many bytes as `bytes` says, to which the kernel writes no
        // more; every bit pattern is a group number. `bytes` is valid for reading and writing.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if result == 0 {
            groups.truncate(bytes as usize / size_of::<libc::gid_t>());
            return Ok(groups);
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::RANGE) if room < MOST => room *= 4,
            Some(error) => return Err(error),
            None => return Err(Errno::IO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_groups_of_this_process_are_those_of_its_sockets_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        let groups = groups(&one).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = |name: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let words = line.unwrap().split_ascii_whitespace();
            words.map(|word| word.parse().unwrap()).collect()
        };
        assert!(groups.contains(&line("Gid:")[1]));
        for group in line("Groups:") {
            assert!(groups.contains(&group));
        }
    }
}
