//! Two hosts and the emulated path between them.

use crate::capture::{Capture, CaptureSpec};
use crate::clock::{self, Clock};
use crate::device;
use crate::error::Error;
use crate::frame::Frame;
use crate::mahimahi;
use crate::namespace::{DeviceCounters, Namespace};
use crate::pump::{Lane, Pump, Tap, Wire, lock};
use crate::subnet::Subnet;
use remuda_link::{DelaySummary, Direction, LinkSpec, LinkStats, LogHeader, LogWriter, PathSpec};
use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The addresses of client and server. Each testbed has its own namespaces, so all testbeds use the
/// same addresses.
pub(crate) const CLIENT: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 11, 0, 1), Ipv6Addr::new(0xfd11, 0, 0, 0, 0, 0, 0, 1));
pub(crate) const SERVER: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 11, 0, 2), Ipv6Addr::new(0xfd11, 0, 0, 0, 0, 0, 0, 2));

/// The prefix length of a testbed's subnet.
const BITS: u8 = 24;

const TUN: &str = "tun0";

/// The most paths of a star: each has a subnet of its own.
const STAR_MAX: u8 = 250;

pub(crate) fn subnet(address: Ipv4Addr) -> Subnet {
    Subnet { address, bits: BITS }
}

/// One end of a path: a namespace, and the TUN device in it.
pub(crate) struct End {
    pub(crate) namespace: Namespace,
    pub(crate) tun: OwnedFd,
}

/// The counters of one direction of a testbed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionStats {
    /// The counters of the link model.
    pub link: LinkStats,
    /// How long packets took from one end to the other.
    pub one_way_delay: DelaySummary,
    /// Packets the kernel lost at the sender's device, before the link.
    pub lost_before_link: u64,
    /// Packets the kernel lost at the receiver's device, after the link.
    pub lost_after_link: u64,
}

/// The counters of a testbed since it started, or since [`Testbed::reset_stats`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathStats {
    /// From the client to the server.
    pub up: DirectionStats,
    /// From the server to the client.
    pub down: DirectionStats,
    /// The processor time the link's thread has used since the start. A reset does not change it.
    pub pump_cpu: Duration,
}

/// Two network namespaces joined by an emulated path. Dropping it frees everything.
#[derive(Debug)]
pub struct Testbed {
    // Fields drop in order: the pump must stop before its devices close.
    pump: Pump,
    up: Arc<Mutex<Wire>>,
    down: Arc<Mutex<Wire>>,
    capture: Option<Arc<Mutex<Capture>>>,
    client: Namespace,
    server: Namespace,
    client_before: DeviceCounters,
    server_before: DeviceCounters,
    clock: Clock,
}

impl Testbed {
    /// Makes the namespaces and starts the link.
    pub fn new(path: &PathSpec) -> Result<Self, Error> {
        Self::captured(path, None)
    }

    /// Like `new`, and writes every packet of the link to the file of `capture`, if there is one.
    pub fn captured(path: &PathSpec, capture: Option<&CaptureSpec>) -> Result<Self, Error> {
        // Refuse a wrong description before any other work.
        path.build::<Frame>()?;
        let client = Namespace::create(TUN, CLIENT.0, CLIENT.1)?;
        let server = Namespace::create(TUN, SERVER.0, SERVER.1)?;
        let client = End { tun: tun(&client)?, namespace: client };
        let server = End { tun: tun(&server)?, namespace: server };
        mahimahi::let_through(&client.namespace, &server.namespace)?;
        Self::join(path, client, server, capture)
    }

    /// Makes a testbed for each of at most 250 paths, with one server namespace for all. The client
    /// of path `n`, counted from 0, has the address `10.11.n.1`; the server's address there is
    /// `10.11.n.2`. None of them has an IPv6 address.
    ///
    /// # Errors
    ///
    /// There are more paths, or one is invalid; or the namespaces or devices cannot be made.
    pub fn star(paths: &[PathSpec]) -> Result<Vec<Self>, Error> {
        for path in paths {
            path.build::<Frame>()?;
        }
        let hub = Namespace::create(TUN, SERVER.0, Ipv6Addr::UNSPECIFIED)?;
        let join = |(number, path): (usize, &PathSpec)| {
            let number = u8::try_from(number).ok().filter(|number| *number < STAR_MAX);
            let number = number.ok_or_else(|| Error::Argument {
                option: "paths".to_owned(),
                value: paths.len().to_string(),
                rule: format!("a star has at most {STAR_MAX}"),
            })?;
            let at = |of: Ipv4Addr| {
                let [a, b, _, host] = of.octets();
                Ipv4Addr::new(a, b, number, host)
            };
            let client = Namespace::create(TUN, at(CLIENT.0), Ipv6Addr::UNSPECIFIED)?;
            let server = hub.another_end(&format!("tun{number}"), at(SERVER.0));
            let client = End { tun: tun(&client)?, namespace: client };
            let server = End { tun: tun(&server)?, namespace: server };
            Self::join(path, client, server, None)
        };
        paths.iter().enumerate().map(join).collect()
    }

    /// Starts the link between two ends.
    pub(crate) fn join(
        path: &PathSpec,
        client: End,
        server: End,
        capture: Option<&CaptureSpec>,
    ) -> Result<Self, Error> {
        let (up, down) = path.build::<Frame>()?;
        let (client_tun, server_tun) = (Arc::new(client.tun), Arc::new(server.tun));
        let (client, server) = (client.namespace, server.namespace);
        let capture = capture.map(open_capture).transpose()?;
        let tap = |direction| {
            let capture = Arc::clone(capture.as_ref()?);
            Some(Tap { capture, direction })
        };
        let up_log = open_log(path.up_log.as_deref(), &path.up, Direction::Up)?;
        let down_log = open_log(path.down_log.as_deref(), &path.down, Direction::Down)?;
        let up = Arc::new(Mutex::new(Wire::new(up, up_log, tap(Direction::Up))));
        let down = Arc::new(Mutex::new(Wire::new(down, down_log, tap(Direction::Down))));
        let clock = Clock::start();
        let lanes = vec![
            Lane {
                wire: Arc::clone(&up),
                from: Arc::clone(&client_tun),
                to: Arc::clone(&server_tun),
            },
            Lane { wire: Arc::clone(&down), from: server_tun, to: client_tun },
        ];
        let pump = Pump::start(lanes, clock)?;
        let (client_before, server_before) = Default::default();
        Ok(Self { pump, up, down, capture, client, server, client_before, server_before, clock })
    }

    /// The end at which `remuda link` runs its command. Data from here goes up.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// Whether a trace that plays once has ended, in either direction.
    pub fn is_finished(&self) -> bool {
        [&self.up, &self.down].into_iter().any(|wire| {
            let mut wire = lock(wire);
            wire.link.advance(self.clock.now());
            wire.link.is_finished()
        })
    }

    pub fn stats(&self) -> Result<PathStats, Error> {
        let client = self.client.device_counters()?;
        let server = self.server.device_counters()?;
        let lost = |now: DeviceCounters, before: DeviceCounters| DeviceCounters {
            tx_dropped: now.tx_dropped - before.tx_dropped,
            rx_dropped: now.rx_dropped - before.rx_dropped,
        };
        let client = lost(client, self.client_before);
        let server = lost(server, self.server_before);
        Ok(PathStats {
            up: self.direction(&self.up, client, server),
            down: self.direction(&self.down, server, client),
            pump_cpu: self.pump.cpu(),
        })
    }

    pub fn reset_stats(&mut self) -> Result<(), Error> {
        self.client_before = self.client.device_counters()?;
        self.server_before = self.server.device_counters()?;
        for wire in [&self.up, &self.down] {
            let mut wire = lock(wire);
            wire.link.reset_stats();
            wire.delays.reset();
            wire.refused = 0;
        }
        Ok(())
    }

    /// Stops the link. Returns an error if a log or the capture is incomplete.
    pub fn close(self) -> Result<(), Error> {
        drop(self.pump);
        for wire in [&self.up, &self.down] {
            let error = lock(wire).take_log_error();
            error.map_or(Ok(()), |error| Err(Error::doing("write a log of the link")(error)))?;
        }
        let error = self.capture.and_then(|capture| lock(&capture).end());
        error.map_or(Ok(()), |error| Err(Error::doing("write the capture of the link")(error)))
    }

    fn direction(
        &self,
        wire: &Mutex<Wire>,
        from: DeviceCounters,
        to: DeviceCounters,
    ) -> DirectionStats {
        let mut wire = lock(wire);
        wire.link.advance(self.clock.now());
        DirectionStats {
            link: wire.link.stats(),
            one_way_delay: wire.delays.summary(),
            lost_before_link: from.tx_dropped,
            lost_after_link: to.rx_dropped + wire.refused,
        }
    }
}

fn tun(namespace: &Namespace) -> Result<OwnedFd, Error> {
    namespace.run(|| {
        let (fd, _) = device::open_tun(namespace.device())?;
        device::configure(namespace.device(), subnet(namespace.ipv4()), namespace.ipv6())?;
        Ok(fd)
    })?
}

fn open_capture(spec: &CaptureSpec) -> Result<Arc<Mutex<Capture>>, Error> {
    let capture =
        Capture::open(spec).map_err(|source| Error::Capture { path: spec.path.clone(), source })?;
    Ok(Arc::new(Mutex::new(capture)))
}

fn open_log(
    path: Option<&Path>,
    spec: &LinkSpec,
    direction: Direction,
) -> Result<Option<LogWriter<BufWriter<File>>>, Error> {
    let Some(path) = path else { return Ok(None) };
    let header = LogHeader {
        direction: direction.name().to_owned(),
        rate: spec.rate_text(),
        log_file: path.display().to_string(),
        command_line: std::env::args().collect::<Vec<_>>().join(" "),
        queue: spec.queue.to_string(),
        init_timestamp_ms: clock::wall_ms(),
        settings: vec![
            format!("kernel: {}", rustix::system::uname().release().to_string_lossy()),
            "units: times and delays in ms since the start, sizes in bytes".to_owned(),
            // The description of the link, from which the run can be repeated.
            format!("link: {}", serde_json::to_string(spec).unwrap_or_default()),
        ],
    };
    File::create(path)
        .and_then(|file| LogWriter::new(BufWriter::new(file), &header))
        .map(Some)
        .map_err(|source| Error::Log { path: path.to_owned(), source })
}
