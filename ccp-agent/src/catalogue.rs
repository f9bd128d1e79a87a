//! Finds what can drive a flow by its name: an arm or a policy.

use crate::Error;
use remuda_algorithms::{arms, native};
use remuda_selector::policies;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Arm,
    Policy,
}

/// Whether a built-in arm or policy has this name.
pub fn is_ours(name: &str) -> bool {
    names().contains(&name)
}

/// The names of all built-in arms and policies, for help and error texts.
pub fn names() -> Vec<&'static str> {
    policies().iter().map(|p| p.name).chain(arms().iter().map(|a| a.name)).collect()
}

/// The kind of the built-in driver `name`; an error if no driver has that name.
pub fn kind(name: &str) -> Result<Kind, Error> {
    kind_of(name, &[])
}

/// The kind of the driver `name`, which is built in or one of the arms of authors; an error if no
/// driver has that name.
pub fn kind_of(name: &str, authored: &[&str]) -> Result<Kind, Error> {
    if authored.contains(&name) {
        Ok(Kind::Arm)
    } else if remuda_selector::policy(name).is_some() {
        Ok(Kind::Policy)
    } else if remuda_algorithms::arm(name).is_some() {
        Ok(Kind::Arm)
    } else if let Some(kernels) = native::kernel_name(name) {
        remuda_bpf::check_native(kernels)?;
        Ok(Kind::Arm)
    } else {
        Err(unknown(name, authored))
    }
}

/// The error of a name that neither is built in nor one of the arms of authors.
pub fn unknown(name: &str, authored: &[&str]) -> Error {
    let known = [names().as_slice(), authored].concat().join(", ");
    Error::Unknown { name: name.to_owned(), known: format!("{known}, native:CCA of the kernel") }
}
