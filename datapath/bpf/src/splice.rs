//! Puts a compiled program into a copy of the template (bpf/program.h).
//!
//! The template is copied after libbpf has loaded it, so its CO-RE and map references are resolved,
//! and loading the copy needs neither clang nor BTF.

use crate::Error;
use crate::compile;
use crate::insn::{self, Insn};
use remuda_wire::Program;

const MARK_BODY: u32 = 0x7ead_0001;
const MARK_DEFINE: u32 = 0x7ead_0002;
const MARK_VOLATILE: u32 = 0x7ead_0003;
const MARK_VERSION: u32 = 0x7ead_0004;
const MARK_UID: u32 = 0x7ead_0005;
const MARK_FIELDS: u32 = 0x7ead_0006;
/// A 64-bit load takes two instructions.
const MARK_INSNS: usize = 2;

/// The instructions to load for `program`. `version` is a number that no other load has.
pub fn splice(template: &[Insn], program: &Program, version: u32) -> Result<Vec<Insn>, Error> {
    if template.iter().any(insn::is_local_call) {
        return Err(Error::Template("it calls a function of its own"));
    }
    let mut insns = template.to_vec();
    set_constant(&mut insns, MARK_VERSION, version)?;
    set_constant(&mut insns, MARK_UID, program.uid)?;
    let fields = u32::try_from(program.report_fields()).map_err(|_| Error::Template("fields"))?;
    set_constant(&mut insns, MARK_FIELDS, fields)?;
    insns = replace(&insns, MARK_DEFINE, &compile::defines(program, false))?;
    insns = replace(&insns, MARK_VOLATILE, &compile::defines(program, true))?;
    replace(&insns, MARK_BODY, &compile::body(program))
}

fn find(insns: &[Insn], mark: u32) -> Result<usize, Error> {
    let mut found = (0..insns.len()).filter(|at| insn::is_load_const(&insns[*at], mark));
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(at),
        _ => Err(Error::Template("it does not contain a marker exactly once")),
    }
}

fn set_constant(insns: &mut [Insn], mark: u32, value: u32) -> Result<(), Error> {
    let at = find(insns, mark)?;
    insns[at].imm = value as i32;
    Ok(())
}

/// Replaces a marker by `code` and corrects every jump across it.
fn replace(insns: &[Insn], mark: u32, code: &[Insn]) -> Result<Vec<Insn>, Error> {
    let at = find(insns, mark)?;
    let grown = code.len() as isize - MARK_INSNS as isize;
    let mut out = Vec::with_capacity(insns.len() + code.len());
    for (here, insn) in insns.iter().enumerate() {
        if here == at {
            out.extend_from_slice(code);
        }
        if (at..at + MARK_INSNS).contains(&here) {
            continue;
        }
        let mut insn = *insn;
        if insn::is_jump(&insn) {
            let target = here as isize + 1 + isize::from(insn.off);
            let (from_before, to_before) = (here < at, target <= at as isize);
            let shift = match (from_before, to_before) {
                (true, false) => grown,
                (false, true) => -grown,
                _ => 0,
            };
            insn.off = i16::try_from(isize::from(insn.off) + shift)
                .map_err(|_| Error::Template("a jump over the program is too far"))?;
        }
        out.push(insn);
    }
    Ok(out)
}
