//! Requests of the control socket, their answers, and how the agent finds an answer.

use crate::admission::RefusedRow;
use crate::author::{AuthorArm, Authors};
use crate::clock;
use crate::counts::Counts;
use crate::flow::{Life, Row};
use crate::host::{Host, NotLearned, Target};
use crate::lock::lock;
use crate::online::{Online, Report, hosted};
use crate::prefer::{self, Order};
use crate::rules::{self, Rule, Tested};
use crate::{Error, catalogue, iw, programs, standing};
use remuda_algorithms::Slot;
use remuda_selector::antelope::memory::{self, Network};
use remuda_selector::antelope::model::Model;
use remuda_selector::antelope::policy::MODEL;
use remuda_wire::to_agent::{FlowInfo, Origin};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The time that a client has to send its next request, and to take an answer. The agent then hangs
/// up. A client waits this long for an answer.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request. Variants without fields still have braces: only then does serde refuse unknown keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Flows {},
    /// Tells the life of one flow.
    Explain {
        flow: u32,
    },
    /// Gives some flows another arm or policy.
    Set {
        target: Target,
        to: String,
    },
    /// Sets the preference of some flows.
    Prefer {
        order: Order,
    },
    /// Lists the preferences in force.
    Preferences {},
    /// Removes one preference set by `Prefer`, or all.
    PreferNoMore {
        /// The number of the order; `None` removes all orders.
        order: Option<u32>,
    },
    /// Lists the rules in force.
    Rules {},
    /// Adds a rule before all others.
    RuleAdd {
        rule: Rule,
    },
    /// Removes one rule added by `RuleAdd`, or all.
    RuleRemove {
        /// The number of the rule; `None` removes all.
        number: Option<u32>,
    },
    /// Finds the rule that wins for such a flow.
    RuleTest {
        flow: TestFlow,
    },
    /// Lists the arms with their programs, and the policies.
    Programs {},
    Status {},
    Memory {},
    Forget {
        /// Destinations in this network; `None` means all.
        #[serde(default)]
        of: Option<Network>,
    },
    /// Sets the initial window of flows to the addresses of a prefix.
    InitialCwnd {
        of: Network,
        /// In segments; 0 removes the setting.
        pkts: u32,
    },
    /// Shows the groups of destinations and their learned initial windows.
    Iw {},
    /// Gives a group an initial window.
    IwPin {
        group: String,
        /// In segments; `None` lets the window be learned again.
        cwnd_pkts: Option<u32>,
    },
    /// Makes a group learn its initial window anew.
    IwForget {
        group: String,
    },
    /// Shows Antelope's model and how well it predicts.
    Model {},
    /// Puts the previous model back in force.
    ModelBack {},
    /// Puts the configured or shipped model back in force.
    ModelBase {},
}

/// A flow that `RuleTest` makes up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestFlow {
    pub remote: SocketAddr,
    /// A local port, mark, cgroup and so on of 0 means that the flow has none.
    #[serde(default)]
    pub local_port: u16,
    #[serde(default)]
    pub mark: u32,
    #[serde(default)]
    pub cgroup_id: u64,
    #[serde(default)]
    pub uid: u32,
    #[serde(default)]
    pub netns: u64,
}

impl From<TestFlow> for FlowInfo {
    fn from(flow: TestFlow) -> Self {
        let unspecified = match flow.remote {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self {
            mark: flow.mark,
            cgroup_id: flow.cgroup_id,
            origin: Origin { uid: flow.uid, netns: flow.netns, is_of_host: true },
            ..Self::between((unspecified, flow.local_port), (flow.remote.ip(), flow.remote.port()))
        }
    }
}

/// One arm and its program, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRow {
    pub arm: String,
    /// One line that describes the arm.
    pub summary: String,
    pub program: String,
    /// The most instructions that the program runs for one ACK.
    pub instructions: usize,
    /// The number of fields in a report.
    pub fields: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    /// The arm or policy that drives new flows.
    pub default: String,
    /// The name that sockets select with `TCP_CONGESTION`.
    pub name: String,
    pub flows: usize,
    pub counts: Counts,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Flows {
        /// In the order in which the flows started.
        flows: Vec<Row>,
        /// Sockets that did not become flows, by user, cgroup and reason.
        #[serde(default)]
        refused: Vec<RefusedRow>,
    },
    Explained {
        row: Box<Row>,
        life: Box<Life>,
    },
    Set {
        /// How many running flows change.
        flows: usize,
    },
    Preferred {
        order: u32,
        /// How many running flows follow this order now.
        flows: usize,
    },
    Preferences {
        /// The first one that matches a flow counts.
        preferences: Vec<prefer::Row>,
    },
    PreferredNoMore {
        /// How many orders were removed.
        orders: usize,
        /// How many running flows have another preference now.
        flows: usize,
    },
    Rules {
        /// The first one that matches a flow counts.
        rules: Vec<rules::Row>,
        /// What drives a flow that no rule matches.
        default: String,
    },
    RuleAdded {
        number: u32,
        /// How many running flows get another driver.
        flows: usize,
    },
    RulesRemoved {
        /// How many rules were removed.
        rules: usize,
        /// How many running flows get another driver.
        flows: usize,
    },
    RuleTested {
        tested: Tested,
        /// What drives a flow that no rule matches.
        default: String,
    },
    Programs {
        programs: Vec<ProgramRow>,
        policies: Vec<(String, String)>,
    },
    Status(Box<Status>),
    Memory {
        /// The most recently used first.
        destinations: Vec<memory::Row>,
        #[serde(default)]
        not_learned: NotLearned,
    },
    Forgot {
        /// How many addresses and networks were deleted.
        destinations: usize,
    },
    InitialCwndSet {},
    /// To `Iw`, `IwPin` and `IwForget`.
    Iw(Box<iw::Report>),
    /// To `Model`, `ModelBack` and `ModelBase`.
    Model(Box<Report>),
    /// The request was refused or failed.
    Error {
        /// The reason, and the fix where there is one.
        error: String,
    },
}

/// The built-in arms with their programs.
pub fn program_rows() -> Result<Vec<ProgramRow>, Error> {
    remuda_algorithms::arms()
        .iter()
        .map(|arm| {
            let (instructions, fields) = programs::size(arm.program, arm.program_text)?;
            Ok(ProgramRow {
                arm: arm.name.to_owned(),
                summary: arm.summary.to_owned(),
                program: arm.program.0.to_owned(),
                instructions,
                fields,
            })
        })
        .collect()
}

/// The arms of authors, each with the program that a flow starts with.
pub fn authored_rows(authors: &Authors) -> Vec<ProgramRow> {
    let row = |arm: &Arc<AuthorArm>| {
        let program = arm.programs().first()?;
        let (instructions, fields) = program.compiled.size();
        Some(ProgramRow {
            arm: arm.info.name.to_owned(),
            summary: arm.info.summary.to_owned(),
            program: program.id.0.to_owned(),
            instructions,
            fields,
        })
    };
    authors.arms().iter().filter_map(row).collect()
}

/// Name and one-line description of each policy.
pub fn policy_rows() -> Vec<(String, String)> {
    remuda_selector::POLICIES
        .iter()
        .map(|policy| (policy.name.to_owned(), policy.summary.to_owned()))
        .collect()
}

/// Writes the order for new flows to the state directory, so that it outlives a restart.
fn keep_default(host: &Mutex<Host>) {
    let (folder, configured, ordered) = {
        let host = lock(host);
        let (configured, ordered) = host.defaults();
        (host.setup.config.state_dir(), configured.to_owned(), ordered.to_owned())
    };
    if let Err(error) = standing::write(&folder, &configured, &ordered) {
        tracing::warn!(%error, "the order for new flows will be forgotten at a restart");
    }
}

/// Held while rules change and are written, so that the file has the last change.
static RULES_CHANGE: Mutex<()> = Mutex::new(());

/// Writes the rules that operators have added to the state directory, so that they outlive a
/// restart.
fn keep_rules(host: &Mutex<Host>) -> Result<(), Error> {
    let (folder, added) = {
        let host = lock(host);
        (host.setup.config.state_dir(), host.added_rules())
    };
    rules::write(&folder, added).map_err(|error| {
        let what = "the change is in force, but a restart of the agent will undo it";
        Error::Refused(format!("{what}: {error}\nfix: free some disk space, and change it again"))
    })
}

fn remove_rule(host: &Mutex<Host>, number: Option<u32>) -> Result<Answer, Error> {
    let _one = lock(&RULES_CHANGE);
    let (rules, flows) = lock(host).remove_rule(number)?;
    keep_rules(host)?;
    Ok(Answer::RulesRemoved { rules, flows })
}

fn add_rule(host: &Mutex<Host>, rule: &Rule) -> Result<Answer, Error> {
    // Before the lock: one reads a file, the other may load a module of the kernel.
    rule.check().map_err(Error::Refused)?;
    let authors = lock(host).setup.authors.clone();
    catalogue::kind_of(&rule.driver, &authors.names())?;
    let _one = lock(&RULES_CHANGE);
    let (number, flows) = lock(host).add_rule(rule.clone())?;
    keep_rules(host)?;
    Ok(Answer::RuleAdded { number, flows })
}

fn status(host: &Host) -> Answer {
    Answer::Status(Box::new(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        default: host.setup.config.agent.default.clone(),
        name: host.setup.config.agent.name.clone(),
        flows: host.rows().len(),
        counts: host.counts,
    }))
}

pub fn answer(request: &Request, host: &Mutex<Host>) -> Result<Answer, Error> {
    Ok(match request {
        Request::Flows {} => {
            let host = lock(host);
            Answer::Flows { flows: host.rows(), refused: host.refused_sockets() }
        }
        Request::Explain { flow } => {
            let (row, life) = lock(host).explain(*flow)?;
            Answer::Explained { row: Box::new(row), life: Box::new(life) }
        }
        Request::Set { target, to } => {
            // Before the lock: to ask the kernel for an algorithm may load a module.
            let authors = lock(host).setup.authors.clone();
            catalogue::kind_of(to, &authors.names())?;
            let flows = lock(host).set(*target, to)?;
            if !matches!(target, Target::Flow(_)) {
                keep_default(host);
            }
            Answer::Set { flows }
        }
        Request::Prefer { order } => {
            order.check()?; // before the lock, as it looks at a file
            let (order, flows) = lock(host).prefer(order.clone())?;
            Answer::Preferred { order, flows }
        }
        Request::Preferences {} => Answer::Preferences { preferences: lock(host).preferences() },
        Request::PreferNoMore { order } => {
            let (orders, flows) = lock(host).prefer_no_more(*order)?;
            Answer::PreferredNoMore { orders, flows }
        }
        Request::Rules {} => {
            let host = lock(host);
            Answer::Rules { rules: host.rules(), default: host.setup.config.agent.default.clone() }
        }
        Request::RuleAdd { rule } => add_rule(host, rule)?,
        Request::RuleRemove { number } => remove_rule(host, *number)?,
        Request::RuleTest { flow } => {
            let (tested, default) = lock(host).test_rules(&flow.clone().into());
            Answer::RuleTested { tested, default }
        }
        Request::Programs {} => {
            let authors = lock(host).setup.authors.clone();
            let mut programs = program_rows()?;
            programs.extend(authored_rows(&authors));
            Answer::Programs { programs, policies: policy_rows() }
        }
        Request::Status {} => status(&lock(host)),
        Request::Memory {} => {
            let (memory, not_learned) = {
                let host = lock(host);
                (host.memory().clone(), host.not_learned())
            };
            Answer::Memory { destinations: memory.rows(clock::monotonic_s()), not_learned }
        }
        Request::Forget { of } => Answer::Forgot { destinations: lock(host).forget(of.as_ref()) },
        Request::InitialCwnd { of, pkts } => {
            lock(host).set_initial_cwnd(*of, *pkts)?;
            Answer::InitialCwndSet {}
        }
        Request::Iw {} => windows(host, |_| Ok(()))?,
        Request::IwPin { group, cwnd_pkts } => windows(host, |iw| iw.pin(group, *cwnd_pkts))?,
        Request::IwForget { group } => windows(host, |iw| iw.forget(group))?,
        Request::Model {} => Answer::Model(Box::new(report(host))),
        Request::ModelBack {} => Answer::Model(Box::new(order(host, Online::back)?)),
        Request::ModelBase {} => Answer::Model(Box::new(order(host, Online::back_to_base)?)),
    })
}

/// The learned initial windows, after `act`.
fn windows(
    host: &Mutex<Host>,
    act: impl FnOnce(&mut iw::Iw) -> Result<(), Error>,
) -> Result<Answer, Error> {
    Ok(Answer::Iw(Box::new(iw::keeper::report(host, act)?)))
}

fn report(host: &Mutex<Host>) -> Report {
    let online = lock(host).online.clone();
    if let Some(online) = online {
        return hosted::with(&online, host, |online| online.report());
    }
    let slot = lock(host).setup.loaded.slot(MODEL);
    Report::unwatched(&slot.as_ref().map_or_else(Model::shipped, Slot::get))
}

fn order(
    host: &Mutex<Host>,
    act: impl FnOnce(&mut Online) -> Result<Report, Error>,
) -> Result<Report, Error> {
    let online = lock(host).online.clone();
    let Some(online) = online else {
        let fix = "fix: online.enabled and samples.enabled must be true, and the event log says \
                   why models cannot be replaced";
        let is = "this agent does not replace models, so there is no other model to go back to";
        return Err(Error::Refused(format!("{is}\n{fix}")));
    };
    hosted::with(&online, host, act)
}

pub fn refused(error: String) -> Answer {
    Answer::Error { error }
}
