//! Linux TCP by CCP's own kernel module, ccp-kernel, through netlink.
//!
//! The module multicasts each message to group 22 of NETLINK_USERSOCK, and takes the agent's
//! messages at the kernel's port, 0. One netlink message carries one message of CCP.
//!
//! Every local user may send to that group. The kernel writes the port of the sender beside each
//! message, and no process has port 0, so the agent takes messages of port 0 alone.
//!
//! ccp-kernel has no heartbeat, no resync and no fallback. It requests `reno` for every flow, and
//! its `CREATE` has addresses and ports in network order. The module announces itself once, when it
//! is loaded; so the agent sends its programs at its own start too, and before the first message of
//! a module that it has not heard announce itself.
//!
//! ccp-kernel makes room for programs after its announcement, without a lock. A program that comes
//! earlier is written to nowhere and can stop the kernel, so the agent waits before it sends them.

use super::libccp;
use super::outbox::Outbox;
use crate::Error;
use crate::datapath::{Agent, Datapath, Obey, Peer};
use crate::trouble::Trouble;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvmsg, sendmsg,
    setsockopt, socket, sockopt,
};
use remuda_wire::to_agent::Create;
use remuda_wire::{Event, Inbox, MESSAGE_BYTES_MAX, Order};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The multicast group of ccp-kernel and portus.
const GROUP: u32 = 22;
/// The port of the kernel.
const KERNEL: u32 = 0;
/// Include/uapi/linux/netlink.h: length (u32), type and flags (2 × u16), sequence number (u32) and
/// port (u32), in the host's byte order.
const HEADER_BYTES: usize = 16;
/// Netlink fills a message up to a multiple of this.
const ALIGNMENT: usize = 4;
const RECEIVE_BYTES: usize = 4 << 20;
/// Messages read before the agent looks elsewhere.
const RECEIVE_MAX: usize = 256;
/// From the announcement of a module until the programs are sent to it.
const PROGRAMS_DELAY_NS: u64 = 100_000_000;
/// While the datapath has no room, it is tried again this often.
const ROOM_WAIT_MS: u16 = 5;

pub struct NetlinkEnd {
    socket: OwnedFd,
    /// The one port whose messages are taken, and to which orders go.
    port: u32,
    outbox: Outbox,
    inbox: Inbox,
    /// The datapath has the programs, unless it is gone.
    has_programs: bool,
    /// When the datapath, or the agent, began, until the programs are sent.
    begun_ns: Option<u64>,
    /// The datapath has sent a message that made sense.
    is_heard: bool,
    given_up: Option<&'static str>,
    strangers: Strangers,
    /// How often the socket was full since the last look, so that messages were lost.
    overruns: u64,
    /// Failures to receive, for warnings.
    trouble: Trouble,
    buffer: Vec<u8>,
    /// Room to write an order in.
    out: Vec<u8>,
}

/// Messages of other senders since the last look.
#[derive(Default)]
struct Strangers {
    messages: u64,
    last_port: u32,
}

impl NetlinkEnd {
    /// For the kernel's module, which need not be loaded yet.
    pub fn open() -> Result<Self, Error> {
        Self::with_peer(KERNEL)
    }

    /// As [`NetlinkEnd::open`], for a test whose process of that port stands in for the kernel.
    pub fn with_peer(port: u32) -> Result<Self, Error> {
        let refuse = |errno: Errno| {
            let fix = "fix: run the agent as root (CAP_NET_ADMIN), or set agent.netlink = false";
            let rule = format!("agent.netlink: netlink group {GROUP}: {}\n{fix}", errno.desc());
            Error::Config { path: "the configuration".to_owned(), rule }
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let usersock = SockProtocol::NetlinkUserSock;
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, flags, usersock).map_err(refuse)?;
        // Without CAP_NET_ADMIN the system's own limit stays.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BYTES);
        let groups = 1 << (GROUP - 1);
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups)).map_err(refuse)?;
        Ok(Self {
            socket,
            port,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            has_programs: false,
            begun_ns: Some(0),
            is_heard: false,
            given_up: None,
            strangers: Strangers::default(),
            overruns: 0,
            trouble: Trouble::default(),
            buffer: vec![0; HEADER_BYTES + MESSAGE_BYTES_MAX + ALIGNMENT],
            out: Vec::new(),
        })
    }

    /// The next message: its sender's port, and where in the buffer CCP's message is, if the
    /// datagram makes sense.
    fn receive_one(&mut self) -> nix::Result<(u32, Option<Range<usize>>)> {
        let mut room = [IoSliceMut::new(&mut self.buffer)];
        let fd = self.socket.as_raw_fd();
        let got = recvmsg::<NetlinkAddr>(fd, &mut room, None, MsgFlags::MSG_DONTWAIT)?;
        let (bytes, is_cut) = (got.bytes, got.flags.contains(MsgFlags::MSG_TRUNC));
        let port = got.address.map(|address| address.pid()).ok_or(Errno::EBADMSG)?;
        let message = if is_cut { None } else { payload(&self.buffer[..bytes]) };
        Ok((port, message))
    }

    /// One message of the datapath, at this place in the buffer.
    fn take(&mut self, message: Range<usize>, now_ns: u64, agent: &mut dyn Agent) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut inbox = std::mem::take(&mut self.inbox);
        let taken = inbox.take(&buffer[message], |event| self.hand_over(event, now_ns, agent));
        self.buffer = buffer;
        self.inbox = inbox;
        if let Err(error) = taken {
            agent.refused(&Peer::Netlink, error.to_string());
        }
    }

    fn hand_over(&mut self, event: Event<'_>, now_ns: u64, agent: &mut dyn Agent) {
        self.settle(agent); // what was given up is another module than the sender
        self.is_heard = true;
        if event == Event::Ready {
            (self.has_programs, self.begun_ns) = (false, Some(now_ns));
            return;
        }
        self.install(agent);
        match event {
            Event::Created { sid, create, info: None } => {
                let create = of_ccp_kernel(create);
                let event = Event::Created { sid, create: &create, info: None };
                agent.event(self, &Peer::Netlink, event);
            }
            event => agent.event(self, &Peer::Netlink, event),
        }
    }

    /// Lets the agent send its programs, unless the datapath has them. A message also ends the
    /// wait of libccp, the library in ccp-kernel, for an agent: it then announces the flows whose
    /// `CREATE` nobody took.
    fn install(&mut self, agent: &mut dyn Agent) {
        if !self.has_programs {
            (self.has_programs, self.begun_ns) = (true, None);
            agent.event(self, &Peer::Netlink, Event::Ready);
        }
    }

    fn send(&mut self, message: &[u8]) {
        if self.given_up.is_none() {
            let Self { socket, port, outbox, .. } = self;
            if let Err(reason) = outbox.send(message, |message| try_send(socket, *port, message)) {
                self.given_up = Some(reason);
            }
        }
    }

    /// Sends what waits, as far as there is room.
    fn flush(&mut self) {
        let Self { socket, port, outbox, .. } = self;
        if let Err(reason) = outbox.flush(|message| try_send(socket, *port, message)) {
            self.given_up = Some(reason);
        }
    }

    /// Tells the agent if the datapath has been given up. One that was never heard is a module that
    /// is not loaded, which is no loss.
    fn settle(&mut self, agent: &mut dyn Agent) {
        let Some(reason) = self.given_up.take() else { return };
        self.outbox = Outbox::default();
        self.inbox = Inbox::default();
        (self.has_programs, self.begun_ns) = (false, None);
        if std::mem::take(&mut self.is_heard) {
            agent.lost(&Peer::Netlink, reason.to_owned());
        }
    }
}

/// Where CCP's message is in a netlink message; `None` if the lengths contradict each other.
fn payload(datagram: &[u8]) -> Option<Range<usize>> {
    let length = u32::from_ne_bytes(datagram.get(..4)?.try_into().ok()?);
    let length = usize::try_from(length).ok()?;
    let is_whole = datagram.len() == length || datagram.len() == length.next_multiple_of(ALIGNMENT);
    (length >= HEADER_BYTES && is_whole).then_some(HEADER_BYTES..length)
}

fn try_send(socket: &OwnedFd, port: u32, message: &[u8]) -> nix::Result<()> {
    let mut header = [0; HEADER_BYTES];
    let length = u32::try_from(HEADER_BYTES + message.len()).map_err(|_| Errno::EMSGSIZE)?;
    header[..4].copy_from_slice(&length.to_ne_bytes());
    let parts = [IoSlice::new(&header), IoSlice::new(message)];
    let address = NetlinkAddr::new(port, 0);
    sendmsg(socket.as_raw_fd(), &parts, &[], MsgFlags::MSG_DONTWAIT, Some(&address)).map(|_| ())
}

/// A `CREATE` of ccp-kernel: addresses and ports in host order, and no request, because ccp-kernel
/// writes the same name for every flow.
fn of_ccp_kernel(create: &Create) -> Create {
    let [local, local_port, remote, remote_port] = create.addresses;
    let port = |port: u32| u16::try_from(port).map_or(0, u16::from_be).into();
    Create {
        addresses: [u32::from_be(local), port(local_port), u32::from_be(remote), port(remote_port)],
        cong_alg: String::new(),
        ..*create
    }
}

impl Obey for NetlinkEnd {
    fn order(&mut self, _peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        let mut out = std::mem::take(&mut self.out);
        libccp::encode(order, &mut out);
        self.send(&out);
        self.out = out;
        Ok(())
    }
}

impl Datapath for NetlinkEnd {
    fn reaches(&self, peer: &Peer) -> bool {
        *peer == Peer::Netlink
    }

    /// Sends nothing: ccp-kernel logs each message that it does not know.
    fn beat(&mut self, _now_ns: u64) {}

    fn drain(&mut self, agent: &mut dyn Agent, now_ns: u64) -> bool {
        let mut is_full = true;
        for _ in 0..RECEIVE_MAX {
            match self.receive_one() {
                Ok((port, _)) if port != self.port => {
                    self.strangers.messages += 1;
                    self.strangers.last_port = port;
                }
                Ok((_, Some(message))) => self.take(message, now_ns, agent),
                Ok((_, None)) => {
                    agent.refused(&Peer::Netlink, "not one whole netlink message".to_owned());
                }
                Err(Errno::ENOBUFS) => self.overruns += 1,
                Err(errno) => {
                    if !matches!(errno, Errno::EAGAIN | Errno::EINTR) {
                        let times = self.trouble.again(now_ns);
                        times.iter().for_each(|times| {
                            tracing::warn!(%errno, times, "a netlink message cannot be received");
                        });
                    }
                    is_full = false;
                    break;
                }
            }
        }
        if !self.outbox.is_empty() {
            self.flush();
        }
        self.settle(agent);
        is_full
    }

    /// Sends the programs when that is due. Reports what others sent and what was lost: once for
    /// all, because every user may send.
    fn keep_house(&mut self, agent: &mut dyn Agent, now_ns: u64) {
        if self.begun_ns.is_some_and(|begun| now_ns.saturating_sub(begun) >= PROGRAMS_DELAY_NS) {
            self.install(agent);
            self.settle(agent);
        }
        let Strangers { messages, last_port } = std::mem::take(&mut self.strangers);
        if messages > 0 {
            let reason = format!(
                "{messages} messages of other senders, the last of netlink port {last_port}"
            );
            agent.refused(&Peer::Netlink, reason);
        }
        let overruns = std::mem::take(&mut self.overruns);
        if overruns > 0 {
            let reason = format!("the netlink socket was full {overruns} times: messages are lost");
            agent.refused(&Peer::Netlink, reason);
        }
    }

    fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    fn wait_ms_max(&self) -> u16 {
        if self.outbox.is_empty() { u16::MAX } else { ROOM_WAIT_MS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::socket::{getsockname, recv, sendto};
    use remuda_wire::to_agent::{encode_measure, encode_ready};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Heard {
        events: Vec<String>,
        refusals: Vec<String>,
        losses: Vec<String>,
    }

    impl Agent for Heard {
        fn event(&mut self, datapath: &mut dyn Obey, peer: &Peer, event: Event<'_>) {
            self.events.push(format!("{event:?}"));
            if event == Event::Ready {
                datapath.order(peer, &Order::Install(b"program")).expect("it is queued");
            }
        }

        fn refused(&mut self, _peer: &Peer, reason: String) {
            self.refusals.push(reason);
        }

        fn lost(&mut self, _peer: &Peer, reason: String) {
            self.losses.push(reason);
        }
    }

    /// A socket with a port of its own, as a process of another user may open one.
    struct Sender {
        socket: OwnedFd,
        port: u32,
    }

    impl Sender {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let port = std::process::id() << 8 | COUNT.fetch_add(1, Ordering::Relaxed);
            let usersock = SockProtocol::NetlinkUserSock;
            let flags = SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, usersock);
            let socket = socket.expect("every Linux has it");
            bind(socket.as_raw_fd(), &NetlinkAddr::new(port, 0)).expect("the port is free");
            Self { socket, port }
        }

        fn send(&self, to: NetlinkAddr, length: usize, message: &[u8]) {
            let length = u32::try_from(length).expect("it is short");
            let mut datagram = length.to_ne_bytes().to_vec();
            datagram.resize(HEADER_BYTES, 0);
            datagram.extend(message);
            let sent = sendto(self.socket.as_raw_fd(), &datagram, &to, MsgFlags::empty());
            // What goes to a group goes to the kernel too, which has no module loaded.
            assert!(matches!(sent, Ok(_) | Err(Errno::ECONNREFUSED)), "{sent:?}");
        }

        /// To the group, as ccp-kernel sends.
        fn multicast(&self, message: &[u8]) {
            let group = NetlinkAddr::new(0, 1 << (GROUP - 1));
            self.send(group, HEADER_BYTES + message.len(), message);
        }
    }

    /// An end and the peer that stands in for the kernel, in a network of this thread's own: other
    /// tests use the same group. `None`, with a message, without root.
    fn end_and_peer() -> Option<(NetlinkEnd, Sender)> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: a netlink group needs root (CAP_NET_ADMIN)");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNET).expect("root may");
        let peer = Sender::new();
        Some((NetlinkEnd::with_peer(peer.port).expect("it joins the group"), peer))
    }

    fn measure(sid: u32) -> Vec<u8> {
        let mut message = Vec::new();
        encode_measure(&mut message, sid, 7, &[1, 2]);
        message
    }

    #[test]
    fn a_netlink_message_holds_one_message_of_its_own_length() {
        let datagram = |length: u32, bytes: usize| {
            let mut datagram = length.to_ne_bytes().to_vec();
            datagram.resize(bytes, 0);
            payload(&datagram)
        };
        assert_eq!(datagram(28, 28), Some(16..28));
        assert_eq!(datagram(29, 32), Some(16..29), "the kernel fills up to four bytes");
        for (length, bytes) in [(28, 32), (28, 24), (15, 16), (0, 16), (u32::MAX, 28), (2, 3)] {
            assert_eq!(datagram(length, bytes), None, "{length} of {bytes}");
        }
        assert_eq!(payload(&[]), None);
    }

    #[test]
    fn addresses_of_ccp_kernel_are_in_network_order() {
        let address = |bytes: [u8; 4]| u32::from_ne_bytes(bytes);
        let port = |port: u16| u32::from(port.to_be());
        let create = Create {
            addresses: [address([10, 0, 0, 1]), port(5_003), address([10, 0, 0, 2]), port(443)],
            cong_alg: "reno".to_owned(),
            ..Create::default()
        };
        let of_host = of_ccp_kernel(&create);
        assert_eq!(of_host.addresses, [0x0a00_0001, 5_003, 0x0a00_0002, 443]);
        assert_eq!(of_host.cong_alg, "", "ccp-kernel requests reno for every flow");
    }

    #[test]
    fn messages_of_other_senders_change_nothing_and_are_counted() {
        let Some((mut end, _peer)) = end_and_peer() else { return };
        let stranger = Sender::new();
        let mut heard = Heard::default();
        let address: NetlinkAddr = getsockname(end.socket.as_raw_fd()).expect("it is bound");
        let mut ready = Vec::new();
        encode_ready(&mut ready, 0);
        stranger.multicast(&ready);
        stranger.send(NetlinkAddr::new(address.pid(), 0), HEADER_BYTES + ready.len(), &ready);
        stranger.send(NetlinkAddr::new(address.pid(), 0), 5, &[0xff; 40]);
        end.drain(&mut heard, 0);
        assert!(heard.events.is_empty(), "{:?}", heard.events);
        end.keep_house(&mut heard, 0);
        end.keep_house(&mut heard, 0);
        let [said] = heard.refusals.as_slice() else { panic!("{:?}", heard.refusals) };
        let want =
            format!("3 messages of other senders, the last of netlink port {}", stranger.port);
        assert_eq!(*said, want);
    }

    #[test]
    fn programs_go_out_at_the_start_at_ready_and_to_a_module_that_came_unheard() {
        let Some((mut end, peer)) = end_and_peer() else { return };
        let received = || {
            let mut datagram = [0; 64];
            let bytes = recv(peer.socket.as_raw_fd(), &mut datagram, MsgFlags::empty()).ok()?;
            Some(datagram[payload(&datagram[..bytes]).expect("a netlink message")].to_vec())
        };
        let mut heard = Heard::default();
        end.keep_house(&mut heard, PROGRAMS_DELAY_NS);
        assert_eq!(received().as_deref(), Some(&b"program"[..]), "at the start");
        peer.multicast(&measure(3));
        end.drain(&mut heard, 0);
        assert_eq!((heard.events.len(), received()), (2, None), "the module has them");
        let mut ready = Vec::new();
        encode_ready(&mut ready, 0);
        peer.multicast(&ready);
        let at_ns = 10 * PROGRAMS_DELAY_NS;
        end.drain(&mut heard, at_ns);
        end.keep_house(&mut heard, at_ns + 1);
        assert_eq!(received(), None, "the module has no room yet");
        end.keep_house(&mut heard, at_ns + PROGRAMS_DELAY_NS);
        assert_eq!(received().as_deref(), Some(&b"program"[..]), "after READY");
        end.given_up = Some("connection refused");
        end.drain(&mut heard, 0);
        assert_eq!(heard.losses, ["connection refused"]);
        heard.events.clear();
        peer.multicast(&measure(3));
        end.drain(&mut heard, 0);
        assert_eq!((heard.events.len(), heard.events[0].as_str()), (2, "Ready"));
        assert_eq!(received().as_deref(), Some(&b"program"[..]), "before its first message");
        assert!(heard.refusals.is_empty(), "{:?}", heard.refusals);
    }

    #[test]
    fn a_module_that_is_not_loaded_is_no_loss() {
        let Some((mut end, peer)) = end_and_peer() else { return };
        drop(peer);
        let mut heard = Heard::default();
        end.keep_house(&mut heard, PROGRAMS_DELAY_NS);
        assert!(heard.losses.is_empty() && heard.refusals.is_empty());
        assert!(!end.has_programs, "the next message brings them");
    }

    #[test]
    fn a_full_socket_costs_the_messages_that_it_had_no_room_for() {
        let Some((mut end, peer)) = end_and_peer() else { return };
        setsockopt(&end.socket, sockopt::RcvBuf, &16_384).expect("it is set");
        let mut heard = Heard::default();
        end.keep_house(&mut heard, PROGRAMS_DELAY_NS);
        (0..1_000).for_each(|sid| peer.multicast(&measure(sid)));
        while end.drain(&mut heard, 0) {}
        let taken = heard.events.len();
        assert!((2..1_000).contains(&taken), "{taken}");
        end.keep_house(&mut heard, 0);
        assert!(heard.refusals.iter().any(|it| it.contains("messages are lost")));
        peer.multicast(&measure(1));
        end.drain(&mut heard, 0);
        assert_eq!(heard.events.len(), taken + 1, "it goes on");
    }
}
