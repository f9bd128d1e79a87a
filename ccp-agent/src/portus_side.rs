//! What portus sees of us: one algorithm, whose flows are handles into the [`Host`].
//!
//! portus picks an algorithm per flow by name, once. Ours is the only one it knows; which
//! controller a flow has, and when that changes, is the host's.

use crate::flow::Actuator;
use crate::host::{Host, Key};
use crate::ipc::{Current, Junction, Outbox, POKE_UID, lock};
use crate::programs::installed_as;
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Report};
use remuda_algorithms::ProgramId;
use remuda_wire::to_datapath::encode_native;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The algorithm that portus runs for every flow.
pub struct Remuda {
    host: Arc<Mutex<Host>>,
    current: Arc<Mutex<Current>>,
    outbox: Outbox,
    programs: HashMap<&'static str, String>,
}

impl Remuda {
    /// Over the flows of `host`, whose messages come through `junction`.
    pub fn new(
        host: Arc<Mutex<Host>>,
        junction: &Junction,
        programs: HashMap<&'static str, String>,
    ) -> Self {
        Self { host, current: junction.current(), outbox: junction.outbox(), programs }
    }
}

impl CongAlg<Junction> for Remuda {
    type Flow = Handle;

    fn name() -> &'static str {
        "remuda"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        self.programs.clone()
    }

    fn new_flow(&self, control: Datapath<Junction>, info: DatapathInfo) -> Handle {
        let (peer, create) = {
            let current = lock(&self.current);
            (current.peer.clone(), current.create.clone())
        };
        let key = (peer, info.sock_id);
        let outbox = Arc::clone(&self.outbox);
        let mut wire = Wire { control, scope: None, key: key.clone(), outbox };
        lock(&self.host).create(&key, &create, &mut wire);
        Handle { host: Arc::clone(&self.host), key, wire }
    }
}

/// One flow's registers, by name.
struct Wire {
    control: Datapath<Junction>,
    scope: Option<Scope>,
    key: Key,
    outbox: Outbox,
}

impl Actuator for Wire {
    fn set_program(&mut self, program: ProgramId, fields: &[(&'static str, u32)]) {
        match self.control.set_program(installed_as(program), Some(fields)) {
            Ok(scope) => self.scope = Some(scope),
            Err(error) => tracing::warn!(program = program.0, ?error, "set_program"),
        }
    }

    fn update(&mut self, fields: &[(&'static str, u32)]) {
        if let Some(scope) = &self.scope
            && let Err(error) = self.control.update_field(scope, fields)
        {
            tracing::warn!(?error, "update_field");
        }
    }

    fn run_native(&mut self, name: &'static str, ssthresh_bytes: u32) {
        let (peer, sid) = &self.key;
        let mut message = Vec::new();
        encode_native(&mut message, *sid, name, ssthresh_bytes);
        lock(&self.outbox).push((peer.clone(), message));
    }
}

/// A flow, as portus holds it.
pub struct Handle {
    host: Arc<Mutex<Host>>,
    key: Key,
    wire: Wire,
}

impl portus::Flow for Handle {
    fn on_report(&mut self, _sock_id: u32, report: Report) {
        let mut host = lock(&self.host);
        if report.program_uid == POKE_UID {
            return host.poke(&self.key, &mut self.wire);
        }
        let scope = self.wire.scope.clone();
        let field = |name| scope.as_ref().and_then(|scope| report.get_field(name, scope).ok());
        host.report(&self.key, field, &mut self.wire);
    }

    fn close(&mut self) {
        lock(&self.host).close(&self.key);
    }
}
