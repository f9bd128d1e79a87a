//! Transfers over real TCP from one namespace to the other, checked byte by byte.
//!
//! Each byte of the content depends on its offset only. So both ends know the content without a
//! file, and a lost, doubled or changed byte shows.

use crate::clock::Clock;
use crate::error::Error;
use crate::namespace::Namespace;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const BLOCK_BYTES: usize = 64 << 10;
/// A connection that moves no bytes for this long has failed.
const STALL_LIMIT: Duration = Duration::from_secs(20);
/// How often the receiver records its progress.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Transfer {
    /// The number of bytes to send; `None` sends until [`Running::stop`].
    pub bytes: Option<u64>,
    /// The sender's congestion control; `None` keeps the namespace's default.
    pub algorithm: Option<String>,
    /// The receiver's congestion control. DCTCP's sender needs a receiver that runs DCTCP too.
    pub receiver_algorithm: Option<String>,
    /// Uses IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Compares every byte that arrives. Costs processor time.
    pub verify: bool,
    /// The sending application pauses; `None` sends all the time.
    pub pauses: Option<Pauses>,
}

/// An application that writes a part, waits, and writes the next part.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    pub bytes: u64,
    /// From the last write of a part to the first one of the next.
    pub pause: Duration,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            bytes: None,
            algorithm: None,
            receiver_algorithm: None,
            ipv6: false,
            verify: true,
            pauses: None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub bytes: u64,
    /// From the start of the transfer to the last byte received.
    pub elapsed: Duration,
    /// The longest time without a byte, between the first byte and the last.
    pub longest_stall: Duration,
    /// Bytes that had arrived, by time since the start of the transfer.
    pub progress: Vec<(Duration, u64)>,
    /// Segments the sender retransmitted.
    pub retransmitted_pkts: u32,
}

impl Outcome {
    /// Goodput between two moments of the transfer, in Mbit/s.
    pub fn goodput_mbit_per_sec(&self, from: Duration, to: Duration) -> f64 {
        let at = |moment: Duration| {
            let after = self.progress.partition_point(|(time, _)| *time <= moment);
            after.checked_sub(1).map_or(0, |index| self.progress[index].1)
        };
        let span = to.saturating_sub(from).as_secs_f64();
        if span > 0.0 { (at(to) - at(from)) as f64 * 8.0 / 1e6 / span } else { 0.0 }
    }
}

#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    sender: JoinHandle<io::Result<u32>>,
    receiver: JoinHandle<io::Result<Outcome>>,
    /// The address of the sending socket. The receiver sees its port as the remote one.
    pub sender_address: SocketAddr,
    socket: TcpStream,
}

/// Word `index` of every transfer's content: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
fn word(index: u64) -> u64 {
    let mut z = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn fill(block: &mut [u8], offset: u64) {
    for (index, bytes) in (offset / 8..).zip(block.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word(index).to_le_bytes());
    }
}

/// Compares the bytes that arrived at `offset` with the content there.
fn check(got: &[u8], offset: u64) -> io::Result<()> {
    let start = offset / 8 * 8;
    let lead = (offset - start) as usize;
    let mut want = vec![0; (lead + got.len()).next_multiple_of(8)];
    fill(&mut want, start);
    if want[lead..lead + got.len()] == *got {
        return Ok(());
    }
    let message = format!("bytes from {offset} on are not those that were sent");
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

/// The congestion control of a TCP socket as the kernel reports it; `None` if it is no such socket.
pub fn algorithm(socket: RawFd) -> Option<String> {
    let mut name = [0u8; 16];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: the buffer is valid for `length`; the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut length,
        )
    };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    (result == 0).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Sets the congestion control of a socket.
pub fn set_algorithm(socket: RawFd, algorithm: &str) -> io::Result<()> {
    // SAFETY: the buffer is valid for its length.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            algorithm.as_ptr().cast(),
            algorithm.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn tcp_info(socket: RawFd) -> Option<libc::tcp_info> {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the buffer is valid for `length`; the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut length,
        )
    };
    (result == 0).then_some(info)
}

fn send(
    mut socket: TcpStream,
    bytes: Option<u64>,
    pauses: Option<Pauses>,
    stop: &AtomicBool,
) -> io::Result<u32> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    let mut pause_at = pauses.map_or(u64::MAX, |pauses| pauses.bytes);
    while bytes.is_none_or(|bytes| offset < bytes) && !stop.load(Ordering::Relaxed) {
        let left = bytes.map_or(BLOCK_BYTES as u64, |bytes| bytes - offset);
        let length = left.min(BLOCK_BYTES as u64) as usize;
        fill(&mut block, offset);
        let mut sent = 0;
        while sent < length && !stop.load(Ordering::Relaxed) {
            match socket.write(&block[sent..length]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        offset += sent as u64;
        if let Some(pauses) = pauses.filter(|_| offset >= pause_at) {
            std::thread::sleep(pauses.pause);
            pause_at = offset + pauses.bytes;
        }
    }
    socket.shutdown(std::net::Shutdown::Write)?;
    // The receiver closes when it has every byte. Until then segments may be retransmitted.
    let _ = socket.read(&mut [0]);
    Ok(tcp_info(socket.as_raw_fd()).map_or(0, |info| info.tcpi_total_retrans))
}

/// The measurements of the receiver.
struct Notes {
    clock: Clock,
    last: Duration,
    sampled: Duration,
    outcome: Outcome,
}

impl Notes {
    fn arrived(&mut self, bytes: u64) {
        let now = self.clock.elapsed();
        if self.outcome.bytes > 0 {
            self.outcome.longest_stall = self.outcome.longest_stall.max(now - self.last);
        }
        self.last = now;
        self.outcome.bytes += bytes;
        self.outcome.elapsed = now;
        if now - self.sampled >= SAMPLE_INTERVAL {
            self.sampled = now;
            self.outcome.progress.push((now, self.outcome.bytes));
        }
    }
}

fn receive(
    mut socket: TcpStream,
    verify: bool,
    clock: Clock,
    received: &AtomicU64,
) -> io::Result<Outcome> {
    socket.set_read_timeout(Some(STALL_LIMIT))?;
    let mut block = vec![0; 4 * BLOCK_BYTES];
    let outcome = Outcome {
        bytes: 0,
        elapsed: Duration::ZERO,
        longest_stall: Duration::ZERO,
        progress: Vec::new(),
        retransmitted_pkts: 0,
    };
    let mut notes = Notes { clock, last: Duration::ZERO, sampled: Duration::ZERO, outcome };
    loop {
        match socket.read(&mut block) {
            Ok(0) => break,
            Ok(length) => {
                if verify {
                    check(&block[..length], notes.outcome.bytes)?;
                }
                notes.arrived(length as u64);
                received.store(notes.outcome.bytes, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let end = (notes.outcome.elapsed, notes.outcome.bytes);
    notes.outcome.progress.push(end);
    Ok(notes.outcome)
}

impl Transfer {
    /// Starts a transfer from `from` to `to`.
    pub fn start(&self, from: &Namespace, to: &Namespace) -> Result<Running, Error> {
        let address: IpAddr = if self.ipv6 { from.ipv6().into() } else { from.ipv4().into() };
        let doing = |what: &str| Error::doing(what.to_owned());
        let listener = from
            .run(|| TcpListener::bind((address, 0)))?
            .map_err(doing("listen for a transfer"))?;
        let target = listener.local_addr().map_err(doing("listen for a transfer"))?;
        let receiver =
            to.run(|| TcpStream::connect(target))?.map_err(doing("connect for a transfer"))?;
        let (sender, _) = listener.accept().map_err(doing("accept a transfer"))?;
        sender.set_nodelay(true).map_err(doing("set up a transfer"))?;
        sender.set_write_timeout(Some(STALL_LIMIT)).map_err(doing("set up a transfer"))?;
        for (socket, algorithm) in
            [(&sender, &self.algorithm), (&receiver, &self.receiver_algorithm)]
        {
            let Some(algorithm) = algorithm else { continue };
            set_algorithm(socket.as_raw_fd(), algorithm)
                .map_err(doing(&format!("set the congestion control {algorithm:?}")))?;
        }
        let sender_address = sender.local_addr().map_err(doing("set up a transfer"))?;
        let socket = sender.try_clone().map_err(doing("set up a transfer"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(0));
        let (bytes, pauses) = (self.bytes, self.pauses);
        let (verify, clock) = (self.verify, Clock::start());
        let sender = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || send(sender, bytes, pauses, &stop)
        });
        let receiver = std::thread::spawn({
            let received = Arc::clone(&received);
            move || receive(receiver, verify, clock, &received)
        });
        Ok(Running { stop, received, sender, receiver, sender_address, socket })
    }

    /// Starts a transfer and waits for its end.
    pub fn run(&self, from: &Namespace, to: &Namespace) -> Result<Outcome, Error> {
        self.start(from, to)?.join()
    }
}

/// Waits for a thread and returns its value. A panic of the thread continues in the caller.
fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Running {
    /// Ends a transfer without a byte limit. Bytes already sent still arrive.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Bytes that have arrived so far.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The sender's window in segments, and its smoothed RTT; `None` once the socket is gone.
    pub fn window(&self) -> Option<(u32, Duration)> {
        let info = tcp_info(self.socket.as_raw_fd())?;
        Some((info.tcpi_snd_cwnd, Duration::from_micros(info.tcpi_rtt.into())))
    }

    /// Segments the sender has retransmitted so far; `None` once the socket is gone.
    pub fn retransmitted_pkts(&self) -> Option<u32> {
        tcp_info(self.socket.as_raw_fd()).map(|info| info.tcpi_total_retrans)
    }

    /// Changes the sender's congestion control, as an application can.
    pub fn set_algorithm(&self, algorithm: &str) -> io::Result<()> {
        set_algorithm(self.socket.as_raw_fd(), algorithm)
    }

    /// The sender's congestion control as the kernel reports it; `None` once the socket is gone.
    pub fn algorithm(&self) -> Option<String> {
        algorithm(self.socket.as_raw_fd())
    }

    pub fn is_finished(&self) -> bool {
        self.sender.is_finished() && self.receiver.is_finished()
    }

    /// Waits for the end of the transfer.
    pub fn join(self) -> Result<Outcome, Error> {
        let received = joined(self.receiver);
        let sent = joined(self.sender);
        let mut outcome = received.map_err(Error::doing("receive a transfer"))?;
        outcome.retransmitted_pkts = sent.map_err(Error::doing("send a transfer"))?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_moved_byte_shows() {
        let mut block = vec![0; 4_096];
        fill(&mut block, 8_192);
        assert!(check(&block, 8_192).is_ok());
        assert!(check(&block[3..100], 8_195).is_ok());
        assert!(check(&block, 8_200).is_err());
        block[77] ^= 1;
        assert!(check(&block, 8_192).is_err());
    }

    #[test]
    fn goodput_is_what_arrived_between_two_moments() {
        let at = Duration::from_secs;
        let outcome = Outcome {
            bytes: 4_000_000,
            elapsed: at(4),
            longest_stall: Duration::ZERO,
            progress: (1..=4).map(|n| (at(n), n * 1_000_000)).collect(),
            retransmitted_pkts: 0,
        };
        assert!((outcome.goodput_mbit_per_sec(at(1), at(3)) - 8.0).abs() < 1e-9);
    }
}
