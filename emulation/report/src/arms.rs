//! Checks the arms that the user names.

use crate::error::Error;

/// Refuses an arm that is not in the table.
pub fn check_arms(known: &[String], asked: &[String]) -> Result<(), Error> {
    let Some(unknown) = asked.iter().find(|arm| !known.contains(arm)) else { return Ok(()) };
    let known = known.join(", ");
    let rule = format!("--arm {unknown}: is not in the table; fix: name one of {known}");
    Err(Error::Choice { rule })
}
