//! Clients of the agent's sockets: accepting them, serving each in a thread, receiving the one
//! descriptor that a client passes, and closing all of it in a bounded time.

mod accept;
mod closing;
mod deadline;
mod passed;
mod socket_file;

pub use accept::{accept_all, serve};
pub use closing::close;
pub use deadline::{Deadline, send_all};
pub use passed::{Passed, Wrong, receive, refuse_descriptors};
pub use socket_file::SocketFile;
