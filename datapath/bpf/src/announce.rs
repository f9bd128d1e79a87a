//! Kernel records become events.

use crate::layout::{self, FlowInfo, REPORT_REGISTERS, ReportHead};
use remuda_wire::to_agent::{Create, FlowInfo as Described, Origin, Signals, State};
use remuda_wire::{Report, Response, capability};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every capability of the protocol.
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

/// Describes a flow for the agent, without its window. An unknown round-trip time or threshold is
/// 0.
pub fn flow(info: &FlowInfo, name: &str) -> Described {
    let ssthresh_bytes = if info.ssthresh_pkts >= SSTHRESH_NONE {
        0
    } else {
        info.ssthresh_pkts.saturating_mul(info.mss_bytes)
    };
    Described {
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
        origin: Origin {
            uid: info.owner.uid,
            netns: info.owner.netns,
            is_of_host: info.owner.is_of_host != 0,
        },
    }
}

/// Describes a flow as a CCP `CREATE`. CCP has no IPv6 addresses: they are 0 here.
pub fn create(info: &FlowInfo, name: &str) -> Create {
    let v4 = |octets: [u8; 16]| match address(info.family, octets) {
        IpAddr::V4(v4) => u32::from(v4),
        IpAddr::V6(_) => 0,
    };
    Create {
        init_cwnd_bytes: info.cwnd_pkts.saturating_mul(info.mss_bytes),
        mss_bytes: info.mss_bytes,
        addresses: [
            v4(info.local_addr),
            info.local_port.into(),
            v4(info.remote_addr),
            info.remote_port.into(),
        ],
        cong_alg: name.to_owned(),
    }
}

/// Turns a fallback, restored or refused record into an event.
pub fn state(event: &layout::Event) -> remuda_wire::Event<'static> {
    let state = match event.kind {
        layout::RESTORED => State::Restored,
        layout::FELL_BACK => State::FellBack,
        _ => State::Refused,
    };
    let cwnd_bytes = event.cwnd_pkts.saturating_mul(event.mss_bytes);
    remuda_wire::Event::State { sid: event.sid, state, cwnd_bytes, at_us: event.now_ns / 1_000 }
}

/// Turns a record of a response into an event; `None` for one that does not make sense.
pub fn response(record: &[u8]) -> Option<remuda_wire::Event<'static>> {
    let it = layout::read::<layout::Response>(record)?;
    let took_ns = it.event.now_ns.checked_sub(it.started_ns)?;
    let response = Response {
        at_us: it.event.now_ns / 1_000,
        took_us: took_ns / 1_000,
        bytes: it.bytes,
        srtt_us: it.srtt_us,
        rtt_min_us: known_rtt(it.rtt_min_us),
        lost_pkts: it.lost_pkts,
        rwnd_bytes: it.rwnd_bytes,
        started_cwnd_pkts: it.started_cwnd_pkts,
        mss_bytes: it.event.mss_bytes,
        number: it.number,
    };
    Some(remuda_wire::Event::Response { sid: it.event.sid, response })
}

/// Hands the report of a record to `sink`. A record whose length differs from its count of fields
/// is dropped.
pub fn report(record: &[u8], sink: impl FnOnce(Report<'_>)) {
    let Some(head) = layout::read::<ReportHead>(record) else {
        return;
    };
    let words = record[size_of::<ReportHead>()..].chunks_exact(8);
    let count = words.len();
    let mut fields = [0; REPORT_REGISTERS];
    if count != head.n_fields as usize || count > fields.len() {
        return;
    }
    for (field, word) in fields.iter_mut().zip(words) {
        *field = u64::from_ne_bytes(word.try_into().expect("a chunk of 8 bytes"));
    }
    let is = |flag: u32| head.flags & flag != 0;
    let signals = Signals {
        now_us: head.event.now_ns / 1_000,
        srtt_us: head.srtt_us,
        rtt_min_us: known_rtt(head.rtt_min_us),
        delivered_pkts: head.delivered_pkts,
        lost_pkts: head.lost_pkts,
        cwnd_pkts: head.event.cwnd_pkts,
        mss_bytes: head.event.mss_bytes,
        app_limited: is(layout::REPORT_APP_LIMITED),
        in_recovery: is(layout::REPORT_IN_RECOVERY),
        cwnd_full: is(layout::REPORT_CWND_FULL),
        cwnd_half: is(layout::REPORT_CWND_HALF),
        undone: is(layout::REPORT_UNDONE),
        restarted: is(layout::REPORT_RESTARTED),
        rwnd_limited: is(layout::REPORT_RWND_LIMITED),
        sndbuf_limited: is(layout::REPORT_SNDBUF_LIMITED),
    };
    let (sid, uid) = (head.event.sid, head.program_uid);
    sink(Report { sid, uid, fields: &fields[..count], signals: Some(signals) });
}
