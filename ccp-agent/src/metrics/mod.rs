//! Metrics for Prometheus: `GET /metrics` at `agent.metrics`, an address of loopback.
//!
//! ```text
//! host ── copied under its lock ─▶ Snapshot ─▶ text ─▶ HTTP ─▶ a scraper
//! ```
//!
//! Series are by arm, rule and group, never by flow: [`gather`] bounds how many there are.

mod gather;
mod http;
mod text;

pub use gather::Snapshot;
pub use http::serve;
pub use text::text;
