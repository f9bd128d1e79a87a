//! A program as a datapath has it: its number and the positions of its registers.
//!
//! Register names are looked up once, when a flow changes its program. Reports are then decoded by
//! position.

use super::{Compiled, compiled, installed_as};
use crate::{Error, decode};
use remuda_algorithms::OWN_FIELDS_MAX;
use remuda_algorithms::signals::{FIELDS, REPORT_INTERVAL, REPORTS_PER_ROUND};
use remuda_algorithms::{Measurement, ProgramId, arms};
use remuda_wire::Register;
use remuda_wire::program::{CWND, RATE, REPORT_REGISTERS};
use remuda_wire::to_agent::Signals;
use std::sync::{Arc, OnceLock};

/// Values of the fields that an author's program declares itself.
pub type OwnFields = [u64; REPORT_REGISTERS as usize];

/// A program with its number and the positions of its registers.
#[derive(Debug)]
pub struct Installed {
    /// The name that controllers use. Programs with the same text share one number under several
    /// names.
    pub id: ProgramId,
    /// The agent's number of the program, sent to datapaths.
    pub uid: u32,
    pub compiled: Arc<Compiled>,
    /// True for an author's program. It is installed when a flow first runs it, because the author
    /// may connect after the datapath got its programs.
    pub is_authored: bool,
    /// Positions of the shared signals in a report; `None` if the program does not report all of
    /// them.
    shared: Option<[usize; FIELDS.len()]>,
    /// Positions of the program's own fields in a report, in the order that its controller expects.
    own: Box<[usize]>,
    fields: usize,
    report_interval: Option<Register>,
    reports_per_round: Option<Register>,
}

impl Installed {
    fn new(id: ProgramId, uid: u32, compiled: Arc<Compiled>, own: Box<[usize]>) -> Self {
        let place = |name: &str| match compiled.register(name) {
            Some(Register::Report(index)) => Some(index as usize),
            _ => None,
        };
        let mut shared = Some([0; FIELDS.len()]);
        for (at, name) in FIELDS.iter().enumerate() {
            match (&mut shared, place(name)) {
                (Some(places), Some(found)) => places[at] = found,
                _ => shared = None,
            }
        }
        Self {
            id,
            uid,
            shared,
            own,
            fields: compiled.size().1,
            report_interval: compiled.register(REPORT_INTERVAL),
            reports_per_round: compiled.register(REPORTS_PER_ROUND),
            is_authored: false,
            compiled,
        }
    }

    /// A program of an author, with the names of its own fields.
    pub fn of_author(id: ProgramId, uid: u32, compiled: &Arc<Compiled>, own: &[&str]) -> Self {
        let place = |name: &&str| match compiled.register(name) {
            Some(Register::Report(index)) => Some(index as usize),
            _ => None,
        };
        let own = own.iter().filter_map(place).collect();
        Self { is_authored: true, ..Self::new(id, uid, Arc::clone(compiled), own) }
    }

    /// The register that a controller may set under `name`: `Cwnd`, `Rate`, or a control register
    /// of the program.
    pub fn settable(&self, name: &str) -> Option<Register> {
        match name {
            "Cwnd" => Some(Register::Implicit(CWND)),
            "Rate" => Some(Register::Implicit(RATE)),
            REPORT_INTERVAL => self.report_interval,
            REPORTS_PER_ROUND => self.reports_per_round,
            _ => self.compiled.register(name).filter(|it| matches!(it, Register::Control(_))),
        }
    }

    /// Decodes a report; `None` if fields are missing, or if the program does not report the shared
    /// signals.
    pub fn measurement(&self, fields: &[u64], signals: Option<&Signals>) -> Option<Measurement> {
        let places = self.shared.as_ref().filter(|_| fields.len() >= self.fields)?;
        let mut values = [0; FIELDS.len()];
        for (value, place) in values.iter_mut().zip(places) {
            *value = *fields.get(*place)?;
        }
        let (own, count) = self.own_fields(fields)?;
        Some(decode::fields(&values, &own[..count.min(OWN_FIELDS_MAX)], signals))
    }

    /// The program's own fields of a report, and how many there are; `None` if fields are missing.
    pub fn own_fields(&self, fields: &[u64]) -> Option<(OwnFields, usize)> {
        let mut own = OwnFields::default();
        for (value, place) in own.iter_mut().zip(&self.own) {
            *value = *fields.get(*place)?;
        }
        Some((own, self.own.len()))
    }
}

/// The programs of all built-in arms, numbered from 1. Programs with the same text share the number
/// of the first, and the first comes before the others.
pub fn ours() -> Result<&'static [Arc<Installed>], Error> {
    static OURS: OnceLock<Vec<Arc<Installed>>> = OnceLock::new();
    if let Some(ours) = OURS.get() {
        return Ok(ours);
    }
    super::check_all()?;
    let mut made: Vec<Arc<Installed>> = Vec::new();
    let mut next = 1;
    for arm in arms() {
        let first = installed_as(arm.program);
        let known = made.iter().find(|it| it.id.0 == first);
        let (uid, compiled) = match known {
            Some(known) => (known.uid, Arc::clone(&known.compiled)),
            None => {
                next += 1;
                (next - 1, Arc::new(compiled(arm.program.0, arm.program_text, next - 1)?))
            }
        };
        // An arm's program declares the shared signals first, then its own fields.
        let own = (FIELDS.len()..compiled.size().1).take(OWN_FIELDS_MAX).collect();
        if !made.iter().any(|it| it.id == arm.program) {
            made.push(Arc::new(Installed::new(arm.program, uid, compiled, own)));
        }
    }
    Ok(OURS.get_or_init(|| made))
}

/// The program with this name, of a built-in arm.
pub fn find(id: ProgramId) -> Option<Arc<Installed>> {
    ours().ok()?.iter().find(|it| it.id == id).cloned()
}

/// The `INSTALL` message of each built-in program, once each, by rising number. Number 1 must come
/// first: it makes libccp forget the programs of a former agent.
pub fn installs() -> Result<impl Iterator<Item = &'static [u8]>, Error> {
    let all = ours()?;
    let first = |at: usize| all[..at].iter().all(|it| it.uid != all[at].uid);
    Ok((0..all.len()).filter(move |at| first(*at)).map(|at| &all[at].compiled.install[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_one_number_and_numbers_begin_with_one() {
        let mut uids: Vec<u32> = ours().expect("they compile").iter().map(|it| it.uid).collect();
        assert_eq!(uids[0], 1);
        uids.sort_unstable();
        uids.dedup();
        assert_eq!(uids.len(), installs().expect("they compile").count());
        assert_eq!(uids, (1..=uids.len() as u32).collect::<Vec<_>>());
        for arm in arms() {
            let found = find(arm.program).expect("it has one");
            let same = find(ProgramId(installed_as(arm.program)));
            assert_eq!(found.uid, same.expect("it has one, too").uid, "{}", arm.name);
        }
    }

    #[test]
    fn a_report_that_is_too_short_is_none() {
        let cubic = remuda_algorithms::arm("cubic").expect("an arm");
        let program = find(cubic.program).expect("it has a program");
        let fields = [3; REPORT_REGISTERS as usize];
        let whole = program.fields;
        assert!(program.measurement(&fields[..whole], None).is_some());
        assert!(program.measurement(&fields[..whole - 1], None).is_none());
        assert_eq!(program.settable("Cwnd"), Some(Register::Implicit(CWND)));
        assert_eq!(program.settable("Report.acked_bytes"), None);
    }
}
