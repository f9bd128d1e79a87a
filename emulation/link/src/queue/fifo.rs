//! A first-in, first-out queue that also counts its bytes.

use crate::queue::Held;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Fifo<P> {
    held: VecDeque<Held<P>>,
    bytes: u64,
}

impl<P> Fifo<P> {
    pub(crate) fn new() -> Self {
        Self { held: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.held.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn push(&mut self, held: Held<P>) {
        self.bytes += u64::from(held.bytes);
        self.held.push_back(held);
    }

    pub(crate) fn pop(&mut self) -> Option<Held<P>> {
        let head = self.held.pop_front()?;
        self.bytes -= u64::from(head.bytes);
        Some(head)
    }
}
