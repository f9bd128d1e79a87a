//! Arms whose code runs in other processes, in Python. The agent treats them like its own arms.
//!
//! ```text
//! process of the author                       agent, or simulator
//!   my_cca.py ── remuda._serve ── socket ── Line ── Authored, an Arm like any other
//! ```
//!
//! A Rust crate built on portus is an author too, in a thread of this process: [`congalg`].
//!
//! Names, programs and numbers from an author's process are hostile until checked. If the process
//! raises an exception, answers too late or ends, its flows fall back to Reno, and an event says
//! why. Other flows do not wait.

mod arm;
pub mod congalg;
pub mod door;
#[cfg(test)]
mod fake;
pub mod frame;
mod line;
mod process;

pub use arm::{Author, Authored};
pub use frame::Handed;
pub use line::Line;
pub use process::Process;

use crate::programs::{self, Compiled, Fold, Installed};
use crate::{Error, catalogue};
use frame::{ArmSpec, Hello, PROTOCOL_VERSION, ProgramSpec};
use remuda_algorithms::interned::interned_str;
use remuda_algorithms::signals::{self, Parts};
use remuda_algorithms::{ArmInfo, OWN_FIELDS_MAX, OWN_REGISTERS_MAX, ProgramId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most arms of one author.
const ARMS_MAX: usize = 16;
/// The most programs of one arm.
const PROGRAMS_MAX: usize = 8;
/// The most report fields of a program without the shared signals, as in CCP's language.
const FOREIGN_FIELDS_MAX: usize = 16;
const REPORTS_PER_ROUND_MAX: u32 = 64;
/// The most bytes of a program's text, and of each part of it. This is five times the longest text
/// that all datapaths accept.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// The longest name of a program, in bytes.
const PROGRAM_NAME_BYTES_MAX: usize = 32;
/// Programs of authors have higher numbers than this. portus numbers its own from 1.
pub const UID_FIRST: u32 = 1 << 16;

#[derive(Debug)]
pub struct AuthorArm {
    pub info: &'static ArmInfo,
    /// The author's number of the arm.
    index: u32,
    programs: Vec<Arc<Program>>,
}

/// A program of an author's arm.
#[derive(Debug)]
pub struct Program {
    /// The name, unique in the agent.
    pub id: ProgramId,
    pub compiled: Arc<Compiled>,
    pub uid: u32,
    pub own: Vec<&'static str>,
    folds: Vec<Fold>,
    registers: Vec<&'static str>,
    /// The author wrote the whole text, and it reports none of the shared signals.
    is_foreign: bool,
    /// The program assigns to the window or the rate.
    steers_itself: bool,
}

#[derive(Debug)]
struct Connected {
    line: Arc<Line>,
    arms: Vec<Arc<AuthorArm>>,
}

#[derive(Debug, Default)]
struct Inner {
    authors: Vec<Connected>,
    uids: Uids,
}

/// The numbers of programs. A datapath has room for few programs and removes none. So a new author
/// reuses the numbers of authors that have left, and its programs replace theirs.
#[derive(Debug, Default)]
struct Uids {
    /// How many numbers were ever given.
    given: u32,
    free: BTreeSet<u32>,
}

impl Uids {
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.given += 1;
            UID_FIRST + self.given
        })
    }
}

/// All connected authors. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Authors(Arc<Mutex<Inner>>);

fn refuse<T>(rule: impl Into<String>) -> Result<T, Error> {
    Err(Error::Author(rule.into()))
}

impl Authors {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds all arms of an author, or none. Returns their names.
    pub fn add(&self, line: Arc<Line>, hello: &Hello) -> Result<Vec<&'static str>, Error> {
        if hello.version != PROTOCOL_VERSION {
            let ours = PROTOCOL_VERSION;
            return refuse(format!("it speaks protocol version {}, not {ours}", hello.version));
        }
        if hello.arms.is_empty() || hello.arms.len() > ARMS_MAX {
            return refuse(format!("{} arms: 1 to {ARMS_MAX} are possible", hello.arms.len()));
        }
        // Checking programs takes long, so it happens before the lock is taken.
        let made = (0..).zip(&hello.arms).map(|(index, spec)| AuthorArm::new(index, spec));
        let mut arms = made.collect::<Result<Vec<_>, _>>()?;
        let mut inner = self.lock();
        for (at, arm) in arms.iter().enumerate() {
            let here = inner.arms().any(|other| other.info.name == arm.info.name);
            let twice = arms[..at].iter().any(|other| other.info.name == arm.info.name);
            if here || twice || catalogue::is_ours(arm.info.name) {
                return refuse(format!("an arm or policy {:?} is there already", arm.info.name));
            }
        }
        arms.iter_mut().for_each(|arm| arm.number(&mut inner.uids));
        let names = arms.iter().map(|arm| arm.info.name).collect();
        inner.authors.push(Connected { line, arms: arms.into_iter().map(Arc::new).collect() });
        Ok(names)
    }

    /// Removes the authors whose connection has ended. Returns the names of their arms.
    pub fn remove_ended(&self) -> Vec<&'static str> {
        let mut gone = Vec::new();
        let inner = &mut *self.lock();
        inner.authors.retain(|author| {
            let over = author.line.over().is_some();
            if over {
                gone.extend(author.arms.iter().map(|arm| arm.info.name));
                let programs = author.arms.iter().flat_map(|arm| &arm.programs);
                inner.uids.free.extend(programs.map(|program| program.uid));
            }
            !over
        });
        gone
    }

    /// The names of all arms.
    pub fn names(&self) -> Vec<&'static str> {
        self.lock().arms().map(|arm| arm.info.name).collect()
    }

    pub fn arms(&self) -> Vec<Arc<AuthorArm>> {
        self.lock().arms().cloned().collect()
    }

    /// The open connections, for `poll`. A closed one would make `poll` return at once every time.
    pub fn lines(&self) -> Vec<Arc<Line>> {
        let inner = self.lock();
        let lines = inner.authors.iter().map(|author| &author.line);
        lines.filter(|line| line.over().is_none()).cloned().collect()
    }

    /// Builds an arm for a flow; `None` if no connected author has it.
    pub fn build(&self, name: &str) -> Option<Box<dyn Author>> {
        let inner = self.lock();
        let here = |author: &&Connected| author.line.over().is_none();
        inner.authors.iter().filter(here).find_map(|author| {
            let arm = author.arms.iter().find(|arm| arm.info.name == name)?;
            let authored = Authored::new(Arc::clone(&author.line), Arc::clone(arm));
            Some(Box::new(authored) as Box<dyn Author>)
        })
    }

    /// The programs of all arms.
    pub fn programs(&self) -> Vec<Arc<Program>> {
        self.lock().arms().flat_map(|arm| &arm.programs).cloned().collect()
    }

    pub fn program(&self, id: ProgramId) -> Option<Arc<Program>> {
        self.lock().arms().flat_map(|arm| &arm.programs).find(|program| program.id == id).cloned()
    }

    /// Reads the messages of all authors. Returns the arms that the messages are about.
    pub fn receive(&self) -> Vec<&'static str> {
        let authors: Vec<(Arc<Line>, Vec<&'static str>)> = self
            .lock()
            .authors
            .iter()
            .map(|author| {
                (Arc::clone(&author.line), author.arms.iter().map(|arm| arm.info.name).collect())
            })
            .collect();
        let active = authors.into_iter().filter(|(line, _)| !line.receive().is_empty());
        active.flat_map(|(_, arms)| arms).collect()
    }
}

impl Inner {
    fn arms(&self) -> impl Iterator<Item = &Arc<AuthorArm>> {
        self.authors.iter().flat_map(|author| &author.arms)
    }
}

impl AuthorArm {
    fn new(index: u32, spec: &ArmSpec) -> Result<Self, Error> {
        if !remuda_algorithms::list::is_name(&spec.name) {
            return refuse(format!("{:?} is no name of an arm", spec.name));
        }
        if spec.programs.is_empty() || spec.programs.len() > PROGRAMS_MAX {
            let count = spec.programs.len();
            return refuse(format!("{}: {count} programs: 1 to {PROGRAMS_MAX}", spec.name));
        }
        if !(1..=REPORTS_PER_ROUND_MAX).contains(&spec.reports_per_round) {
            let rule = format!("it must lie in 1..={REPORTS_PER_ROUND_MAX}");
            return refuse(format!(
                "{}.reports_per_round = {}: {rule}",
                spec.name, spec.reports_per_round
            ));
        }
        let names = || spec.programs.iter().map(|program| &program.name);
        if let Some(name) = names().find(|name| names().filter(|it| it == name).count() > 1) {
            return refuse(format!("{}: two programs are called {name:?}", spec.name));
        }
        let programs = spec.programs.iter().map(|program| Program::new(spec, program));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let summary: String = spec.summary.chars().filter(|c| !c.is_control()).take(100).collect();
        let info = ArmInfo {
            name: interned_str(&spec.name),
            summary: interned_str(&summary),
            program: programs[0].id,
            program_text: "",
            reports_per_round: spec.reports_per_round,
            ..ArmInfo::DEFAULT
        };
        Ok(Self {
            info: info.leaked(),
            programs: programs.into_iter().map(Arc::new).collect(),
            index,
        })
    }

    /// Gives a number to each program.
    fn number(&mut self, uids: &mut Uids) {
        for program in &mut self.programs {
            let program = Arc::get_mut(program).expect("an arm not added yet has one owner");
            program.uid = uids.take();
            let compiled = Arc::get_mut(&mut program.compiled);
            compiled.expect("a program not added yet has one owner").set_uid(program.uid);
        }
    }

    pub fn programs(&self) -> &[Arc<Program>] {
        &self.programs
    }
}

fn is_program_name(name: &str) -> bool {
    name.len() <= PROGRAM_NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// The whole text of a program, checked.
fn text_of(name: &str, arm: &ArmSpec, spec: &ProgramSpec) -> Result<String, Error> {
    let given = [
        ("text", &spec.text),
        ("report", &arm.report),
        ("control", &arm.control),
        ("rules", &arm.rules),
        ("report_rule", &arm.report_rule),
    ];
    if let Some((part, text)) = given.iter().find(|(_, text)| text.len() > TEXT_BYTES_MAX) {
        let bytes = text.len();
        return refuse(format!(
            "program {name}, `{part}`: {bytes} bytes: {TEXT_BYTES_MAX} at most"
        ));
    }
    if !spec.text.is_empty() {
        programs::check(name, &spec.text)?;
        return Ok(spec.text.clone());
    }
    let parts = given.map(|(_, text)| programs::without_comments(text));
    let [_, report, control, rules, report_rule] = parts.each_ref().map(|text| &**text);
    let composed = signals::program(Parts { report, control, rules, report_rule });
    programs::check_composed(name, &composed)?;
    Ok(composed.text)
}

impl Program {
    /// The program as flows use it.
    pub fn installed(&self) -> Installed {
        Installed::of_author(self.id, self.uid, &self.compiled, &self.own)
    }

    /// Compiles a program, without a number yet.
    fn new(arm: &ArmSpec, spec: &ProgramSpec) -> Result<Self, Error> {
        if !is_program_name(&spec.name) {
            let rule = format!("1 to {PROGRAM_NAME_BYTES_MAX} letters, digits, _, - and .");
            return refuse(format!(
                "{}: {:?} is no name of a program: {rule}",
                arm.name, spec.name
            ));
        }
        let name = format!("{}/{}", arm.name, spec.name);
        let is_foreign = !spec.text.is_empty();
        let fields_max = if is_foreign { FOREIGN_FIELDS_MAX } else { OWN_FIELDS_MAX };
        for (what, count, most) in [
            ("report fields", spec.own.len(), fields_max),
            ("control registers", spec.registers.len(), OWN_REGISTERS_MAX),
        ] {
            if count > most {
                return refuse(format!(
                    "program {name} has {count} {what} of its own: {most} at most"
                ));
            }
        }
        let text = text_of(&name, arm, spec)?;
        let compiled = programs::compiled(&name, &text, 0)?;
        let own: Vec<String> = spec.own.iter().map(|field| format!("Report.{field}")).collect();
        for register in own.iter().chain(&spec.registers) {
            if compiled.register(register).is_none() {
                return refuse(format!("program {name} does not declare {register}"));
            }
        }
        let folds = programs::folds(&text);
        Ok(Self {
            id: ProgramId(interned_str(&name)),
            folds: own.iter().map(|field| compiled.fold(field, &folds)).collect(),
            compiled: Arc::new(compiled),
            uid: 0,
            own: own.iter().map(|field| interned_str(field)).collect(),
            registers: spec.registers.iter().map(|register| interned_str(register)).collect(),
            is_foreign,
            steers_itself: ["Cwnd", "Rate"].iter().any(|name| folds.contains_key(*name)),
        })
    }
}

#[cfg(test)]
mod tests;
