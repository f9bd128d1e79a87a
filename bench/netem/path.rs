//! Paths, each as our link and as the kernel's netem.
//!
//! Ours: the bottleneck and its queue, then the delay. netem: the delay, and beneath it, as its
//! child, a second netem for rate and queue. In one netem the queue's limit would count what is
//! under way as well; and what a root of the sender's own device drops, the sender's TCP hears of,
//! so the queue that drops must not be the root.

use remuda_live::{Error, LinkSpec, Namespace, PathSpec, QueueSpec, Testbed, VethPair};
use std::fmt;

const PACKET_BYTES: f64 = 1500.0;
/// What a veth device counts and the link does not, whose devices carry IP.
const ETHERNET_BYTES: u32 = 14;
/// netem's own queue, where it only delays: without an end.
const ENDLESS_PACKETS: u32 = 100_000;
/// Where `tc` finds the table of the normal distribution, in a guest.
pub const TABLES: &str = "/tc";

/// One path, with a buffer of one bandwidth-delay product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    rate_mbit_per_sec: u32,
    delay_ms: u32,
    loss_percent: f64,
    /// Standard deviation, normal, of the way back: before a queue it would be lost in it.
    jitter_ms: f64,
}

const fn plain(rate_mbit_per_sec: u32, delay_ms: u32) -> Path {
    Path { rate_mbit_per_sec, delay_ms, loss_percent: 0.0, jitter_ms: 0.0 }
}

/// Those that are compared.
pub const PATHS: [Path; 8] = [
    plain(12, 5),
    plain(12, 20),
    plain(12, 40),
    plain(24, 5),
    plain(24, 20),
    plain(24, 40),
    Path { loss_percent: 0.1, ..plain(12, 20) },
    Path { jitter_ms: 2.0, ..plain(12, 20) },
];

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s, {} ms", self.rate_mbit_per_sec, 2 * self.delay_ms)?;
        if self.loss_percent > 0.0 {
            write!(f, ", {} % loss", self.loss_percent)?;
        }
        if self.jitter_ms > 0.0 {
            write!(f, ", {} ms of jitter", self.jitter_ms)?;
        }
        Ok(())
    }
}

impl Path {
    fn buffer_packets(&self) -> u32 {
        let bits = f64::from(self.rate_mbit_per_sec * 2 * self.delay_ms) * 1e3;
        (bits / 8.0 / PACKET_BYTES).ceil() as u32
    }

    /// Makes a testbed with our own link; `seed` decides which packets its random loss takes.
    pub fn link(&self, seed: u64) -> Result<Testbed, Error> {
        let way = LinkSpec { delay_ms: self.delay_ms.into(), seed, ..LinkSpec::default() };
        let down = LinkSpec {
            rate_mbit_per_sec: Some(self.rate_mbit_per_sec.into()),
            queue: QueueSpec::droptail_packets(self.buffer_packets().into()),
            loss_percent: self.loss_percent,
            ..way.clone()
        };
        let up = LinkSpec { jitter_std_ms: self.jitter_ms, jitter_reorders: true, ..way };
        Testbed::new(&PathSpec { up, down, ..PathSpec::default() })
    }

    /// As netem, on the devices of a pair.
    pub fn netem(&self) -> Result<VethPair, String> {
        let pair = VethPair::new().map_err(|error| error.to_string())?;
        let [data, acks, bottleneck] = self.netem_words();
        for (end, words) in [(pair.server(), &data), (pair.client(), &acks)] {
            tell(end, "tc", &format!("qdisc add dev {} root handle 1: {words}", end.device()))?;
        }
        let server = pair.server();
        let child = format!("qdisc add dev {} parent 1:1 {bottleneck}", server.device());
        tell(server, "tc", &child)?;
        Ok(pair)
    }

    /// For data, for ACKs, and for the bottleneck beneath the first.
    fn netem_words(&self) -> [String; 3] {
        let Self { rate_mbit_per_sec, delay_ms, loss_percent, jitter_ms } = self;
        let delay = format!("netem limit {ENDLESS_PACKETS} delay {delay_ms}ms");
        let mut data = delay.clone();
        if *loss_percent > 0.0 {
            data += &format!(" loss random {loss_percent}%");
        }
        let mut acks = delay;
        if *jitter_ms > 0.0 {
            acks += &format!(" {jitter_ms}ms distribution normal");
        }
        // It counts the packet that is being sent, which is out of our queue.
        let limit = self.buffer_packets() + 1;
        let rate = format!("netem limit {limit} rate {rate_mbit_per_sec}mbit -{ETHERNET_BYTES}");
        [data, acks, rate]
    }
}

/// Segments one at a time: netem would delay, count and lose those of a burst as one.
pub fn without_bursts(end: &Namespace) -> Result<(), String> {
    tell(end, "ip", &format!("link set dev {} gso_max_segs 1", end.device()))
}

/// Has a program do something at one end.
fn tell(end: &Namespace, program: &str, words: &str) -> Result<(), String> {
    let mut command = end.command(program);
    command.args(words.split(' ')).env("TC_LIB_DIR", TABLES);
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{program} {words}: {said}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netem_has_the_delay_in_one_place_and_the_queue_in_another() {
        let [data, acks, bottleneck] = PATHS[1].netem_words();
        assert_eq!((data.as_str(), &data), ("netem limit 100000 delay 20ms", &acks));
        assert_eq!(bottleneck, "netem limit 41 rate 12mbit -14");
        assert!(PATHS[6].netem_words()[0].ends_with(" loss random 0.1%"));
        assert!(PATHS[7].netem_words()[1].ends_with("delay 20ms 2ms distribution normal"));
    }
}
