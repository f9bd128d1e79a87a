//! `--uplink-queue` and `--uplink-queue-args`, with Mahimahi's names.

use crate::error::Error;
use clap::ValueEnum;
use remuda_link::{FULL_PACKET_BYTES, QueueKind, QueueSpec};

/// The queue disciplines of Mahimahi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MmQueue {
    /// Has no limit and never drops
    Infinite,
    /// Drops an arriving packet that does not fit
    Droptail,
    /// Drops its oldest packets to make room for an arriving one
    Drophead,
    /// Drops packets that have waited too long
    Codel,
    /// Drops at random, to hold a delay
    Pie,
}

impl MmQueue {
    fn kind(self) -> QueueKind {
        match self {
            Self::Infinite => QueueKind::Infinite,
            Self::Droptail => QueueKind::DropTail,
            Self::Drophead => QueueKind::DropHead,
            Self::Codel => QueueKind::CoDel,
            Self::Pie => QueueKind::Pie,
        }
    }

    /// The settings that this discipline has.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Infinite => &[],
            Self::Droptail | Self::Drophead => &["packets", "bytes"],
            Self::Codel => &["packets", "bytes", "target", "interval"],
            Self::Pie => &["packets", "bytes", "qdelay_ref", "max_burst"],
        }
    }
}

/// Parses the queue of a direction, `uplink` or `downlink`, from its kind and `NAME=NUMBER, ...`.
pub(super) fn queue(direction: &str, of: MmQueue, args: &str) -> Result<QueueSpec, Error> {
    let kind = of.kind();
    let mut queue = QueueSpec { kind, ..QueueSpec::default() };
    let wrong = |rule: String| Error::Argument {
        option: format!("--{direction}-queue-args"),
        value: args.to_owned(),
        rule,
    };
    if of == MmQueue::Infinite {
        let rule = format!("an infinite queue takes none; choose another --{direction}-queue");
        return if args.trim().is_empty() { Ok(queue) } else { Err(wrong(rule)) };
    }
    let mut seen = Vec::new();
    for arg in args.split(',').map(str::trim).filter(|arg| !arg.is_empty()) {
        let (name, number) = arg.split_once('=').unwrap_or((arg, ""));
        let (name, number) = (name.trim(), number.trim());
        if !of.names().contains(&name) {
            let names = of.names().join(", ");
            return Err(wrong(format!("{} has no `{name}`; it has {names}", kind.name())));
        }
        if seen.contains(&name) {
            return Err(wrong(format!("`{name}` is given twice")));
        }
        seen.push(name);
        let number = whole(number)
            .ok_or_else(|| wrong(format!("`{name}` must be a whole number of at least 1")))?;
        set(&mut queue, name, number);
    }
    if queue.limit_packets.is_none() && queue.limit_bytes.is_none() {
        return Err(wrong(format!("{} needs packets=N or bytes=N", kind.name())));
    }
    if queue.limit_bytes.is_some_and(|bytes| bytes < FULL_PACKET_BYTES) {
        return Err(wrong("`bytes` must be at least 1500, or no full packet passes".to_owned()));
    }
    Ok(queue)
}

/// Accepts digits only, like Mahimahi, and no zero.
fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

/// Sets one setting. Times are in milliseconds.
fn set(queue: &mut QueueSpec, name: &str, number: u64) {
    match name {
        "packets" => queue.limit_packets = Some(number),
        "bytes" => queue.limit_bytes = Some(number),
        "interval" => queue.interval_ms = number as f64,
        "max_burst" => queue.burst_ms = Some(number as f64),
        _ => queue.target_ms = Some(number as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn text(of: MmQueue, args: &str) -> String {
        queue("uplink", of, args).unwrap().to_string()
    }

    #[test]
    fn arguments_become_a_queue() {
        assert_eq!(text(MmQueue::Infinite, " "), "infinite");
        assert_eq!(text(MmQueue::Droptail, "packets=100"), "droptail [packets=100]");
        let both = "drophead [packets=10, bytes=15000]";
        assert_eq!(text(MmQueue::Drophead, " bytes=15000 , packets=10,"), both);
        let codel = "codel [packets=50, target=7, interval=90, ecn=false]";
        assert_eq!(text(MmQueue::Codel, "packets=50, target=7, interval=90"), codel);
        let pie = "pie [bytes=30000, target=20, tupdate=15, max_burst=100, ecn=false]";
        assert_eq!(text(MmQueue::Pie, "bytes=30000, qdelay_ref=20, max_burst=100"), pie);
    }

    #[test]
    fn what_is_wrong_names_the_option_and_the_rule() {
        for (of, args, rule) in [
            (MmQueue::Infinite, "packets=5", "an infinite queue takes none; choose another"),
            (MmQueue::Droptail, "", "droptail needs packets=N or bytes=N"),
            (MmQueue::Codel, "target=5, interval=100", "codel needs packets=N or bytes=N"),
            (MmQueue::Droptail, "target=5", "droptail has no `target`; it has packets, bytes"),
            (MmQueue::Pie, "interval=5", "pie has no `interval`"),
            (MmQueue::Droptail, "packets", "`packets` must be a whole number of at least 1"),
            (MmQueue::Droptail, "packets=0", "`packets` must be a whole number of at least 1"),
            (MmQueue::Droptail, "packets=-5", "`packets` must be a whole"),
            (MmQueue::Droptail, "packets=+5", "`packets` must be a whole"),
            (MmQueue::Droptail, "packets=1.5", "`packets` must be a whole"),
            (MmQueue::Droptail, "packets=99999999999999999999", "`packets` must be a whole"),
            (MmQueue::Droptail, "packets=5, packets=6", "`packets` is given twice"),
            (MmQueue::Droptail, "bytes=1499", "`bytes` must be at least 1500"),
        ] {
            let error = queue("downlink", of, args).unwrap_err().to_string();
            let start = format!("`--downlink-queue-args` is `{args}`: ");
            assert!(error.starts_with(&start) && error.contains(rule), "{error}");
        }
    }
}
