//! A flow on real TCP: a socket at each end, a thread that writes, and one that reads.

use crate::real::Error;
use crate::real::plan::PlannedFlow;
use crate::real::run::span;
use crate::transfer::set_algorithm;
use crate::{Clock, Nanos, Testbed};
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

const BLOCK_BYTES: usize = 64 << 10;
/// How often the reader checks whether the flow has been ended.
const LOOK: Duration = Duration::from_millis(50);
/// The limit of a handshake. The kernel retransmits a lost SYN after one second, and again after
/// two more.
const PATIENCE: Duration = Duration::from_secs(8);

/// The connected sockets of a flow that has not sent yet.
#[derive(Debug)]
pub struct Ends {
    sender: TcpStream,
    receiver: TcpStream,
}

impl Ends {
    /// Connects the two ends. The sender accepts the connection, like a server that is asked for a
    /// file.
    pub fn connect(flow: &PlannedFlow, testbed: &Testbed) -> Result<Self, Error> {
        let (from, to) = match flow.is_upload {
            true => (testbed.client(), testbed.server()),
            false => (testbed.server(), testbed.client()),
        };
        let doing = |what: &str| Error::doing(format!("{what} flow {}", flow.spec.name));
        let listener =
            from.run(|| TcpListener::bind((from.ipv4(), 0)))?.map_err(doing("listen for"))?;
        let target = listener.local_addr().map_err(doing("listen for"))?;
        let receiver =
            to.run(|| TcpStream::connect_timeout(&target, PATIENCE))?.map_err(doing("connect"))?;
        let (sender, _) = listener.accept().map_err(doing("accept"))?;
        sender.set_nodelay(true).map_err(doing("set up"))?;
        receiver.set_read_timeout(Some(LOOK)).map_err(doing("set up"))?;
        // Set the preference before the algorithm, so that the agent has it when it gets the flow.
        if let Some(door) = flow.door.as_ref().filter(|_| !flow.spec.wants.is_default()) {
            let wants = flow.spec.wants.preference();
            let wants =
                remuda_client::Preference { throughput: wants.throughput, delay: wants.delay };
            remuda_client::prefer_at(door, &sender, wants)
                .map_err(doing("set the preference of"))?;
        }
        let named = format!("set the congestion control {} of", flow.algorithm);
        set_algorithm(sender.as_raw_fd(), &flow.algorithm).map_err(doing(&named))?;
        Ok(Self { sender, receiver })
    }
}

/// The state of a flow at one moment.
#[derive(Clone, Default)]
pub struct Socket {
    /// Payload that the receiver has read, in bytes.
    pub received: u64,
    /// When the flow began to send.
    pub started: Option<Duration>,
    /// When all its bytes had arrived.
    pub finished: Option<Duration>,
    /// The kernel's state of the sending socket.
    pub info: Option<libc::tcp_info>,
}

/// State that the threads of a flow share with the thread that samples it.
#[derive(Debug, Default)]
pub struct Shared {
    socket: OnceLock<TcpStream>,
    started: OnceLock<Nanos>,
    finished: OnceLock<Nanos>,
    received: AtomicU64,
    is_ended: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

impl Shared {
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The kernel's state of the sending socket; `None` before it is connected.
    pub fn tcp_info(&self) -> Option<libc::tcp_info> {
        self.socket.get().and_then(tcp_info)
    }

    /// The state of the flow now.
    pub fn look(&self, clock: Clock) -> Socket {
        let now = clock.now();
        let by_now = |moment: &OnceLock<Nanos>| {
            moment.get().copied().filter(|moment| *moment <= now).map(span)
        };
        Socket {
            received: self.received_bytes(),
            started: by_now(&self.started),
            finished: by_now(&self.finished),
            info: self.tcp_info(),
        }
    }

    /// Ends the flow. Its threads end soon, and bytes under way are not waited for.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        if let Some(socket) = self.socket.get() {
            // Close with a reset. If either call fails, the threads end all the same.
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// The error that ended the threads early, if there was one.
    pub fn take_error(&self) -> Option<io::Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// Keeps the first error. Errors after the flow was ended are a consequence of that, and are
    /// ignored.
    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result
            && !self.is_ended()
        {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

/// Segments in flight, by the formula of the kernel's `tcp_packets_in_flight`.
pub fn in_flight_pkts(info: &libc::tcp_info) -> u32 {
    let under_way = info.tcpi_unacked + info.tcpi_retrans;
    under_way.saturating_sub(info.tcpi_sacked + info.tcpi_lost)
}

fn tcp_info(socket: &TcpStream) -> Option<libc::tcp_info> {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the buffer is valid for `length`; the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut length,
        )
    };
    (result == 0).then_some(info)
}

/// Runs a flow until it has sent all its bytes or is ended. `ends` are its sockets if they are
/// already connected; otherwise connects them first.
pub fn drive(
    flow: &PlannedFlow,
    ends: Option<Ends>,
    testbed: &Testbed,
    shared: &Shared,
    clock: Clock,
) {
    let ends = match ends.map_or_else(|| Ends::connect(flow, testbed), Ok) {
        Ok(ends) => ends,
        Err(error) => return shared.note(Err(io::Error::other(error))),
    };
    let Ends { sender, receiver } = ends;
    match sender.try_clone() {
        Ok(socket) => shared.socket.set(socket).expect("a flow is driven once"),
        Err(error) => return shared.note(Err(error)),
    }
    shared.started.set(clock.now()).expect("a flow is driven once");
    thread::scope(|scope| {
        scope.spawn(|| shared.note(receive(receiver, flow.spec.bytes, shared, clock)));
        shared.note(send(sender, flow.spec.bytes, shared));
    });
}

fn send(mut socket: TcpStream, bytes: Option<u64>, shared: &Shared) -> io::Result<()> {
    let block = vec![0; BLOCK_BYTES];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 && !shared.is_ended() {
        let length = left.min(BLOCK_BYTES as u64) as usize;
        match socket.write(&block[..length]) {
            Ok(written) => left -= written as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    socket.shutdown(Shutdown::Write)
}

fn receive(
    mut socket: TcpStream,
    bytes: Option<u64>,
    shared: &Shared,
    clock: Clock,
) -> io::Result<()> {
    let mut block = vec![0; 4 * BLOCK_BYTES];
    let mut received = 0;
    while !shared.is_ended() {
        match socket.read(&mut block) {
            Ok(0) => break,
            Ok(length) => received += length as u64,
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut => continue,
                _ => return Err(error),
            },
        }
        if bytes == Some(received) {
            // The call succeeds: only this thread sets the value, and the count reaches `bytes`
            // once.
            let _ = shared.finished.set(clock.now());
        }
        shared.received.store(received, Ordering::Relaxed);
    }
    Ok(())
}
