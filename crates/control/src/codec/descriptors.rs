//! Sending and receiving bytes together with file descriptors.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most descriptors one message may carry. The protocol needs one.
pub const MAX_DESCRIPTORS: usize = 4;

/// How far a message has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// All of it is with the kernel.
    Done,
    /// The socket takes no more for now (non-blocking sockets only).
    WouldBlock,
}

/// A message to send, with its descriptors.
#[derive(Debug)]
pub struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    descriptors: Vec<OwnedFd>,
}

impl Outgoing {
    /// A message without descriptors. `bytes` is what [`encode`](super::encode) made.
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            sent: 0,
            descriptors: Vec::new(),
        }
    }

    /// The same with one more descriptor.
    #[must_use]
    pub fn with_descriptor(mut self, descriptor: OwnedFd) -> Self {
        self.descriptors.push(descriptor);
        self
    }

    /// The bytes that are still to be written.
    pub const fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Writes as much as the socket takes: on a blocking socket everything.
    ///
    /// Descriptors go with the first bytes and are closed here after that. A closed peer is an error (`EPIPE`), never a
    /// signal.
    ///
    /// # Errors
    /// The kernel's, except "would block" and interruptions; more than [`MAX_DESCRIPTORS`] are invalid input.
    pub fn write_to(&mut self, socket: impl AsFd) -> io::Result<Progress> {
        while self.sent < self.bytes.len() {
            let borrowed: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
            match send(socket.as_fd(), &self.bytes[self.sent..], &borrowed) {
                Ok(count) => {
                    self.sent += count;
                    self.descriptors.clear();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::WouldBlock);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::Done)
    }
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    // The space is rounded up for alignment and might hold too many.
    if descriptors.len() > MAX_DESCRIPTORS
        || !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors))
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} descriptors with one message; at most {MAX_DESCRIPTORS} are allowed",
                descriptors.len()
            ),
        ));
    }
    Ok(sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?)
}

/// Reads bytes into `buffer` and appends received descriptors to `descriptors`, closed on exec. Returns the number of
/// bytes; 0 is the end of the stream. A server that wants no descriptors can use `read`, with which the kernel drops
/// them.
///
/// # Errors
/// The kernel's, including "would block", and `InvalidData` for more than [`MAX_DESCRIPTORS`], of which none is kept.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut came = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            came.extend(passed);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) || came.len() > MAX_DESCRIPTORS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("more than {MAX_DESCRIPTORS} descriptors came with one message"),
        ));
    }
    descriptors.extend(came);
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, fcntl_getfd};
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    fn some_file(text: &str) -> OwnedFd {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file.into()
    }

    #[test]
    #[cfg_attr(miri, ignore = "sends with sendmsg")]
    fn a_descriptor_arrives_with_its_message_and_is_closed_on_exec() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut message = Outgoing::new(b"hello\0".to_vec()).with_descriptor(some_file("page"));
        assert_eq!(message.write_to(&ours).unwrap(), Progress::Done);

        let (mut buffer, mut came) = ([0; 100], Vec::new());
        assert_eq!(receive(&theirs, &mut buffer, &mut came).unwrap(), 6);
        assert_eq!(came.len(), 1);
        assert!(fcntl_getfd(&came[0]).unwrap().contains(FdFlags::CLOEXEC));
        let mut text = String::new();
        let mut page = std::fs::File::from(came.remove(0));
        page.read_to_string(&mut text).unwrap();
        assert_eq!(text, "page");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sends with sendmsg")]
    fn a_full_socket_takes_the_rest_later_and_the_descriptor_only_once() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let long = vec![b'x'; 4 << 20];
        let mut message = Outgoing::new(long.clone()).with_descriptor(some_file(""));
        assert_eq!(message.write_to(&ours).unwrap(), Progress::WouldBlock);

        let (mut all, mut came, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
        while all.len() < long.len() {
            let count = receive(&theirs, &mut buffer, &mut came).unwrap();
            all.extend_from_slice(&buffer[..count]);
            message.write_to(&ours).unwrap();
        }
        assert_eq!(all, long);
        assert_eq!(came.len(), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sends with sendmsg")]
    fn too_many_descriptors_are_refused_on_both_sides() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut message = Outgoing::new(b"\0".to_vec());
        for _ in 0..=MAX_DESCRIPTORS {
            message = message.with_descriptor(some_file(""));
        }
        let error = message.write_to(&ours).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);

        // A peer may not use this crate.
        let file = some_file("");
        let many = vec![file.as_fd(); 3 * MAX_DESCRIPTORS];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(12))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        let flags = SendFlags::empty();
        sendmsg(&ours, &[IoSlice::new(b"x")], &mut control, flags).unwrap();
        let (mut buffer, mut came) = ([0; 10], Vec::new());
        let error = receive(&theirs, &mut buffer, &mut came).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(came.is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sends with sendmsg")]
    fn a_peer_that_went_away_is_an_error_and_not_a_signal() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = Outgoing::new(b"x\0".to_vec()).write_to(&ours).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
