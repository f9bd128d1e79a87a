//! What the tests that need root share.

use remuda_live::{Error, LinkSpec, PathSpec, QueueSpec, Testbed};

/// A testbed, or none, said loudly, where the machine does not allow one.
pub fn testbed(path: &PathSpec) -> Option<Testbed> {
    match Testbed::new(path) {
        Ok(testbed) => Some(testbed),
        Err(error @ (Error::NotPermitted { .. } | Error::NoTun { .. })) => {
            eprintln!("SKIPPED: needs root (CAP_NET_ADMIN) and TUN devices: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A link of constant rate with a drop-tail queue of one bandwidth-delay product.
pub fn constant(rate_mbit_per_sec: f64, delay_ms: f64) -> LinkSpec {
    LinkSpec {
        rate_mbit_per_sec: Some(rate_mbit_per_sec),
        delay_ms,
        queue: QueueSpec::droptail_bdp(1.0),
        ..LinkSpec::default()
    }
}
