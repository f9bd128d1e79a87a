//! Datapath programs, checked before portus sees them.
//!
//! portus compiles a misspelt name into a register that nothing sets, panics on a comment in a
//! body, and lets a program use temporaries that libccp does not have. Each is an error here, with
//! its line and column, and what to write instead.

mod text;

use crate::Error;
use portus::lang::Reg;
use remuda_algorithms::{Arm, ProgramId, arms};
use remuda_wire::program::{Register, TEMPORARY_REGISTERS};
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use text::{Fault, Outline, outline};

/// Where in a program's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The programs of all arms, by the name they are installed as. portus installs them in every
/// datapath.
pub fn all() -> Result<HashMap<&'static str, String>, Error> {
    let mut programs = HashMap::new();
    for arm in arms() {
        check(arm.program.0, arm.program_text)?;
        let differs =
            |other: &&Arm| other.program == arm.program && other.program_text != arm.program_text;
        if arms().iter().any(differs) {
            let rule = "two arms have different programs of this name".to_owned();
            return Err(Error::Program { name: arm.program.0.to_owned(), rule });
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
    sound(text).map_err(|rule| Error::Program { name: program.0.to_owned(), rule })
}

/// Refuses a program that would not do what it says.
pub fn check(name: &str, text: &str) -> Result<(), Error> {
    let refuse = |fault: Fault| {
        let known = fault.known.map(|known| format!("\nknown: {known}")).unwrap_or_default();
        Error::ProgramText {
            name: name.to_owned(),
            place: place(text, fault.at),
            rule: fault.rule,
            excerpt: excerpt(text, fault.at) + &known,
        }
    };
    let outline = outline(text).map_err(refuse)?;
    match sound(text) {
        Ok(_) => Ok(()),
        Err(rule) => Err(match unsound(text, &outline) {
            Some(fault) => refuse(fault),
            None => Error::Program { name: name.to_owned(), rule },
        }),
    }
}

fn place(text: &str, at: usize) -> Place {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Place {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// The line, and below it a mark.
fn excerpt(text: &str, at: usize) -> String {
    let Place { line, column } = place(text, at);
    let content = text.lines().nth(line - 1).unwrap_or_default();
    format!("    {}\n    {}^", content.replace('\t', " "), " ".repeat(column - 1))
}

/// The first part with which the program is not sound any more, as the compiler itself does not
/// say where it stumbles.
fn unsound(text: &str, outline: &Outline) -> Option<Fault> {
    let mut done = text[outline.def.clone()].to_owned();
    for clause in &outline.clauses {
        let head = format!("{done}\n(when {}", &text[clause.condition.clone()]);
        if let Err(rule) = sound(&format!("{head} (report))")) {
            return Some(Fault { at: clause.condition.start, rule, known: None });
        }
        let mut begun = head;
        for statement in &clause.statements {
            begun = format!("{begun} {}", &text[statement.clone()]);
            if let Err(rule) = sound(&format!("{begun})")) {
                return Some(Fault { at: statement.start, rule, known: None });
            }
        }
        done = format!("{begun})");
    }
    None
}

/// Its instructions and report fields, if every datapath takes it.
fn sound(text: &str) -> Result<(usize, usize), String> {
    let message = install(text, 0)?.install;
    match remuda_wire::ToDatapath::parse(&message) {
        Ok(remuda_wire::ToDatapath::Install(program)) => {
            Ok((program.instructions(), program.report_fields()))
        }
        Ok(_) => Err("it is no program".to_owned()),
        Err(remuda_wire::Error::Register { kind: 7, .. }) => Err(format!(
            "an expression needs more than the {TEMPORARY_REGISTERS} temporaries a datapath has; \
             split it"
        )),
        Err(error) => Err(error.to_string()),
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
    install(text, uid).map_err(|rule| Error::Program { name: name.to_owned(), rule })
}

fn install(text: &str, uid: u32) -> Result<Compiled, String> {
    let compiled = catch_unwind(AssertUnwindSafe(|| {
        let (bin, scope) = portus::lang::compile(text.as_bytes(), &[])?;
        let counts = (bin.events.len() as u32, bin.instrs.len() as u32);
        Ok::<_, portus::lang::Error>((counts, bin.serialize()?, scope))
    }));
    let ((events, instructions), body, scope) = compiled
        .map_err(|_| "portus' compiler panics on it".to_owned())?
        .map_err(|error| format!("it does not compile: {}", error.0))?;
    let mut install = Vec::from([2, 0, 0, 0, 0, 0, 0, 0]);
    for word in [uid, events, instructions] {
        install.extend(word.to_le_bytes());
    }
    install.extend(body);
    let length = u16::try_from(install.len()).map_err(|_| "it is too long".to_owned())?;
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
    fn what_is_wrong_is_shown_in_its_line() {
        let text = "(def (Report (volatile acked 0)))\n(when true\n  (:= Report.akced 1))";
        let said = check("x/y", text).expect_err("refused").to_string();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("program x/y, line 3, column 7: nothing sets"), "{said}");
        assert_eq!(lines[1..3], ["      (:= Report.akced 1))", "          ^"], "{said}");
        assert!(said.contains("nearest known name is \"Report.acked\""), "{said}");
        assert!(said.contains("known: Ack.bytes_acked"), "{said}");
    }

    #[test]
    fn what_only_the_compiler_finds_has_its_place_too() {
        refused("(when (+ 1 2)\n(report))", "line 2, column 7");
        refused("(when true\n(:= Report.acked (+ 1 true))\n(report))", "line 3, column 1");
        let deep = (0..9).fold("1".to_owned(), |inner, n| format!("(+ (* {n} 2) {inner})"));
        let body = format!("(when true (report))\n(when true\n (:= Report.acked {deep}))");
        refused(&body, "line 4, column 2");
        refused(&body, "temporaries");
        let many = "(when true (:= Report.acked 1))\n".repeat(300);
        refused(&many, "line 1");
    }

    #[test]
    fn places_count_characters() {
        assert_eq!(place("ä\nöü(", 6), Place { line: 2, column: 3 });
        assert_eq!(place("", 0), Place { line: 1, column: 1 });
    }
}
