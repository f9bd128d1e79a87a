//! Flows without an agent, and flows with a fake agent.

use super::*;
use crate::played::{Agent, HOUR, Place, until};
use remuda_wire::ToAgent;
use remuda_wire::to_agent::{Signals, State};
use std::ops::Range;
use std::time::Duration;

const MSS: u64 = 1_200;
const RTT: Duration = Duration::from_millis(20);

/// A connection whose ACKs and losses the test chooses.
struct Sender {
    flow: Flow,
    now: Instant,
    pn: u64,
    in_flight: u64,
}

impl Sender {
    fn new(datapath: &Datapath) -> Self {
        let flow = Flow::new(datapath.clone(), Identity::default(), MSS as u16);
        Self { flow, now: datapath.clock().started(), pn: 0, in_flight: 0 }
    }

    /// Fills the window. Returns the numbers of the packets sent.
    fn fills(&mut self) -> Range<u64> {
        let from = self.pn;
        while self.in_flight + MSS <= self.flow.window() {
            self.flow.sent(self.now, MSS, self.pn);
            (self.in_flight, self.pn) = (self.in_flight + MSS, self.pn + 1);
        }
        self.flow.cwnd_limited();
        from..self.pn
    }

    /// Reports an ACK one round trip after the packets were sent; the packets `lost` are lost.
    fn ack(&mut self, acked: Range<u64>, lost: Range<u64>, sent: Instant) {
        self.now = self.now.max(sent + RTT);
        for pn in acked.clone() {
            self.flow.acked(self.now, sent, MSS, Some(pn));
        }
        self.in_flight -= (acked.end - acked.start) * MSS;
        self.flow.acks_end(self.in_flight, false);
        for pn in lost.clone() {
            self.flow.lost(self.now, MSS, pn);
        }
        self.in_flight -= (lost.end - lost.start) * MSS;
        if !lost.is_empty() {
            self.flow.congestion(self.now, sent, false, false);
        }
    }

    /// Sends a window of packets, of which the first `lost` are lost and the rest acknowledged.
    /// Returns the window after that.
    fn round(&mut self, lost: u64) -> u64 {
        let sent = self.now;
        let packets = self.fills();
        let first = packets.start + lost;
        self.ack(first..packets.end, packets.start..first, sent);
        self.flow.window() / MSS
    }
}

/// A flow whose first window is acknowledged. Returns also the number by which the agent knows it.
fn announced(place: &Place, timeout: Duration) -> (Agent, Datapath, Sender, u32) {
    let mut agent = place.agent();
    let datapath = place.datapath(timeout);
    agent.is_greeted();
    let mut sender = Sender::new(&datapath);
    sender.round(0);
    let sid = agent.flow();
    (agent, datapath, sender, sid)
}

#[test]
fn without_an_agent_a_path_runs_new_reno() {
    let place = Place::new();
    let mut sender = Sender::new(&place.datapath(HOUR));
    // Lost packets, and the window after the round, in packets. Slow start; then a loss halves the
    // window, including what the same ACK added; packets sent at that moment belong to the
    // recovery; then the window grows by a datagram a round.
    let rows = [(0, 20), (0, 40), (2, 39), (0, 39), (0, 40), (1, 20)];
    for (at, (lost, want)) in rows.into_iter().enumerate() {
        assert_eq!(sender.round(lost), want, "round {at}");
    }
    assert_eq!(sender.flow.rate(), None);
}

#[test]
fn losses_of_one_round_trip_reduce_once() {
    let place = Place::new();
    let mut sender = Sender::new(&place.datapath(HOUR));
    let sent = sender.now;
    sender.fills();
    sender.ack(1..2, 0..1, sent);
    assert_eq!(sender.flow.window(), 11 * MSS / 2);
    sender.ack(3..4, 2..3, sent);
    sender.flow.congestion(sender.now, sent, false, true);
    assert_eq!(sender.flow.window(), 11 * MSS / 2);
}

#[test]
fn a_limited_application_and_persistent_congestion() {
    let place = Place::new();
    let mut sender = Sender::new(&place.datapath(HOUR));
    let sent = sender.now;
    sender.fills();
    sender.now += RTT;
    sender.flow.acked(sender.now, sent, MSS, Some(0));
    sender.flow.acks_end(9 * MSS, true);
    assert_eq!(sender.flow.window(), 10 * MSS, "no growth without use");
    sender.flow.lost(sender.now, MSS, 1);
    sender.flow.congestion(sender.now, sent, true, false);
    assert_eq!(sender.flow.window(), 2 * MSS);
}

#[test]
fn a_spurious_loss_gives_the_window_back() {
    let place = Place::new();
    let mut sender = Sender::new(&place.datapath(HOUR));
    let sent = sender.now;
    sender.flow.spurious();
    sender.fills();
    sender.ack(1..4, 0..1, sent);
    let before = 10 * MSS;
    assert!(sender.flow.window() < before);
    sender.flow.spurious();
    assert_eq!(sender.flow.window(), before);
    sender.ack(4..5, 0..0, sent);
    let batch = sender.flow.batch.take().expect("an ACK");
    let signals = sender.flow.measure(&batch).signals;
    assert_eq!(signals & (SIGNAL_UNDONE | SIGNAL_IN_RECOVERY), SIGNAL_UNDONE);
}

#[test]
fn primitives_of_an_ack() {
    let place = Place::new();
    let mut sender = Sender::new(&place.datapath(HOUR));
    let sent = sender.now;
    sender.fills();
    sender.ack(0..4, 0..0, sent);
    let batch = sender.flow.batch.take().expect("an ACK");
    let ack = sender.flow.measure(&batch);
    let p = ack.primitives;
    assert_eq!((p.bytes_acked, p.packets_acked, p.packets_misordered), (4_800, 4, 0));
    assert_eq!((p.bytes_in_flight, p.packets_in_flight, p.lost_pkts_sample), (7_200, 6, 0));
    assert_eq!((p.rtt_sample_us, ack.srtt_us, ack.rtt_min_us), (20_000, 20_000, 20_000));
    // Four packets in 20 ms. All were sent at once, so the sending rate is unknown.
    assert_eq!((p.rate_incoming, p.rate_outgoing), (240_000, 0));
    assert_eq!((ack.delivered_pkts, ack.signals), (4, SIGNAL_CWND_FULL | SIGNAL_CWND_HALF));

    // Packet 4 is missing. Later packets are out of order, and give an RTT sample only if none sent
    // later was acknowledged before.
    sender.now += Duration::from_millis(1);
    sender.ack(5..8, 4..5, sent);
    let batch = sender.flow.batch.take().expect("an ACK");
    let p = sender.flow.measure(&batch).primitives;
    assert_eq!((p.packets_acked, p.packets_misordered, p.bytes_misordered), (0, 3, 3_600));
    assert_eq!((p.lost_pkts_sample, p.bytes_acked, p.rtt_sample_us), (1, 3_600, 21_000));
    assert_eq!(p.bytes_in_flight, 2 * MSS);

    // An ACK reports that there was a mark, but not how many.
    sender.ack(8..10, 0..0, sent);
    sender.flow.congestion(sender.now, sent + RTT, false, true);
    let batch = sender.flow.batch.take().expect("an ACK");
    let p = sender.flow.measure(&batch).primitives;
    assert_eq!((p.ecn_packets, p.ecn_bytes, p.packets_acked), (1, MSS, 2));
}

#[test]
fn segments_delivered_do_not_jump_when_datagrams_grow() {
    let place = Place::new();
    let mut sender = Sender::new(&place.datapath(HOUR));
    sender.round(0);
    sender.flow.mtu(1_452);
    sender.flow.count_delivered(1_451);
    assert_eq!(sender.flow.delivered_pkts, 10);
    sender.flow.count_delivered(1);
    assert_eq!(sender.flow.delivered_pkts, 11);
}

#[test]
fn an_ack_and_its_losses_are_one_run_of_the_program() {
    let place = Place::new();
    let (mut agent, datapath, mut sender, sid) = announced(&place, HOUR);
    agent.drives(&datapath, sid, 30_000, 500_000);
    sender.round(0);
    assert_eq!((sender.flow.window(), sender.flow.rate()), (30_000, Some(500_000)));
    sender.round(3);
    let mut signals = Signals::default();
    loop {
        match agent.hear().expect("a report") {
            ToAgent::Signals { signals: said, .. } => signals = said,
            // Of 25 packets, three are lost.
            ToAgent::Measure { .. } if agent.fields() == [22 * MSS, 3] => break,
            _ => {}
        }
    }
    assert!(signals.in_recovery && signals.cwnd_full && signals.cwnd_half && !signals.app_limited);
    assert_eq!((signals.lost_pkts, signals.mss_bytes, signals.cwnd_pkts), (3, 1_200, 25));
    assert_eq!(signals.srtt_us, 20_000);
}

#[test]
fn a_path_that_nobody_answers_on_is_not_announced() {
    let place = Place::new();
    let mut agent = place.agent();
    let datapath = place.datapath(HOUR);
    agent.is_greeted();
    let mut silent = Sender::new(&datapath);
    silent.fills();
    silent.flow.lost(silent.now, MSS, 0);
    silent.flow.window();
    drop(silent);
    let remote = "[2001:db8::7]:443".parse().expect("an address");
    let local = "[2001:db8::1]:5000".parse().expect("an address");
    let mut sender = Sender::new(&datapath);
    sender.flow.identity.addresses = Some((local, remote));
    sender.round(0);
    let info = agent.wait(|message| match message {
        ToAgent::Flow { info, .. } => Some(info),
        ToAgent::Create { .. } => panic!("a flow of nobody"),
        _ => None,
    });
    assert_eq!(info.remote, ("2001:db8::7".parse().expect("an address"), 443));
    assert_eq!(
        parts("[::ffff:192.0.2.1]:5".parse().expect("an address")).0.to_string(),
        "192.0.2.1"
    );
    assert_eq!((info.srtt_us, info.ecn), (20_000, false));
    drop(sender);
    agent.wait(|message| matches!(message, ToAgent::Measure { fields: 0, .. }).then_some(()));
}

#[test]
fn an_agent_that_dies_leaves_its_window_and_takes_its_rate() {
    let place = Place::new();
    let (agent, datapath, mut sender, sid) = announced(&place, HOUR);
    agent.drives(&datapath, sid, 60 * MSS, 500_000);
    assert_eq!(sender.round(0), 60);
    drop(agent);
    // The first report that cannot be sent shows that the agent is gone; the next ACK is the
    // fallback's.
    sender.round(0);
    assert_eq!(sender.round(0), 61);
    assert_eq!((sender.flow.rate(), datapath.has_agent()), (None, false));
    assert_eq!(datapath.counters().fallbacks, 1);
    // Another agent starts. The flow is announced to it, with its present window.
    let mut agent = place.agent();
    agent.is_greeted();
    let sid = agent.flow();
    agent.drives(&datapath, sid, 20 * MSS, 0);
    assert_eq!(sender.round(0), 20);
    agent.wait(|message| match message {
        ToAgent::State { state, .. } => (state == State::Restored).then_some(()),
        _ => None,
    });
}

#[test]
fn an_agent_that_hangs_loses_its_flows_until_it_beats_again() {
    let place = Place::new();
    let (agent, datapath, mut sender, sid) = announced(&place, Duration::from_millis(100));
    agent.beats();
    agent.drives(&datapath, sid, 40 * MSS, 0);
    assert_eq!(sender.round(0), 40);
    sender.now += Duration::from_secs(10);
    assert_eq!(sender.round(0), 41, "its own");
    agent.beats();
    until("the heartbeat is there", || datapath.counters().messages >= 4);
    sender.now = datapath.clock().started() + Duration::from_millis(1);
    sender.flow.rtt.newest_sent_ns = 0;
    sender.round(0);
    assert_eq!(datapath.counters().restores, 1);
}

#[test]
fn a_flow_that_falls_back_in_a_repair_halves_what_it_had() {
    let place = Place::new();
    let (agent, datapath, mut sender, sid) = announced(&place, HOUR);
    agent.drives(&datapath, sid, 60 * MSS, 0);
    sender.round(0);
    let sent = sender.now;
    let packets = sender.fills();
    sender.ack(packets.start + 1..packets.start + 2, packets.start..packets.start + 1, sent);
    assert_eq!(sender.flow.window(), 60 * MSS, "the agent has not answered yet");
    drop(agent);
    for pn in packets.start + 2..packets.start + 5 {
        sender.ack(pn..pn + 1, 0..0, sent);
        sender.flow.window();
    }
    assert_eq!(sender.flow.window(), 30 * MSS);
}
