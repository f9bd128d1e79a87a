//! The thread that learns, and how others reach what it has learned.

use super::report::{Report, left_out};
use super::{Iw, saved_table};
use crate::config::Config;
use crate::error::on;
use crate::events::Event;
use crate::host::Host;
use crate::lock::lock;
use crate::{Error, clock, run_dir};
use remuda_selector::tcp_rl::record::Record;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Records that may wait for the thread; further ones are dropped.
const WAITING_MAX: usize = 65_536;
/// How often the thread wakes up without a record.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the learner's thread until it is dropped.
pub struct IwKeeper {
    host: Arc<Mutex<Host>>,
    thread: Option<JoinHandle<()>>,
}

/// Runs `act` on the learner, records the events and puts the table in force. Do not call this
/// with the host's lock held.
pub fn with<T>(iw: &Mutex<Iw>, host: &Mutex<Host>, act: impl FnOnce(&mut Iw) -> T) -> T {
    let mut iw = lock(iw);
    let done = act(&mut iw);
    let (events, table) = (std::mem::take(&mut iw.events), Arc::clone(&iw.table));
    let mut host = lock(host);
    events.iter().for_each(|event| host.record(event));
    host.memory_mut().set_learned(table);
    done
}

/// What `remuda iw` shows, after `act`.
pub fn report(
    host: &Mutex<Host>,
    act: impl FnOnce(&mut Iw) -> Result<(), Error>,
) -> Result<Report, Error> {
    let (iw, (collected, not_learned)) = {
        let host = lock(host);
        (host.iw.clone(), left_out(&host.responses))
    };
    let Some(iw) = iw else {
        let is = "this agent learns no initial windows";
        let fix = "fix: iw.enabled must be true, and the event log says why the learner cannot run";
        return Err(Error::Refused(format!("{is}\n{fix}")));
    };
    with(&iw, host, |iw| {
        act(iw)?;
        Ok(iw.report(collected, not_learned))
    })
}

impl IwKeeper {
    /// Starts the learner. If that fails, an event says why, the table that a former agent has left
    /// is in force, and nothing is learned.
    pub fn start(config: &Config, host: &Arc<Mutex<Host>>) -> Self {
        let mut keeper = Self { host: Arc::clone(host), thread: None };
        if !config.iw.enabled {
            return keeper;
        }
        if let Err(error) = keeper.keep(config) {
            let dir = run_dir::iw_dir(&config.state_dir());
            let (path, reason) = (dir.display().to_string(), error.to_string());
            let table = saved_table(&dir).unwrap_or_default();
            let mut host = lock(host);
            host.record(&Event::IwUnkept { path, reason });
            host.memory_mut().set_learned(Arc::new(table));
        }
        keeper
    }

    fn keep(&mut self, config: &Config) -> Result<(), Error> {
        let iw = Arc::new(Mutex::new(Iw::take(config)?));
        with(&iw, &self.host, |_| ());
        let (to, from) = mpsc::sync_channel(WAITING_MAX);
        let learner = Learning {
            iw: Arc::clone(&iw),
            host: Arc::clone(&self.host),
            from,
            interval_s: config.iw.interval_s,
        };
        let named = thread::Builder::new().name("iw".to_owned());
        let thread = named.spawn(move || learner.run()).map_err(on("the thread of iw"))?;
        self.thread = Some(thread);
        let mut host = lock(&self.host);
        host.responses.to = Some(to);
        host.iw = Some(iw);
        Ok(())
    }
}

impl Drop for IwKeeper {
    fn drop(&mut self) {
        lock(&self.host).responses.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in the thread has already printed its message
        }
        lock(&self.host).iw = None; // and with it the lock of the directory
    }
}

struct Learning {
    iw: Arc<Mutex<Iw>>,
    host: Arc<Mutex<Host>>,
    from: Receiver<Record>,
    interval_s: u64,
}

impl Learning {
    fn run(&self) {
        let mut turned_s = clock::monotonic_s();
        loop {
            match self.from.recv_timeout(LOOK) {
                Ok(record) => lock(&self.iw).record(record),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now_s = clock::monotonic_s();
            if now_s.saturating_sub(turned_s) >= self.interval_s {
                turned_s = now_s;
                self.turn(now_s);
            }
        }
        with(&self.iw, &self.host, |iw| {
            iw.store();
            iw.save();
        });
    }

    fn turn(&self, now_s: u64) {
        with(&self.iw, &self.host, Iw::turn);
        let job = lock(&self.iw).grouping_job(now_s);
        if let Some(job) = job {
            let grouped = job.run();
            with(&self.iw, &self.host, |iw| iw.regroup(grouped));
        }
    }
}
