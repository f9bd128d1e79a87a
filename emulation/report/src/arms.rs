//! Arms that were asked for by name.

use crate::error::Error;

/// Refuses one that is not in the table.
pub fn check_arms(known: &[String], asked: &[String]) -> Result<(), Error> {
    let Some(unknown) = asked.iter().find(|arm| !known.contains(arm)) else { return Ok(()) };
    let known = known.join(", ");
    let rule = format!("--arm {unknown}: is not in the table; fix: say one of {known}");
    Err(Error::Choice { rule })
}
