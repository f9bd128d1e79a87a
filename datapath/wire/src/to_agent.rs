//! Messages from a datapath to the agent.

use crate::{Error, Kind, Reader, begin, close, open, put_name};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// libccp's `MAX_REPORT_REG`: the most fields of a report.
pub const FIELDS_MAX: usize = 110;
const CREATE_NAME_BYTES: usize = 64;
const FLOW_NAME_BYTES: usize = 16;
const HELLO_NAME_BYTES: usize = 32;
const FAMILY_V4: u16 = 4;
const FAMILY_V6: u16 = 6;

/// A flow starts. The byte order of the IPv4 addresses differs between datapaths; see [`FlowInfo`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Create {
    /// Initial window, in bytes.
    pub init_cwnd_bytes: u32,
    /// Maximum segment size, in bytes.
    pub mss_bytes: u32,
    /// Source address and port, destination address and port.
    pub addresses: [u32; 4],
    /// The congestion-control algorithm that the flow requested; empty if none.
    pub cong_alg: String,
}

/// A flow's addresses, IPv4 or IPv6, and what the host knows about the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// Local address and port.
    pub local: (IpAddr, u16),
    /// Remote address and port.
    pub remote: (IpAddr, u16),
    /// The socket's `SO_MARK`.
    pub mark: u32,
    /// The id of the socket's cgroup (the inode number of its directory); 0 if unknown.
    pub cgroup_id: u64,
    /// Slow-start threshold, in bytes; 0 before the first reduction.
    pub ssthresh_bytes: u32,
    /// Smoothed RTT, in microseconds; 0 if unknown.
    pub srtt_us: u32,
    /// Minimum RTT, in microseconds; 0 if unknown.
    pub rtt_min_us: u32,
    pub ecn: bool,
    /// The congestion-control algorithm that the flow requested; empty if none.
    pub requested: String,
    /// The socket's `SO_COOKIE`; the host never uses one twice. 0 if unknown.
    pub cookie: u64,
    /// The messages do not carry this: a flow of another process counts as that process's host's.
    pub origin: Origin,
}

/// Who a flow's socket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The user of the socket, or the user that made the socket's network namespace.
    pub uid: u32,
    /// The cookie of the network namespace; 0 is the agent's own.
    pub netns: u64,
    /// The initial user namespace owns the network namespace. If it does not, a user has made the
    /// namespace, and can have made up every address in it.
    pub is_of_host: bool,
}

impl Default for Origin {
    fn default() -> Self {
        Self { uid: 0, netns: 0, is_of_host: true }
    }
}

/// A datapath's name, capabilities and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// [`crate::PROTOCOL_VERSION`] of the datapath.
    pub version: u32,
    /// Bits of [`crate::capability`].
    pub capabilities: u32,
    /// The most programs installed at once.
    pub programs_max: u32,
    /// The most flows at once.
    pub flows_max: u32,
    /// The datapath's name, for display.
    pub name: String,
}

/// The optional primitives of one report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// The datapath's monotonic clock at the report, in microseconds.
    pub now_us: u64,
    /// Smoothed RTT, in microseconds; 0 if unknown.
    pub srtt_us: u32,
    /// Minimum RTT, in microseconds; 0 if unknown.
    pub rtt_min_us: u32,
    /// Segments delivered since the flow began, modulo 2^32.
    pub delivered_pkts: u32,
    /// Segments marked lost since the flow began, modulo 2^32.
    pub lost_pkts: u32,
    /// The window in force, in segments.
    pub cwnd_pkts: u32,
    /// Maximum segment size, in bytes.
    pub mss_bytes: u32,
    /// The application limited a rate sample since the last report.
    pub app_limited: bool,
    /// The datapath is retransmitting after losses or a timeout.
    pub in_recovery: bool,
    /// The window limited the sender.
    pub cwnd_full: bool,
    /// A flight used at least half of the window.
    pub cwnd_half: bool,
    /// The datapath has found its last recovery spurious since the last report.
    pub undone: bool,
    /// Since the last report the flow was idle, and its window is now a restart window (RFC 5681
    /// section 4.1).
    pub restarted: bool,
    /// The peer's receive window held the sender back.
    pub rwnd_limited: bool,
    /// The application wrote faster than a full send buffer takes.
    pub sndbuf_limited: bool,
}

/// What controls a flow now, after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The datapath's own control drives the flow.
    FellBack,
    /// The agent drives the flow again.
    Restored,
    /// The datapath could not change to the host algorithm that the agent ordered, or not back from
    /// it.
    Refused,
}

/// A checked message to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// See [`Kind::Create`].
    Create {
        /// The datapath's number of the flow.
        sid: u32,
        create: Create,
    },
    /// See [`Kind::Measure`]. Without fields, it ends the flow.
    Measure {
        /// The datapath's number of the flow.
        sid: u32,
        /// The agent's number of the program that reported.
        uid: u32,
        fields: usize,
    },
    /// See [`Kind::Ready`].
    Ready {
        /// The datapath's number of itself.
        id: u32,
    },
    /// See [`Kind::Hello`].
    Hello(Hello),
    /// See [`Kind::Flow`].
    Flow {
        /// The datapath's number of the flow.
        sid: u32,
        info: Box<FlowInfo>,
    },
    /// See [`Kind::Signals`].
    Signals {
        /// The datapath's number of the flow.
        sid: u32,
        signals: Signals,
    },
    /// See [`Kind::State`].
    State {
        /// The datapath's number of the flow.
        sid: u32,
        state: State,
        /// The window in force, in bytes.
        cwnd_bytes: u32,
        /// The time by the datapath's monotonic clock, in microseconds.
        at_us: u64,
    },
}

impl ToAgent {
    pub fn parse(message: &[u8]) -> Result<Self, Error> {
        let (kind, sid, mut r) = open(message)?;
        let parsed = match kind {
            k if k == Kind::Create as u16 => Self::Create { sid, create: Create::parse(&mut r)? },
            k if k == Kind::Measure as u16 => return Self::parse_measure(sid, r, message.len()),
            k if k == Kind::Ready as u16 => Self::Ready { id: r.u32()? },
            k if k == Kind::Hello as u16 => Self::Hello(Hello::parse(&mut r)?),
            k if k == Kind::Flow as u16 => {
                Self::Flow { sid, info: Box::new(FlowInfo::parse(&mut r)?) }
            }
            k if k == Kind::Signals as u16 => {
                Self::Signals { sid, signals: Signals::parse(&mut r)? }
            }
            k if k == Kind::State as u16 => {
                let state = match r.u32()? {
                    0 => State::FellBack,
                    1 => State::Restored,
                    2 => State::Refused,
                    _ => return Err(Error::Name("flow state")),
                };
                Self::State { sid, state, cwnd_bytes: r.u32()?, at_us: r.u64()? }
            }
            other => return Err(Error::Type(other)),
        };
        r.end("bytes after the body")?;
        Ok(parsed)
    }

    fn parse_measure(sid: u32, mut r: Reader<'_>, bytes: usize) -> Result<Self, Error> {
        let uid = r.u32()?;
        let count = r.u32()?;
        let fields = usize::try_from(count).unwrap_or(usize::MAX);
        if fields > FIELDS_MAX || fields * 8 != r.left.len() {
            return Err(Error::Count { what: "report fields", count: count.into(), bytes });
        }
        Ok(Self::Measure { sid, uid, fields })
    }
}

pub fn encode_ready(out: &mut Vec<u8>, id: u32) {
    begin(out, Kind::Ready, 0);
    out.extend(id.to_le_bytes());
    close(out);
}

/// Encodes a `MEASURE`; without fields, it ends the flow.
pub fn encode_measure(out: &mut Vec<u8>, sid: u32, uid: u32, fields: &[u64]) {
    begin(out, Kind::Measure, sid);
    out.extend(uid.to_le_bytes());
    let count = u32::try_from(fields.len()).expect("at most 110 fields");
    out.extend(count.to_le_bytes());
    for field in fields {
        out.extend(field.to_le_bytes());
    }
    close(out);
}

pub fn encode_state(out: &mut Vec<u8>, sid: u32, state: State, (cwnd_bytes, at_us): (u32, u64)) {
    begin(out, Kind::State, sid);
    out.extend((state as u32).to_le_bytes());
    out.extend(cwnd_bytes.to_le_bytes());
    out.extend(at_us.to_le_bytes());
    close(out);
}

impl Create {
    fn parse(r: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            init_cwnd_bytes: r.u32()?,
            mss_bytes: r.u32()?,
            addresses: [r.u32()?, r.u32()?, r.u32()?, r.u32()?],
            cong_alg: r.name::<CREATE_NAME_BYTES>("the requested algorithm")?,
        })
    }

    /// Encodes a `CREATE` of the flow `sid`.
    pub fn encode(&self, out: &mut Vec<u8>, sid: u32) {
        begin(out, Kind::Create, sid);
        out.extend(self.init_cwnd_bytes.to_le_bytes());
        out.extend(self.mss_bytes.to_le_bytes());
        for word in self.addresses {
            out.extend(word.to_le_bytes());
        }
        put_name(out, &self.cong_alg, CREATE_NAME_BYTES);
        close(out);
    }
}

impl Hello {
    fn parse(r: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            version: r.u32()?,
            capabilities: r.u32()?,
            programs_max: r.u32()?,
            flows_max: r.u32()?,
            name: r.name::<HELLO_NAME_BYTES>("the datapath's name")?,
        })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        begin(out, Kind::Hello, 0);
        for word in [self.version, self.capabilities, self.programs_max, self.flows_max] {
            out.extend(word.to_le_bytes());
        }
        put_name(out, &self.name, HELLO_NAME_BYTES);
        close(out);
    }
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.extend(v4.octets());
            out.extend([0; 12]);
        }
        IpAddr::V6(v6) => out.extend(v6.octets()),
    }
}

fn take_address(r: &mut Reader<'_>, family: u16) -> Result<IpAddr, Error> {
    let octets = r.take::<16>()?;
    match family {
        FAMILY_V4 => Ok(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()),
        FAMILY_V6 => Ok(Ipv6Addr::from(octets).into()),
        _ => Err(Error::Name("address family (4 or 6)")),
    }
}

impl FlowInfo {
    /// A flow of which nothing is known except its addresses.
    pub fn between(local: (IpAddr, u16), remote: (IpAddr, u16)) -> Self {
        Self {
            local,
            remote,
            mark: 0,
            cgroup_id: 0,
            ssthresh_bytes: 0,
            srtt_us: 0,
            rtt_min_us: 0,
            ecn: false,
            requested: String::new(),
            cookie: 0,
            origin: Origin::default(),
        }
    }

    fn parse(r: &mut Reader<'_>) -> Result<Self, Error> {
        let family = r.u16()?;
        let ecn = r.u16()? != 0;
        let local = take_address(r, family)?;
        let remote = take_address(r, family)?;
        Ok(Self {
            local: (local, r.u16()?),
            remote: (remote, r.u16()?),
            mark: r.u32()?,
            cgroup_id: r.u64()?,
            ssthresh_bytes: r.u32()?,
            srtt_us: r.u32()?,
            rtt_min_us: r.u32()?,
            ecn,
            requested: r.name::<FLOW_NAME_BYTES>("the requested algorithm")?,
            cookie: r.u64()?,
            origin: Origin::default(),
        })
    }

    /// Encodes a `FLOW` of the flow `sid`.
    pub fn encode(&self, out: &mut Vec<u8>, sid: u32) {
        begin(out, Kind::Flow, sid);
        let family = if self.local.0.is_ipv4() { FAMILY_V4 } else { FAMILY_V6 };
        out.extend(family.to_le_bytes());
        out.extend(u16::from(self.ecn).to_le_bytes());
        put_address(out, self.local.0);
        put_address(out, self.remote.0);
        out.extend(self.local.1.to_le_bytes());
        out.extend(self.remote.1.to_le_bytes());
        out.extend(self.mark.to_le_bytes());
        out.extend(self.cgroup_id.to_le_bytes());
        for word in [self.ssthresh_bytes, self.srtt_us, self.rtt_min_us] {
            out.extend(word.to_le_bytes());
        }
        put_name(out, &self.requested, FLOW_NAME_BYTES);
        out.extend(self.cookie.to_le_bytes());
        close(out);
    }
}

const SIGNALS_APP_LIMITED: u32 = 1;
const SIGNALS_IN_RECOVERY: u32 = 2;
const SIGNALS_CWND_FULL: u32 = 4;
const SIGNALS_CWND_HALF: u32 = 8;
const SIGNALS_UNDONE: u32 = 16;
const SIGNALS_RESTARTED: u32 = 32;
const SIGNALS_RWND_LIMITED: u32 = 64;
const SIGNALS_SNDBUF_LIMITED: u32 = 128;

impl Signals {
    fn parse(r: &mut Reader<'_>) -> Result<Self, Error> {
        let now_us = r.u64()?;
        let (srtt_us, rtt_min_us) = (r.u32()?, r.u32()?);
        let (delivered_pkts, lost_pkts) = (r.u32()?, r.u32()?);
        let (cwnd_pkts, mss_bytes) = (r.u32()?, r.u32()?);
        let flags = r.u32()?;
        Ok(Self {
            now_us,
            srtt_us,
            rtt_min_us,
            delivered_pkts,
            lost_pkts,
            cwnd_pkts,
            mss_bytes,
            app_limited: flags & SIGNALS_APP_LIMITED != 0,
            in_recovery: flags & SIGNALS_IN_RECOVERY != 0,
            cwnd_full: flags & SIGNALS_CWND_FULL != 0,
            cwnd_half: flags & SIGNALS_CWND_HALF != 0,
            undone: flags & SIGNALS_UNDONE != 0,
            restarted: flags & SIGNALS_RESTARTED != 0,
            rwnd_limited: flags & SIGNALS_RWND_LIMITED != 0,
            sndbuf_limited: flags & SIGNALS_SNDBUF_LIMITED != 0,
        })
    }

    /// Encodes a `SIGNALS` of the flow `sid`.
    pub fn encode(&self, out: &mut Vec<u8>, sid: u32) {
        begin(out, Kind::Signals, sid);
        out.extend(self.now_us.to_le_bytes());
        let flags = u32::from(self.app_limited) * SIGNALS_APP_LIMITED
            + u32::from(self.in_recovery) * SIGNALS_IN_RECOVERY
            + u32::from(self.cwnd_full) * SIGNALS_CWND_FULL
            + u32::from(self.cwnd_half) * SIGNALS_CWND_HALF
            + u32::from(self.undone) * SIGNALS_UNDONE
            + u32::from(self.restarted) * SIGNALS_RESTARTED
            + u32::from(self.rwnd_limited) * SIGNALS_RWND_LIMITED
            + u32::from(self.sndbuf_limited) * SIGNALS_SNDBUF_LIMITED;
        for word in [
            self.srtt_us,
            self.rtt_min_us,
            self.delivered_pkts,
            self.lost_pkts,
            self.cwnd_pkts,
            self.mss_bytes,
            flags,
        ] {
            out.extend(word.to_le_bytes());
        }
        close(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(out: &[u8], want: &ToAgent) {
        assert_eq!(ToAgent::parse(out).as_ref(), Ok(want));
        for cut in 0..out.len() {
            assert!(ToAgent::parse(&out[..cut]).is_err(), "cut at {cut}");
        }
        let longer = [out, &[0]].concat();
        assert!(ToAgent::parse(&longer).is_err());
    }

    #[test]
    fn every_message_comes_back_and_no_cut_of_it_does() {
        let mut out = Vec::new();
        let create = Create {
            init_cwnd_bytes: 14_480,
            mss_bytes: 1_448,
            addresses: [1, 2, 3, 4],
            cong_alg: "rein".into(),
        };
        create.encode(&mut out, 7);
        assert_eq!(out.len(), 96, "as libccp");
        check(&out, &ToAgent::Create { sid: 7, create });
        encode_ready(&mut out, 3);
        check(&out, &ToAgent::Ready { id: 3 });
        encode_measure(&mut out, 7, 2, &[1, u64::MAX]);
        check(&out, &ToAgent::Measure { sid: 7, uid: 2, fields: 2 });
        encode_state(&mut out, 7, State::Restored, (2_896, 5));
        let state = State::Restored;
        check(&out, &ToAgent::State { sid: 7, state, cwnd_bytes: 2_896, at_us: 5 });
        let hello = Hello { version: 1, name: "bpf".into(), ..Hello::default() };
        hello.encode(&mut out);
        check(&out, &ToAgent::Hello(hello));
        let signals = Signals {
            now_us: 5,
            in_recovery: true,
            rwnd_limited: true,
            undone: true,
            restarted: true,
            ..Signals::default()
        };
        signals.encode(&mut out, 9);
        check(&out, &ToAgent::Signals { sid: 9, signals });
        let info = FlowInfo {
            local: ("fd11::1".parse().unwrap(), 1),
            remote: ("fd11::2".parse().unwrap(), 2),
            mark: 3,
            cgroup_id: 4,
            ssthresh_bytes: 0,
            srtt_us: 5,
            rtt_min_us: 6,
            ecn: true,
            requested: "remuda".into(),
            cookie: 7,
            origin: Origin::default(),
        };
        info.encode(&mut out, 9);
        check(&out, &ToAgent::Flow { sid: 9, info: Box::new(info) });
    }

    #[test]
    fn a_name_without_an_end_or_not_printable_is_refused() {
        let mut out = Vec::new();
        Create::default().encode(&mut out, 1);
        out[32..].fill(b'x');
        assert_eq!(ToAgent::parse(&out), Err(Error::Name("the requested algorithm")));
        out[32..34].copy_from_slice(&[0xff, 0]);
        assert_eq!(ToAgent::parse(&out), Err(Error::Name("the requested algorithm")));
    }

    #[test]
    fn a_type_with_a_high_byte_is_no_create() {
        let mut out = Vec::new();
        Create::default().encode(&mut out, 1);
        out[1] = 1;
        assert_eq!(ToAgent::parse(&out), Err(Error::Type(256)));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..256),
            kind in 0u16..16,
        ) {
            let _ = ToAgent::parse(&bytes);
            if bytes.len() >= 8 {
                let length = u16::try_from(bytes.len()).unwrap();
                bytes[..2].copy_from_slice(&kind.to_le_bytes());
                bytes[2..4].copy_from_slice(&length.to_le_bytes());
                let _ = ToAgent::parse(&bytes);
            }
        }
    }
}
