//! One flow: a socket at each end, a thread that writes, and one that reads.

use crate::Error;
use crate::plan::PlannedFlow;
use crate::run::span;
use remuda_live::transfer::set_algorithm;
use remuda_live::{Clock, Nanos, Testbed};
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

const BLOCK_BYTES: usize = 64 << 10;
/// A reader looks this often whether the flow was cut off.
const LOOK: Duration = Duration::from_millis(50);
/// For a handshake: a lost SYN goes again after a second, and after two more.
const PATIENCE: Duration = Duration::from_secs(8);

/// The connected sockets of a flow that has not sent yet.
#[derive(Debug)]
pub struct Ends {
    sender: TcpStream,
    receiver: TcpStream,
}

impl Ends {
    /// Shakes hands; the sender's end accepts, as a server's does that is asked for a file.
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
        // Said first: so it is known when the agent gets the flow.
        if let Some(door) = flow.door.as_ref().filter(|_| !flow.spec.wants.is_default()) {
            let wants = flow.spec.wants.preference();
            let wants =
                remuda_client::Preference { throughput: wants.throughput, delay: wants.delay };
            remuda_client::prefer_at(door, &sender, wants)
                .map_err(doing("say what is wanted of"))?;
        }
        let named = format!("ask for {} for", flow.algorithm);
        set_algorithm(sender.as_raw_fd(), &flow.algorithm).map_err(doing(&named))?;
        Ok(Self { sender, receiver })
    }
}

/// What a flow is at a moment.
#[derive(Clone, Default)]
pub struct Socket {
    /// Payload that its receiver has read.
    pub received: u64,
    /// When it began to send.
    pub started: Option<Duration>,
    /// When all it had to send had arrived.
    pub finished: Option<Duration>,
    /// What the kernel says of the sending end.
    pub info: Option<libc::tcp_info>,
}

/// What the threads of a flow, and whoever looks at them, share.
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
    /// Payload that has arrived so far, in bytes.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// What the kernel says of the sending end; `None` before it is there.
    pub fn tcp_info(&self) -> Option<libc::tcp_info> {
        self.socket.get().and_then(tcp_info)
    }

    /// What it is now.
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

    /// Cuts it off: its threads end soon, and what is under way is not awaited.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        if let Some(socket) = self.socket.get() {
            // Closed with a reset; where either is refused, the threads end all the same.
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Why its threads ended early, if they did.
    pub fn take_error(&self) -> Option<io::Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// What goes wrong after the cut goes wrong because of it.
    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result
            && !self.is_ended()
        {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

/// Segments under way, as the kernel's `tcp_packets_in_flight` counts them.
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

/// Runs a flow until it has sent all it has, or is cut off. `ends` are there if it has shaken
/// hands before.
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
            // Only this thread does, and the count reaches it once.
            let _ = shared.finished.set(clock.now());
        }
        shared.received.store(received, Ordering::Relaxed);
    }
    Ok(())
}
