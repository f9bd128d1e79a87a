//! The weights that come with the program.

use crate::loaded::Slot;
use crate::network::Network;
use std::sync::{Arc, OnceLock};

const WEIGHTS: &[u8] = include_bytes!("../../models/learned.safetensors");
const CARD: &str = include_str!("../../models/learned.json");

/// The shipped weights, read once.
pub fn weights() -> Slot<Network> {
    static SHIPPED: OnceLock<Arc<Network>> = OnceLock::new();
    let shipped = SHIPPED.get_or_init(|| {
        Arc::new(Network::parse(WEIGHTS, CARD).expect("a test reads the shipped weights"))
    });
    Slot::new(Arc::clone(shipped))
}
