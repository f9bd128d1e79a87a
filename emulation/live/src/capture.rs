//! Captures packets as they enter and leave the link, in a pcapng file.
//!
//! The file has four interfaces of raw IP: `uplink in`, `uplink out`, `downlink in` and `downlink
//! out`. A delivered packet appears twice, and its time on the link is the difference; a dropped
//! packet appears once.

use crate::clock;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, PcapError, PcapResult};
use remuda_link::{Direction, Nanos};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

/// The resolution of timestamps: ten to the minus nine seconds.
const NANOSECONDS: u8 = 9;

/// The file of a capture, and how much of each packet it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureSpec {
    pub path: PathBuf,
    /// The most bytes kept of a packet, from its start.
    pub snap_bytes: u32,
}

/// The end of the link at which a packet is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    In,
    Out,
}

/// An open capture. An error is kept for the end, because a full disk must not stop the network.
pub(crate) struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
    snap_bytes: u32,
    /// The wall clock's time at the link's start.
    start: Duration,
    error: Option<io::Error>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("snap_bytes", &self.snap_bytes).finish_non_exhaustive()
    }
}

impl Capture {
    pub(crate) fn open(spec: &CaptureSpec) -> io::Result<Self> {
        let start = Duration::from_millis(clock::wall_ms());
        let file = BufWriter::new(File::create(&spec.path)?);
        let writer = head(file, spec.snap_bytes).map_err(system)?;
        Ok(Self { writer, snap_bytes: spec.snap_bytes, start, error: None })
    }

    /// Writes a packet. After an error, does nothing.
    pub(crate) fn write(&mut self, direction: Direction, edge: Edge, at: Nanos, packet: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let kept = packet.len().min(self.snap_bytes as usize);
        let block = EnhancedPacketBlock {
            interface_id: direction as u32 * 2 + edge as u32,
            timestamp: self.start + Duration::from(at),
            original_len: u32::try_from(packet.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(&packet[..kept]),
            options: Vec::new(),
        };
        self.error = self.writer.write_block(&block.into_block()).err().map(system);
    }

    /// Flushes the buffer. Returns the error that ended the capture early, if there was one.
    pub(crate) fn end(&mut self) -> Option<io::Error> {
        self.error.take().or_else(|| self.writer.get_mut().flush().err())
    }
}

fn head(file: BufWriter<File>, snap_bytes: u32) -> PcapResult<PcapNgWriter<BufWriter<File>>> {
    let mut writer = PcapNgWriter::new(file)?;
    for direction in [Direction::Up, Direction::Down] {
        for edge in ["in", "out"] {
            let name = format!("{} {edge}", direction.name());
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: snap_bytes,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Owned(name)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            writer.write_pcapng_block(interface)?;
        }
    }
    Ok(writer)
}

fn system(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn a_long_packet_is_cut_and_says_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let spec = CaptureSpec { path: folder.path().join("a.pcapng"), snap_bytes: 40 };
        let mut capture = Capture::open(&spec).unwrap();
        let packet: Vec<u8> = (0..=255).collect();
        capture.write(Direction::Up, Edge::In, Nanos(5), &packet[..20]);
        capture.write(Direction::Down, Edge::Out, Nanos(1_500_000_000), &packet);
        assert!(capture.end().is_none());
        let mut reader = PcapNgReader::new(File::open(&spec.path).unwrap()).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap().into_owned() {
                Block::InterfaceDescription(it) => names.push(it.options[0].clone()),
                Block::EnhancedPacket(it) => packets.push(it),
                other => panic!("{other:?}"),
            }
        }
        let names_wanted = ["uplink in", "uplink out", "downlink in", "downlink out"];
        assert_eq!(names, names_wanted.map(|name| InterfaceDescriptionOption::IfName(name.into())));
        let seen = |at: usize| {
            let packet = &packets[at];
            (packet.interface_id, packet.original_len, packet.data.as_ref())
        };
        assert_eq!((packets.len(), seen(0)), (2, (0, 20, &packet[..20])));
        assert_eq!(seen(1), (3, 256, &packet[..40]));
        let apart = packets[1].timestamp - packets[0].timestamp;
        assert_eq!(apart, Duration::from_nanos(1_499_999_995));
    }
}
