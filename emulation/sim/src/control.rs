//! The source of a flow's window and rate.

use crate::datapath::Datapath;
use crate::external::{self, External};
use crate::tcp::sender::{AckSample, Sender};
use remuda_algorithms::{Decision, Measurement};
use std::sync::Arc;

#[derive(Debug)]
pub enum Control {
    /// A constant window, without a datapath program.
    Fixed,
    /// A datapath program and the agent.
    Datapath(Box<Datapath>),
    /// Decisions from outside, step by step.
    External(Box<External>),
}

impl Control {
    pub fn begin(&mut self, sender: &mut Sender, now_ns: u64) {
        if let Self::Datapath(datapath) = self {
            datapath.begin(sender, now_ns);
        }
    }

    pub fn end(&mut self, now_ns: u64) {
        if let Self::Datapath(datapath) = self {
            datapath.end(now_ns);
        }
    }

    pub fn on_ack(&mut self, sender: &mut Sender, sample: &AckSample, now_ns: u64) {
        match self {
            Self::Fixed => {}
            Self::Datapath(datapath) => datapath.on_ack(sender, sample, now_ns),
            Self::External(external) => external.on_ack(sender, sample),
        }
    }

    /// The sender begins to send again after an idle time.
    pub fn on_restart(&mut self, sender: &mut Sender, idle_ns: u64) {
        if let Self::Datapath(datapath) = self {
            datapath.on_restart(sender, idle_ns);
        }
    }

    /// The sender's timer found a loss. No ACK reports such a loss.
    pub fn on_recovery(&mut self, now_ns: u64) {
        if let Self::Datapath(datapath) = self {
            datapath.on_recovery(now_ns);
        }
    }

    /// When the flow's arm wants to be woken.
    pub fn wake_ns(&self) -> Option<u64> {
        match self {
            Self::Datapath(datapath) => datapath.wake_ns(),
            Self::Fixed | Self::External(_) => None,
        }
    }

    /// The timer of the flow's arm goes off.
    pub fn wake(&mut self, now_ns: u64) {
        if let Self::Datapath(datapath) = self {
            datapath.wake(now_ns);
        }
    }

    /// Whether the window must stay as it is after a timeout.
    pub fn keeps_window(&self) -> bool {
        !matches!(self, Self::Datapath(_))
    }

    /// See [`crate::Simulation::decide`].
    pub fn decide(&self, sender: &mut Sender, decision: Decision) {
        if matches!(self, Self::External(_)) {
            external::obey(sender, decision);
        }
    }

    /// See [`crate::Simulation::take_measurement`].
    pub fn take_measurement(&mut self, sender: &Sender) -> Measurement {
        match self {
            Self::External(external) => external.take(sender),
            _ => Measurement::QUIET,
        }
    }

    /// The name of the arm that drives the flow; `window` or `external` for a flow without an arm.
    pub fn arm(&self) -> Arc<str> {
        Arc::from(match self {
            Self::Fixed => "window",
            Self::Datapath(datapath) => datapath.agent().arm(),
            Self::External(_) => "external",
        })
    }
}
