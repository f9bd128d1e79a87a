//! Receives a message with the one descriptor that a client passes (`SCM_RIGHTS`).

pub use remuda_bpf::broker::refuse_descriptors;

use super::closing::{bounded, close};
use nix::errno::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Room for a control message with one descriptor, and not for two: the header's 16 bytes and the
/// descriptor's 4. The kernel closes the descriptors for which there is no room.
const CONTROL_BYTES: usize = 20;

/// The kernel writes control messages at addresses that are aligned like a `usize`. Without the
/// alignment, the room would differ from [`CONTROL_BYTES`].
#[repr(align(8))]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

/// A message and the descriptor that came with it.
#[derive(Debug)]
pub struct Passed {
    pub bytes: usize,
    /// The message is longer than the buffer.
    pub is_cut: bool,
    socket: Option<OwnedFd>,
    /// More descriptors came than `socket`.
    left_out: bool,
}

/// Why a message has not passed exactly one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No descriptor came, or several.
    Number,
    /// One came, and this process has no descriptor left for it.
    NoDescriptorLeft,
}

/// Receives one message into `buffer`, without waiting. Every descriptor in it has an owner before
/// anything else is looked at, so none is lost whatever the message is.
pub fn receive(client: &impl AsFd, buffer: &mut [u8]) -> Result<Passed, Errno> {
    let mut space = Control([MaybeUninit::uninit(); CONTROL_BYTES]);
    let mut control = RecvAncillaryBuffer::new(&mut space.0);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(buffer)];
    let received = bounded(|| recvmsg(client, &mut parts, &mut control, flags))
        .map_err(|errno| Errno::from_raw(errno.raw_os_error()))?;
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors);
        }
    }
    let left_out = sockets.len() > 1 || received.flags.contains(ReturnFlags::CTRUNC);
    let is_cut = received.flags.contains(ReturnFlags::TRUNC);
    let socket = sockets.pop();
    close(sockets);
    Ok(Passed { bytes: received.bytes, is_cut, socket, left_out })
}

impl Passed {
    /// The descriptor, if exactly one was passed.
    pub fn one(&self) -> Result<&OwnedFd, Wrong> {
        match (&self.socket, self.left_out) {
            (Some(socket), false) => Ok(socket),
            (None, true) => Err(Wrong::NoDescriptorLeft),
            _ => Err(Wrong::Number),
        }
    }

    /// As [`Self::one`], to keep the descriptor.
    pub fn into_one(mut self) -> Result<OwnedFd, Wrong> {
        self.one()?;
        self.socket.take().ok_or(Wrong::Number)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        close(self.socket.take());
    }
}

#[cfg(test)]
mod tests {
    use super::super::closing::tests::lingering;
    use super::*;
    use crate::clock;
    use nix::sys::socket::{
        AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
    };
    use std::io::{IoSlice, Read};
    use std::os::fd::{AsRawFd, RawFd};
    use std::os::unix::net::UnixStream;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("a pair")
    }

    fn send(from: &OwnedFd, sockets: &[RawFd]) -> nix::Result<usize> {
        let rights = [ControlMessage::ScmRights(sockets)];
        let rights = if sockets.is_empty() { &[][..] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(from.as_raw_fd(), &[IoSlice::new(b"request")], rights, flags, None)
    }

    #[test]
    fn one_descriptor_is_taken_and_of_more_all_are_closed() {
        let (here, there) = pair();
        let (one, mut other) = UnixStream::pair().expect("a pair");
        let fd = one.as_raw_fd();
        for (sockets, want) in [
            (&[fd][..], Ok(())),
            (&[], Err(Wrong::Number)),
            (&[fd, fd], Err(Wrong::Number)),
            (&[fd; 253], Err(Wrong::Number)),
        ] {
            send(&there, sockets).expect("it is sent");
            let passed = receive(&here, &mut [0; 64]).expect("it is there");
            assert_eq!(passed.one().map(|_| ()), want);
            assert_eq!((passed.bytes, passed.is_cut), (7, false));
        }
        send(&there, &[fd; 3]).expect("it is sent");
        assert!(receive(&here, &mut [0; 3]).expect("it is there").is_cut);
        drop(one);
        assert_eq!(other.read(&mut [0; 1]).expect("its end"), 0, "no copy is open");
        assert_eq!(receive(&here, &mut [0; 64]).expect_err("nothing is there"), Errno::EAGAIN);
    }

    #[test]
    fn descriptors_that_linger_delay_no_receive() {
        let (here, there) = pair();
        let (lingering, _peers): (Vec<_>, Vec<_>) = (0..3).map(|_| lingering(20)).unzip();
        let fds: Vec<RawFd> = lingering.iter().map(AsRawFd::as_raw_fd).collect();
        send(&there, &fds).expect("it is sent");
        drop(lingering); // the copies on their way are the last ones
        let began_us = clock::monotonic_us();
        let passed = receive(&here, &mut [0; 64]).expect("it is there");
        assert_eq!(passed.one().expect_err("three came"), Wrong::Number);
        drop(passed);
        let took_us = clock::monotonic_us() - began_us;
        assert!(took_us < 2_000_000, "{took_us} us");
    }

    #[test]
    fn a_socket_that_needs_no_descriptors_refuses_them() {
        let (here, there) = pair();
        refuse_descriptors(&here);
        let (one, mut other) = UnixStream::pair().expect("a pair");
        match send(&there, &[one.as_raw_fd()]) {
            Err(errno) => assert_eq!(errno, Errno::EPERM),
            Ok(_) => println!("this kernel has no SO_PASSRIGHTS"),
        }
        send(&there, &[]).expect("without descriptors it is sent");
        drop(one);
        drop((here, there));
        assert_eq!(other.read(&mut [0; 1]).expect("its end"), 0);
    }
}
