//! Accepts clients of a socket, and serves each in a thread of its own.

use super::closing::close;
use crate::clock;
use crate::lock::lock;
use crate::trouble::Trouble;
use nix::errno::Errno;
use nix::sys::socket::{SockFlag, accept4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Pause after each refused client. It limits a client that connects in a loop to a twentieth of a
/// processor.
const REST: Duration = Duration::from_micros(200);
/// Pauses after failed accepts, for example when descriptors run out: the first, and the longest.
/// Each is twice the one before.
const AGAIN: Duration = Duration::from_millis(1);
const AGAIN_MAX: Duration = Duration::from_millis(100);

/// Hands each client of `listener` to `admit`, until the listener is closed. `admit` gives back a
/// client that it refuses. Closing that client takes at most about a millisecond, whatever waits
/// in its socket, so no client delays the next one.
pub fn accept_all(
    listener: &OwnedFd,
    socket: &str,
    mut admit: impl FnMut(OwnedFd) -> Result<(), OwnedFd>,
) {
    let (mut trouble, mut again) = (Trouble::default(), AGAIN);
    loop {
        match accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Ok(client) => {
                // SAFETY: the descriptor was just accepted, and nothing else owns it.
                let client = unsafe { OwnedFd::from_raw_fd(client) };
                again = AGAIN;
                if let Some(times) = trouble.over() {
                    tracing::warn!(socket, times, "clients are accepted again");
                }
                if let Err(refused) = admit(client) {
                    close(refused);
                    thread::sleep(REST);
                }
            }
            Err(Errno::EBADF | Errno::EINVAL) => return,
            Err(Errno::EINTR | Errno::ECONNABORTED) => {}
            Err(errno) => {
                if let Some(times) = trouble.again(clock::monotonic_ns()) {
                    tracing::warn!(%errno, socket, times, "no client can be accepted");
                }
                thread::sleep(again);
                again = (2 * again).min(AGAIN_MAX);
            }
        }
    }
}

/// Runs `work` in a thread called `name`. The thread closes the client before it drops `place`, so
/// a place counts its client until that is closed. Gives the client back if there is no thread for
/// it.
pub fn serve<P: Send + 'static>(
    name: &str,
    client: OwnedFd,
    place: P,
    work: impl FnOnce(&OwnedFd, &P) + Send + 'static,
) -> Result<(), OwnedFd> {
    let client = Arc::new(Mutex::new(Some(client)));
    let of_thread = Arc::clone(&client);
    let run = move || {
        let Some(client) = lock(&of_thread).take() else { return };
        work(&client, &place);
        close(client);
        drop(place);
    };
    match thread::Builder::new().name(name.to_owned()).spawn(run) {
        Ok(_) => Ok(()),
        Err(_) => lock(&client).take().map_or(Ok(()), Err),
    }
}

#[cfg(test)]
mod tests {
    use super::super::closing::tests::lingering;
    use super::*;
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
    use std::io::{IoSlice, Read};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc;

    #[test]
    fn descriptors_that_wait_in_a_refused_client_delay_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener: OwnedFd = UnixListener::bind(&path).expect("it binds").into();
        let (lingering, _peer) = lingering(20);
        let client = UnixStream::connect(&path).expect("it connects");
        let sockets = [lingering.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&sockets)];
        let parts = [IoSlice::new(b"x")];
        sendmsg::<()>(client.as_raw_fd(), &parts, &rights, MsgFlags::empty(), None)
            .expect("it is sent");
        drop(lingering); // the copy that waits in the client's socket is the last one
        thread::spawn(move || accept_all(&listener, "a test's", Err));
        let began_us = clock::monotonic_us();
        for _ in 0..10 {
            let mut next = UnixStream::connect(&path).expect("it connects");
            assert_eq!(next.read(&mut [0; 1]).expect("it is closed"), 0);
        }
        let took_us = clock::monotonic_us() - began_us;
        assert!(took_us < 2_000_000, "{took_us} us");
    }

    #[test]
    fn a_place_is_free_only_when_its_client_is_closed() {
        struct Told(mpsc::Sender<&'static str>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.send("place");
            }
        }
        let (told, hear) = mpsc::channel();
        let (client, mut peer) = UnixStream::pair().expect("a pair");
        serve("a test", client.into(), Told(told), |_, _| {}).expect("a thread");
        assert_eq!(hear.recv(), Ok("place"));
        peer.set_nonblocking(true).expect("it does not block");
        assert_eq!(peer.read(&mut [0; 1]).expect("it is closed already"), 0);
    }
}
