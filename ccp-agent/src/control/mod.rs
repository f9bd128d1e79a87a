//! The control socket: each line is one JSON object, a request in and an answer out. Only root and
//! the agent's own user may connect.

mod ask;
mod request;
mod serve;

pub use ask::ask;
pub use request::{
    Answer, ProgramRow, Request, Status, TestFlow, authored_rows, policy_rows, program_rows,
};
pub use serve::serve;
