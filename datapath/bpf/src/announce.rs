//! Kernel records become wire messages.

use crate::layout::{self, Event, FlowInfo, ReportHead};
use remuda_wire::capability;
use remuda_wire::to_agent::{
    Create, FlowInfo as WireFlow, Signals, State, encode_measure, encode_state,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What this datapath can: all there is.
pub const CAPABILITIES: u32 = capability::SIGNALS | capability::NATIVE | capability::CCP;

const AF_INET6: u16 = 10;
/// `TCP_INFINITE_SSTHRESH`.
const SSTHRESH_NONE: u32 = 0x7fff_ffff;
/// `TCP_ECN_OK`, include/net/tcp.h.
const ECN_OK: u16 = 1;
/// `tcp_min_rtt()` before the first sample.
const RTT_UNKNOWN: u32 = u32::MAX;

/// A dual-stack listener's sockets have family 10 with mapped addresses.
fn address(family: u16, octets: [u8; 16]) -> IpAddr {
    if family == AF_INET6 {
        Ipv6Addr::from(octets).to_canonical()
    } else {
        Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()
    }
}

fn known_rtt(rtt_us: u32) -> u32 {
    if rtt_us == RTT_UNKNOWN { 0 } else { rtt_us }
}

/// A `FLOW`.
pub fn flow(sid: u32, info: &FlowInfo, name: &str, out: &mut Vec<u8>) {
    let ssthresh_bytes = if info.ssthresh_pkts >= SSTHRESH_NONE {
        0
    } else {
        info.ssthresh_pkts.saturating_mul(info.mss_bytes)
    };
    let message = WireFlow {
        local: (address(info.family, info.local_addr), info.local_port),
        remote: (address(info.family, info.remote_addr), info.remote_port),
        mark: info.mark,
        cgroup_id: info.cgroup_id,
        ssthresh_bytes,
        srtt_us: info.srtt_us,
        rtt_min_us: known_rtt(info.rtt_min_us),
        ecn: info.ecn & ECN_OK != 0,
        requested: name.to_owned(),
        cookie: info.cookie,
    };
    message.encode(out, sid);
}

/// A `CREATE`. IPv6 addresses do not fit it: they are 0 there, and whole in the `FLOW` before.
pub fn create(sid: u32, info: &FlowInfo, name: &str, out: &mut Vec<u8>) {
    let v4 = |octets: [u8; 16]| match address(info.family, octets) {
        IpAddr::V4(v4) => u32::from(v4),
        IpAddr::V6(_) => 0,
    };
    let message = Create {
        init_cwnd_bytes: info.cwnd_pkts.saturating_mul(info.mss_bytes),
        mss_bytes: info.mss_bytes,
        addresses: [
            v4(info.local_addr),
            info.local_port.into(),
            v4(info.remote_addr),
            info.remote_port.into(),
        ],
        cong_alg: name.to_owned(),
    };
    message.encode(out, sid);
}

/// A `STATE`.
pub fn state(event: &Event, out: &mut Vec<u8>) {
    let state = match event.kind {
        layout::RESTORED => State::Restored,
        layout::FELL_BACK => State::FellBack,
        _ => State::Refused,
    };
    let cwnd_bytes = event.cwnd_pkts.saturating_mul(event.mss_bytes);
    encode_state(out, event.sid, state, (cwnd_bytes, event.now_ns / 1_000));
}

/// A `SIGNALS` and its `MEASURE`.
pub fn report(record: &[u8], out: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8])) {
    let Some(head) = layout::read::<ReportHead>(record) else {
        return;
    };
    let fields: Vec<u64> = record[size_of::<ReportHead>()..]
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("a chunk of 8 bytes")))
        .collect();
    if fields.len() != head.n_fields as usize {
        return;
    }
    let signals = Signals {
        now_us: head.event.now_ns / 1_000,
        srtt_us: head.srtt_us,
        rtt_min_us: known_rtt(head.rtt_min_us),
        delivered_pkts: head.delivered_pkts,
        lost_pkts: head.lost_pkts,
        cwnd_pkts: head.event.cwnd_pkts,
        mss_bytes: head.event.mss_bytes,
        app_limited: head.flags & layout::REPORT_APP_LIMITED != 0,
        in_recovery: head.flags & layout::REPORT_IN_RECOVERY != 0,
        cwnd_full: head.flags & layout::REPORT_CWND_FULL != 0,
        cwnd_half: head.flags & layout::REPORT_CWND_HALF != 0,
    };
    signals.encode(out, head.event.sid);
    sink(out);
    encode_measure(out, head.event.sid, head.program_uid, &fields);
    sink(out);
}
