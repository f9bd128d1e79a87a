//! The table on real TCP: one run at a time, each with its own agent.
//!
//! The outcome of a run on real TCP does not contain the policy's changes of arm; the agent's event
//! log does. Its times are those of the datapath; a flow's times are counted from the flow's first
//! event.

use crate::antelope::Error;
use crate::antelope::figures::Figures;
use crate::antelope::scene::{CELLS, Files, Scene};
use remuda_live::STOLEN_MAX;
use remuda_live::real::{Agents, AuthorsFiles, named_drivers};
use remuda_matrix::{Done, Job, Plan, Progress, Store, Watched, measure_each};
use remuda_scenarios::outcome::{FlowOutcome, Outcome, Switch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Rows A1, A3, A5 and A7; the scenes of A1 and A3 also run in all of A8's modes.
pub const SCENES: [Scene; 2 + CELLS + 3] = [
    Scene::Wan(Files::Long),
    Scene::Wan(Files::Short),
    Scene::Wan(Files::Mixed),
    Scene::Cell(0),
    Scene::Cell(1),
    Scene::Cell(2),
    Scene::Cell(3),
    Scene::Cell(4),
    Scene::Cell(5),
    Scene::CubicComes,
    Scene::Friendliness,
];

/// Most attempts at a run of which a hypervisor took too much processor time.
const TRIES: u32 = 3;

/// This kernel's release, which is part of a result's key.
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Runs a plan.
///
/// # Errors
///
/// An agent or the testbed fails before the first run.
pub fn run(
    plan: &Plan,
    store: Option<&Store>,
    (remuda, stopped): (&Path, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Result<Done<Figures>, Error> {
    let drivers = named_drivers(plan.jobs.iter().map(|job| &job.scenario));
    let agents = Agents::start(remuda, &drivers, &AuthorsFiles::default())?;
    let outcome_of = |job: &Job| {
        let said = |error: remuda_live::real::Error| error.to_string();
        let tested = job.environment.tested_flows(&job.scenario);
        let work = || {
            let before = agents.events(&job.driver)?.len();
            let mut ran = remuda_live::real::run(&job.scenario, &agents, stopped)?;
            if let Some(ran) = &mut ran {
                let events = agents.events(&job.driver)?;
                note_switches(&mut ran.outcome, &tested, events.get(before..).unwrap_or_default());
            }
            Ok(ran)
        };
        let (ran, stolen) = remuda_live::least_disturbed(TRIES, work, |_| {}).map_err(said)?;
        let Some(ran) = ran else { return Ok(None) };
        let is_disturbed = ran.lost_by_host > 0 || stolen > STOLEN_MAX;
        Ok(Some(Watched { outcome: ran.outcome, is_disturbed }))
    };
    let of = |job: &Job, watched: &Watched| {
        let figures = Figures::of(job, &watched.outcome);
        Ok(Figures { is_disturbed: watched.is_disturbed, ..figures })
    };
    let done = measure_each(plan, (store, stopped), progress, outcome_of, of);
    agents.stop()?;
    Ok(done)
}

/// A flow in the agent's event log.
struct Seen<'a> {
    came_s: f64,
    arm: &'a str,
    switches: Vec<&'a Value>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn wall_s(event: &Value) -> f64 {
    event["t_unix_us"].as_u64().unwrap_or_default() as f64 / 1e6
}

/// Adds arms and switches of the tested flows to an outcome, from the events of the agent that
/// drives these flows only. The flows in the log, in order of appearance, are the tested flows in
/// order of their starts.
fn note_switches(outcome: &mut Outcome, tested: &[usize], events: &[Value]) {
    // Flow numbers only grow, so their order is the order of appearance.
    let mut seen: BTreeMap<u64, Seen<'_>> = BTreeMap::new();
    for event in events {
        let Some(flow) = event["flow"].as_u64() else { continue };
        match (text(&event["event"]), seen.get_mut(&flow)) {
            ("created", _) => {
                let (came_s, arm) = (wall_s(event), text(&event["arm"]));
                seen.insert(flow, Seen { came_s, arm, switches: Vec::new() });
            }
            ("switched", Some(known)) => known.switches.push(event),
            _ => {}
        }
    }
    let mut places: Vec<usize> = tested.to_vec();
    let start_s = |place: &usize| outcome.flows.get(*place).map_or(0.0, |flow| flow.start_s);
    places.sort_by(|a, b| start_s(a).total_cmp(&start_s(b)));
    for (place, seen) in places.into_iter().zip(seen.into_values()) {
        if let Some(flow) = outcome.flows.get_mut(place).filter(|flow| flow.switches.is_empty()) {
            note(flow, &seen);
        }
    }
}

fn note(flow: &mut FlowOutcome, seen: &Seen<'_>) {
    let start_s = flow.start_s;
    let switch = |event: &&Value| Switch {
        t_s: start_s + (wall_s(event) - seen.came_s).max(0.0),
        from: text(&event["from"]).to_owned(),
        to: text(&event["to"]).to_owned(),
        why: text(&event["why"]).to_owned(),
    };
    flow.switches = seen.switches.iter().map(switch).collect();
    flow.arm = flow.switches.last().map_or(seen.arm, |last| &last.to).to_owned();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn switches_are_of_the_flows_in_the_order_in_which_they_came() {
        let flow = |start_s| FlowOutcome { start_s, ..FlowOutcome::default() };
        let flows = vec![flow(0.0), flow(9.0), flow(2.0), flow(20.0)];
        let mut outcome = Outcome { flows, ..Outcome::default() };
        let event = |at_s: u64, flow: u64, event: &str, to: &str| {
            json!({ "t_unix_us": at_s * 1_000_000, "flow": flow, "event": event,
                    "arm": "cubic", "from": "cubic", "to": to })
        };
        let events = [
            json!({ "t_unix_us": 1, "event": "started" }),
            event(102, 7, "created", ""),
            event(103, 7, "switched", "bbr"),
            event(109, 8, "created", ""),
            event(111, 8, "switched", "vegas"),
            event(112, 8, "closed", ""),
            event(120, 9, "created", ""),
        ];
        note_switches(&mut outcome, &[1, 2, 3], &events);
        let said = |place: usize| {
            let flow: &FlowOutcome = &outcome.flows[place];
            let moments: Vec<f64> = flow.switches.iter().map(|it| it.t_s).collect();
            (flow.arm.clone(), moments)
        };
        assert_eq!(said(0), (String::new(), vec![]));
        assert_eq!(said(2), ("bbr".to_owned(), vec![3.0]));
        assert_eq!(said(1), ("vegas".to_owned(), vec![11.0]));
        assert_eq!(said(3), ("cubic".to_owned(), vec![]));
    }
}
