//! Results: Arrow and Parquet for machines, tables, plots and qlog for people.
//!
//! Everything but a [`LinkLog`] depends on an [`Outcome`] alone, so the same outcome gives the same
//! bytes on every machine. Each table has metadata that describe its run, and each column metadata
//! with its unit.
//!
//! ```
//! use remuda_results::{About, Table, batch, read, write};
//! use remuda_scenarios::outcome::{FlowOutcome, Outcome};
//!
//! let flow = FlowOutcome { name: "a".into(), delivered_bytes: 1 << 20, ..FlowOutcome::default() };
//! let outcome = Outcome { scenario: "one".into(), flows: vec![flow], ..Outcome::default() };
//! let flows = batch(Table::Flows, &outcome, &About::default())?;
//! assert_eq!(flows.schema().field_with_name("delivered_bytes")?.metadata()["unit"], "bytes");
//!
//! let folder = std::env::temp_dir().join(format!("remuda-results-{}", std::process::id()));
//! write(&folder, &outcome, &About::default())?;
//! assert_eq!(read(&folder)?, outcome);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod column;
mod error;
mod files;
mod link_log;
pub mod paper;
mod plot;
mod qlog;
mod rows;
mod tables;
mod text;

pub use batch::{About, SCHEMA_VERSION, batch};
pub use column::{Cells, Column};
pub use error::Error;
pub use files::{Sweep, read, write};
pub use link_log::{LinkLog, LinkLogError, LogBin, LogTotals, link_log_png, link_log_svg};
pub use plot::{png, svg};
pub use qlog::qlog;
pub use remuda_scenarios::outcome::Outcome;
pub use rows::Rows;
pub use tables::Table;
pub use text::{details, link_flows, link_logs, overview};
