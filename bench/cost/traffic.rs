//! One TCP flow over a pair of veth devices, with as little work of this process as possible.
//!
//! The transfers of `remuda_live` compute their content, which costs as much processor time as
//! sending it; here one block is sent again and again. The sender keeps to the first processor and
//! the receiver to the last: if the scheduler places them, one flow can be three times as fast as
//! the next.

use crate::Fallible;
use ccp_agent::clock;
use remuda_live::VethPair;
use remuda_live::transfer::set_algorithm;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const BULK_BYTES: usize = 256 << 10;
/// One segment on Ethernet with TCP timestamps.
const SEGMENT_BYTES: usize = 1_448;
/// A flow that moves no byte for this long has failed.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// How a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As fast as possible: the processors are the bottleneck.
    Bulk,
    /// One segment at a time, acknowledged at once, with a pause after it.
    Trickle(Duration),
}

#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    socket: TcpStream,
    started_ns: u64,
}

/// The kernel's figures of the sending socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Socket {
    pub cwnd_pkts: u32,
    pub srtt_us: u32,
    pub retransmitted_pkts: u32,
}

pub fn set_option(socket: &TcpStream, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: a valid pointer to an int, and its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The processors that this process may use, in order.
fn processors() -> Vec<usize> {
    // SAFETY: a bit set, for which zeros are valid, and an out-pointer of its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: the index lies within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Pins this thread to one processor.
fn keep_to(processor: usize) {
    // SAFETY: as above; a refusal leaves the thread free, which only adds noise.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Sets this thread's timer slack to 1 ns; with the default a sleep may last 50 us longer.
fn sleep_punctually() {
    // SAFETY: no pointers; a refusal only makes sleeps longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn send(mut socket: TcpStream, load: Load, stop: &AtomicBool) -> io::Result<()> {
    sleep_punctually();
    let block = match load {
        Load::Bulk => vec![0x5a; BULK_BYTES],
        Load::Trickle(_) => vec![0x5a; SEGMENT_BYTES],
    };
    while !stop.load(Ordering::Relaxed) {
        socket.write_all(&block)?;
        if let Load::Trickle(gap) = load {
            std::thread::sleep(gap);
        }
    }
    socket.shutdown(Shutdown::Write)
}

fn receive(mut socket: TcpStream, load: Load, received: &AtomicU64) -> io::Result<()> {
    let mut block = vec![0; BULK_BYTES];
    loop {
        match socket.read(&mut block)? {
            0 => return Ok(()),
            bytes => received.fetch_add(bytes as u64, Ordering::Relaxed),
        };
        if load != Load::Bulk {
            set_option(&socket, libc::TCP_QUICKACK, 1)?;
        }
    }
}

impl Traffic {
    /// Starts a flow from the client to the server; its sender runs `algorithm`.
    pub fn start(pair: &VethPair, algorithm: &str, load: Load) -> Fallible<Self> {
        let address = pair.server().ipv4();
        let listener = pair.server().run(|| TcpListener::bind((address, 0)))??;
        let target = listener.local_addr()?;
        let sender = pair.client().run(|| TcpStream::connect(target))??;
        let (receiver, _) = listener.accept()?;
        set_algorithm(sender.as_raw_fd(), algorithm)
            .map_err(|error| format!("TCP_CONGESTION={algorithm}: {error}"))?;
        sender.set_nodelay(true)?;
        sender.set_write_timeout(Some(STALL_LIMIT))?;
        receiver.set_read_timeout(Some(STALL_LIMIT))?;
        let socket = sender.try_clone()?;
        let (stop, received) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let processors = processors();
        let (first, last) = (processors[0], processors[processors.len() - 1]);
        let started_ns = clock::monotonic_ns();
        let sending = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                keep_to(first);
                send(sender, load, &stop)
            }
        });
        let receiving = std::thread::spawn({
            let received = Arc::clone(&received);
            move || {
                keep_to(last);
                receive(receiver, load, &received)
            }
        });
        Ok(Self { stop, received, threads: vec![sending, receiving], socket, started_ns })
    }

    /// The number of bytes that have arrived, and the time since the first one was sent.
    pub fn progress(&self) -> (u64, Duration) {
        let elapsed = clock::monotonic_ns() - self.started_ns;
        (self.received.load(Ordering::Relaxed), Duration::from_nanos(elapsed))
    }

    /// The current figures of the sending socket.
    pub fn socket(&self) -> Socket {
        // SAFETY: a struct of integers, for which zeros are valid.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the buffer is valid for `length`; the kernel writes no more. If it refuses, the
        // zeros stay.
        unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &mut length,
            )
        };
        Socket {
            cwnd_pkts: info.tcpi_snd_cwnd,
            srtt_us: info.tcpi_rtt,
            retransmitted_pkts: info.tcpi_total_retrans,
        }
    }

    /// Ends the flow; an error of either end is returned.
    pub fn finish(mut self) -> Fallible<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| "a thread of the flow panicked")??;
        }
        Ok(())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
