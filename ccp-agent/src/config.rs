//! The agent's configuration. It is one struct, read from TOML; unknown keys are errors.

use crate::admission::AdmissionConfig;
use crate::error::on;
use crate::guard::GuardConfig;
use crate::learning::LearningConfig;
use crate::online::OnlineConfig;
use crate::samples::config::SamplesConfig;
use crate::{Error, catalogue};
use crate::{prefer, rules};
use remuda_algorithms::anole::config::AnoleConfig;
use remuda_algorithms::{learned, lingbo};
use remuda_selector::PolicyConfig;
use remuda_selector::antelope::memory::MemoryConfig;
use remuda_selector::tcp_rl::config::IwConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A larger configuration file is refused.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The default `agent.run_dir`, deleted when the host reboots, and the state directory used with
/// it.
const RUN_DIR: &str = "/run/remuda";
const STATE_DIR: &str = "/var/lib/remuda";

/// All settings. Command-line flags override the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub agent: AgentConfig,
    /// Who may have flows in the BPF datapath, and how many.
    pub admission: AdmissionConfig,
    /// Whose flows are believed.
    pub learning: LearningConfig,
    /// Limits on every window, rate and switch.
    pub guard: GuardConfig,
    pub policy: PolicyConfig,
    /// Memory of destinations: which arm did well there.
    pub memory: MemoryConfig,
    /// Learning the initial windows of groups of destinations.
    pub iw: IwConfig,
    /// Storing what policies measured of their arms, as training data.
    pub samples: SamplesConfig,
    /// Replacing Antelope's model with one trained on live flows.
    pub online: OnlineConfig,
    pub arms: ArmsConfig,
    /// Preferences of flows, unless an operator or an application sets one at run time. The first
    /// matching rule counts.
    #[serde(skip_serializing_if = "prefer::Rules::is_empty")]
    pub prefer: prefer::Rules,
    /// What drives the flows of a service or of a destination. The first matching rule counts.
    #[serde(rename = "rule", skip_serializing_if = "rules::Rules::is_empty")]
    pub rules: rules::Rules,
}

/// Files that single arms need.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArmsConfig {
    /// The rule table of the arm `remy`, in the file format that Remy writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remy_table: Option<PathBuf>,
    /// `lingbo` takes the least round trip for RTT_min, without a spread, as DuGu does.
    pub lingbo_single_rtt_min: bool,
    /// The file of the weights of each arm, by the arm's name; the card lies beside the file.
    /// `learned` and `lingbo` replace the shipped weights; any other name becomes an arm.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, PathBuf>,
    /// What the arm `anole` embeds, and which of its parts are off.
    #[serde(skip_serializing_if = "is_default")]
    pub anole: AnoleConfig,
}

impl ArmsConfig {
    /// Makes the names of weights known as arms. A name must be free, and nothing may have listed
    /// the arms before it is known.
    pub fn name_weights(&self) -> Result<(), Error> {
        let names = self
            .weights
            .keys()
            .filter(|name| ![learned::WEIGHTS, lingbo::WEIGHTS].contains(&name.as_str()));
        names.into_iter().try_for_each(|name| {
            let refuse = |rule: String| {
                let path = "the configuration".to_owned();
                Error::Config { path, rule: format!("arms.weights.{name}: {rule}") }
            };
            if remuda_selector::policy(name).is_some() {
                return Err(refuse("a policy has that name".to_owned()));
            }
            learned::own::add(name).map_err(|error| refuse(error.to_string()))
        })
    }
}

fn is_default(config: &AnoleConfig) -> bool {
    *config == AnoleConfig::default()
}

/// What happens to running flows when the agent stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AtStop {
    /// They go to the kernel's own algorithm that the configuration names.
    GiveBack,
    /// They stay, in the datapath's fallback, for the next agent.
    HandOver,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// The arm or policy that drives new flows.
    pub default: String,
    /// The name that sockets select with `TCP_CONGESTION`; 1 to 15 characters.
    pub name: String,
    /// The kernel algorithm that flows get when the agent stops; `default` is the one that new
    /// sockets of this network namespace get when the agent starts.
    pub native: String,
    /// Directory of the sockets, the lock and the event log; only the agent's user may enter it.
    pub run_dir: PathBuf,
    /// Directory for what survives a restart, used by this agent only. Without it: /var/lib/remuda
    /// with the default run_dir, else the directory state in run_dir.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<PathBuf>,
    /// A flow falls back to the datapath's own Reno when no heartbeat came for this long, in
    /// milliseconds.
    pub heartbeat_timeout_ms: u64,
    /// Shortest time between two reports of a flow, in milliseconds.
    pub report_interval_ms_min: u64,
    /// Limit on the reports of all flows together, in a second; with many flows, each reports less
    /// often.
    pub reports_per_sec_max: u64,
    /// Make `name` the default algorithm of this network namespace until the agent stops.
    pub take_default: bool,
    /// Take over every new TCP socket of these cgroups (v2 directories).
    pub cgroups: Vec<PathBuf>,
    /// Initial window of flows taken over by cgroup, in segments; 0 keeps the kernel's.
    pub initial_cwnd_pkts: u32,
    /// What happens to running flows when the agent stops: `give_back` gives them to `native`;
    /// `hand_over` leaves them in the datapath's own Reno for the next agent.
    pub at_stop: AtStop,
    /// Drive this host's Linux TCP through BPF.
    pub bpf: bool,
    /// The socket of `remuda broker`, which has the privileges for BPF, so that the agent needs
    /// none. Without it the agent itself needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<PathBuf>,
    /// Most flows at once in the BPF datapath, up to 100,000. The kernel reserves 476 bytes for
    /// each of them when the agent starts. Further sockets run `native`.
    pub flows_max: u32,
    /// Also drive this host's Linux TCP through the kernel module tcp_remuda, whenever it is
    /// loaded.
    pub module: bool,
    /// Drive Linux TCP of this host through CCP's own module, ccp-kernel, which speaks netlink,
    /// whenever the module is loaded. Any local user may send to its netlink group; the agent takes
    /// messages of the kernel alone.
    pub netlink: bool,
    /// Users, by name or number, whose processes may be datapaths too, such as a QUIC server that
    /// is not root. Each gets a directory beside run_dir, with a dot and the user's number appended
    /// to its name, to give as --run-dir. Others than root and the agent's own user are not heard
    /// without this.
    pub datapath_users: Vec<String>,
    /// Serve metrics for Prometheus at this address of loopback, such as 127.0.0.1:9465, to any
    /// local user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// Let applications of any user set the preference of their own sockets.
    pub applications: bool,
    /// The socket for them, in a directory that any user can enter. Without it: the path of run_dir
    /// with `.sock` appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_socket: Option<PathBuf>,
    /// The directory of the event log, private to the agent's user, for a log that outlives the
    /// host's restart. A link in run_dir leads to it. Without it the log is in run_dir.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_log_dir: Option<PathBuf>,
    /// The event log starts a new file at this size, in bytes; one old file is kept.
    pub event_log_bytes_max: u64,
    /// How many events of one user's flows the log records in a second, in the long run; root's are
    /// not counted. Further ones are counted, and the log says every 10 s how many there were.
    pub user_events_per_sec_max: u32,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            default: "rein".to_owned(),
            name: "remuda".to_owned(),
            native: "cubic".to_owned(),
            run_dir: PathBuf::from(RUN_DIR),
            state_dir: None,
            // fallback takes this and a retransmission timeout: 500 ms at an RTT of 150 ms
            heartbeat_timeout_ms: 150,
            report_interval_ms_min: 2,
            reports_per_sec_max: 20_000,
            take_default: false,
            cgroups: Vec::new(),
            initial_cwnd_pkts: 0,
            at_stop: AtStop::GiveBack,
            bpf: true,
            broker: None,
            flows_max: 8_192,
            module: true,
            netlink: false,
            datapath_users: Vec::new(),
            metrics: None,
            applications: true,
            application_socket: None,
            event_log_dir: None,
            event_log_bytes_max: 64 << 20,
            user_events_per_sec_max: 20,
        }
    }
}

impl Config {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let refuse = |rule: &str| Error::Config { path: name.clone(), rule: rule.to_owned() };
        let file = File::open(path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => refuse(
                "there is no such file\nfix: make one with `remuda agent --print-config > FILE`",
            ),
            _ => Error::File { path: name.clone(), source },
        })?;
        let mut text = String::new();
        let mut limited = file.take(FILE_BYTES_MAX + 1);
        limited.read_to_string(&mut text).map_err(on(path.display()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(refuse("is larger than 1 MiB; a configuration file has at most 1 MiB"));
        }
        Self::parse(&text, &name)
    }

    /// Parses and checks a text; errors name `path` as its source.
    pub fn parse(text: &str, path: &str) -> Result<Self, Error> {
        let refuse = |rule: String| Error::Config { path: path.to_owned(), rule };
        let config: Self = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        config.check(&[]).map_err(refuse)?;
        Ok(config)
    }

    /// Checks the configuration again, after flags have changed it. The default driver may be one
    /// of `authored`, the names of authors' arms.
    pub fn validate(&self, authored: &[&str]) -> Result<(), Error> {
        let path = "the configuration".to_owned();
        self.check(authored).map_err(|rule| Error::Config { path, rule })
    }

    /// Checks each value; the message names key, value and allowed range.
    fn check(&self, authored: &[&str]) -> Result<(), String> {
        let a = &self.agent;
        for (key, value, least, most) in [
            ("agent.heartbeat_timeout_ms", a.heartbeat_timeout_ms, 100, 60_000),
            ("agent.report_interval_ms_min", a.report_interval_ms_min, 1, 10_000),
            ("agent.reports_per_sec_max", a.reports_per_sec_max, 100, 1_000_000),
            ("agent.event_log_bytes_max", a.event_log_bytes_max, 1 << 16, 1 << 40),
            ("agent.user_events_per_sec_max", a.user_events_per_sec_max.into(), 1, 1_000_000),
            ("agent.flows_max", a.flows_max.into(), 1, 100_000),
            ("agent.initial_cwnd_pkts", a.initial_cwnd_pkts.into(), 0, 1_000),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!("{key} = {value}: it must lie in {least}..={most}"));
            }
        }
        self.arms.anole.validate()?;
        for (key, name) in [("agent.name", &a.name), ("agent.native", &a.native)] {
            remuda_bpf::check_name(name).map_err(|error| format!("{key}: {error}"))?;
        }
        if a.name == a.native {
            let rule = "it equals agent.name; name one of the kernel's own algorithms";
            return Err(format!("agent.native = {:?}: {rule}", a.native));
        }
        if let Some(address) = a.metrics.filter(|address| !address.ip().is_loopback()) {
            let rule = "it must be an address of loopback, such as 127.0.0.1:9465";
            return Err(format!("agent.metrics = \"{address}\": {rule}"));
        }
        if a.state_dir.as_ref() == Some(&a.run_dir) {
            let rule = "it equals agent.run_dir; give each directory its own path";
            return Err(format!("agent.state_dir = {:?}: {rule}", a.run_dir));
        }
        for (key, other) in [("run_dir", a.run_dir.clone()), ("state_dir", self.state_dir())] {
            if a.event_log_dir.as_ref() == Some(&other) {
                let rule = format!("it equals agent.{key}; give each directory its own path");
                return Err(format!("agent.event_log_dir = {other:?}: {rule}"));
            }
        }
        self.arms.name_weights().map_err(|error| error.to_string())?;
        let default = catalogue::kind_of(&a.default, authored);
        default.map_err(|error| format!("agent.default: {error}"))?;
        self.admission.resolve()?;
        self.learning.resolve()?;
        self.guard.check()?;
        let denied = |name: &str| {
            format!(
                "guard.deny has {name:?}\nfix: remove the name from guard.deny, or choose another \
                 arm here"
            )
        };
        if self.guard.denies(&a.default) {
            return Err(format!("agent.default: {}", denied(&a.default)));
        }
        self.rules.check(|driver| {
            catalogue::kind_of(driver, authored).map_err(|error| error.to_string())?;
            if self.guard.denies(driver) { Err(denied(driver)) } else { Ok(()) }
        })?;
        self.memory.validate().map_err(|error| error.to_string())?;
        self.iw.validate().map_err(|error| error.to_string())?;
        self.samples.check()?;
        self.online.check()?;
        self.policy.validate().map_err(|error| error.to_string())
    }

    /// The directory for what survives a restart.
    pub fn state_dir(&self) -> PathBuf {
        match &self.agent.state_dir {
            Some(path) => path.clone(),
            None if self.agent.run_dir == Path::new(RUN_DIR) => PathBuf::from(STATE_DIR),
            None => self.agent.run_dir.join("state"),
        }
    }

    /// The cgroups whose new TCP sockets the agent takes over.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        let mut cgroups = self.agent.cgroups.clone();
        for directory in rules::directories(&self.rules) {
            if !cgroups.iter().any(|known| known == directory) {
                cgroups.push(directory.to_owned());
            }
        }
        cgroups
    }

    pub fn heartbeat_timeout(&self) -> Duration {
        Duration::from_millis(self.agent.heartbeat_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, part: &str) {
        let error = Config::parse(text, "remuda.toml").expect_err("it is refused").to_string();
        assert!(error.contains(part), "{error}");
        assert!(error.contains("remuda.toml"), "{error}");
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        assert_eq!(Config::parse("", "-").expect("it parses"), Config::default());
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        let rules = "[[prefer]]\nlocal_port = 443\nwants = { throughput = 0.7, delay = 1 }\n\
                     [[prefer]]\nmark = '0x1/0xf'\ndestination = '::/0'\nwants = 'delay'\n";
        let preferring = Config::parse(rules, "-").expect("it parses");
        for config in [Config::default(), preferring] {
            let text = toml::to_string(&config).expect("it prints");
            assert_eq!(Config::parse(&text, "-").expect("it parses"), config, "{text}");
        }
    }

    #[test]
    fn state_lies_beside_the_run_directory() {
        for (text, want) in [
            ("", "/var/lib/remuda"),
            ("[agent]\nrun_dir = '/tmp/r'", "/tmp/r/state"),
            ("[agent]\nrun_dir = '/tmp/r'\nstate_dir = '/srv/s'", "/srv/s"),
        ] {
            let config = Config::parse(text, "-").expect("it parses");
            assert_eq!(config.state_dir(), Path::new(want));
        }
    }

    #[test]
    fn bad_files_are_refused_by_name() {
        refused("[agent]\nhart_beat = 1", "hart_beat");
        refused("[agent]\nheartbeat_timeout_ms = 1", "agent.heartbeat_timeout_ms = 1");
        refused("[agent]\nheartbeat_timeout_ms = -5", "heartbeat_timeout_ms");
        refused("[agent]\nflows_max = 0", "agent.flows_max = 0: it must lie in 1..=100000");
        refused("[agent]\nflows_max = 100001", "agent.flows_max = 100001");
        refused("[agent]\nname = ''", "agent.name: \"\" cannot name an algorithm");
        refused("[agent]\nnative = 'sixteen-letters-'", "agent.native: \"sixteen-letters-\"");
        refused("[agent]\nname = 'cubic'", "agent.native = \"cubic\": it equals agent.name");
        refused("[agent]\ndefault = 'cubicc'", "agent.default: unknown arm or policy \"cubicc\"");
        refused("[guard]\ncwnd_pkts_max = 1", "guard.cwnd_pkts_max = 1");
        refused("[guard]\ndeny = ['cubik']", "guard.deny names \"cubik\"");
        refused("[guard]\ndeny = ['bbr', 'rein']", "guard.deny names \"rein\"");
        refused("[policy.rein]\nsample_round_trips = 0", "rein.");
        refused("[[prefer]]\nlocal_port = 0\nwants = 'delay'", "prefer rule 1: local_port = \"0\"");
        refused("[[prefer]]\nmark = 1\nwants = 'fast'", "prefer rule 1: wants = \"fast\"");
        refused("[policy.epsilon_greedy]\nepsilon = 2.0", "epsilon_greedy.epsilon = 2");
        refused("[policy.linucb]\nalpha = -1.0", "linucb.alpha = -1");
        refused("[policy.random]\ndwell_ms = 1", "random.dwell_ms = 1");
        refused("[rain]", "rain");
        refused("[agent]\nrun_dir = '/x'\nstate_dir = '/x'", "agent.state_dir = \"/x\"");
        refused("[agent]\nuser_events_per_sec_max = 0", "agent.user_events_per_sec_max = 0");
        refused("[admission]\nuser_percent = 101", "admission.user_percent = 101");
        refused("[admission]\ngroups = ['no such']", "admission.groups: this host has no group");
        refused("[admission]\nuser = ['a']", "unknown field `user`");
        refused("[learning]\ntrusted_users = ['no such']", "learning.trusted_users: this host");
        refused("[memory]\nuser_entries_max = 1", "memory.user_entries_max = 1");
        refused("[memory]\nuser_notes_per_min_max = 0", "memory.user_notes_per_min_max = 0");
        refused("[memory]\nttl_s = 0", "memory.ttl_s = 0");
        refused("[online]\nflows_min = 1", "online.flows_min = 1");
        refused("[samples]\nbytes_max = 1", "samples.bytes_max = 1");
        refused("[memory]\nttl = 0", "unknown field `ttl`");
        refused("agent = ", "agent");
    }
}
