//! Ctrl-C as a flag.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that Ctrl-C, SIGTERM and SIGHUP set. The second signal ends the process at once.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let status = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&stopped))?;
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    Ok(stopped)
}
