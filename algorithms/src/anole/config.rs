//! Which arms Anole embeds, and what of it is switched off for an ablation.

use crate::ARMS;
use crate::arm::ArmInfo;
use crate::list;
use crate::loaded::{Loadable, digest_of};
use crate::signals;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The name of these settings in [`crate::Loaded`].
pub const SETTINGS: &str = "anole";
/// The paper's rule-based candidate (section IV).
pub const CLASSIC: &str = "cubic";
/// The learned candidate, unless the settings name another: the one line to change.
pub const LEARNED: &str = "learned";
/// The setting that leaves the learned arm out.
pub const NONE: &str = "none";
/// Anole's own name, which it cannot embed.
const OWN: &str = "anole";

/// Settings of the arm `anole`, the same for all flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnoleConfig {
    /// The arm that it embeds as its rule-based candidate.
    pub classic: String,
    /// The arm that it embeds as its learned candidate; `none` for an Anole without one.
    pub learned: String,
    /// Infers a better rate where both candidates do badly (equations 3 to 10).
    pub inference: bool,
    /// Leaves out a candidate that has done badly for long, and accelerates meanwhile.
    pub deprecation: bool,
}

/// Why an arm cannot be embedded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No arm has that name.
    #[error("{0:?} is no arm\nfix: `remuda programs` lists the arms")]
    Unknown(String),
    /// It would embed itself.
    #[error("anole cannot embed itself\nfix: name another arm")]
    Itself,
    /// The arm needs more than the shared signals.
    #[error(
        "{arm} cannot be embedded: it needs {signal}, and an embedded arm gets the shared signals \
         only\nfix: name an arm that needs only these, such as cubic"
    )]
    Signal { arm: String, signal: String },
    /// The arm needs a program of its own to run.
    #[error(
        "{0} cannot be embedded: it needs a datapath program of its own, and the flow runs that of \
         the arm around it\nfix: name an arm that needs the shared signals only, such as cubic"
    )]
    Program(String),
    /// The arm runs outside the agent, in an author's process.
    #[error("{0} cannot be embedded: it runs in another process\nfix: name a built-in arm")]
    Elsewhere(String),
}

impl Default for AnoleConfig {
    fn default() -> Self {
        Self {
            classic: CLASSIC.to_owned(),
            learned: LEARNED.to_owned(),
            inference: true,
            deprecation: true,
        }
    }
}

impl Loadable for AnoleConfig {
    /// Settings are few: their own text, hashed, tells them apart.
    fn digest(&self) -> &str {
        interned_digest(self)
    }
}

fn interned_digest(config: &AnoleConfig) -> &'static str {
    crate::interned::interned_str(&digest_of(format!("{config:?}")))
}

impl AnoleConfig {
    /// Checks both names. Call this once, after parsing.
    pub fn validate(&self) -> Result<(), String> {
        let of = |key: &str, name: &str| {
            embeddable(name).map(|_| ()).map_err(|refusal| format!("arms.anole.{key}: {refusal}"))
        };
        of("classic", &self.classic)?;
        if self.learned == NONE { Ok(()) } else { of("learned", &self.learned) }
    }
}

/// The arm of that name, without closing the list of arms to later ones if it is one of ours.
fn find(name: &str) -> Option<&'static ArmInfo> {
    ARMS.iter().find(|arm| arm.name == name).or_else(|| list::added(name))
}

/// The arm of that name, if another arm can embed it: if it needs the shared signals only.
pub fn embeddable(name: &str) -> Result<&'static ArmInfo, Refusal> {
    if name == OWN {
        return Err(Refusal::Itself);
    }
    let info = find(name).ok_or_else(|| Refusal::Unknown(name.to_owned()))?;
    if let Some(signal) = info.own_fields.first() {
        let (arm, signal) = (name.to_owned(), (*signal).to_owned());
        return Err(Refusal::Signal { arm, signal });
    }
    if info.program_text != signals::REPORT_EACH_ROUND {
        return Err(Refusal::Program(name.to_owned()));
    }
    if info.make.is_none() && info.make_named.is_none() {
        return Err(Refusal::Elsewhere(name.to_owned()));
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_embedded_and_survive_a_file() {
        let config = AnoleConfig::default();
        assert_eq!(config.validate(), Ok(()));
        let text = serde_json::to_string(&config).expect("plain data");
        assert_eq!(serde_json::from_str::<AnoleConfig>(&text).expect("it parses"), config);
        serde_json::from_str::<AnoleConfig>("{\"clasic\": \"reno\"}").expect_err("unknown key");
    }

    #[test]
    fn an_arm_that_is_not_served_is_refused_by_name_with_the_missing_signal() {
        for (name, want) in [
            ("vivace", "vivace cannot be embedded: it needs Report.crossed_bytes"),
            ("remy", "remy cannot be embedded: it needs Report."),
            ("anole", "anole cannot embed itself"),
            ("cubik", "\"cubik\" is no arm"),
        ] {
            let config = AnoleConfig { learned: name.to_owned(), ..AnoleConfig::default() };
            let error = config.validate().expect_err(name);
            assert!(error.starts_with("arms.anole.learned: ") && error.contains(want), "{error}");
        }
        let none = AnoleConfig { learned: NONE.to_owned(), ..AnoleConfig::default() };
        assert_eq!(none.validate(), Ok(()));
    }

    #[test]
    fn every_arm_of_the_shared_signals_is_served() {
        let served: Vec<_> = ARMS.iter().filter(|arm| embeddable(arm.name).is_ok()).collect();
        for name in ["reno", "cubic", "bbr", "bbr3", "vegas", "copa", "c2tcp", "ledbat"] {
            assert!(served.iter().any(|arm| arm.name == name), "{name}");
        }
    }
}
