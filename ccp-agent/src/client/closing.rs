//! Closes what clients have sent, in a bounded time.
//!
//! `close` can wait as long as a client likes. A TCP socket with `SO_LINGER` waits until its peer
//! has acknowledged every byte, and closing a unix socket also closes the descriptors that still
//! wait in it. The kernel ends that wait when the thread gets a signal, and sends the rest of the
//! data in the background. So a timer sends a signal to the thread that closes.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Once;

/// A `close` that takes longer is interrupted. Without `SO_LINGER` it takes some microseconds.
const CLOSE_NS_MAX: libc::c_long = 1_000_000;
/// Its default action is to be ignored, so nobody sends it to end a process.
const SIGNAL: Signal = Signal::SIGURG;

/// A timer that sends [`SIGNAL`] to the thread that has made it.
struct Timer(libc::timer_t);

thread_local! {
    /// `None` if the system has no timer left. The thread then closes without a limit.
    static TIMER: Option<Timer> = Timer::of_this_thread();
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Without a handler, the kernel would drop the signal without an interruption.
fn handle_signal() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        let handler = SigHandler::Handler(do_nothing);
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing, which is allowed at any time.
        let _ = unsafe { sigaction(SIGNAL, &action) };
    });
}

impl Timer {
    fn of_this_thread() -> Option<Self> {
        handle_signal();
        // SAFETY: a plain struct, for which all zeros is a value.
        let mut event: libc::sigevent = unsafe { zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL as libc::c_int;
        // SAFETY: no arguments, and it cannot fail.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: both pointers are valid during the call.
        let made =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        (made == 0).then_some(Self(timer))
    }

    /// Lets the timer go off after `ns`, and every `ns` from then on; 0 stops it.
    fn set(&self, ns: libc::c_long) {
        let after = libc::timespec { tv_sec: 0, tv_nsec: ns };
        let times = libc::itimerspec { it_interval: after, it_value: after };
        // SAFETY: the timer exists until it is dropped; the old value is not asked for.
        unsafe { libc::timer_settime(self.0, 0, &raw const times, null_mut()) };
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and is not used from here on.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Runs `act`, and interrupts each system call in it that waits. For calls that close what a client
/// has sent; to receive a message closes the descriptors for which there is no room.
pub fn bounded<T>(act: impl FnOnce() -> T) -> T {
    TIMER.with(|timer| {
        timer.iter().for_each(|timer| timer.set(CLOSE_NS_MAX));
        let done = act();
        timer.iter().for_each(|timer| timer.set(0));
        done
    })
}

/// Drops `it`, which closes the descriptors in it, in a bounded time.
pub fn close<T>(it: T) {
    bounded(|| drop(it));
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::clock;
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// A TCP socket whose peer reads nothing, with a full window, and which waits for `seconds`
    /// when it is closed. Also returns the peer.
    pub fn lingering(seconds: libc::c_int) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("it binds");
        let address = listener.local_addr().expect("an address");
        let mut socket = TcpStream::connect(address).expect("it connects");
        let peer = listener.accept().expect("it is there").0;
        socket.set_nonblocking(true).expect("it does not block");
        let full = loop {
            if let Err(error) = socket.write_all(&[0; 65_536]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        socket.set_nonblocking(false).expect("it blocks");
        let linger = libc::linger { l_onoff: 1, l_linger: seconds };
        // SAFETY: an open descriptor, and a value of the option's type and size.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size_of::<libc::linger>() as libc::socklen_t,
            )
        };
        assert_eq!(set, 0);
        (socket, peer)
    }

    #[test]
    fn a_socket_that_lingers_is_closed_at_once() {
        let (sockets, _peers): (Vec<_>, Vec<_>) = (0..20).map(|_| lingering(20)).unzip();
        let began_us = clock::monotonic_us();
        close(sockets);
        let took_us = clock::monotonic_us() - began_us;
        println!("20 sockets that linger: {took_us} us");
        assert!(took_us < 2_000_000, "{took_us} us");
    }
}
