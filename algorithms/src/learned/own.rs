//! Arms of users' own weights: each has the name that its user gave it.

use super::{ARM, Learned};
use crate::arm::{Arm, ArmInfo, ProgramId};
use crate::list::{self, Refusal};
use crate::loaded::Loaded;

/// Adds an arm that follows the weights of that name. Adding it again changes nothing: a process
/// may read its configuration several times.
pub fn add(name: &str) -> Result<(), Refusal> {
    if list::added(name).is_some_and(|arm| arm.make_named.is_some()) {
        return Ok(());
    }
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let name = leak(name.to_owned());
    list::add(Box::leak(Box::new(ArmInfo {
        name,
        summary: "follows a trained network that you supply",
        program: ProgramId(leak(format!("{name}/report"))),
        make_named: Some(build),
        loads: Some(name),
        make: None,
        queue: None,
        ..ARM
    })))
}

/// The arm of that name for a flow; `None` if its weights are not loaded.
pub fn build(name: &str, loaded: &Loaded) -> Option<Box<dyn Arm>> {
    let arm = list::added(name).filter(|arm| arm.make_named.is_some())?;
    Some(Box::new(Learned::of(arm, loaded)?))
}
