//! The metrics. Each file defines one group, with formula and source.

mod changes;
mod completion;
mod course;
mod delay;
mod fairness;
mod former_merit;
mod merit;
mod neighbours;
mod quantile;
mod run;
mod sharing;
mod switches;
mod throughput;

pub use changes::Changes;
pub use completion::Completion;
pub use course::{Course, STEP_S};
pub use delay::Delay;
pub use fairness::Fairness;
pub(crate) use former_merit::former_merit;
pub use quantile::median;
pub(crate) use quantile::{mean, quantile};
pub use sharing::Sharing;
pub use throughput::Throughput;

use crate::error::Error;
use crate::plan::Job;
use crate::row::{Measured, Row};
use ccp_agent::catalogue::{self, Kind};
use remuda_link::{Capacity, Direction};
use remuda_scenarios::outcome::Outcome;
use remuda_scenarios::{LinkSpec, Nanos};
use run::Run;

/// Fails if the scenario has no tested flow, or a link that is not valid.
fn run_of<'a>(job: &'a Job, outcome: &'a Outcome) -> Result<Run<'a>, Error> {
    let scenario = &job.scenario;
    let flows = scenario.flows_expanded();
    let tested = job.environment.tested_flows(scenario);
    if tested.is_empty() {
        return Err(Error::NoFlow { run: job.name() });
    }
    let neighbours = (0..flows.len())
        .filter(|flow| !tested.contains(flow))
        .filter(|flow| flows[*flow].driver != remuda_scenarios::Driver::Unresponsive)
        .collect();
    let end = scenario.duration();
    let route = tested.first().map_or(&[][..], |flow| &flows[*flow].route);
    let mut narrowest: Option<(f64, String, LinkSpec, Capacity)> = None;
    for (name, spec) in scenario.seeded_links() {
        if !route.contains(&name) {
            continue;
        }
        let failed = |source| Error::Link { run: job.name(), source };
        let capacity = spec.capacity(Direction::Down).map_err(failed)?;
        let bytes = capacity.bytes(Nanos::ZERO, end).unwrap_or(f64::INFINITY);
        if narrowest.as_ref().is_none_or(|(least, ..)| bytes < *least) {
            narrowest = Some((bytes, name, spec, capacity));
        }
    }
    let (_, name, bottleneck_spec, capacity) =
        narrowest.expect("`validate` has checked that a flow's route has a link");
    let bottleneck = outcome.links.iter().find(|link| link.name == name);
    let bottleneck = bottleneck.expect("an outcome has every link of its scenario");
    Ok(Run { scenario, flows, outcome, tested, neighbours, bottleneck, bottleneck_spec, capacity })
}

/// Fails if the tested arm lost its flow. An arm keeps its flow unless the scenario orders a
/// switch. If an arm fails, as an author's arm can, another arm takes over, and the rest of the
/// run is not a result of the tested arm.
fn check_it_stayed(run: &Run<'_>, job: &Job) -> Result<(), Error> {
    if matches!(catalogue::kind(&job.driver), Ok(Kind::Policy)) {
        return Ok(());
    }
    let unordered = run.tested.iter().filter(|flow| run.flows[**flow].switches.is_empty());
    let outcomes = unordered.filter_map(|flow| run.outcome.flows.get(*flow));
    match outcomes.flat_map(|flow| &flow.switches).next() {
        None => Ok(()),
        Some(switch) => Err(Error::GaveUp {
            run: job.name(),
            driver: job.driver.clone(),
            t_s: switch.t_s,
            why: switch.why.clone(),
        }),
    }
}

/// The row of a run.
pub(crate) fn row(job: &Job, outcome: &Outcome) -> Result<Row, Error> {
    let run = run_of(job, outcome)?;
    check_it_stayed(&run, job)?;
    let (throughput, delay) = (Throughput::of(&run), Delay::of(&run));
    let (sharing, completion) = (Sharing::of(&run), Completion::of(&run));
    let measured = Measured {
        merit: merit::of(&run, &throughput, &delay, &sharing, &completion),
        throughput,
        delay,
        fairness: Fairness::of(&run),
        sharing,
        completion,
        switches: switches::of(&run),
        neighbours: run.neighbour_drivers(),
    };
    Ok(Row::of(job, outcome.engine.name(), measured))
}

/// The row of a run, and what its tested flows got over time, if that has a merit.
pub fn over_time(job: &Job, outcome: &Outcome) -> Result<(Row, Option<Course>), Error> {
    let row = row(job, outcome)?;
    Ok((row, Course::of(&run_of(job, outcome)?)))
}
