//! The command lines of `mm-delay`, `mm-loss` and `mm-link`.

use super::queue::{MmQueue, queue};
use super::shell::Shell;
use crate::error::Error;
use clap::{Args, ValueEnum};
use remuda_link::{LinkSpec, PathSpec};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A minute, the longest delay of any link.
const DELAY_MS_MAX: u32 = 60_000;

/// Runs a command behind a delay, as Mahimahi's mm-delay does.
///
/// Needs root. The exit status is that of the command.
#[derive(Args, Clone, Debug)]
pub struct MmDelayArgs {
    /// Propagation delay in each direction, in whole milliseconds
    #[arg(value_name = "MS", value_parser = delay_ms, allow_negative_numbers = true)]
    pub delay_ms: u32,
    /// The command, with its arguments [default: your shell]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MmDirection {
    /// Packets that the command sends
    Uplink,
    /// Packets that the command receives
    Downlink,
}

/// Runs a command behind independent loss, as Mahimahi's mm-loss does.
///
/// Needs root. The exit status is that of the command. Unlike in Mahimahi, the same seed loses the
/// same packets.
#[derive(Args, Clone, Debug)]
pub struct MmLossArgs {
    /// Seed of the loss; must come before the direction
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED")]
    pub seed: u64,
    /// The direction in which packets are lost
    pub direction: MmDirection,
    /// The share of packets lost, from 0 to 1
    #[arg(value_name = "RATE", value_parser = loss_rate, allow_negative_numbers = true)]
    pub rate: f64,
    /// The command, with its arguments [default: your shell]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Runs a command behind a link driven by traces, as Mahimahi's mm-link does.
///
/// Needs root. The exit status is that of the command.
#[derive(Args, Clone, Debug)]
pub struct MmLinkArgs {
    /// Trace of the uplink, for packets that the command sends
    #[arg(value_name = "UP.trace")]
    pub uplink: PathBuf,
    /// Trace of the downlink, for packets that the command receives
    #[arg(value_name = "DOWN.trace")]
    pub downlink: PathBuf,
    /// Ends when a trace ends, with SIGTERM to the command; without it traces repeat
    #[arg(long)]
    pub once: bool,
    /// Logs the uplink to FILE, in Mahimahi's format
    #[arg(long, value_name = "FILE")]
    pub uplink_log: Option<PathBuf>,
    /// Logs the downlink to FILE, in Mahimahi's format
    #[arg(long, value_name = "FILE")]
    pub downlink_log: Option<PathBuf>,
    /// Discipline of the uplink's queue
    #[arg(long, value_enum, default_value = "infinite")]
    pub uplink_queue: MmQueue,
    /// Discipline of the downlink's queue
    #[arg(long, value_enum, default_value = "infinite")]
    pub downlink_queue: MmQueue,
    /// Settings of the uplink's queue, separated by commas: a limit as packets= or bytes=; for
    /// codel target= and interval=, for pie qdelay_ref= and max_burst=, in ms
    #[arg(long, value_name = "NAME=N,...", default_value = "", hide_default_value = true)]
    pub uplink_queue_args: String,
    /// Settings of the downlink's queue, in the same form
    #[arg(long, value_name = "NAME=N,...", default_value = "", hide_default_value = true)]
    pub downlink_queue_args: String,
    /// Seed of the packets that pie drops
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED")]
    pub seed: u64,
    #[command(flatten)]
    meters: Meters,
    /// The command, with its arguments [default: your shell]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Flags that show a meter in Mahimahi. Here they only print a warning.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of Mahimahi's")]
struct Meters {
    #[arg(long, hide = true)]
    meter_uplink: bool,
    #[arg(long, hide = true)]
    meter_uplink_delay: bool,
    #[arg(long, hide = true)]
    meter_downlink: bool,
    #[arg(long, hide = true)]
    meter_downlink_delay: bool,
    #[arg(long, hide = true)]
    meter_all: bool,
}

impl Meters {
    fn any(&self) -> bool {
        let Self { meter_uplink, meter_uplink_delay, meter_downlink, .. } = *self;
        let down = meter_downlink || self.meter_downlink_delay;
        meter_uplink || meter_uplink_delay || down || self.meter_all
    }
}

impl MmDelayArgs {
    /// Runs the command. Returns its exit status. Forks, like `LinkArgs::run`.
    pub fn run(&self) -> Result<i32, Error> {
        self.shell().run()
    }

    fn shell(&self) -> Shell {
        let link = LinkSpec { delay_ms: f64::from(self.delay_ms), ..LinkSpec::default() };
        Shell {
            name: "mm-delay",
            path: PathSpec::symmetric(link),
            once: false,
            prefix: format!("[delay {} ms] ", self.delay_ms),
            command: self.command.clone(),
        }
    }
}

impl MmLossArgs {
    /// Runs the command. Returns its exit status. Forks, like `LinkArgs::run`.
    pub fn run(&self) -> Result<i32, Error> {
        self.shell().run()
    }

    fn shell(&self) -> Shell {
        let lossy =
            LinkSpec { loss_percent: self.rate * 100.0, seed: self.seed, ..LinkSpec::default() };
        let (path, way) = match self.direction {
            MmDirection::Uplink => (PathSpec { up: lossy, ..PathSpec::default() }, "up"),
            MmDirection::Downlink => (PathSpec { down: lossy, ..PathSpec::default() }, "down"),
        };
        Shell {
            name: "mm-loss",
            path,
            once: false,
            prefix: format!("[loss ({way}) rate={}] ", self.rate),
            command: self.command.clone(),
        }
    }
}

impl MmLinkArgs {
    /// Runs the command. Returns its exit status. Forks, like `LinkArgs::run`.
    pub fn run(&self) -> Result<i32, Error> {
        let shell = self.shell()?;
        if self.meters.any() {
            eprintln!(
                "mm-link: --meter-... is ignored, because it needs an X display; use --uplink-log, \
                 and draw the log with `remuda graph`"
            );
        }
        shell.run()
    }

    fn shell(&self) -> Result<Shell, Error> {
        let link = |trace: &Path, queue| LinkSpec {
            trace: Some(trace.to_owned()),
            trace_once: self.once,
            queue,
            seed: self.seed,
            ..LinkSpec::default()
        };
        let up = queue("uplink", self.uplink_queue, &self.uplink_queue_args)?;
        let down = queue("downlink", self.downlink_queue, &self.downlink_queue_args)?;
        Ok(Shell {
            name: "mm-link",
            path: PathSpec {
                up: link(&self.uplink, up),
                down: link(&self.downlink, down),
                up_log: self.uplink_log.clone(),
                down_log: self.downlink_log.clone(),
            },
            once: self.once,
            prefix: "[link] ".to_owned(),
            command: self.command.clone(),
        })
    }
}

fn delay_ms(text: &str) -> Result<u32, String> {
    let rule = || format!("must be a whole number of milliseconds from 0 to {DELAY_MS_MAX}");
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|ms| digits && *ms <= DELAY_MS_MAX).ok_or_else(rule)
}

fn loss_rate(text: &str) -> Result<f64, String> {
    let rule = || "must be a share from 0 to 1, such as 0.01 for 1 %".to_owned();
    text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate)).ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    enum Cli {
        #[command(name = "mm-delay")]
        Delay(MmDelayArgs),
        #[command(name = "mm-loss")]
        Loss(MmLossArgs),
        #[command(name = "mm-link")]
        Link(Box<MmLinkArgs>),
    }

    fn shell(line: &str) -> Result<Shell, String> {
        let words = std::iter::once("remuda").chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())? {
            Cli::Delay(args) => Ok(args.shell()),
            Cli::Loss(args) => Ok(args.shell()),
            Cli::Link(args) => args.shell().map_err(|error| error.to_string()),
        }
    }

    #[test]
    fn clap_finds_the_definitions_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_delay_is_both_ways_and_the_rest_is_the_command() {
        let shell = shell("mm-delay 20 mm-link a b --once -- iperf3 -c x").unwrap();
        assert_eq!((shell.path.up.delay_ms, shell.path.down.delay_ms), (20.0, 20.0));
        assert_eq!(shell.prefix, "[delay 20 ms] ");
        assert_eq!(shell.command.len(), 8, "{:?}", shell.command);
    }

    #[test]
    fn loss_is_one_way_and_has_a_seed() {
        let up = shell("mm-loss --seed 7 uplink 0.1 ping -c 1 x").unwrap();
        assert_eq!((up.path.up.loss_percent, up.path.up.seed), (10.0, 7));
        assert_eq!((up.path.down.loss_percent, up.command.len()), (0.0, 4));
        let down = shell("mm-loss downlink 1").unwrap();
        assert_eq!((down.path.up.loss_percent, down.path.down.loss_percent), (0.0, 100.0));
        assert!(down.command.is_empty());
    }

    #[test]
    fn a_link_has_traces_queues_and_logs() {
        let line = "mm-link a b --once --uplink-log=u --downlink-log d --uplink-queue=droptail \
                    --uplink-queue-args=packets=9 --downlink-queue=codel --meter-all \
                    --downlink-queue-args=bytes=9000,target=5 iperf3 -c x --once";
        let shell = shell(line).unwrap();
        let PathSpec { up, down, up_log, down_log } = &shell.path;
        assert_eq!(
            (up.trace.as_deref(), down.trace.as_deref()),
            (Some("a".as_ref()), Some("b".as_ref()))
        );
        assert!(up.trace_once && down.trace_once && shell.once);
        assert_eq!(
            (up_log.as_deref(), down_log.as_deref()),
            (Some("u".as_ref()), Some("d".as_ref()))
        );
        assert_eq!(up.queue.to_string(), "droptail [packets=9]");
        assert_eq!((down.queue.limit_bytes, down.queue.target_ms), (Some(9000), Some(5.0)));
        assert_eq!(shell.command, ["iperf3", "-c", "x", "--once"]);
    }

    #[test]
    fn a_wrong_word_is_named_with_its_rule() {
        for (line, message) in [
            ("mm-delay", "<MS>"),
            ("mm-delay 20.5", "'20.5' for '<MS>': must be a whole number of milliseconds from 0"),
            ("mm-delay -5", "'-5' for '<MS>': must be a whole number"),
            ("mm-delay +5", "must be a whole number"),
            ("mm-delay 60001", "from 0 to 60000"),
            ("mm-loss up 0.1", "[possible values: uplink, downlink]"),
            ("mm-loss uplink 1.1", "'1.1' for '<RATE>': must be a share from 0 to 1"),
            ("mm-loss uplink -0.1", "must be a share from 0 to 1"),
            ("mm-loss uplink NaN", "must be a share from 0 to 1"),
            ("mm-loss uplink", "<RATE>"),
            ("mm-link a", "<DOWN.trace>"),
            ("mm-link a b --uplink-queue=red", "[possible values: infinite, droptail,"),
            ("mm-link a b --uplink-queue=droptail", "droptail needs packets=N or bytes=N"),
            ("mm-link a b --downlink-queue-args=packets=5", "an infinite queue takes none"),
        ] {
            let said = shell(line).unwrap_err();
            assert!(said.contains(message), "{line}: {said}");
        }
    }
}
