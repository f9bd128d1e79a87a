//! Linux TCP as a datapath behind a unix datagram socket, for any CCP agent.
//!
//! portus' own agents listen under /tmp/ccp and know nothing of BPF. The bridge owns the BPF
//! datapath. It sends the agent the messages of its flows, apart from the message types that CCP
//! does not have, and passes the agent's messages to the datapath unchanged. Messages for which the
//! agent's socket has no room wait here: the bridge must not block, although the agent's sends to
//! it do.

use crate::Fallible;
use ccp_agent::clock;
use remuda_bpf::Datapath;
use remuda_wire::{Kind, MESSAGE_BYTES_MAX};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder in which portus binds its sockets.
const FOLDER: &str = "/tmp/ccp";
/// Most messages that wait for the agent.
const WAITING_MAX: usize = 4_096;
/// How often waiting messages are sent again.
const RETRY: Duration = Duration::from_millis(1);

/// A datapath, its socket, and the address of its agent.
pub struct Bridge {
    datapath: Datapath,
    socket: UnixDatagram,
    own: PathBuf,
    agent: PathBuf,
    buffer: Vec<u8>,
    waiting: VecDeque<Vec<u8>>,
    /// Messages that either side refused, apart from those to flows that have ended.
    pub refused: u64,
}

/// The socket of the portus agent of a name.
pub fn agent_address(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Whether a message is one of CCP's own: a portus agent knows no other types.
fn is_ccp(message: &[u8]) -> bool {
    message.first_chunk().is_some_and(|kind| u16::from_le_bytes(*kind) <= Kind::Ready as u16)
}

impl Bridge {
    /// Connects a datapath with the portus agent of that name, which must be listening.
    pub fn new(datapath: Datapath, agent: &str) -> io::Result<Self> {
        let own = agent_address(&format!("{agent}.datapath"));
        let socket = UnixDatagram::bind(&own)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            datapath,
            socket,
            own,
            agent: agent_address(agent),
            buffer: vec![0; MESSAGE_BYTES_MAX],
            waiting: VecDeque::new(),
            refused: 0,
        })
    }

    /// Waits until there is work, and does it. `handled` gets each message of the agent after the
    /// datapath has accepted it.
    pub fn turn(&mut self, patience: Duration, handled: &mut dyn FnMut(&[u8])) -> Fallible<()> {
        self.wait(if self.waiting.is_empty() { patience } else { patience.min(RETRY) });
        self.datapath.beat(clock::monotonic_ns());
        let waiting = &mut self.waiting;
        self.datapath.drain_messages(&mut |message| {
            if is_ccp(message) {
                waiting.push_back(message.to_vec());
            }
        });
        self.send_waiting();
        loop {
            match self.socket.recv(&mut self.buffer) {
                Ok(bytes) => match self.datapath.handle(&self.buffer[..bytes]) {
                    Ok(()) => handled(&self.buffer[..bytes]),
                    Err(remuda_bpf::Error::NoFlow(_)) => {}
                    Err(_) => self.refused += 1,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn send_waiting(&mut self) {
        while let Some(message) = self.waiting.front() {
            match self.socket.send_to(message, &self.agent) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.refused += 1,
                Ok(_) => {}
            }
            self.waiting.pop_front();
        }
        let excess = self.waiting.len().saturating_sub(WAITING_MAX);
        self.waiting.drain(..excess);
        self.refused += excess as u64;
    }

    fn wait(&self, patience: Duration) {
        let [events, reports] = self.datapath.poll_fds();
        let mut polled = [events, reports, self.socket.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let patience_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: a valid array and its length. An interrupted wait is a short wait.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, patience_ms) };
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Load, Traffic};
    use portus::ipc::{BackendBuilder, Blocking, Ipc, unix};
    use portus::{CongAlg, DatapathInfo, DatapathTrait, Flow, Report, RunBuilder};
    use remuda_bpf::Settings;
    use remuda_live::VethPair;
    use std::collections::HashMap;

    const WINDOW_PKTS: u32 = 77;
    const PATIENCE: Duration = Duration::from_millis(10);
    const TURNS: u32 = 1_000;

    /// As in portus' documentation: the algorithm asks for reports, and sets the window at each
    /// one.
    struct Fixed;

    struct FixedFlow<I: Ipc> {
        control: portus::Datapath<I>,
        scope: portus::lang::Scope,
        mss: u32,
    }

    impl<I: Ipc> CongAlg<I> for Fixed {
        type Flow = FixedFlow<I>;

        fn name() -> &'static str {
            "fixed"
        }

        fn datapath_programs(&self) -> HashMap<&'static str, String> {
            let program = "(def (Report (volatile acked 0)))
                (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
                (when (> Micros 10000) (:= Micros 0) (report))";
            HashMap::from([("fixed", program.to_owned())])
        }

        fn new_flow(&self, mut control: portus::Datapath<I>, info: DatapathInfo) -> Self::Flow {
            let scope = control.set_program("fixed", None).expect("it is installed");
            FixedFlow { control, scope, mss: info.mss }
        }
    }

    impl<I: Ipc> Flow for FixedFlow<I> {
        fn on_report(&mut self, _: u32, report: Report) {
            let acked = report.get_field("Report.acked", &self.scope).expect("it is a field");
            if acked > 0 {
                let window = [("Cwnd", WINDOW_PKTS * self.mss)];
                self.control.update_field(&self.scope, &window).expect("the bridge listens");
            }
        }
    }

    #[test]
    fn live_an_unmodified_portus_agent_sets_the_window_of_a_real_flow() {
        if crate::skip() {
            return;
        }
        let name = format!("bp{}", std::process::id());
        let sock = unix::Socket::<Blocking>::new(&name).expect("the agent binds");
        let backend = BackendBuilder { sock };
        let agent = RunBuilder::new(backend).default_alg(Fixed).spawn_thread().run();
        let agent = agent.expect("portus starts");
        let settings = Settings { name: name.clone(), ..Settings::default() };
        let mut datapath = Datapath::load(settings, clock::monotonic_ns()).expect("it loads");
        datapath.attach().expect("it registers");
        let mut bridge = Bridge::new(datapath, &name).expect("the bridge binds");
        let pair = VethPair::new().expect("root can make namespaces");
        let load = Load::Trickle(Duration::from_micros(200));
        let traffic = Traffic::start(&pair, &name, load).expect("a flow");
        let obeyed = (0..TURNS).any(|_| {
            bridge.turn(PATIENCE, &mut |_| ()).expect("the bridge works");
            traffic.socket().cwnd_pkts == WINDOW_PKTS
        });
        agent.kill();
        assert!(obeyed, "the window is {}", traffic.socket().cwnd_pkts);
        assert_eq!(bridge.refused, 0, "both sides took every message");
        agent.wait().expect("portus ends as it was told");
        let _ = std::fs::remove_file(agent_address(&name));
    }

    #[test]
    fn what_ccp_does_not_know_is_kept_from_it() {
        let kinds = [0u16, 1, 2, 5, 6, 7, 10, 11, 256];
        let passed: Vec<u16> =
            kinds.into_iter().filter(|kind| is_ccp(&kind.to_le_bytes())).collect();
        assert_eq!(passed, [0, 1, 2, 5]);
        assert!(!is_ccp(&[1]));
    }
}
