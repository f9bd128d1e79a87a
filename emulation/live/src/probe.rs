//! Measures a path from its ends, independently of the link's own counters.

use crate::clock::Clock;
use crate::error::Error;
use crate::namespace::Namespace;
use crate::priority::{RealTime, hurry};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_tcp_congestion};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long a probe waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a thread that answers waits before it looks whether the probe is done.
const ECHO_PATIENCE: Duration = Duration::from_millis(50);

/// IPv4 and UDP headers, which a datagram's length does not count.
const UDP_HEADER_BYTES: usize = 28;

/// A datagram that fills a packet of 1500 bytes.
const DATAGRAM_BYTES: usize = 1500 - UDP_HEADER_BYTES;

/// The receive buffer of a flood.
const SINK_BUFFER_BYTES: usize = 16 << 20;

/// The length of the content of bulk transfers, which repeats. It shares no factor with any buffer
/// size, so that a lost or doubled byte shows.
const PATTERN_BYTES: usize = 262_147;

/// Round trips of small datagrams on an idle path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrips {
    pub returned: u32,
    pub lost: u32,
    pub min_ms: f64,
    pub mean_ms: f64,
    /// Half of the round trips took no longer.
    pub p50_ms: f64,
    /// 95 % of the round trips took no longer.
    pub p95_ms: f64,
    /// 99 % of the round trips took no longer.
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// A bulk transfer over TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Bytes of payload that arrived; each was compared with the byte sent.
    pub bytes: u64,
    /// From the first connection attempt to the last byte.
    pub elapsed: Duration,
}

impl Transfer {
    pub fn mbit_per_sec(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.elapsed.as_secs_f64()
    }
}

/// Sends `count` datagrams of 64 bytes (36 of payload) from one namespace to the other's IPv4
/// address and back, and times each. Each leaves `gap` after the one before, but not before that
/// one is back.
pub fn round_trips(
    from: &Namespace,
    to: &Namespace,
    count: u32,
    gap: Duration,
) -> Result<RoundTrips, Error> {
    let doing = || Error::doing("probe the round trip");
    let echo = to.run(|| UdpSocket::bind((to.ipv4(), 0)))?.map_err(doing())?;
    let probe = from.run(|| UdpSocket::bind((from.ipv4(), 0)))?.map_err(doing())?;
    probe.connect(echo.local_addr().map_err(doing())?).map_err(doing())?;
    timed(&probe, count, gap, |done| answer(&echo, done)).map_err(doing())
}

/// Round trips between two sockets of this host whose datagrams a third thread holds for `delay`
/// each way, with a timer and the priority of a link's thread. What they take beyond twice the
/// delay is how late this machine wakes its threads, which no link on it can avoid.
pub fn timer_round_trips(delay: Duration, count: u32, gap: Duration) -> Result<RoundTrips, Error> {
    let doing = || Error::doing("probe the machine's timers");
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(doing());
    let (probe, near, far, echo) = (bind()?, bind()?, bind()?, bind()?);
    let connect = |a: &UdpSocket, b: &UdpSocket| {
        a.connect(b.local_addr()?)?;
        b.connect(a.local_addr()?)
    };
    connect(&probe, &near).and_then(|()| connect(&far, &echo)).map_err(doing())?;
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(ECHO_PATIENCE)).map_err(doing())?;
    }
    timed(&probe, count, gap, |done| {
        thread::scope(|scope| {
            scope.spawn(|| answer(&echo, done));
            hold(&near, &far, delay, done);
        });
    })
    .map_err(doing())
}

/// Times the probes of `ask` while another thread runs `answers` until its argument is true.
fn timed(
    probe: &UdpSocket,
    count: u32,
    gap: Duration,
    answers: impl FnOnce(&AtomicBool) + Send,
) -> io::Result<RoundTrips> {
    probe.set_read_timeout(Some(Duration::from_secs(1)))?;
    let done = AtomicBool::new(false);
    let mut times_ms = thread::scope(|scope| {
        scope.spawn(|| answers(&done));
        let asking = scope.spawn(|| ask(probe, count, gap));
        let times_ms = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.store(true, Ordering::Relaxed);
        times_ms
    })?;
    times_ms.sort_by(f64::total_cmp);
    let returned = times_ms.len() as u32;
    let nth = |index: usize| times_ms.get(index).copied().unwrap_or(f64::NAN);
    Ok(RoundTrips {
        returned,
        lost: count - returned,
        min_ms: nth(0),
        mean_ms: times_ms.iter().sum::<f64>() / f64::from(returned),
        p50_ms: nth(times_ms.len() / 2),
        p95_ms: nth(times_ms.len() * 95 / 100),
        p99_ms: nth(times_ms.len() * 99 / 100),
        max_ms: nth(times_ms.len().saturating_sub(1)),
    })
}

// The threads of the probe raise their priority: it measures the path, not how busy the machine is.

/// Forwards each datagram from `near` to `far` and its answer back, each `delay` late.
fn hold(near: &UdpSocket, far: &UdpSocket, delay: Duration, done: &AtomicBool) {
    let clock = Clock::start();
    let _priority = RealTime::start(clock);
    let mut buffer = [0; 64];
    let mut pass = |from: &UdpSocket, to: &UdpSocket| {
        if let Ok(length) = from.recv(&mut buffer) {
            thread::sleep(delay);
            let _ = to.send(&buffer[..length]);
        }
    };
    while !done.load(Ordering::Relaxed) {
        pass(near, far);
        pass(far, near);
    }
}

fn answer(echo: &UdpSocket, done: &AtomicBool) {
    hurry();
    let _ = echo.set_read_timeout(Some(ECHO_PATIENCE));
    let mut buffer = [0; 64];
    while !done.load(Ordering::Relaxed) {
        // The timeout lets the loop check `done`. An answer that cannot be sent counts as a lost
        // probe.
        if let Ok((length, peer)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..length], peer);
        }
    }
}

fn ask(probe: &UdpSocket, count: u32, gap: Duration) -> io::Result<Vec<f64>> {
    hurry();
    let clock = Clock::start();
    let mut times_ms = Vec::new();
    let mut buffer = [0; 64];
    for number in 0..count {
        let mut payload = [0; 36];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        let sent = clock.now();
        probe.send(&payload)?;
        // Skip answers to earlier probes that were counted as lost.
        while let Ok(length) = probe.recv(&mut buffer) {
            if buffer[..length] == payload {
                times_ms.push((clock.now() - sent).as_millis_f64());
                break;
            }
        }
        thread::sleep(gap.saturating_sub((clock.now() - sent).into()));
    }
    Ok(times_ms)
}

/// Floods the path with full-size UDP packets for `span`. Returns the rate at which they arrive, in
/// Mbit/s of IP bytes. `offered_mbit_per_sec` must be above the path's rate.
pub fn saturated_rate(
    from: &Namespace,
    to: &Namespace,
    offered_mbit_per_sec: f64,
    span: Duration,
) -> Result<f64, Error> {
    let doing = || Error::doing("probe the rate");
    let sink = to.run(|| UdpSocket::bind((to.ipv4(), 0)))?.map_err(doing())?;
    let source = from.run(|| UdpSocket::bind((from.ipv4(), 0)))?.map_err(doing())?;
    sink.set_read_timeout(Some(Duration::from_millis(500))).map_err(doing())?;
    // The usual 208 KiB hold less than a millisecond of a fast path while the reader does not run.
    set_socket_recv_buffer_size_force(&sink, SINK_BUFFER_BYTES)
        .map_err(Error::doing("probe the rate"))?;
    source.connect(sink.local_addr().map_err(doing())?).map_err(doing())?;
    thread::scope(|scope| {
        scope.spawn(|| flood(&source, offered_mbit_per_sec, span));
        Ok(arrival_rate(&sink))
    })
}

fn flood(source: &UdpSocket, offered_mbit_per_sec: f64, span: Duration) {
    let clock = Clock::start();
    let bits = (DATAGRAM_BYTES + UDP_HEADER_BYTES) as f64 * 8.0;
    let mut sent = 0.0;
    while clock.elapsed() < span {
        let due = clock.elapsed().as_secs_f64() * offered_mbit_per_sec * 1e6 / bits;
        while sent < due {
            // A packet the socket refuses is skipped: the flood is above the path's rate anyway.
            let _ = source.send(&[0; DATAGRAM_BYTES]);
            sent += 1.0;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn arrival_rate(sink: &UdpSocket) -> f64 {
    let clock = Clock::start();
    let mut buffer = [0; 2048];
    let (mut first, mut last, mut bytes) = (None, 0.0, 0);
    while let Ok(length) = sink.recv(&mut buffer) {
        last = clock.elapsed().as_secs_f64();
        if first.is_some() {
            bytes += length + UDP_HEADER_BYTES;
        }
        first.get_or_insert(last);
    }
    bytes as f64 * 8.0 / 1e6 / (last - first.unwrap_or(0.0))
}

/// Sends `bytes` over TCP from one namespace to an address of the other, and compares each byte
/// that arrives. `congestion` names a congestion control of the kernel.
pub fn transfer(
    from: &Namespace,
    to: (&Namespace, IpAddr),
    bytes: u64,
    congestion: Option<&str>,
) -> Result<Transfer, Error> {
    let doing = || Error::doing("transfer data over TCP");
    let (receiver, address) = to;
    let listener = receiver.run(|| TcpListener::bind((address, 0)))?.map_err(doing())?;
    let target = listener.local_addr().map_err(doing())?;
    let clock = Clock::start();
    let received = thread::scope(|scope| {
        let sender = scope.spawn(|| from.run(|| send(target, bytes, congestion)));
        let received = accept(&listener, &sender).and_then(|stream| receive(stream, bytes));
        sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?.map_err(doing())?;
        received.map_err(doing())
    })?;
    Ok(Transfer { bytes: received, elapsed: clock.elapsed() })
}

/// Waits for the connection. A sender that has finished may have failed, or its last packets may
/// still be on the path: then this waits for another [`PATIENCE`].
fn accept<T>(
    listener: &TcpListener,
    sender: &thread::ScopedJoinHandle<'_, T>,
) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let mut finished: Option<Clock> = None;
    loop {
        if sender.is_finished() {
            finished.get_or_insert_with(Clock::start);
        }
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && finished.is_none_or(|clock| clock.elapsed() < PATIENCE) =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
}

fn send(target: SocketAddr, bytes: u64, congestion: Option<&str>) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if let Some(congestion) = congestion {
        set_tcp_congestion(&stream, congestion)?;
    }
    let pattern = pattern();
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(pattern.len());
        stream.write_all(&pattern[..length])?;
        left -= length as u64;
    }
    stream.shutdown(Shutdown::Write)
}

fn receive(mut stream: TcpStream, bytes: u64) -> io::Result<u64> {
    let pattern = pattern();
    let mut buffer = vec![0; PATTERN_BYTES];
    let mut received = 0;
    loop {
        let place = (received % PATTERN_BYTES as u64) as usize;
        let length = stream.read(&mut buffer[..PATTERN_BYTES - place])?;
        if length == 0 {
            break;
        }
        if buffer[..length] != pattern[place..place + length] {
            return Err(io::Error::other(format!("byte {received} or one after it is wrong")));
        }
        received += length as u64;
    }
    if received == bytes {
        Ok(received)
    } else {
        Err(io::Error::other(format!("{received} of {bytes} bytes arrived")))
    }
}

/// Bytes of a linear congruential generator, whose period is longer than the pattern.
fn pattern() -> Vec<u8> {
    let mut state = 1u32;
    let next = || {
        // Numerical Recipes' constants; the top byte is the random one.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(PATTERN_BYTES).collect()
}
