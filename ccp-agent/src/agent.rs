//! The agent, put together: run directory, datapaths, control socket, and the run loop.

use crate::author::door;
use crate::config::{AgentConfig, AtStop, Config};
use crate::datapath::LetGo;
use crate::error::on;
use crate::event_budget::BudgetedLog;
use crate::events::{Event, EventLog};
use crate::host::{Host, Target};
use crate::ipc::{BpfEnd, DEVICE, Datapaths, ModuleEnd, NetlinkEnd, UnixEnd};
use crate::iw::keeper::IwKeeper;
use crate::lock::lock;
use crate::memory::Keeper;
use crate::run_dir::{self, RunDir};
use crate::run_loop::RunLoop;
use crate::samples::SampleKeeper;
use crate::{
    Error, Setup, application, clock, control, metrics, nofile, programs, reload, rules, service,
    standing,
};
use remuda_bpf::{Datapath, DefaultAlgorithm, Plan, Settings, Started};
use remuda_selector::antelope::memory::WINDOWS_MAX;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, mpsc};

/// How many events of one user's flows the log takes at once.
const USER_EVENTS_AT_ONCE: u32 = 2_000;

/// What `agent.native` says for the host's default algorithm.
const HOSTS_DEFAULT: &str = "default";

/// Runs until SIGINT or SIGTERM. `ready` is called once flows are served: not before the kernel has
/// all programs, which takes it a while. The control socket takes requests from the start, and
/// answers them from then on.
pub fn run(setup: impl Into<Setup>, ready: impl FnOnce() + Send + 'static) -> Result<LetGo, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(on("signal handler"))?;
    }
    run_until(setup, stop, ready)
}

/// As [`run`], until `stop`.
pub fn run_until(
    setup: impl Into<Setup>,
    stop: Arc<AtomicBool>,
    ready: impl FnOnce() + Send + 'static,
) -> Result<LetGo, Error> {
    let setup = setup.into();
    setup.validate()?;
    let config = setup.config.clone();
    nofile::raise();
    programs::ours()?; // a program that breaks a rule is an error now, not at a READY
    let run_dir = RunDir::take(&config.agent.run_dir)?;
    let logs = config.agent.event_log_dir.as_deref().map(RunDir::take).transpose()?;
    let log_path = run_dir.event_log_in(logs.as_ref())?;
    let log = EventLog::open(&log_path, config.agent.event_log_bytes_max)?;
    let newest_flow = log.newest_flow();
    let log = BudgetedLog::new(log, config.agent.user_events_per_sec_max, USER_EVENTS_AT_ONCE);
    let host = Arc::new(Mutex::new(Host::new(setup.clone(), Box::new(log))));
    lock(&host).number_after(newest_flow);
    let keeper = Keeper::start(&config, &host);
    let samples = SampleKeeper::start(&config, &host);
    let iw = IwKeeper::start(&config, &host);
    resume_order(&config, &host);
    resume_rules(&config, &host);
    let socket = run_dir::datapath_socket(run_dir.path());
    let unix = UnixEnd::bind_for(&socket, &config.agent.datapath_users)?;
    let bpf = open_bpf(&config, &host)?;
    let sockets = bpf.as_ref().map(BpfEnd::sockets);
    let module = config.agent.module.then(|| ModuleEnd::new(Path::new(DEVICE)));
    let netlink = config.agent.netlink.then(NetlinkEnd::open).transpose()?;
    let datapaths = Datapaths { bpf, module, netlink, unix: Some(unix) };
    let (answer, answered) = mpsc::channel();
    let _control = control::serve(run_dir.path(), Arc::clone(&host), answered)?;
    let _door = door::open(run_dir.path(), setup.authors.clone(), Arc::clone(&host))?;
    let applications = config.agent.applications.then(|| application_socket(&config, &run_dir));
    let _applications = applications
        .map(|path| application::serve(path?, Arc::clone(&host), sockets))
        .transpose()?;
    let _reloader = reload::start(&setup, &host)?;
    if let Some(address) = config.agent.metrics {
        let scraped = Arc::clone(&host);
        metrics::serve(address, move || lock(&scraped).snapshot())?;
    }
    lock(&host).record(&Event::Started {
        version: env!("CARGO_PKG_VERSION"),
        default: config.agent.default.clone(),
        name: config.agent.name.clone(),
    });
    let run_loop = RunLoop::new(datapaths, &host).map_err(on("epoll"))?;
    let ended = run_loop.run(&stop, || {
        lock(&host).record(&Event::Ready {});
        let _ = answer.send(()); // the thread that waits for it ends with the process
        service::ready();
        ready();
    });
    service::stopping();
    let LetGo { flows_let_go, flows_left, flows_handed_over } = ended;
    lock(&host).record(&Event::Stopped { flows_let_go, flows_left, flows_handed_over });
    lock(&host).leave_all();
    drop(keeper); // it saves a last time
    drop(samples); // it writes those that wait
    drop(iw); // it does, too
    match flows_left {
        0 => Ok(ended),
        flows => Err(Error::FlowsLeft { flows, native: config.agent.native }),
    }
}

/// Obeys the order for new flows that an operator gave to a former agent.
fn resume_order(config: &Config, host: &Mutex<Host>) {
    let obeyed = match standing::read(&config.state_dir(), &config.agent.default) {
        Ok(Some(ordered)) => lock(host).set(Target::New, &ordered).map_err(|it| it.to_string()),
        Ok(None) => return,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = obeyed {
        tracing::warn!(%reason, "a former order for new flows is not obeyed");
    }
}

/// Restores the rules that operators added before a restart.
fn resume_rules(config: &Config, host: &Mutex<Host>) {
    match rules::read(&config.state_dir()) {
        Ok(added) => lock(host).restore_rules(added),
        Err(reason) => {
            let aside = rules::set_aside(&config.state_dir());
            let rest = "cannot be read; the agent runs without them";
            tracing::warn!(%reason, ?aside, "the saved rules of `remuda rule add` {rest}");
        }
    }
}

fn application_socket(config: &Config, run_dir: &RunDir) -> Result<PathBuf, Error> {
    if let Some(path) = &config.agent.application_socket {
        return Ok(path.clone());
    }
    let run_dir = run_dir.path();
    let whole = fs::canonicalize(run_dir).map_err(on(run_dir.display()))?;
    Ok(run_dir::application_socket(&whole))
}

/// The settings of the BPF datapath. This process loads the datapath by them, or a broker does.
pub fn plan(config: &Config) -> Result<Plan, Error> {
    let agent = &config.agent;
    let native = match agent.native.as_str() {
        HOSTS_DEFAULT => hosts_default(&agent.name)?,
        named => named.to_owned(),
    };
    let settings = Settings {
        name: agent.name.clone(),
        native,
        heartbeat_timeout: config.heartbeat_timeout(),
        cwnd_max_pkts: u32::try_from(config.guard.cwnd_pkts_max).unwrap_or(u32::MAX),
        rate_max_bytes_per_sec: config.guard.rate_mbit_per_sec_max.saturating_mul(125_000),
        initial_cwnd_pkts: (agent.initial_cwnd_pkts > 0).then_some(agent.initial_cwnd_pkts),
        flows_max: agent.flows_max,
        admission: config.admission.resolve().map_err(Error::Refused)?,
        destinations_max: destinations_max(config),
        measures_responses: config.iw.enabled,
    };
    let cgroups = config.cgroups();
    Ok(Plan { settings, cgroups, takes_default: agent.take_default })
}

/// The most prefixes in the kernel's map: what is remembered, what operators set, what is learned.
fn destinations_max(config: &Config) -> u32 {
    let learned = if config.iw.enabled { config.iw.table_entries_max } else { 0 };
    let all = 2 * config.memory.entries_max + WINDOWS_MAX + learned;
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// The host's default algorithm; `cubic` if a former agent has left itself there.
fn hosts_default(name: &str) -> Result<String, Error> {
    let current = DefaultAlgorithm::current()?;
    Ok(if current == name { AgentConfig::default().native } else { current })
}

fn open_bpf(config: &Config, host: &Mutex<Host>) -> Result<Option<BpfEnd>, Error> {
    let agent = &config.agent;
    if !agent.bpf {
        return Ok(None);
    }
    let (bpf, started) = match &agent.broker {
        Some(socket) => Datapath::connect(socket)?,
        None => Datapath::start(&plan(config)?, clock::monotonic_ns())?,
    };
    if bpf.name() != agent.name {
        let (name, other) = (&agent.name, bpf.name());
        return Err(Error::Config {
            path: "the configuration".to_owned(),
            rule: format!(
                "agent.name = {name:?}: the broker has registered {other:?}\n\
                 fix: give both the same configuration file"
            ),
        });
    }
    let Started { adopted: flows, mended, warnings } = started;
    if let Some(to) = mended {
        lock(host).record(&Event::DefaultMended { to });
    }
    if flows > 0 {
        lock(host).record(&Event::Adopted { flows });
    }
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let hands_over = agent.at_stop == AtStop::HandOver;
    Ok(Some(BpfEnd::new(bpf, agent.broker.clone(), hands_over)))
}
