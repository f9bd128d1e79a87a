//! An agent's messages, for tests and benchmarks that act as the agent.

use crate::Fallible;
use remuda_wire::{Kind, Program, ToDatapath};

fn message(kind: Kind, sid: u32, body: &[u8]) -> Fallible<Vec<u8>> {
    let length = u16::try_from(remuda_wire::HEADER_BYTES + body.len())?;
    let mut message = (kind as u16).to_le_bytes().to_vec();
    message.extend(length.to_le_bytes());
    message.extend(sid.to_le_bytes());
    message.extend(body);
    Ok(message)
}

/// An `INSTALL` message with a program's text, and the parsed program.
pub fn install(uid: u32, text: &str) -> Fallible<(Vec<u8>, Program)> {
    let (bin, _) = portus::lang::compile(text.as_bytes(), &[])
        .map_err(|error| format!("a program does not compile: {error:?}"))?;
    let mut body = Vec::new();
    for word in [uid, u32::try_from(bin.events.len())?, u32::try_from(bin.instrs.len())?] {
        body.extend(word.to_le_bytes());
    }
    body.extend(bin.serialize().map_err(|error| format!("a program does not travel: {error:?}"))?);
    let message = message(Kind::Install, 0, &body)?;
    match ToDatapath::parse(&message)? {
        ToDatapath::Install(program) => Ok((message, program)),
        other => Err(format!("not an INSTALL: {other:?}").into()),
    }
}

/// A `CHANGE_PROG` message with a window in bytes.
pub fn change_program(sid: u32, uid: u32, cwnd_bytes: u64) -> Fallible<Vec<u8>> {
    /// The wire number of the kind "implicit register".
    const IMPLICIT: u8 = 2;
    let mut body = uid.to_le_bytes().to_vec();
    body.extend(1u32.to_le_bytes());
    body.push(IMPLICIT);
    body.extend(remuda_wire::program::CWND.to_le_bytes());
    body.extend(cwnd_bytes.to_le_bytes());
    message(Kind::ChangeProg, sid, &body)
}
