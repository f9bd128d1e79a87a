//! `remuda explain` on real TCP: flows that are held back in a known way.

use ccp_agent::child::AgentChild;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, getsockname, listen, setsockopt,
    socket, sockopt,
};
use remuda_link::PolicerSpec;
use remuda_live::{LinkSpec, PathSpec, QueueSpec, Testbed};
use remuda_tests::{Place, exclusive, skip};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const RUN: Duration = Duration::from_secs(6);

/// A way to hold a flow back.
#[derive(Clone, Copy)]
struct Case {
    /// The first line that `explain` has of what held it back, and a part of it.
    limit: &'static str,
    advice: &'static str,
    /// Of the path, one way.
    delay_ms: f64,
    loss_percent: f64,
    policed_mbit_per_sec: Option<f64>,
    /// Sizes of the receiver's and the sender's buffer; `None` leaves them to the kernel.
    buffers: [Option<usize>; 2],
    /// The application waits for so long after each 20 kB.
    pause: Duration,
}

const FREE: Case = Case {
    limit: "",
    advice: "",
    delay_ms: 15.0,
    loss_percent: 0.0,
    policed_mbit_per_sec: None,
    buffers: [None; 2],
    pause: Duration::ZERO,
};

const CASES: [Case; 5] = [
    Case {
        limit: "the application",
        advice: "no arm makes it faster",
        pause: Duration::from_millis(50),
        ..FREE
    },
    Case { limit: "the receive window", advice: "tcp_rmem", buffers: [Some(16_000), None], ..FREE },
    Case {
        limit: "the send buffer",
        advice: "SO_SNDBUF",
        // The kernel lets a socket have several times this, if segments are large.
        buffers: [None, Some(4_000)],
        delay_ms: 100.0,
        ..FREE
    },
    Case { limit: "", advice: "lost without a queue", loss_percent: 2.0, ..FREE },
    Case { limit: "", advice: "a policer drops", policed_mbit_per_sec: Some(8.0), ..FREE },
];

impl Case {
    fn path(&self) -> Testbed {
        let rate = self.policed_mbit_per_sec;
        let policer =
            rate.map(|rate_mbit_per_sec| PolicerSpec { rate_mbit_per_sec, burst_bytes: 400_000 });
        let down = LinkSpec {
            rate_mbit_per_sec: Some(60.0),
            delay_ms: self.delay_ms,
            loss_percent: self.loss_percent,
            policer,
            queue: QueueSpec::droptail_bdp(2.0),
            ..LinkSpec::default()
        };
        let up = LinkSpec { loss_percent: 0.0, policer: None, ..down.clone() };
        let path = PathSpec { up, ..PathSpec::symmetric(down) };
        Testbed::new(&path).expect("root can make namespaces and TUN devices")
    }

    /// The sender's end and the receiver's, which are connected.
    fn connect(&self, path: &Testbed, name: &str) -> (TcpStream, TcpStream) {
        let new = || {
            let kind = (AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC);
            socket(kind.0, kind.1, kind.2, None).expect("a socket")
        };
        let [rcvbuf, sndbuf] = self.buffers;
        let at = path.server().ipv4();
        let listener = path.server().run(|| {
            let fd = new();
            setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(name)).expect("by name");
            if let Some(bytes) = sndbuf {
                setsockopt(&fd, sockopt::SndBuf, &bytes).expect("a size");
            }
            let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
            bind(fd.as_raw_fd(), &SockaddrIn::from(any)).expect("a free port");
            listen(&fd, nix::sys::socket::Backlog::new(1).expect("a length")).expect("it listens");
            TcpListener::from(fd)
        });
        let listener = listener.expect("the namespace is there");
        let port = listener.local_addr().expect("bound").port();
        let receiver = path.client().run(|| {
            let fd = new();
            if let Some(bytes) = rcvbuf {
                setsockopt(&fd, sockopt::RcvBuf, &bytes).expect("a size");
            }
            let server = SockaddrIn::from(SocketAddrV4::new(at, port));
            connect(fd.as_raw_fd(), &server).expect("it connects");
            let _: SockaddrIn = getsockname(fd.as_raw_fd()).expect("it is bound");
            TcpStream::from(fd)
        });
        let (sender, _) = listener.accept().expect("it comes");
        (sender, receiver.expect("the namespace is there"))
    }

    /// Runs the flow, and asks at its end. Returns the page.
    fn run(&self, place: &Place, agent: &AgentChild) -> String {
        let path = self.path();
        let (mut sender, mut receiver) = self.connect(&path, &place.name);
        let remote = sender.peer_addr().expect("connected").to_string();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut block = [0; 65_536];
                while receiver.read(&mut block).is_ok_and(|bytes| bytes > 0) {}
            });
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) && sender.write_all(&[7; 20_000]).is_ok() {
                    thread::sleep(self.pause);
                }
                // The receiver's end is closed with it.
                let _ = sender.shutdown(std::net::Shutdown::Both);
            });
            thread::sleep(RUN);
            let rows = agent.flows().expect("it answers");
            let row = rows.iter().find(|row| row.remote == remote);
            let page = row.map(|row| place.remuda(&["explain", &row.id.to_string()]));
            done.store(true, Ordering::Relaxed);
            let (is_good, page) = page.unwrap_or_else(|| panic!("no flow to {remote}: {rows:?}"));
            assert!(is_good, "{page}");
            page
        })
    }

    fn check(&self, page: &str) {
        println!("{page}");
        let after = page.split_once("What held it back\n").expect("a part of the page").1;
        let first = after.split("\n\n").next().unwrap_or_default();
        let top = first.lines().next().unwrap_or_default();
        assert!(top.contains(self.limit), "{:?} is not the first:\n{page}", self.limit);
        let words = first.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(self.advice), "{:?} is not in\n{page}", self.advice);
        for part in ["Its arms\n", "starts with cubic", "Mbit/s over its life\n", "#"] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 80), "80 columns:\n{page}");
    }
}

#[test]
fn explain_names_what_held_a_flow_back() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    thread::scope(|scope| {
        let run = |case: &'static Case| {
            let (place, agent) = (&place, &agent);
            scope.spawn(move || case.run(place, agent))
        };
        let running: Vec<_> = CASES.iter().map(run).collect();
        for (case, page) in CASES.iter().zip(running) {
            case.check(&page.join().expect("it ends"));
        }
    });
    let (is_good, said) = place.remuda(&["explain", "4000000"]);
    assert!(!is_good && said.contains("no flow 4000000\nfix: `remuda flows`"), "{said}");
    agent.stop().expect("it ends");
}

#[test]
fn explain_names_the_guard() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let config = place.file("remuda.toml", "[guard]\ncwnd_pkts_max = 12\n");
    let config = config.to_str().expect("a path of letters");
    let agent = place.agent(&["--config", config, "--arm", "cubic"]);
    let case = Case { limit: "the guard", advice: "guard.cwnd_pkts_max", ..FREE };
    case.check(&case.run(&place, &agent));
    agent.stop().expect("it ends");
}
