//! Checks before a run whether a driver exists and can drive flows.

use crate::Failure;
use ccp_agent::Setup;
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{PathState, Readiness};

/// The values of a new flow. No arm needs more; the other needs are set in `check`.
const MSS: Bytes = Bytes(1_448);
const CWND: Bytes = Bytes(10 * 1_448);

/// Refuses an unknown name, and an arm that would leave every flow to Reno, because the results
/// would carry the arm's name.
pub fn check(name: &str, setup: &Setup) -> Result<(), Failure> {
    setup.kind_of(name)?;
    let arm = remuda_algorithms::arm(name).and_then(|arm| arm.build_with(&setup.loaded));
    let Some(arm) = arm else { return Ok(()) };
    let mut best = PathState::new(MSS, CWND);
    best.ecn = true;
    match arm.can_resume(&best) {
        Readiness::Refuse(why) => {
            let fix = "use `remuda agent --config FILE`; no other command reads a configuration";
            Err(format!("{name} can drive no flow, as {why}\nfix: {fix}").into())
        }
        Readiness::Ready | Readiness::Defer(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccp_agent::catalogue;

    #[test]
    fn whatever_has_a_name_can_drive_a_flow_but_remy_without_a_table() {
        let setup = Setup::default();
        for name in catalogue::names() {
            let refused = check(name, &setup).map_err(|error| error.to_string());
            match name {
                "remy" => {
                    let error = refused.unwrap_err();
                    assert!(error.contains("no rule table is loaded"), "{error}");
                    assert!(error.contains("set arms.remy_table\nfix: "), "{error}");
                }
                _ => assert_eq!(refused, Ok(()), "{name}"),
            }
        }
        assert!(check("cubik", &setup).unwrap_err().to_string().contains("cubik"));
    }
}
