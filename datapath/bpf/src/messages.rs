//! CCP messages for an agent in another process: events become messages, and messages become
//! orders. An agent in this process uses events and orders directly.

use crate::{Datapath, Error};
use remuda_wire::{Order, ToDatapath};

impl Datapath {
    /// As [`Self::drain`], in messages.
    pub fn drain_messages(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
        let mut out = Vec::new();
        self.drain(&mut |_, event| event.encode(&mut out, sink))
    }

    /// As [`Self::look`], in messages.
    pub fn look_messages(&mut self, now_ns: u64, sink: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let mut out = Vec::new();
        self.look(now_ns, &mut |_, event| event.encode(&mut out, sink))
    }

    /// As [`Self::reconcile`], in messages.
    pub fn reconcile_messages(&mut self, sink: &mut dyn FnMut(&[u8])) -> bool {
        let mut out = Vec::new();
        self.reconcile(&mut |_, event| event.encode(&mut out, sink))
    }

    /// Carries out one message of the agent, or returns an error and changes nothing.
    pub fn handle(&mut self, message: &[u8]) -> Result<(), Error> {
        let parsed = ToDatapath::parse(message)?;
        match Order::of(message, &parsed) {
            Some(order) => self.order(&order),
            None => {
                // No order follows from a heartbeat: the process that receives it calls `beat`.
                if parsed == ToDatapath::Resync {
                    self.resync();
                }
                Ok(())
            }
        }
    }
}
