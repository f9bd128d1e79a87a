//! The congestion controller for quinn 0.11, built on [`Flow`].
//!
//! quinn asks its controller for a window only: its pacer sends 5/4 of a window in a round trip.
//! The datapath's `HELLO` says so, and instead of a rate the agent sends the window that the rate
//! would fill. quinn does not identify sent or lost packets, and does not report when the window
//! was full. `docs/quic.md` has the measured cost. If you can choose, use noq.

use crate::{Error, Flow, Identity, Settings, capability};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a datapath with quinn can do; some signals are inferred.
pub const CAPABILITIES: u32 = capability::SIGNALS;

/// Like [`crate::Datapath`], but its `HELLO` tells the agent what quinn lacks. Use it for
/// connections of quinn only.
#[derive(Clone, Debug)]
pub struct Datapath(crate::Datapath);

impl Datapath {
    /// Starts the datapath and its thread, and looks for the agent.
    ///
    /// # Errors
    ///
    /// As [`crate::Datapath::start`].
    pub fn start(settings: Settings) -> Result<Self, Error> {
        crate::Datapath::start_with(settings, CAPABILITIES).map(Self)
    }
}

/// Makes the controllers of connections, as the factory for noq does.
#[derive(Clone, Debug)]
pub struct Factory {
    datapath: crate::Datapath,
    identity: Identity,
}

impl Factory {
    /// A factory for flows without addresses.
    pub fn new(datapath: &Datapath) -> Self {
        Self { datapath: datapath.0.clone(), identity: Identity::default() }
    }

    /// Sets the addresses of the connection.
    #[must_use]
    pub fn between(mut self, local: SocketAddr, remote: SocketAddr) -> Self {
        self.identity.addresses = Some((local, remote));
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

/// The congestion controller; its clones share one flow.
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
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.flow().sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.flow().acked(now, sent, bytes, None);
    }

    fn on_end_acks(
        &mut self,
        _now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let mut flow = self.flow();
        flow.infer_cwnd_limited(app_limited);
        flow.acks_end(in_flight, app_limited);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let mut flow = self.flow();
        // quinn reports a mark as a congestion event without lost bytes.
        if lost_bytes > 0 {
            flow.lost_bytes(now, sent, lost_bytes);
        }
        flow.congestion(now, sent, is_persistent_congestion, lost_bytes == 0);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.flow().mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.flow().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.flow().window();
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
