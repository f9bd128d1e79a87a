//! Arms that authors run in processes of their own, in Python: equal to the others.
//!
//! ```text
//! process of the author                       agent, or simulator
//!   my_cca.py ── remuda._serve ── socket ── Line ── Authored, a Controller like any other
//! ```
//!
//! What an author's process says is hostile until checked: names, programs, numbers. An exception
//! in it, an answer that takes too long, or its end, cost its flows a fallback to Reno, with an
//! event that says why; nobody else's flow waits for it.

mod controller;
pub mod door;
pub mod frame;
mod line;
mod process;

pub use controller::Authored;
pub use frame::Handed;
pub use line::Line;
pub use process::Process;

use crate::programs::{self, Compiled};
use crate::{Error, catalogue};
use frame::{ArmSpec, Hello, PROTOCOL_VERSION, ProgramSpec};
use remuda_algorithms::controller::{OWN_FIELDS_MAX, OWN_REGISTERS_MAX};
use remuda_algorithms::kept::kept;
use remuda_algorithms::{Controller, ProgramId, signals};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Arms of one author at once.
const ARMS_MAX: usize = 16;
/// Programs of one arm.
const PROGRAMS_MAX: usize = 8;
/// Report fields of a program without the shared signals: what CCP's language has.
const FOREIGN_FIELDS_MAX: usize = 16;
/// How often in a round trip at most.
const REPORTS_PER_ROUND_MAX: u32 = 64;
/// The programs of authors are numbered from here on; portus numbers its own from 1.
pub const UID_FIRST: u32 = 1 << 16;

/// One arm of an author.
#[derive(Debug)]
pub struct AuthorArm {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub summary: String,
    /// The author's number of it.
    index: u32,
    programs: Vec<Arc<Program>>,
    reports_per_round: u32,
}

/// One of its programs.
#[derive(Debug)]
pub struct Program {
    /// Its name, unique in the agent.
    pub id: ProgramId,
    /// Ready to be installed, under a number of its own.
    pub compiled: Arc<Compiled>,
    /// That number.
    pub uid: u32,
    own: Vec<&'static str>,
    registers: Vec<&'static str>,
    /// It has none of the shared signals.
    is_foreign: bool,
}

#[derive(Debug)]
struct Author {
    line: Arc<Line>,
    arms: Vec<Arc<AuthorArm>>,
}

#[derive(Debug, Default)]
struct Inner {
    authors: Vec<Author>,
    uid_next: u32,
}

/// All authors; a copy is the same ones.
#[derive(Clone, Debug, Default)]
pub struct Authors(Arc<Mutex<Inner>>);

/// They are no part of a configuration's text.
impl PartialEq for Authors {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

fn refuse<T>(rule: impl Into<String>) -> Result<T, Error> {
    Err(Error::Author(rule.into()))
}

impl Authors {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an author's arms, all or none. Returns their names.
    pub fn add(&self, line: Arc<Line>, hello: &Hello) -> Result<Vec<&'static str>, Error> {
        if hello.version != PROTOCOL_VERSION {
            let ours = PROTOCOL_VERSION;
            return refuse(format!("it speaks version {}, this is {ours}", hello.version));
        }
        if hello.arms.is_empty() || hello.arms.len() > ARMS_MAX {
            return refuse(format!("{} arms: 1 to {ARMS_MAX} are possible", hello.arms.len()));
        }
        let mut inner = self.lock();
        let mut uid = inner.uid_next.max(UID_FIRST);
        let mut arms = Vec::new();
        for (index, spec) in (0..).zip(&hello.arms) {
            let taken = inner.arms().any(|arm| arm.name == spec.name)
                || arms.iter().any(|arm: &Arc<AuthorArm>| arm.name == spec.name)
                || catalogue::is_ours(&spec.name);
            if taken {
                return refuse(format!("an arm or policy {:?} is there already", spec.name));
            }
            arms.push(Arc::new(AuthorArm::new(index, spec, &mut uid)?));
        }
        inner.uid_next = uid;
        let names = arms.iter().map(|arm| arm.name).collect();
        inner.authors.push(Author { line, arms });
        Ok(names)
    }

    /// Takes out whom nobody can reach any more. Returns their arms' names.
    pub fn remove_ended(&self) -> Vec<&'static str> {
        let mut gone = Vec::new();
        self.lock().authors.retain(|author| {
            let over = author.line.over().is_some();
            if over {
                gone.extend(author.arms.iter().map(|arm| arm.name));
            }
            !over
        });
        gone
    }

    /// The names of their arms.
    pub fn names(&self) -> Vec<&'static str> {
        self.lock().arms().map(|arm| arm.name).collect()
    }

    /// Their arms.
    pub fn arms(&self) -> Vec<Arc<AuthorArm>> {
        self.lock().arms().cloned().collect()
    }

    /// The connections, to wait for.
    pub fn lines(&self) -> Vec<Arc<Line>> {
        self.lock().authors.iter().map(|author| Arc::clone(&author.line)).collect()
    }

    /// Builds a controller of that arm.
    pub fn build(&self, name: &str) -> Option<Box<dyn Controller>> {
        let inner = self.lock();
        let here = |author: &&Author| author.line.over().is_none();
        inner.authors.iter().filter(here).find_map(|author| {
            let arm = author.arms.iter().find(|arm| arm.name == name)?;
            let authored = Authored::new(Arc::clone(&author.line), Arc::clone(arm));
            Some(Box::new(authored) as Box<dyn Controller>)
        })
    }

    /// All programs of theirs.
    pub fn programs(&self) -> Vec<Arc<Program>> {
        self.lock().arms().flat_map(|arm| &arm.programs).cloned().collect()
    }

    /// A program of theirs.
    pub fn program(&self, id: ProgramId) -> Option<Arc<Program>> {
        self.lock().arms().flat_map(|arm| &arm.programs).find(|program| program.id == id).cloned()
    }

    /// Takes in what their processes have said. Returns the arms that it is about.
    pub fn receive(&self) -> Vec<&'static str> {
        let authors: Vec<(Arc<Line>, Vec<&'static str>)> = self
            .lock()
            .authors
            .iter()
            .map(|author| {
                (Arc::clone(&author.line), author.arms.iter().map(|arm| arm.name).collect())
            })
            .collect();
        let said = authors.into_iter().filter(|(line, _)| !line.receive().is_empty());
        said.flat_map(|(_, arms)| arms).collect()
    }
}

impl Inner {
    fn arms(&self) -> impl Iterator<Item = &Arc<AuthorArm>> {
        self.authors.iter().flat_map(|author| &author.arms)
    }
}

impl AuthorArm {
    fn new(index: u32, spec: &ArmSpec, uid: &mut u32) -> Result<Self, Error> {
        if !remuda_algorithms::herd::is_name(&spec.name) {
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
        let mut programs = Vec::new();
        for program in &spec.programs {
            *uid = uid.checked_add(1).unwrap_or(UID_FIRST);
            programs.push(Arc::new(Program::new(spec, program, *uid)?));
        }
        Ok(Self {
            name: kept(&spec.name),
            summary: spec.summary.chars().filter(|c| !c.is_control()).take(100).collect(),
            index,
            programs,
            reports_per_round: spec.reports_per_round,
        })
    }
}

impl Program {
    fn new(arm: &ArmSpec, spec: &ProgramSpec, uid: u32) -> Result<Self, Error> {
        let name = format!("{}/{}", arm.name, spec.name);
        let is_foreign = !spec.text.is_empty();
        let text = if is_foreign {
            spec.text.clone()
        } else {
            signals::program(&arm.report, &arm.control, &arm.rules, &arm.report_rule)
        };
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
        programs::check(&name, &text)?;
        let compiled = programs::compiled(&name, &text, uid)?;
        let own: Vec<String> = spec.own.iter().map(|field| format!("Report.{field}")).collect();
        for register in own.iter().chain(&spec.registers) {
            if compiled.register(register).is_none() {
                return refuse(format!("program {name} does not declare {register}"));
            }
        }
        Ok(Self {
            id: ProgramId(kept(&name)),
            compiled: Arc::new(compiled),
            uid,
            own: own.iter().map(|field| kept(field)).collect(),
            registers: spec.registers.iter().map(|register| kept(register)).collect(),
            is_foreign,
        })
    }
}
