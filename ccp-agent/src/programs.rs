//! Datapath programs, checked before portus sees them.
//!
//! portus compiles a misspelt name into a register that nothing sets, panics on a comment in a
//! body, and lets a program use temporaries that libccp does not have. Each
//! is an error here, with the line and what to write instead.

use crate::Error;
use portus::lang::Reg;
use remuda_algorithms::{Arm, ProgramId, arms};
use remuda_wire::program::{Register, TEMPORARY_REGISTERS};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What every datapath provides: libccp's primitives and implicit registers.
const PROVIDED: &[&str] = &[
    "Ack.bytes_acked",
    "Ack.bytes_misordered",
    "Ack.ecn_bytes",
    "Ack.ecn_packets",
    "Ack.lost_pkts_sample",
    "Ack.now",
    "Ack.packets_acked",
    "Ack.packets_misordered",
    "Cwnd",
    "Flow.bytes_in_flight",
    "Flow.bytes_pending",
    "Flow.packets_in_flight",
    "Flow.rate_incoming",
    "Flow.rate_outgoing",
    "Flow.rtt_sample_us",
    "Flow.was_timeout",
    "Micros",
    "Rate",
];

/// Words of the language.
const KEYWORDS: &[&str] = &[
    "when",
    "true",
    "false",
    "report",
    "fallthrough",
    "if",
    "min",
    "max",
    "wrapped_max",
    "ewma",
    "and",
    "or",
    "bind",
];

/// The programs of all arms, by the name they are installed as. portus installs them in every
/// datapath.
pub fn all() -> Result<HashMap<&'static str, String>, Error> {
    let mut programs = HashMap::new();
    for arm in arms() {
        check(arm.program.0, arm.program_text)?;
        let differs = |other: &&Arm| {
            other.program == arm.program && other.program_text != arm.program_text
        };
        if arms().iter().any(differs) {
            let rule = "two arms have different programs of this name".to_owned();
            return Err(Error::Program { name: arm.program.0.to_owned(), line: 0, rule });
        }
        programs.entry(installed_as(arm.program)).or_insert_with(|| arm.program_text.to_owned());
    }
    Ok(programs)
}

/// Under which name a program is installed: that of the first arm with the same text. Most arms run
/// the shared signals and nothing else, and a datapath built on libccp has room for nine programs.
pub fn installed_as(program: ProgramId) -> &'static str {
    let text_of = |program: ProgramId| {
        arms().iter().find(|arm| arm.program == program).map(|arm| arm.program_text)
    };
    let same = |arm: &&&Arm| text_of(program) == Some(arm.program_text);
    arms().iter().find(same).map_or(program.0, |arm| arm.program.0)
}

/// The number of instructions and of report fields of a program, for `remuda programs`.
pub fn size(program: ProgramId, text: &str) -> Result<(usize, usize), Error> {
    let (instructions, fields) = compile(program.0, text)?;
    Ok((instructions, fields))
}

/// Refuses a program that would not do what it says.
pub fn check(name: &str, text: &str) -> Result<(), Error> {
    let refuse =
        |line: usize, rule: String| Err(Error::Program { name: name.to_owned(), line, rule });
    for (line, content) in (1..).zip(text.lines()) {
        if content.contains('#') {
            return refuse(line, "comments make portus panic; say it in the file's docs".into());
        }
        for word in [">=", "<=", "!="] {
            if content.contains(word) {
                let rule = format!("the language has no {word}; write it with <, >, == and ||");
                return refuse(line, rule);
            }
        }
    }
    if let Some((line, word)) = unknown_name(text) {
        let nearest = nearest(word, text);
        let rule = format!("nothing sets {word:?}; the nearest known name is {nearest:?}");
        return refuse(line, rule);
    }
    compile(name, text).map(|_| ())
}

fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let split = |c: char| c.is_whitespace() || c == '(' || c == ')';
    let named = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
    (1..).zip(text.lines()).flat_map(move |(line, content)| {
        content.split(split).filter(named).map(move |word| (line, word))
    })
}

fn declared(text: &str) -> Vec<&str> {
    let head = &text[..text.find("(when").unwrap_or(text.len())];
    words(head).map(|(_, word)| word).collect()
}

fn unknown_name(text: &str) -> Option<(usize, &str)> {
    let declared = declared(text);
    words(text).find(|(_, word)| {
        let own = word.strip_prefix("Report.").unwrap_or(word);
        !PROVIDED.contains(word) && !KEYWORDS.contains(word) && !declared.contains(&own)
    })
}

/// The known name that shares the most leading and trailing letters with `word`.
fn nearest(word: &str, text: &str) -> String {
    let alike = |known: &str| {
        let front = word.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
        let back = word.chars().rev().zip(known.chars().rev()).take_while(|(a, b)| a == b).count();
        front + back
    };
    let own = declared(text).into_iter().map(|name| format!("Report.{name}"));
    let known = PROVIDED.iter().map(|name| (*name).to_owned()).chain(own);
    known.max_by_key(|name| alike(name)).unwrap_or_default()
}

fn compile(name: &str, text: &str) -> Result<(usize, usize), Error> {
    let refuse = |rule: String| Error::Program { name: name.to_owned(), line: 0, rule };
    let message = compiled(name, text, 0)?.install;
    match remuda_wire::ToDatapath::parse(&message) {
        Ok(remuda_wire::ToDatapath::Install(program)) => {
            Ok((program.instructions(), program.report_fields()))
        }
        Ok(_) => Err(refuse("it is no program".into())),
        Err(remuda_wire::Error::Register { kind: 7, .. }) => Err(refuse(format!(
            "an expression needs more than the {TEMPORARY_REGISTERS} temporaries a datapath has; \
             split it"
        ))),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// A program as it travels to a datapath, with the names of its registers.
#[derive(Debug)]
pub struct Compiled {
    /// The whole `INSTALL`.
    pub install: Vec<u8>,
    scope: portus::lang::Scope,
}

impl Compiled {
    /// The report or control register of that name.
    pub fn register(&self, name: &str) -> Option<Register> {
        match self.scope.get(name)? {
            Reg::Control(index, ..) => Some(Register::Control((*index).into())),
            Reg::Report(index, ..) => Some(Register::Report((*index).into())),
            _ => None,
        }
    }
}

/// Compiles a program under the number `uid`, for a datapath that portus does not serve.
pub fn compiled(name: &str, text: &str, uid: u32) -> Result<Compiled, Error> {
    let refuse = |rule: String| Error::Program { name: name.to_owned(), line: 0, rule };
    let compiled = catch_unwind(AssertUnwindSafe(|| {
        let (bin, scope) = portus::lang::compile(text.as_bytes(), &[])?;
        let counts = (bin.events.len() as u32, bin.instrs.len() as u32);
        Ok::<_, portus::lang::Error>((counts, bin.serialize()?, scope))
    }));
    let ((events, instructions), body, scope) = compiled
        .map_err(|_| refuse("portus' compiler panics on it".into()))?
        .map_err(|error| refuse(format!("it does not compile: {error:?}")))?;
    let mut install = Vec::from([2, 0, 0, 0, 0, 0, 0, 0]);
    for word in [uid, events, instructions] {
        install.extend(word.to_le_bytes());
    }
    install.extend(body);
    let length = u16::try_from(install.len()).map_err(|_| refuse("it is too long".into()))?;
    install[2..4].copy_from_slice(&length.to_le_bytes());
    Ok(Compiled { install, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str, part: &str) {
        let text = format!("(def (Report (volatile acked 0)))\n{body}");
        let error = check("x/y", &text).expect_err("it is refused").to_string();
        assert!(error.contains(part), "{error}");
        assert!(error.contains("x/y"), "{error}");
    }

    #[test]
    fn every_arm_has_a_program_that_passes() {
        assert!(!all().expect("they pass").is_empty());
    }

    #[test]
    fn what_all_arms_run_fits_into_libccp() {
        let programs = all().expect("they pass");
        assert!(programs.len() <= 9, "{:?}", programs.keys());
        for arm in arms() {
            assert_eq!(programs[installed_as(arm.program)], arm.program_text, "{}", arm.name);
        }
    }

    #[test]
    fn a_misspelt_name_is_found_with_its_line_and_the_right_one() {
        refused("(when true\n(:= Report.acked Flow.rtt_smaple_us) (report))", "line 3");
        refused("(when true (:= Report.acked Flow.rtt_smaple_us) (report))", "Flow.rtt_sample_us");
        refused("(when true (:= Report.akced 1) (report))", "Report.acked");
    }

    #[test]
    fn what_portus_would_panic_on_is_refused() {
        refused("(when true # now\n(report))", "comments");
        refused("(when true (if (> Micros 5) (:= Report.acked 1)) (report))", "panics");
        refused("(when (>= Micros 5) (report))", "no >=");
        refused("(when true (reset))", "reset");
    }

    #[test]
    fn an_expression_too_deep_for_a_datapath_is_refused() {
        let deep = (0..5).fold("1".to_owned(), |inner, n| format!("(+ (* {n} 2) {inner})"));
        refused(&format!("(when true (:= Report.acked {deep}) (report))"), "temporaries");
    }
}
