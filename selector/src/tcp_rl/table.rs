//! The table of initial windows, and its file form: what a learner hands to a server.
//!
//! ```text
//! # remuda initial windows, format 1
//! 192.0.2.0/24,20,Beijing/CMNET/S1
//! 0.0.0.0/0,15,all others
//! ```
//!
//! A line has a prefix, a window in segments, and the group that the window was chosen for. The
//! longest prefix that contains an address counts.

use super::record::CWND_PKTS_MAX;
use crate::antelope::memory::Network;
use crate::prefix_map::PrefixMap;
use std::fmt;

const HEAD: &str = "# remuda initial windows, format 1";
/// The most prefixes in a table.
const ENTRIES_MAX: usize = 32_768;

/// One line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub cwnd_pkts: u32,
    /// The name of the group.
    pub group: String,
}

/// Windows by prefix; the longest one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(pub PrefixMap<Entry>);

/// A table that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {rule}")]
pub struct TableError {
    pub line: usize,
    pub rule: String,
}

impl Table {
    /// Reads a table whole, or refuses the first line that breaks a rule.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let mut table = Self::default();
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != HEAD) {
            return Err(TableError { line: 1, rule: format!("it must be {HEAD:?}") });
        }
        for (at, text) in lines {
            let (prefix, entry) = line(text).map_err(|rule| TableError { line: at + 1, rule })?;
            let refuse = |rule| Err(TableError { line: at + 1, rule });
            if table.0.get(&prefix).is_some() {
                return refuse(format!("{prefix} is there twice"));
            }
            if table.0.len() >= ENTRIES_MAX {
                return refuse(format!("a table has {ENTRIES_MAX} prefixes at most"));
            }
            table.0.insert(prefix, entry);
        }
        Ok(table)
    }
}

fn line(text: &str) -> Result<(Network, Entry), String> {
    let mut parts = text.splitn(3, ',');
    let (Some(prefix), Some(cwnd), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("it must have a prefix, a window in segments and a group".to_owned());
    };
    let prefix: Network = prefix.parse().map_err(|error| format!("{error}"))?;
    let windows = 1..=CWND_PKTS_MAX;
    match cwnd.parse::<u32>() {
        Ok(cwnd_pkts) if windows.contains(&cwnd_pkts) => {
            Ok((prefix, Entry { cwnd_pkts, group: group.to_owned() }))
        }
        _ => Err(format!("a window of {cwnd:?} segments: it must lie in 1..=1000")),
    }
}

impl fmt::Display for Table {
    /// Writes the file form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for (prefix, Entry { cwnd_pkts, group }) in self.0.iter() {
            writeln!(f, "{prefix},{cwnd_pkts},{group}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::antelope::memory::NetworkError;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|error: NetworkError| panic!("{error}"))
    }

    #[test]
    fn the_longest_prefix_counts_and_a_file_keeps_it() {
        let text = format!(
            "{HEAD}\n0.0.0.0/0,15,all others\n10.0.0.0/9,30,a, b\n10.1.0.0/16,20,x\n::/0,40,v6\n"
        );
        let table = Table::parse(&text).expect("each line is one");
        assert_eq!(table.to_string(), text);
        for (of, want) in [
            ("10.1.2.3", Some(20)),
            ("10.2.0.0/16", Some(30)),
            ("10.200.0.1", Some(15)),
            ("10.0.0.0/8", Some(15)),
            ("2001:db8::1", Some(40)),
        ] {
            let found = table.0.longest(network(of)).map(|(_, entry)| entry.cwnd_pkts);
            assert_eq!(found, want, "{of}");
        }
        assert_eq!(Table::default().0.longest(network("10.1.2.3")), None);
    }

    #[test]
    fn a_bad_table_is_refused_with_line_and_rule() {
        let many: String = (0..=ENTRIES_MAX)
            .map(|at| format!("{},9,g\n", std::net::Ipv4Addr::from_bits(at as u32)))
            .collect();
        for (lines, want) in [
            ("192.0.2.0/24,0,g", "line 2: a window of \"0\" segments: it must lie in 1..=1000"),
            ("192.0.2.0/24,9,g\n192.0.3.0/24,10000,g", "line 3: a window of \"10000\""),
            ("192.0.2.7/24,9,g", "line 2: \"192.0.2.7/24\" is no destination"),
            ("192.0.2.0/24,9", "line 2: it must have a prefix"),
            ("192.0.2.0/24,9,g\n192.0.2.0/24,8,g", "line 3: 192.0.2.0/24 is there twice"),
            (many.as_str(), "line 32770: a table has 32768"),
        ] {
            let error = Table::parse(&format!("{HEAD}\n{lines}\n")).expect_err(want).to_string();
            assert!(error.starts_with(want), "{error}");
        }
        assert!(Table::parse("192.0.2.0/24,9,g\n").is_err(), "it does not say what it is");
    }
}
