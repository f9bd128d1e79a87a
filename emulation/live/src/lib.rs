//! Real TCP over an emulated path.
//!
//! A [`Testbed`] is two unnamed network namespaces, a client and a server, each with a TUN device.
//! A thread moves packets between the devices as the model in [`remuda_link`] decides. A
//! [`VethPair`] is the same without a link in between, to show what the machine can do at best.
//! Both need root, change nothing outside their namespaces, and leave nothing behind, not even
//! after SIGKILL. [`real`] runs a scenario file in a testbed.
//!
//! ```no_run
//! use remuda_live::{LinkSpec, PathSpec, QueueSpec, Testbed};
//!
//! let link = LinkSpec {
//!     rate_mbit_per_sec: Some(12.0),
//!     delay_ms: 20.0,
//!     queue: QueueSpec::droptail_bdp(1.0),
//!     ..LinkSpec::default()
//! };
//! let testbed = Testbed::new(&PathSpec::symmetric(link))?;
//! let mut server = testbed.server().command("iperf3").args(["-s", "-1"]).spawn().expect("iperf3");
//! let address = testbed.server().ipv4().to_string();
//! let client = testbed.client().command("iperf3").args(["-c", &address]).status();
//! println!("{client:?}, 95 % of packets waited {} ms or less",
//!     testbed.stats()?.up.link.queueing_delay.p95_ms);
//! # server.wait().expect("it ends with its client");
//! # Ok::<(), remuda_live::Error>(())
//! ```

pub mod args;
mod capture;
mod child;
mod clock;
mod contain;
mod device;
mod error;
mod frame;
pub mod mahimahi;
mod namespace;
mod option;
mod priority;
pub mod probe;
mod pump;
pub mod real;
mod routes;
mod signals;
mod stolen;
mod subnet;
mod testbed;
pub mod transfer;
mod veth;

pub use capture::CaptureSpec;
pub use clock::Clock;
pub use error::Error;
pub use namespace::{DeviceCounters, Namespace};
pub use option::RedRange;
pub use remuda_link::{
    AggregationSpec, DelayStep, DelaySummary, DropCounts, GilbertElliottSpec, LinkSpec, LinkStats,
    Nanos, OutageSpec, PathSpec, PolicerSpec, QueueKind, QueueSpec, RateStep, ReorderingSpec,
};
pub use stolen::{STOLEN_MAX, least_disturbed};
pub use testbed::{DirectionStats, PathStats, Testbed};
pub use veth::VethPair;
