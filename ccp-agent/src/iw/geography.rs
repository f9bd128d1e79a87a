//! Network features of prefixes from a file: CSV, or a MaxMind database.
//!
//! A CSV file has the columns `prefix`, `isp`, `region` and perhaps `subnet`, named in its first
//! line. Of a database, the region is `region`, or the first of `subdivisions`, or the country; the
//! ISP is `isp`, or `autonomous_system_organization`. A prefix that lacks one has `unknown`.

use maxminddb::{Reader, WithinOptions};
use remuda_selector::antelope::memory::Network;
use remuda_selector::tcp_rl::geography::{Geography, Place};
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A larger file is refused.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// More prefixes would fill the agent's memory.
const PREFIXES_MAX: usize = 2_000_000;
const UNKNOWN: &str = "unknown";

/// One line of a CSV file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    prefix: String,
    isp: String,
    region: String,
    #[serde(default)]
    subnet: Option<String>,
}

/// What is used of a record of a database.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Features {
    isp: Option<String>,
    autonomous_system_organization: Option<String>,
    region: Option<String>,
    subdivisions: Vec<Code>,
    country: Code,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Code {
    iso_code: Option<String>,
}

/// Reads a file of prefixes. An error names the line or the place in the file, and the rule.
pub fn read(path: &Path) -> Result<Geography, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let mut limited = file.take(FILE_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it is larger than 1 GiB".to_owned());
    }
    let is_database = path.extension().is_some_and(|it| it == "mmdb");
    let places = if is_database { of_database(bytes)? } else { of_csv(&bytes)? };
    Geography::new(places).map_err(|error| error.to_string())
}

fn too_many(places: &[Place]) -> Result<(), String> {
    if places.len() < PREFIXES_MAX {
        return Ok(());
    }
    Err(format!("it has more than {PREFIXES_MAX} prefixes\nfix: give a table of fewer prefixes"))
}

fn of_csv(bytes: &[u8]) -> Result<Vec<Place>, String> {
    let mut places = Vec::new();
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let heads = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| error.to_string())? {
        let at = record.position().map_or(0, csv::Position::line);
        let refuse = |rule: String| format!("line {at}: {rule}");
        let line: Line =
            record.deserialize(Some(&heads)).map_err(|error| refuse(error.to_string()))?;
        let prefix: Network = line.prefix.parse().map_err(|error| refuse(format!("{error}")))?;
        too_many(&places)?;
        let subnet = line.subnet.filter(|name| !name.is_empty());
        places.push(Place { at, prefix, isp: line.isp, region: line.region, subnet });
    }
    Ok(places)
}

/// A name of a database, as a table of prefixes may have it.
fn name(of: Option<String>) -> String {
    let plain = |text: String| {
        let plain =
            text.chars().filter(|c| !c.is_control()).map(|c| if c == '/' { '_' } else { c });
        let mut name = String::new();
        for c in plain {
            if name.len() + c.len_utf8() > 64 {
                break;
            }
            name.push(c);
        }
        name
    };
    of.map(plain).filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn of_database(bytes: Vec<u8>) -> Result<Vec<Place>, String> {
    let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
    reader.verify().map_err(|error| error.to_string())?;
    let all = reader.networks(WithinOptions::default()).map_err(|error| error.to_string())?;
    let mut places = Vec::new();
    for found in all {
        let found = found.map_err(|error| error.to_string())?;
        let network = found.network().map_err(|error| error.to_string())?;
        let features: Option<Features> = found.decode().map_err(|error| error.to_string())?;
        let Features { isp, autonomous_system_organization, region, subdivisions, country } =
            features.unwrap_or_default();
        let division = subdivisions.into_iter().next().and_then(|it| it.iso_code);
        too_many(&places)?;
        let at = places.len() as u64 + 1;
        let address = network.ip();
        // A database of IPv6 has IPv4 in ::/96, and shows it as IPv4.
        let prefix = Network::within(address, network.prefix());
        places.push(Place {
            at,
            prefix,
            isp: name(isp.or(autonomous_system_organization)),
            region: name(region.or(division).or(country.iso_code)),
            subnet: None,
        });
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn refused(name: &str, bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("it is written");
        read(&path).expect_err("a rule is broken")
    }

    fn path_of(geography: &Geography, address: &str) -> Vec<String> {
        let leaf = geography.leaf(address.parse().expect("an address"));
        let nodes = std::iter::successors(Some(leaf), |node| geography.parent(*node));
        nodes.map(|node| geography.name(node)).collect()
    }

    #[test]
    fn a_csv_of_prefixes_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("prefixes.csv");
        let text = "prefix,isp,region,subnet\n192.0.2.0/25,\"A, Inc.\",Beijing,\n\
                    2001:db8::/32, B ,Beijing,S1\n";
        fs::write(&path, text).expect("it is written");
        let geography = read(&path).expect("each line is one");
        let of = path_of(&geography, "192.0.2.7");
        assert_eq!(of, ["Beijing/A, Inc./192.0.2.0_25", "Beijing/A, Inc.", "Beijing", "all"]);
        assert_eq!(path_of(&geography, "2001:db8::1")[0], "Beijing/B/S1");
    }

    #[test]
    fn a_bad_csv_is_refused_with_line_and_rule() {
        let head = "prefix,isp,region\n";
        for (lines, want) in [
            ("10.0.0.0/8,A,R\n10.1.0.0/16,B,R\n", "line 3: 10.1.0.0/16 overlaps 10.0.0.0/8 of"),
            ("10.0.0.0/8,A,R\nten,B,R\n", "line 3: \"ten\" is no destination"),
            ("10.0.0.1/8,A,R\n", "line 2: \"10.0.0.1/8\" is no destination: bits are set"),
            ("10.0.0.0/8,,R\n", "line 2: ISP \"\""),
            ("10.0.0.0/8,A\n", "line: 2"),
        ] {
            let error = refused("prefixes.csv", format!("{head}{lines}").as_bytes());
            assert!(error.contains(want), "{error}");
        }
        let error = refused("prefixes.csv", b"network,isp,region\n10.0.0.0/8,A,R\n");
        assert!(error.contains("unknown field `network`"), "{error}");
    }

    /// A MaxMind database whose tree has two leaves, 0.0.0.0/1 and 128.0.0.0/1 of IPv4. The form:
    /// a tree of 24-bit records, 16 zeros, the data, and metadata behind a marker.
    fn database() -> Vec<u8> {
        // A length of 29 or more has a byte of its own, less 29.
        let text = |of: &str| match of.len() as u8 {
            short @ 0..29 => [&[0x40 | short], of.as_bytes()].concat(),
            long => [&[0x40 | 29, long - 29], of.as_bytes()].concat(),
        };
        let map = |pairs: &[(&str, Vec<u8>)]| {
            let mut bytes = vec![0xe0 | pairs.len() as u8];
            for (key, value) in pairs {
                bytes.extend(text(key));
                bytes.extend(value);
            }
            bytes
        };
        let first = map(&[("isp", text("A")), ("region", text("R/1"))]);
        let second = map(&[
            ("autonomous_system_organization", text("B")),
            ("country", map(&[("iso_code", text("CN"))])),
        ]);
        // A record above the number of nodes (1) points into the data: 1 + 16 + offset.
        let mut bytes = vec![0, 0, 17, 0, 0, 17 + first.len() as u8];
        bytes.extend([0; 16]);
        bytes.extend(first);
        bytes.extend(second);
        bytes.extend(b"\xab\xcd\xefMaxMind.com");
        let u16_of = |value: u8| vec![0xa1, value];
        bytes.extend(map(&[
            ("binary_format_major_version", u16_of(2)),
            ("binary_format_minor_version", vec![0xa0]),
            ("build_epoch", vec![0x01, 0x02, 1]),
            ("database_type", text("test")),
            ("description", map(&[("en", text("a test"))])),
            ("ip_version", u16_of(4)),
            ("languages", vec![0x01, 0x04, 0x42, b'e', b'n']),
            ("node_count", vec![0xc1, 1]),
            ("record_size", u16_of(24)),
        ]));
        bytes
    }

    #[test]
    fn a_maxmind_database_is_taken_and_a_cut_one_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("geo.mmdb");
        let whole = database();
        fs::write(&path, &whole).expect("it is written");
        let geography = read(&path).expect("it is whole");
        assert_eq!(path_of(&geography, "1.2.3.4"), ["R_1/A/0.0.0.0_1", "R_1/A", "R_1", "all"]);
        assert_eq!(path_of(&geography, "192.0.2.1")[1], "CN/B");
        for length in [0, 20, whole.len() / 2, whole.len() - 9] {
            let error = refused("geo.mmdb", &whole[..length]);
            assert!(!error.is_empty(), "{length}");
        }
        let mut broken = whole;
        broken[2] = 200;
        assert!(!refused("geo.mmdb", &broken).is_empty(), "a record points behind the data");
    }
}
