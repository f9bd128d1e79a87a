//! Many TCP flows at little cost, some of which send: a load of reports at a chosen rate.
//!
//! A busy flow sends two segments at a time, which the receiver acknowledges with one ACK at once.
//! If the flow's program reports at every ACK, a write is a report. An idle flow needs one
//! descriptor, as its peer has closed. Processes of their own hold the idle flows, since a process
//! may have few descriptors.

use crate::Fallible;
use crate::traffic::set_option;
use remuda_live::VethPair;
use remuda_live::transfer::set_algorithm;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Two segments on Ethernet with TCP timestamps: a receiver acknowledges every second one.
const WRITE_BYTES: usize = 2 * 1_448;
/// A range of ephemeral ports has room for fewer than 28,000 flows to one port, and many hosts let
/// a process have 20,000 descriptors.
const FLOWS_PER_LISTENER: usize = 10_000;
/// After this many new flows, a pause gives the agent time for their events.
const OPENED: usize = 100;
/// How often the load is sent.
const TURN: Duration = Duration::from_millis(1);
/// Descriptors of the process beside those of the flows.
const DESCRIPTORS_MORE: u64 = 200;

/// The flows, open but silent.
pub struct Crowd {
    /// Senders, and receivers of the busy ones.
    busy: Vec<(TcpStream, TcpStream)>,
    idle: Vec<Holder>,
    flows: usize,
}

/// A process of this program that holds idle flows. They end with it.
struct Holder(Child);

/// A load under way; it ends when it is dropped.
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Crowd>>,
}

/// Raises the process's limit of descriptors to `count`.
fn allow_descriptors(count: u64) -> Fallible<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid out-pointer; a refusal leaves zeros.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_cur >= count {
        return Ok(());
    }
    limit.rlim_cur = count;
    limit.rlim_max = limit.rlim_max.max(count);
    // SAFETY: a valid value.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(format!("{count} descriptors: {error}\nfix: ulimit -Hn {count}").into())
        }
    }
}

/// So that closing resets the connection, and no port waits for a minute.
pub fn close_at_once(socket: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: a valid pointer to the option's struct, and its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Crowd {
    /// Opens `flows` flows from client to server under `algorithm`, of which `busy` can send.
    /// `opened` is called after each [`OPENED`].
    pub fn open(
        pair: &VethPair,
        algorithm: &str,
        (flows, busy): (usize, usize),
        mut opened: impl FnMut() + Send,
    ) -> Fallible<Self> {
        allow_descriptors(2 * busy as u64 + DESCRIPTORS_MORE)?;
        let address = pair.server().ipv4();
        let listen = || TcpListener::bind((address, 0));
        let mut crowd = Self { busy: Vec::new(), idle: Vec::new(), flows };
        let listener = pair.server().run(listen)??;
        let connect = || -> io::Result<()> {
            for index in 0..busy {
                let sender = connect(listener.local_addr()?, algorithm)?;
                let (receiver, _) = listener.accept()?;
                sender.set_nodelay(true)?;
                sender.set_nonblocking(true)?;
                receiver.set_nonblocking(true)?;
                crowd.busy.push((sender, receiver));
                if index % OPENED == OPENED - 1 {
                    opened();
                }
            }
            Ok(())
        };
        pair.client().run(connect)??;
        let mut left = flows - busy;
        while left > 0 {
            let count = left.min(FLOWS_PER_LISTENER);
            let listener = pair.server().run(listen)??;
            let hold = || Holder::start(&listener, algorithm, count, &mut opened);
            crowd.idle.push(pair.client().run(hold)??);
            left -= count;
        }
        Ok(crowd)
    }

    /// Each of the busy flows from `from` on sends once; `count` flows at most. Returns where to go
    /// on. What a flow has no room for is not sent.
    pub fn send(&mut self, from: usize, count: usize) -> usize {
        let block = [0x5a; WRITE_BYTES];
        let mut room = [0; 4 * WRITE_BYTES];
        let mut at = from;
        for _ in 0..count.min(self.busy.len()) {
            let (sender, receiver) = &mut self.busy[at];
            let _ = sender.write(&block);
            while receiver.read(&mut room).is_ok_and(|bytes| bytes == room.len()) {}
            // One received packet may hold both segments, and is then acknowledged late.
            let _ = set_option(receiver, libc::TCP_QUICKACK, 1);
            at = (at + 1) % self.busy.len();
        }
        at
    }

    /// Sends `per_sec` writes a second in a thread of its own, spread over the busy flows.
    pub fn load(mut self, per_sec: f64) -> Load {
        let stop = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let (mut at, mut sent) = (0, 0.0);
                let started_ns = ccp_agent::clock::monotonic_ns();
                while !stop.load(Ordering::Relaxed) {
                    let elapsed_ns = ccp_agent::clock::monotonic_ns() - started_ns;
                    let due = (elapsed_ns as f64 / 1e9 * per_sec - sent).max(0.0).floor();
                    at = self.send(at, due as usize);
                    sent += due; // what is late beyond one round of all flows is left out
                    std::thread::sleep(TURN);
                }
                self
            }
        });
        Load { stop, thread: Some(thread) }
    }

    pub fn len(&self) -> usize {
        self.flows
    }
}

fn connect(target: SocketAddr, algorithm: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(target)?;
    set_algorithm(socket.as_raw_fd(), algorithm)?;
    close_at_once(&socket)?;
    Ok(socket)
}

impl Holder {
    /// Starts it in this thread's network namespace, and waits until its flows are there.
    fn start(
        listener: &TcpListener,
        algorithm: &str,
        count: usize,
        opened: &mut impl FnMut(),
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let target = listener.local_addr()?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--hold", &format!("{target},{algorithm},{count}")])
            .stdin(Stdio::piped())
            .spawn()?;
        let mut accepted = 0;
        while accepted < count {
            match listener.accept() {
                Ok(_) => accepted += 1, // and closed
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(status) = child.try_wait()? {
                        return Err(io::Error::other(format!("--hold {target}: {status}")));
                    }
                    std::thread::sleep(TURN);
                }
                Err(error) => return Err(error),
            }
            if accepted % OPENED == OPENED - 1 {
                opened();
            }
        }
        Ok(Self(child))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take()); // it waits for the end of its input
        let _ = self.0.wait();
    }
}

/// What the process of a [`Holder`] does: opens flows, and keeps them until its input ends.
pub fn hold(spec: &str) -> Fallible<()> {
    let parts: Vec<&str> = spec.split(',').collect();
    let &[target, algorithm, count] = parts.as_slice() else {
        return Err(format!("--hold {spec}: ADDRESS,ALGORITHM,COUNT").into());
    };
    let (target, count): (SocketAddr, usize) = (target.parse()?, count.parse()?);
    allow_descriptors(count as u64 + DESCRIPTORS_MORE)?;
    let open: Vec<TcpStream> =
        (0..count).map(|_| connect(target, algorithm)).collect::<io::Result<_>>()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    drop(open);
    Ok(())
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
