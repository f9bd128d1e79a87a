//! A host without datapaths, for tests of what it does with flows.

use super::Host;
use crate::Config;
use crate::datapath::{Agent, Key, Obey, Peer};
use crate::events::{Event, Recorder};
use crate::lock::lock;
use remuda_wire::Event as Said;
use remuda_wire::to_agent::{Create, FlowInfo};
use std::sync::{Arc, Mutex};

/// An event, and the flow that it is of.
type Note = (Option<u32>, Event);

/// What the host records.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<Note>>>);

impl Recorder for Notes {
    fn record(&mut self, flow: Option<u32>, event: &Event) {
        lock(&self.0).push((flow, event.clone()));
    }
}

impl Notes {
    pub fn take(&self) -> Vec<Note> {
        std::mem::take(&mut lock(&self.0))
    }
}

/// A datapath that takes every order and does nothing.
pub struct Nowhere;

impl Obey for Nowhere {
    fn order(&mut self, _peer: &Peer, _order: &remuda_wire::Order<'_>) -> Result<(), String> {
        Ok(())
    }
}

pub fn rig(config: &str) -> (Host, Notes) {
    let notes = Notes::default();
    let config = Config::parse(config, "-").expect("it parses");
    (Host::new(config, Box::new(notes.clone())), notes)
}

pub fn key(sid: u32) -> Key {
    (Peer::Bpf, sid)
}

/// Starts a flow on this port and with this cookie. Returns its number.
pub fn flow(host: &mut Host, sid: u32, port: u16, cookie: u64) -> u32 {
    let info = FlowInfo {
        cookie,
        ..FlowInfo::between(([127, 0, 0, 1].into(), port), ([10, 0, 0, 1].into(), 80))
    };
    flow_of(host, sid, info)
}

/// Starts this flow. Returns its number.
pub fn flow_of(host: &mut Host, sid: u32, info: FlowInfo) -> u32 {
    let create = Create {
        init_cwnd_bytes: 14_480,
        mss_bytes: 1_448,
        cong_alg: info.requested.clone(),
        ..Create::default()
    };
    let created = Said::Created { sid, create: &create, info: Some(&info) };
    host.event(&mut Nowhere, &Peer::Bpf, created);
    host.rows().last().expect("it is there").id
}

/// Carries out what waits for flows.
pub fn poke(host: &mut Host) {
    let now_us = crate::clock::monotonic_us();
    host.poke(|_, act| act(&mut Nowhere), now_us);
}
