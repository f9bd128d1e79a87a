//! Whether a driver can drive anything, before it is run: by its name, and by what it needs.

use crate::Failure;
use ccp_agent::{Config, catalogue};
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{PathState, Readiness};

/// As of any new flow: no arm asks for more. What some ask for, the path below has.
const MSS: Bytes = Bytes(1_448);
const CWND: Bytes = Bytes(10 * 1_448);

/// Refuses a name that is none, and an arm that as things are would leave every flow to Reno: what
/// came of that would be called by the arm's name.
pub fn check(name: &str, config: &Config) -> Result<(), Failure> {
    catalogue::kind_of(name, config)?;
    let arm = remuda_algorithms::arm(name).and_then(|arm| arm.build_with(&config.loaded));
    let Some(arm) = arm else { return Ok(()) };
    let mut best = PathState::new(MSS, CWND);
    best.ecn = true;
    match arm.can_resume(&best) {
        Readiness::Refuse(why) => {
            let fix = "`remuda agent --config FILE` can; no other command has a configuration";
            Err(format!("{name} can drive no flow, as {why}\nfix: {fix}").into())
        }
        Readiness::Ready | Readiness::Defer(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_has_a_name_can_drive_a_flow_but_remy_without_a_table() {
        let config = Config::default();
        for name in catalogue::names() {
            let refused = check(name, &config).map_err(|error| error.to_string());
            match name {
                "remy" => {
                    let error = refused.unwrap_err();
                    assert!(error.contains("no rule table is loaded"), "{error}");
                    assert!(error.contains("set arms.remy_table\nfix: "), "{error}");
                }
                _ => assert_eq!(refused, Ok(()), "{name}"),
            }
        }
        assert!(check("cubik", &config).unwrap_err().to_string().contains("cubik"));
    }
}
