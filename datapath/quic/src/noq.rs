//! The congestion controller for noq, with a window and a pacing rate.

use crate::datapath::Datapath;
use crate::flow::{Flow, Identity};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Builds the congestion controllers of connections; pass it to
/// `TransportConfig::congestion_controller_factory`.
///
/// noq does not tell a factory which connection a controller is for. To see addresses in `remuda
/// flows`, or to use the agent's rules on addresses, give each connection a configuration of its
/// own, with [`Factory::between`].
#[derive(Clone, Debug)]
pub struct Factory {
    datapath: Datapath,
    identity: Identity,
}

impl Factory {
    /// A factory for flows without addresses and mark.
    pub fn new(datapath: &Datapath) -> Self {
        Self { datapath: datapath.clone(), identity: Identity::default() }
    }

    /// Sets the addresses of the connection.
    #[must_use]
    pub fn between(mut self, local: SocketAddr, remote: SocketAddr) -> Self {
        self.identity.addresses = Some((local, remote));
        self
    }

    /// Sets the `SO_MARK` of the connection's socket.
    #[must_use]
    pub fn marked(mut self, mark: u32) -> Self {
        self.identity.mark = mark;
        self
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let flow = Flow::new(self.datapath.clone(), self.identity.clone(), current_mtu);
        Box::new(Remuda {
            initial_window: Flow::initial_window(current_mtu),
            flow: Arc::new(Mutex::new(flow)),
        })
    }
}

/// The congestion controller. Its clones share one flow: noq clones a controller when a path's
/// address changes, and to read it. The lock is needed because noq asks for the window by a shared
/// reference.
#[derive(Clone, Debug)]
struct Remuda {
    flow: Arc<Mutex<Flow>>,
    initial_window: u64,
}

impl Remuda {
    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Remuda {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        let mut flow = self.flow();
        if !flow.is_probe(bytes.into()) {
            flow.sent(now, bytes.into(), pn);
        }
    }

    fn on_cwnd_limited(&mut self) {
        self.flow().cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.flow().acked(now, sent, bytes, Some(pn));
    }

    fn on_end_acks(
        &mut self,
        _now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.flow().acks_end(in_flight, app_limited);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        // noq reports a packet that only acknowledges with size 0.
        if lost_bytes > 0 {
            self.flow().lost(now, lost_bytes.into(), pn);
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        self.flow().congestion(now, sent, is_persistent_congestion, is_ecn);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.flow().spurious();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.flow().mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.flow().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut flow = self.flow();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = flow.window();
        metrics.pacing_rate = flow.rate();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
