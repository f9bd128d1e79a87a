//! What portus sees of us: one algorithm, whose flows are handles into the [`Host`].
//!
//! portus picks an algorithm per flow by name, once. Ours is the only one it knows; which
//! controller a flow has, and when that changes, is the host's.

use crate::author::{Authors, Program};
use crate::flow::Actuator;
use crate::host::{Host, Key};
use crate::ipc::{Current, Junction, Outbox, POKE_UID, lock};
use crate::programs::installed_as;
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Report};
use remuda_algorithms::ProgramId;
use remuda_wire::program::{CWND, RATE, Register};
use remuda_wire::to_datapath::{Update, encode_change_prog, encode_native, encode_update_fields};
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
        let authors = lock(&self.host).config.authors.clone();
        let mut wire = Wire { control, running: None, key: key.clone(), outbox, authors };
        lock(&self.host).create(&key, &create, &mut wire);
        Handle { host: Arc::clone(&self.host), current: Arc::clone(&self.current), key, wire }
    }
}

/// What a flow runs: a program that portus knows, or one of an author's, which came after portus
/// had installed its own.
enum Running {
    Known(Scope),
    Authored(Arc<Program>),
}

/// One flow's registers, by name.
struct Wire {
    control: Datapath<Junction>,
    running: Option<Running>,
    key: Key,
    outbox: Outbox,
    authors: Authors,
}

fn updates(program: &Program, fields: &[(&'static str, u32)]) -> Vec<Update> {
    let register = |name: &str| match name {
        "Cwnd" => Some(Register::Implicit(CWND)),
        "Rate" => Some(Register::Implicit(RATE)),
        _ => program.compiled.register(name),
    };
    let update = |(name, value): &(&'static str, u32)| {
        register(name).map(|register| Update { register, value: (*value).into() })
    };
    fields.iter().filter_map(update).collect()
}

impl Wire {
    fn send(&self, message: Vec<u8>) {
        lock(&self.outbox).push((self.key.0.clone(), message));
    }
}

impl Actuator for Wire {
    fn set_program(&mut self, program: ProgramId, fields: &[(&'static str, u32)]) {
        if let Some(authored) = self.authors.program(program) {
            self.send(authored.compiled.install.clone());
            let mut message = Vec::new();
            encode_change_prog(&mut message, self.key.1, authored.uid, &updates(&authored, fields));
            self.send(message);
            self.running = Some(Running::Authored(authored));
            return;
        }
        match self.control.set_program(installed_as(program), Some(fields)) {
            Ok(scope) => self.running = Some(Running::Known(scope)),
            Err(error) => tracing::warn!(program = program.0, ?error, "set_program"),
        }
    }

    fn update(&mut self, fields: &[(&'static str, u32)]) {
        match &self.running {
            Some(Running::Known(scope)) => {
                if let Err(error) = self.control.update_field(scope, fields) {
                    tracing::warn!(?error, "update_field");
                }
            }
            Some(Running::Authored(program)) => {
                let mut message = Vec::new();
                encode_update_fields(&mut message, self.key.1, &updates(program, fields));
                self.send(message);
            }
            None => {}
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
    current: Arc<Mutex<Current>>,
    key: Key,
    wire: Wire,
}

impl portus::Flow for Handle {
    fn on_report(&mut self, _sock_id: u32, report: Report) {
        let mut host = lock(&self.host);
        if report.program_uid == POKE_UID {
            return host.poke(&self.key, &mut self.wire);
        }
        match &self.wire.running {
            Some(Running::Known(scope)) => {
                let scope = scope.clone();
                let field = |name| report.get_field(name, &scope).ok();
                host.report(&self.key, field, &mut self.wire);
            }
            Some(Running::Authored(program)) => {
                let program = Arc::clone(program);
                let (uid, fields) = lock(&self.current).report.clone();
                let field = |name| match program.compiled.register(name) {
                    Some(Register::Report(index)) if uid == program.uid => {
                        fields.get(index as usize).copied()
                    }
                    _ => None,
                };
                host.report(&self.key, field, &mut self.wire);
            }
            None => {}
        }
    }

    fn close(&mut self) {
        lock(&self.host).close(&self.key);
    }
}
