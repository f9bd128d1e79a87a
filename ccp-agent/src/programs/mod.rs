//! Checks datapath programs before the portus compiler sees them.
//!
//! portus compiles a misspelt name into a register that nothing sets, and lets a program use
//! temporaries that libccp does not have. Here both are errors that give line, column and a fix.
//! portus also panics on a comment in a body, so comments are removed first.

mod fold;
mod installed;
mod text;

pub use fold::Fold;
pub use installed::{Installed, OwnFields, find, installs, ours};

use crate::Error;
use crate::error::Place;
use portus::lang::Reg;
use remuda_algorithms::signals::Composed;
use remuda_algorithms::{ArmInfo, ProgramId, arms};
use remuda_wire::program::{Register, TEMPORARY_REGISTERS};
use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use text::{Fault, Outline, outline};

/// Checks the programs of all built-in arms.
fn check_all() -> Result<(), Error> {
    for arm in arms() {
        check(arm.program.0, arm.program_text)?;
        let differs = |other: &&ArmInfo| {
            other.program == arm.program && other.program_text != arm.program_text
        };
        if arms().iter().any(differs) {
            let rule = "two arms have different programs of this name".to_owned();
            return Err(Error::Program { name: arm.program.0.to_owned(), rule });
        }
    }
    Ok(())
}

/// The name under which a program is installed: that of the first arm with the same text. Most arms
/// only report the shared signals, and a datapath built on libccp has room for nine programs.
pub fn installed_as(program: ProgramId) -> &'static str {
    let text_of = |program: ProgramId| {
        arms().iter().find(|arm| arm.program == program).map(|arm| arm.program_text)
    };
    let same = |arm: &&&ArmInfo| text_of(program) == Some(arm.program_text);
    arms().iter().find(same).map_or(program.0, |arm| arm.program.0)
}

/// The number of instructions and of report fields of a program, for `remuda programs`.
pub fn size(program: ProgramId, text: &str) -> Result<(usize, usize), Error> {
    sound(text).map_err(|rule| Error::Program { name: program.0.to_owned(), rule })
}

/// Replaces comments by spaces, so that every other byte keeps its position.
pub fn without_comments(text: &str) -> Cow<'_, str> {
    text::without_comments(text)
}

/// Checks a program that is given as one text.
pub fn check(name: &str, text: &str) -> Result<(), Error> {
    checked(text).map_err(|wrong| wrong.refusal(name, text))
}

/// Checks a program composed of the shared signals and an author's parts. An error in a part gives
/// the position within that part.
pub fn check_composed(name: &str, composed: &Composed) -> Result<(), Error> {
    let in_part = |part: &str| format!("{name}, `{part}`");
    for part in &composed.parts {
        let text = &composed.text[part.span.clone()];
        text::balanced(&without_comments(text))
            .map_err(|fault| refusal(&in_part(part.name), text, fault))?;
    }
    checked(&composed.text).map_err(|wrong| {
        let at = wrong.fault.as_ref().map(|fault| fault.at);
        let part = composed.parts.iter().find(|part| at.is_some_and(|at| part.span.contains(&at)));
        match (wrong, part) {
            (Wrong { fault: Some(fault), .. }, Some(part)) => {
                let fault = Fault { at: fault.at - part.span.start, ..fault };
                refusal(&in_part(part.name), &composed.text[part.span.clone()], fault)
            }
            (wrong, _) => wrong.refusal(name, &composed.text),
        }
    })
}

/// The names that a program declares, in order; report fields as `Report.NAME`.
pub fn declared(name: &str, text: &str) -> Result<Vec<String>, Error> {
    text::declared(&without_comments(text)).map_err(|fault| refusal(name, text, fault))
}

/// An error in a program, with its position if known.
struct Wrong {
    fault: Option<Fault>,
    rule: String,
}

impl Wrong {
    fn refusal(self, name: &str, text: &str) -> Error {
        match self.fault {
            Some(fault) => refusal(name, text, fault),
            None => Error::Program { name: name.to_owned(), rule: self.rule },
        }
    }
}

fn refusal(name: &str, text: &str, fault: Fault) -> Error {
    let known = fault.known.map(|known| format!("\nknown: {known}")).unwrap_or_default();
    Error::ProgramText {
        name: name.to_owned(),
        place: place(text, fault.at),
        rule: fault.rule,
        excerpt: excerpt(text, fault.at) + &known,
    }
}

fn checked(text: &str) -> Result<(), Wrong> {
    let text = without_comments(text);
    let fits = outline(&text);
    let outline = fits.map_err(|fault| Wrong { rule: String::new(), fault: Some(fault) })?;
    sound(&text).map(|_| ()).map_err(|rule| Wrong { fault: unsound(&text, &outline), rule })
}

fn place(text: &str, at: usize) -> Place {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Place {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// The faulty line, and below it a caret.
fn excerpt(text: &str, at: usize) -> String {
    let Place { line, column } = place(text, at);
    let content = text.lines().nth(line - 1).unwrap_or_default();
    format!("    {}\n    {}^", content.replace('\t', " "), " ".repeat(column - 1))
}

/// Finds the first part that makes the program fail, by compiling ever longer starts. The
/// compiler itself gives no position.
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

fn too_deep() -> String {
    format!(
        "an expression needs more than the {TEMPORARY_REGISTERS} temporaries a datapath has; \
         split it"
    )
}

/// The number of instructions and report fields, if the program compiles and every datapath accepts
/// it.
fn sound(text: &str) -> Result<(usize, usize), String> {
    size_of(&install(text, 0)?.install)
}

fn size_of(install: &[u8]) -> Result<(usize, usize), String> {
    match remuda_wire::ToDatapath::parse(install) {
        Ok(remuda_wire::ToDatapath::Install(program)) => {
            Ok((program.instructions(), program.report_fields()))
        }
        Ok(_) => Err("it does not compile to a program".to_owned()),
        Err(remuda_wire::Error::Register { kind: 7, .. }) => Err(too_deep()),
        Err(error) => Err(error.to_string()),
    }
}

/// Offset of the program's number in an `INSTALL`, in bytes.
const UID_AT: usize = 8;

/// A compiled program, with the names of its registers.
#[derive(Debug)]
pub struct Compiled {
    /// The whole `INSTALL` message.
    pub install: Vec<u8>,
    scope: portus::lang::Scope,
}

impl Compiled {
    /// Changes the number under which the program is installed.
    pub fn set_uid(&mut self, uid: u32) {
        self.install[UID_AT..UID_AT + 4].copy_from_slice(&uid.to_le_bytes());
    }

    /// The number of instructions and of report fields; zeros for a program that no datapath
    /// accepts.
    pub fn size(&self) -> (usize, usize) {
        size_of(&self.install).unwrap_or_default()
    }

    /// How to merge the report field `name` of two reports; `folds` are those of the program.
    pub fn fold(&self, name: &str, folds: &HashMap<String, Fold>) -> Fold {
        let Some(Reg::Report(_, kind, true)) = self.scope.get(name) else { return Fold::Newest };
        let gathered = folds.get(name).copied().unwrap_or_default();
        let is_flag = matches!(kind, portus::lang::Type::Bool(_));
        if is_flag && gathered == Fold::Newest { Fold::Larger } else { gathered }
    }

    /// The report or control register with this name.
    pub fn register(&self, name: &str) -> Option<Register> {
        match self.scope.get(name)? {
            Reg::Control(index, ..) => Some(Register::Control((*index).into())),
            Reg::Report(index, ..) => Some(Register::Report((*index).into())),
            _ => None,
        }
    }
}

/// For each name that a program assigns to: how its values are merged; see [`Compiled::fold`].
pub fn folds(text: &str) -> HashMap<String, Fold> {
    fold::folds(text)
}

/// Compiles a program under the number `uid`, without connecting to a datapath through portus.
pub fn compiled(name: &str, text: &str, uid: u32) -> Result<Compiled, Error> {
    install(text, uid).map_err(|rule| Error::Program { name: name.to_owned(), rule })
}

fn install(text: &str, uid: u32) -> Result<Compiled, String> {
    let text = without_comments(text);
    let compiled = catch_unwind(AssertUnwindSafe(|| {
        let (bin, scope) = portus::lang::compile(text.as_bytes(), &[])?;
        let counts = (bin.events.len() as u32, bin.instrs.len() as u32);
        Ok::<_, portus::lang::Error>((counts, bin.serialize()?, scope))
    }));
    let ((events, instructions), body, scope) = compiled
        .map_err(|_| "portus' compiler panics on it".to_owned())?
        .map_err(|error| match error.0 {
            rule if rule.contains("Tmp Register") => too_deep(), // more than portus itself has
            rule => format!("it does not compile: {rule}"),
        })?;
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
    use remuda_algorithms::signals::{Parts, program};

    fn refused(body: &str, part: &str) {
        let text = format!("(def (Report (volatile acked 0)))\n{body}");
        let error = check("x/y", &text).expect_err("it is refused").to_string();
        assert!(error.contains(part), "{error}");
        assert!(error.contains("x/y"), "{error}");
    }

    #[test]
    fn what_all_arms_run_fits_into_libccp() {
        assert!((1..=9).contains(&installs().expect("they pass").count()));
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

    const COMMENTED: &str = "# what for (\n(def (Report (volatile acked 0)) # mine\n)\n(when true\n\
         # bytes\n(:= Report.acked (+ Report.acked # so far\n Ack.bytes_acked))\n(report)) # end";

    #[test]
    fn comments_stand_anywhere_and_change_nothing() {
        check("x/y", COMMENTED).expect("it passes");
        let bare = "(def (Report (volatile acked 0)))\n\
                    (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))";
        let [with, without] = [COMMENTED, bare].map(|text| compiled("x/y", text, 7));
        assert_eq!(with.expect("compiles").install, without.expect("compiles").install);
        let wrong = COMMENTED.replace("Ack.bytes_acked", "Ack.bytes");
        let said = check("x/y", &wrong).expect_err("refused").to_string();
        assert!(said.starts_with("program x/y, line 7, column 2: nothing sets"), "{said}");
    }

    #[test]
    fn a_number_is_set_later_as_well() {
        let mut later = compiled("x/y", COMMENTED, 0).expect("compiles");
        later.set_uid(70_000);
        assert_eq!(later.install, compiled("x/y", COMMENTED, 70_000).expect("compiles").install);
    }

    #[test]
    fn what_does_not_start_anew_is_never_added_up() {
        let text =
            "(def (Report (volatile acked 0) (kept 0) (volatile flag false) (volatile at 0)))
            (when true (:= Report.acked (+ Report.acked 1)) (:= Report.kept (+ Report.kept 1))
                (:= Report.flag (> Report.kept 3)) (:= Report.at Ack.now) (report))";
        let (program, folds) = (compiled("x/y", text, 1).expect("compiles"), folds(text));
        let fold = |name| program.fold(name, &folds);
        assert_eq!([fold("Report.acked"), fold("Report.kept")], [Fold::Sum, Fold::Newest]);
        assert_eq!([fold("Report.flag"), fold("Report.at")], [Fold::Larger, Fold::Newest]);
    }

    fn part_refused((rules, control): (&str, &str), part: &str, said: &str) {
        let parts = Parts { report: "(volatile mine 0)", control, rules, report_rule: "" };
        let error = check_composed("wrong/report", &program(parts)).expect_err("refused");
        let error = error.to_string();
        assert!(error.starts_with(&format!("program wrong/report, {part}: ")), "{error}");
        assert!(error.contains(said), "{error}");
    }

    #[test]
    fn what_is_wrong_in_a_part_is_said_of_it() {
        let typo = "(when true (:= Report.mine Flow.rtt_smaple_us) (fallthrough))";
        part_refused((typo, ""), "`rules`, line 1, column 28", "rtt_sample_us");
        part_refused((&format!("\n# why\n{typo}"), ""), "`rules`, line 3, column 28", "        ^");
        part_refused(("(when true (report)", ""), "`rules`, line 1, column 1", "never closed");
        part_refused(("", "(a 1)) (b 2)"), "`control`, line 1, column 6", "closes nothing");
        part_refused(("", "(a 1) (per_round 2)"), "`control`, line 1, column 8", "already");
        part_refused(("(when (+ 1 2) (report))", ""), "`rules`, line 1, column 7", "bool");
        part_refused(("", "a 1"), "`control`, line 1, column 1", "no parentheses");
    }

    #[test]
    fn places_count_characters() {
        assert_eq!(place("ä\nöü(", 7), Place { line: 2, column: 3 });
        assert_eq!(place("", 0), Place { line: 1, column: 1 });
    }
}
