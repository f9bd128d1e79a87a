//! Scenario files and the results of running them: the types that the simulator, real TCP, result
//! files and Python share.
//!
//! A [`Scenario`] is links, and flows over them, read from TOML with a unit in every key. An engine
//! runs it and returns an [`outcome::Outcome`]: plain numbers, which `remuda-results` writes.
//!
//! ```
//! use remuda_scenarios::{Nanos, Scenario};
//!
//! let text = r#"
//! duration_s = 10
//! [links.down]
//! rate_mbit_per_sec = 48
//! delay_ms = 20
//! queue = { kind = "droptail", limit_bdp = 1 }
//! [links.up]
//! delay_ms = 20
//! [[flows]]
//! driver = "cubic"
//! count = 2
//! stagger_s = 1
//! "#;
//! let scenario = Scenario::parse(text, "two")?;
//! let flows = scenario.flows_expanded();
//! assert_eq!((flows[1].name.as_str(), flows[1].start_s), ("cubic-2", 1.0));
//! assert_eq!(scenario.rtt_of(&flows[0]), Nanos::from_millis(40));
//! # Ok::<(), remuda_scenarios::Error>(())
//! ```

mod arrivals;
mod check;
mod driver;
mod error;
mod expect;
mod flow;
mod library;
mod load;
pub mod outcome;
mod overrides;
mod scenario;
mod suite;

pub use arrivals::{Arrivals, FlowSizes};
pub use driver::{Driver, DriverError, WINDOW_PKTS_MAX};
pub use error::Error;
pub use expect::{Expectation, Side};
pub use flow::{FlowSpec, HEADER_BYTES, SwitchOrder};
pub use library::{suite, suite_names};
pub use load::nearest;
pub use overrides::{Override, OverrideError};
pub use remuda_link::{Capacity, Direction, Link, LinkSpec, Nanos};
pub use scenario::Scenario;
pub use suite::{Environment, PathKind, Suite, TESTED};
