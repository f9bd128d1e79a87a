//! Builds the links and flows of a scenario.

use crate::Error;
use crate::control::Control;
use crate::datapath::Datapath;
use crate::destinations::{Destination, Destinations};
use crate::external::External;
use crate::flow::TcpFlow;
use crate::packet::Packet;
use crate::simulation::Flow;
use crate::tcp::sender::Sender;
use crate::unresponsive::Unresponsive;
use ccp_agent::Setup;
use remuda_link::Link;
use remuda_scenarios::{Driver, FlowSpec, Scenario};
use std::sync::Arc;

/// Builds links and flows, in the order in which the outcome lists them.
pub fn build(
    scenario: &Scenario,
    setup: &Arc<Setup>,
) -> Result<(Vec<Link<Packet>>, Vec<Flow>), Error> {
    scenario.validate()?;
    let (names, links): (Vec<String>, Vec<_>) = scenario.build_links()?.into_iter().unzip();
    let flows = (0..).zip(scenario.flows_expanded());
    let mut agent = (setup, Destinations::new(setup));
    let flows = flows.map(|(index, spec)| flow(scenario, &names, &mut agent, (index, spec)));
    Ok((links, flows.collect::<Result<Vec<_>, Error>>()?))
}

fn route(names: &[String], links: &[String]) -> Box<[u16]> {
    let index = |name: &String| names.iter().position(|known| known == name);
    links.iter().filter_map(index).filter_map(|index| u16::try_from(index).ok()).collect()
}

fn flow(
    scenario: &Scenario,
    names: &[String],
    (setup, destinations): &mut (&Arc<Setup>, Destinations),
    (index, spec): (u32, FlowSpec),
) -> Result<Flow, Error> {
    let (data, back) = (route(names, &spec.route), route(names, &spec.back));
    if spec.driver == Driver::Unresponsive {
        let open = Unresponsive::new(index, spec, data, scenario.seed);
        return Ok(Flow::Unresponsive(Box::new(open)));
    }
    let cwnd_pkts = match spec.driver {
        Driver::Window(pkts) => pkts,
        _ => spec.init_cwnd_pkts,
    };
    let rtt_ns = scenario.rtt_of(&spec).0;
    let mut sender = Sender::new(index, spec.mss_bytes, cwnd_pkts, spec.ecn);
    if spec.start_s <= 0.0 {
        sender.note_handshake(rtt_ns);
    }
    let path = (data, back);
    let to = destinations.of(&path, &spec.driver.to_string());
    let control = control(scenario, &spec, &sender, (setup, to))?;
    Ok(Flow::Tcp(Box::new(TcpFlow::new(spec, (sender, control), path, rtt_ns))))
}

fn control(
    scenario: &Scenario,
    spec: &FlowSpec,
    sender: &Sender,
    (setup, to): (&Arc<Setup>, Destination),
) -> Result<Control, Error> {
    let refuse = |rule: String| Error::Flow { flow: spec.name.clone(), rule };
    match &spec.driver {
        Driver::Window(_) => Ok(Control::Fixed),
        Driver::External => Ok(Control::External(Box::<External>::default())),
        Driver::Native(name) => Err(refuse(format!(
            "native:{name} is an algorithm of the kernel, which runs on real TCP only; in the \
             simulator use one of ours: {}",
            ccp_agent::catalogue::names().join(", ")
        ))),
        Driver::Unresponsive => Err(refuse("an unresponsive flow has no control".to_owned())),
        Driver::Named(name) => {
            let delay_ns = 2 * (scenario.control_delay_ms * 1e6) as u64;
            let start_ns = (spec.start_s * 1e9) as u64;
            let times = (delay_ns, start_ns);
            for order in &spec.switches {
                if remuda_algorithms::native::kernel_name(&order.to).is_some() {
                    return Err(refuse(format!(
                        "switches: {} runs on real TCP only; in the simulator use one of ours: {}",
                        order.to,
                        ccp_agent::catalogue::names().join(", ")
                    )));
                }
                let known = setup.kind_of(&order.to);
                known.map_err(|error| refuse(format!("switches: {error}")))?;
            }
            let datapath = Datapath::new(name, (setup, to), (sender, spec), times);
            let datapath = datapath.map_err(|error| match error {
                Error::Driver { rule } => refuse(rule),
                other => other,
            })?;
            Ok(Control::Datapath(Box::new(datapath)))
        }
    }
}
