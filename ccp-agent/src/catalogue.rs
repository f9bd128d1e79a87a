//! Finds what can drive a flow by its name: an arm or a policy.

use crate::flow::Driver;
use crate::{Config, Error};
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

/// The kind of the built-in or authored driver `name`; an error if there is none.
pub fn kind_of(name: &str, config: &Config) -> Result<Kind, Error> {
    let authored = config.authors.names();
    if authored.contains(&name) { Ok(Kind::Arm) } else { kind_beside(name, &authored) }
}

/// The kind of the built-in driver `name`; an error if there is none.
pub fn kind(name: &str) -> Result<Kind, Error> {
    kind_beside(name, &[])
}

fn kind_beside(name: &str, authored: &[&'static str]) -> Result<Kind, Error> {
    if remuda_selector::policy(name).is_some() {
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

/// Builds the driver of a flow by its name.
pub fn build(name: &str, config: &Config) -> Result<Driver, Error> {
    if let Some(policy) = remuda_selector::policy(name) {
        return Ok(Driver::Policy((policy.build)(&config.policy)));
    }
    if let Some(authored) = config.authors.build(name) {
        return Ok(Driver::Author(authored));
    }
    if let Some(kernels) = native::kernel_name(name) {
        remuda_bpf::check_native(kernels)?;
        let arm = native::Native::new(name).ok_or_else(|| unknown(name, &[]))?;
        return Ok(Driver::Arm(Box::new(arm)));
    }
    remuda_algorithms::arm(name)
        .and_then(|arm| arm.build_with(&config.loaded))
        .map(Driver::Arm)
        .ok_or_else(|| unknown(name, &config.authors.names()))
}

fn unknown(name: &str, authored: &[&'static str]) -> Error {
    let known = [names().as_slice(), authored].concat().join(", ");
    Error::Unknown { name: name.to_owned(), known: format!("{known}, native:CCA of the kernel") }
}
