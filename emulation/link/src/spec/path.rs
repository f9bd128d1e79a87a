//! Both directions of a path.

use super::direction::Direction;
use super::{LinkSpec, SpecError};
use crate::link::Link;
use crate::packet::Packet;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Both directions of a path, and their log files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathSpec {
    /// From the client to the server.
    pub up: LinkSpec,
    /// From the server to the client.
    pub down: LinkSpec,
    /// Where to write the log of the uplink, in Mahimahi's format; `None` writes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_log: Option<PathBuf>,
    /// Where to write the log of the downlink; `None` writes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_log: Option<PathBuf>,
}

impl PathSpec {
    /// The same link both ways.
    pub fn symmetric(link: LinkSpec) -> Self {
        Self { up: link.clone(), down: link, ..Self::default() }
    }

    /// The round trip of an idle path, without transmission times.
    pub fn rtt(&self) -> Nanos {
        self.up.delay() + self.down.delay()
    }

    /// Builds both links. Errors name the table: `up.delay_ms`.
    pub fn build<P: Packet>(&self) -> Result<(Link<P>, Link<P>), SpecError> {
        let up = self.up.build(self.rtt(), Direction::Up).map_err(|error| error.within("up"))?;
        let down =
            self.down.build(self.rtt(), Direction::Down).map_err(|error| error.within("down"))?;
        Ok((up, down))
    }
}
