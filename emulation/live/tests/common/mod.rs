//! Helpers of the tests that need root.

use remuda_live::{Error, LinkSpec, PathSpec, QueueSpec, Testbed};

/// Makes a testbed. Prints SKIPPED and returns `None` if the machine does not allow one.
pub fn testbed(path: &PathSpec) -> Option<Testbed> {
    or_skip(Testbed::new(path))
}

/// Returns the value. Prints SKIPPED and returns `None` if the machine does not allow it.
pub fn or_skip<T>(made: Result<T, Error>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
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
