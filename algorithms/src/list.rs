//! All arms: [`ARMS`], and those that a program built on these crates adds to them.

use crate::{ARMS, ArmInfo, native};
use std::sync::{Mutex, OnceLock, PoisonError};
use thiserror::Error;

/// The longest name of an arm, in bytes.
const NAME_BYTES_MAX: usize = 32;

static ADDED: Mutex<Vec<&'static ArmInfo>> = Mutex::new(Vec::new());
static LISTED: OnceLock<Vec<&'static ArmInfo>> = OnceLock::new();

/// Why an arm was not added. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The name breaks the rule for names.
    #[error(
        "{0:?} is no name of an arm: 1 to {NAME_BYTES_MAX} of a to z, 0 to 9 and _, a letter first"
    )]
    Name(String),
    /// Another arm or policy has the name.
    #[error("an arm or policy {0:?} is there already")]
    Taken(String),
    /// Another program has the name of its program.
    #[error("arm {arm:?}: another program is called {program:?}\nfix: name it {arm}/report")]
    Program { arm: String, program: String },
    /// Something has asked for the list already.
    #[error("arm {0:?} comes too late\nfix: add it before the agent, a simulation or a listing")]
    Late(String),
}

/// Whether an arm may have that name.
pub fn is_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(letters)
        && native::kernel_name(name).is_none()
}

/// Adds an arm of another crate, equal to the others from then on: the agent installs its program,
/// commands, scenarios and policies know its name. To be called before anything else is.
pub fn add(arm: &'static ArmInfo) -> Result<(), Refusal> {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if LISTED.get().is_some() {
        return Err(Refusal::Late(arm.name.to_owned()));
    }
    if !is_name(arm.name) {
        return Err(Refusal::Name(arm.name.to_owned()));
    }
    for other in ARMS.iter().chain(added.iter().copied()) {
        if other.name == arm.name {
            return Err(Refusal::Taken(arm.name.to_owned()));
        }
        if other.program == arm.program && other.program_text != arm.program_text {
            let (arm, program) = (arm.name.to_owned(), arm.program.0.to_owned());
            return Err(Refusal::Program { arm, program });
        }
    }
    added.push(arm);
    Ok(())
}

/// All arms. From the first call on there are no others.
pub fn arms() -> &'static [&'static ArmInfo] {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    LISTED.get_or_init(|| ARMS.iter().chain(added.iter().copied()).collect())
}

/// The arm of that name among those added, without making the list final.
pub fn added(name: &str) -> Option<&'static ArmInfo> {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    added.iter().find(|arm| arm.name == name).copied()
}

/// The arm of that name.
pub fn arm(name: &str) -> Option<&'static ArmInfo> {
    arms().iter().find(|arm| arm.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProgramId, reno};

    fn leaked(name: &'static str, program: &'static str, text: &'static str) -> &'static ArmInfo {
        Box::leak(Box::new(ArmInfo {
            name,
            program: ProgramId(program),
            program_text: text,
            ..reno::ARM
        }))
    }

    /// One test, as the list is the process's.
    #[test]
    fn an_arm_is_added_once_by_a_name_of_its_own_and_before_anyone_looks() {
        for no_name in ["", "Reno2", "2reno", "re no", "native:reno", "a-b"] {
            let arm = leaked(no_name, "x/report", reno::ARM.program_text);
            assert_eq!(add(arm), Err(Refusal::Name(no_name.to_owned())));
        }
        let other = leaked("other", "reno/report", "(def (Report (a 0)))");
        assert!(matches!(add(other), Err(Refusal::Program { .. })));
        let taken = leaked("reno", "x/report", reno::ARM.program_text);
        assert_eq!(add(taken), Err(Refusal::Taken("reno".to_owned())));
        let mine = leaked("mine", "mine/report", reno::ARM.program_text);
        assert_eq!(add(mine), Ok(()));
        assert_eq!(add(mine), Err(Refusal::Taken("mine".to_owned())));
        assert_eq!(arms().len(), ARMS.len() + 1);
        assert_eq!(arm("mine").expect("it is there").name, "mine");
        let late = leaked("late", "late/report", reno::ARM.program_text);
        assert_eq!(add(late), Err(Refusal::Late("late".to_owned())));
    }
}
