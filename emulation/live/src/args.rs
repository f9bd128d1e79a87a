//! `remuda link`: runs a command behind an emulated link.

use crate::capture::CaptureSpec;
use crate::child::{self, pid_of, start};
use crate::contain::{self, Side};
use crate::error::Error;
use crate::option::{self, RedRange};
use crate::signals::Signals;
use crate::testbed::Testbed;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use remuda_link::{
    AggregationSpec, DelayStep, GilbertElliottSpec, LinkSpec, OutageSpec, PathSpec, PolicerSpec,
    QueueKind, QueueSpec, RateStep, ReorderingSpec,
};
use rustix::process::{Signal, kill_process_group};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// How long a server command may take to end after SIGTERM.
const SERVER_GRACE: Duration = Duration::from_millis(500);

/// The queue disciplines of `--queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QueueArg {
    /// Drops an arriving packet that does not fit
    Droptail,
    /// Drops its oldest packets to make room for an arriving one
    Drophead,
    /// Drops packets that have waited too long (RFC 8289: target 5 ms, interval 100 ms)
    Codel,
    /// Drops at random, to hold a delay (RFC 8033: target 15 ms)
    Pie,
    /// Keeps a queue and a CoDel for each flow, in turns (RFC 8290: 1024 queues, quantum 1514
    /// bytes)
    FqCodel,
    /// Drops at random, by the average queue length (Floyd and Jacobson 1993; see --red)
    Red,
    /// Has no limit and never drops
    Infinite,
}

impl From<QueueArg> for QueueKind {
    fn from(arg: QueueArg) -> Self {
        match arg {
            QueueArg::Droptail => Self::DropTail,
            QueueArg::Drophead => Self::DropHead,
            QueueArg::Codel => Self::CoDel,
            QueueArg::Pie => Self::Pie,
            QueueArg::FqCodel => Self::FqCoDel,
            QueueArg::Red => Self::Red,
            QueueArg::Infinite => Self::Infinite,
        }
    }
}

/// Runs a command behind an emulated link: real TCP, in a network namespace of its own.
///
/// The command finds the addresses of the other end in REMUDA_SERVER (also as MAHIMAHI_BASE) and
/// REMUDA_SERVER6, and its own address in REMUDA_CLIENT. A command given with --server runs at the
/// other end; it starts before the first command and ends after it. Both directions have the same
/// rate, delay, loss and queue, unless a trace replaces the rate of one. Rate steps, delay steps
/// and outages count from the start, and happen in both directions at once. Needs root. The exit
/// status is that of the command.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example: a bulk transfer over 12 Mbit/s and 40 ms, with one BDP of queue\n  \
    remuda link --rate 12 --delay-ms 20 --queue-bdp 1 --server 'iperf3 -s -1' -- \\\n    \
    sh -c 'sleep 0.2; iperf3 -c $REMUDA_SERVER'"
)]
pub struct LinkArgs {
    /// Rate in Mbit/s of IP bytes, both directions [without --rate or traces: no limit]
    #[arg(long, value_name = "MBIT_PER_SEC")]
    pub rate: Option<f64>,
    /// Another rate from a moment on, in seconds and Mbit/s; may be given several times
    #[arg(long, value_name = "AT_S,MBIT_PER_SEC", value_parser = option::rate_step)]
    pub rate_step: Vec<RateStep>,
    /// Starts again with --rate after this many seconds, and repeats the steps
    #[arg(long, value_name = "S")]
    pub rate_period: Option<f64>,
    /// Mahimahi trace for the uplink (client to server), instead of --rate
    #[arg(long, value_name = "FILE")]
    pub up_trace: Option<PathBuf>,
    /// Mahimahi trace for the downlink (server to client), instead of --rate
    #[arg(long, value_name = "FILE")]
    pub down_trace: Option<PathBuf>,
    /// Ends when a trace ends, with SIGTERM to the command; without it traces repeat
    #[arg(long)]
    pub once: bool,
    /// An outage: its start and its duration, in seconds. No packet leaves meanwhile; the queue
    /// holds packets that arrive. May be given several times
    #[arg(long, value_name = "AT_S,DURATION_S", value_parser = option::outage)]
    pub outage: Vec<OutageSpec>,
    /// Repeats the outages after this many seconds
    #[arg(long, value_name = "S")]
    pub outage_period: Option<f64>,
    /// Propagation delay one way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub delay_ms: f64,
    /// Another path from a moment on: the moment in seconds, and the new one-way delay in
    /// milliseconds; may be given several times
    #[arg(long, value_name = "AT_S,MS", value_parser = option::delay_step)]
    pub delay_step: Vec<DelayStep>,
    /// Starts again with --delay-ms after this many seconds, and repeats the steps
    #[arg(long, value_name = "S")]
    pub delay_period: Option<f64>,
    /// Standard deviation of the delay, in milliseconds; packets keep their order
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub jitter_ms: f64,
    /// Correlation of one packet's jitter with the next one's, from 0 to below 1
    #[arg(long, value_name = "C", default_value_t = 0.0)]
    pub jitter_correlation: f64,
    /// Delays this percentage of the packets by so many more milliseconds, so that other packets
    /// may overtake them
    #[arg(long, value_name = "PERCENT,EXTRA_MS", value_parser = option::reordering)]
    pub reorder: Option<ReorderingSpec>,
    /// Independent loss in percent of packets, in each direction
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub loss_percent: f64,
    /// Bursty loss, in percent: probability per packet to turn bad, and to turn good again; loss
    /// while bad [100], and while good [0]
    #[arg(
        long,
        value_name = "P,R[,BAD[,GOOD]]",
        conflicts_with = "loss_percent",
        value_parser = option::gilbert_elliott
    )]
    pub gilbert_elliott: Option<GilbertElliottSpec>,
    /// Drops packets that exceed a rate in Mbit/s and a burst in bytes, before the queue
    #[arg(long, value_name = "MBIT_PER_SEC,BURST_BYTES", value_parser = option::policer)]
    pub policer: Option<PolicerSpec>,
    /// Discipline of the queue [default: droptail with a limit, else infinite]
    #[arg(long, value_enum)]
    pub queue: Option<QueueArg>,
    /// Queue limit in packets
    #[arg(long, value_name = "PACKETS")]
    pub queue_packets: Option<u64>,
    /// Queue limit in bytes
    #[arg(long, value_name = "BYTES")]
    pub queue_bytes: Option<u64>,
    /// Queue limit in bandwidth-delay products: (mean) rate times the delay of both directions
    #[arg(long, value_name = "BDP")]
    pub queue_bdp: Option<f64>,
    /// The delay that codel, fq-codel (both 5 ms) or pie (15 ms) aims at, in milliseconds
    #[arg(long, value_name = "MS")]
    pub queue_target_ms: Option<f64>,
    /// RED's two thresholds in packets, and its probability at the second in percent (5,15,10)
    #[arg(long, value_name = "MIN,MAX[,PERCENT]", value_parser = option::red)]
    pub red: Option<RedRange>,
    /// Lets codel, fq-codel, pie or red mark packets of ECN-capable senders instead of dropping
    /// them
    #[arg(long)]
    pub ecn: bool,
    /// Marks an arriving packet of an ECN-capable sender if a drop-tail queue holds more than this
    /// many packets (DCTCP's K)
    #[arg(long, value_name = "PACKETS")]
    pub ecn_threshold: Option<u64>,
    /// Holds packets that arrive at the server and delivers them together: every so many
    /// milliseconds, or as soon as so many packets are held
    #[arg(long, value_name = "MS[,PACKETS]", value_parser = option::aggregation)]
    pub up_aggregation: Option<AggregationSpec>,
    /// The same at the client: it groups the acknowledgements of an upload
    #[arg(long, value_name = "MS[,PACKETS]", value_parser = option::aggregation)]
    pub down_aggregation: Option<AggregationSpec>,
    /// Seed of every random draw: loss, jitter, reordering, pie, red, the queues of fq-codel
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED")]
    pub seed: u64,
    /// Logs the uplink to FILE, in Mahimahi's format
    #[arg(long, value_name = "FILE")]
    pub uplink_log: Option<PathBuf>,
    /// Logs the downlink to FILE, in Mahimahi's format
    #[arg(long, value_name = "FILE")]
    pub downlink_log: Option<PathBuf>,
    /// Writes each packet to FILE when it enters the link and when it leaves it: pcapng, which
    /// Wireshark and tcpdump read
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Keeps the first so many bytes of each packet in the --pcap file
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 128,
        requires = "pcap",
        value_parser = clap::value_parser!(u32).range(20..=65_536)
    )]
    pub pcap_snap: u32,
    /// Runs COMMAND with `sh -c` at the other end while the command runs; may be given several
    /// times
    #[arg(long, value_name = "COMMAND", value_parser = NonEmptyStringValueParser::new())]
    pub server: Vec<String>,
    /// The command, with its arguments [default: your shell]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl LinkArgs {
    pub fn path_spec(&self) -> PathSpec {
        PathSpec {
            up: self.link_spec(self.up_trace.as_ref(), self.up_aggregation.as_ref()),
            down: self.link_spec(self.down_trace.as_ref(), self.down_aggregation.as_ref()),
            up_log: self.uplink_log.clone(),
            down_log: self.downlink_log.clone(),
        }
    }

    /// Runs the command behind the link. Returns the command's exit status.
    ///
    /// Forks first, so that every process the command starts ends with it. Call this before
    /// starting a thread, and exit with the status: it returns in both processes.
    pub fn run(&self) -> Result<i32, Error> {
        match contain::enter()? {
            Side::Outside { status } => Ok(status),
            Side::Inside => self.run_inside(),
        }
    }

    fn run_inside(&self) -> Result<i32, Error> {
        eprintln!("remuda link: seed {}", self.seed);
        let (path, snap_bytes) = (self.pcap.clone(), self.pcap_snap);
        let capture = path.map(|path| CaptureSpec { path, snap_bytes });
        let testbed = Testbed::captured(&self.path_spec(), capture.as_ref())?;
        let signals = Signals::catch()?;
        let servers =
            self.server.iter().map(|line| Server::start(&testbed, line)).collect::<Result<_, _>>();
        let servers: Vec<Server> = servers?;
        let mut command = child::command(testbed.client(), &self.command);
        let child = start(set_environment(&mut command, &testbed))?;
        let status = child::attend(&testbed, child, signals, self.once)?;
        drop(servers);
        print_summary(&testbed)?;
        testbed.close()?;
        Ok(status)
    }

    fn link_spec(
        &self,
        trace: Option<&PathBuf>,
        aggregation: Option<&AggregationSpec>,
    ) -> LinkSpec {
        let is_trace = trace.is_some();
        LinkSpec {
            rate_mbit_per_sec: self.rate.filter(|_| !is_trace),
            rate_steps: if is_trace { Vec::new() } else { self.rate_step.clone() },
            rate_steps_period_s: self.rate_period.filter(|_| !is_trace),
            trace: trace.cloned(),
            trace_once: self.once && is_trace,
            outages: self.outage.clone(),
            outages_period_s: self.outage_period,
            delay_ms: self.delay_ms,
            delay_steps: self.delay_step.clone(),
            delay_steps_period_s: self.delay_period,
            jitter_std_ms: self.jitter_ms,
            jitter_correlation: self.jitter_correlation,
            jitter_reorders: false,
            reordering: self.reorder.clone(),
            loss_percent: self.loss_percent,
            gilbert_elliott: self.gilbert_elliott.clone(),
            policer: self.policer.clone(),
            queue: self.queue_spec(),
            aggregation: aggregation.cloned(),
            seed: self.seed,
            ..LinkSpec::default()
        }
    }

    fn queue_spec(&self) -> QueueSpec {
        let limited =
            self.queue_packets.is_some() || self.queue_bytes.is_some() || self.queue_bdp.is_some();
        let kind = match self.queue {
            Some(kind) => kind.into(),
            None if limited => QueueKind::DropTail,
            None => QueueKind::Infinite,
        };
        QueueSpec {
            kind,
            limit_packets: self.queue_packets,
            limit_bytes: self.queue_bytes,
            limit_bdp: self.queue_bdp,
            target_ms: self.queue_target_ms,
            ecn: self.ecn,
            ecn_threshold_packets: self.ecn_threshold,
            min_packets: self.red.map(|range| range.min_packets),
            max_packets: self.red.map(|range| range.max_packets),
            drop_percent_max: self.red.and_then(|range| range.percent_max),
            ..QueueSpec::default()
        }
    }
}

/// A command at the server's end. Dropping it ends the command.
struct Server(Child);

impl Server {
    fn start(testbed: &Testbed, line: &str) -> Result<Self, Error> {
        let mut command = testbed.server().command("sh");
        command.args(["-c", line]).process_group(0);
        start(set_environment(&mut command, testbed)).map(Self)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = pid_of(&self.0) {
            // Fails if the process group has already ended, which is fine.
            let _ = kill_process_group(pid, Signal::TERM);
        }
        for _ in 0..10 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(SERVER_GRACE / 10);
        }
        // Both calls succeed for a child that has not been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn set_environment<'a>(command: &'a mut Command, testbed: &Testbed) -> &'a mut Command {
    let server = testbed.server();
    command
        .env("REMUDA_SERVER", server.ipv4().to_string())
        .env("REMUDA_SERVER6", server.ipv6().to_string())
        .env("REMUDA_CLIENT", testbed.client().ipv4().to_string())
        .env("MAHIMAHI_BASE", server.ipv4().to_string())
}

fn print_summary(testbed: &Testbed) -> Result<(), Error> {
    let stats = testbed.stats()?;
    for (name, direction) in [("up", &stats.up), ("down", &stats.down)] {
        let link = &direction.link;
        let delay = &link.queueing_delay;
        eprintln!(
            "remuda link: {name} {} packets in, {} out, {} dropped; queueing delay p50 {:.2}, \
             p95 {:.2}, p99 {:.2} ms",
            link.packets_in,
            link.packets_out,
            link.dropped.total(),
            delay.p50_ms,
            delay.p95_ms,
            delay.p99_ms,
        );
        let unseen = direction.lost_before_link + direction.lost_after_link;
        if unseen > 0 {
            eprintln!("remuda link: {name} WARNING: the kernel lost {unseen} more packets");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        link: LinkArgs,
    }

    fn path(line: &str) -> Result<PathSpec, String> {
        let args = std::iter::once("link").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(args).map_err(|error| error.to_string())?;
        Ok(cli.link.path_spec())
    }

    #[test]
    fn options_become_a_path() {
        let path = path("--rate 12 --delay-ms 20 --queue-bdp 1 --seed 9 --down-trace d -- ping x");
        let path = path.unwrap();
        assert_eq!(path.up.rate_mbit_per_sec, Some(12.0));
        assert_eq!((path.down.rate_mbit_per_sec, path.down.seed), (None, 9));
        assert_eq!(path.up.queue, QueueSpec::droptail_bdp(1.0));
        assert_eq!(path.rtt().as_millis(), 40);
    }

    #[test]
    fn a_channel_has_two_to_four_numbers() {
        let channel = |text: &str| path(&format!("--gilbert-elliott {text}"));
        assert_eq!(channel("1,25").unwrap().up.gilbert_elliott.unwrap().loss_bad_percent, 100.0);
        assert_eq!(
            channel("1,25,80,2").unwrap().up.gilbert_elliott.unwrap().loss_good_percent,
            2.0
        );
        for wrong in ["1", "1,x", "1,2,3,4,5", "1,2,"] {
            assert!(channel(wrong).unwrap_err().contains("--gilbert-elliott"), "{wrong}");
        }
    }

    #[test]
    fn options_of_the_link_models_become_a_path() {
        let line = "--rate 12 --rate-step 10,24 --rate-step 20,6 --rate-period 30 --outage 5,0.5 \
                    --outage-period 60 --delay-ms 20 --delay-step 15,60 --reorder 1,5 --policer \
                    10,30000 --queue red --queue-bdp 2 --red 5,15,2 --ecn \
                    --down-aggregation 100,10";
        let path = path(line).unwrap();
        path.build::<u32>().unwrap();
        let up = &path.up;
        assert_eq!((up.rate_steps.len(), up.rate_steps_period_s), (2, Some(30.0)));
        assert_eq!((up.outages[0].duration_s, up.outages_period_s), (0.5, Some(60.0)));
        assert_eq!((up.delay_steps[0].delay_ms, up.delay_steps_period_s), (60.0, None));
        assert_eq!(up.reordering.as_ref().unwrap().extra_ms, 5.0);
        assert_eq!(up.policer.as_ref().unwrap().burst_bytes, 30_000);
        let red = "red [bdp=2, min_packets=5, max_packets=15, max_p=0.02, weight=0.002, \
                   gentle=true, ecn=true]";
        assert_eq!(up.queue.to_string(), red);
        assert_eq!((up.aggregation.is_some(), path.down.aggregation.is_some()), (false, true));
    }

    #[test]
    fn every_discipline_has_a_flag() {
        for kind in ["droptail", "drophead", "codel", "pie", "fq-codel", "red"] {
            let path = path(&format!("--queue {kind} --queue-packets 50")).unwrap();
            path.build::<u32>().unwrap();
            assert_eq!(path.up.queue.kind.name(), kind);
        }
        let queue = path("--queue pie --queue-packets 50 --queue-target-ms 20").unwrap().up.queue;
        assert_eq!(queue.target_ms, Some(20.0));
        let queue = path("--queue-packets 50 --ecn-threshold 20").unwrap().up.queue;
        assert_eq!(queue.to_string(), "droptail [packets=50, ecn_threshold=20]");
    }

    #[test]
    fn steps_of_the_rate_leave_a_trace_alone() {
        let path = path("--rate 12 --rate-step 1,6 --down-trace d").unwrap();
        assert_eq!((path.up.rate_steps.len(), path.down.rate_steps.len()), (1, 0));
    }

    #[test]
    fn clap_finds_the_definition_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("in milliseconds") && help.contains("Mbit/s"), "{help}");
    }
}
