//! Settings of stored samples.

use serde::{Deserialize, Serialize};

const BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Whether samples are stored, and how much disk space they may take.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplesConfig {
    pub enabled: bool,
    /// Disk space for all sample files, in bytes; the oldest are deleted to stay below it.
    pub bytes_max: u64,
}

impl Default for SamplesConfig {
    fn default() -> Self {
        Self { enabled: true, bytes_max: 64 << 20 }
    }
}

impl SamplesConfig {
    /// Checks each value; the message names key, value and allowed range.
    pub fn check(&self) -> Result<(), String> {
        if BYTES.contains(&self.bytes_max) {
            return Ok(());
        }
        let (least, most) = (BYTES.start(), BYTES.end());
        Err(format!("samples.bytes_max = {}: it must lie in {least}..={most}", self.bytes_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_the_rule() {
        let config = SamplesConfig { bytes_max: 7, ..SamplesConfig::default() };
        let error = config.check().expect_err("too few");
        assert_eq!(error, "samples.bytes_max = 7: it must lie in 1048576..=1099511627776");
    }
}
