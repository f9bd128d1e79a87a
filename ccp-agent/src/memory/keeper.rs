//! Saves the memory to disk. A separate thread does this, because a disk may be slow and no report
//! may wait for it.

use super::file::MemoryFile;
use crate::config::Config;
use crate::error::on;
use crate::events::Event;
use crate::host::Host;
use crate::lock::lock;
use crate::{Error, clock};
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// If the wall clock gained or lost more seconds than this against the monotonic clock, someone has
/// set it.
const STEP_S: u64 = 2;

/// The monotonic clock, which the memory uses, and the wall clock.
#[derive(Clone, Copy, Debug)]
struct Now {
    monotonic_s: u64,
    unix_s: u64,
}

impl Now {
    fn read() -> Self {
        Self { monotonic_s: clock::monotonic_s(), unix_s: clock::wall().as_secs() }
    }

    /// Whether the wall clock has been set since `then`.
    fn has_stepped_since(self, then: Self) -> bool {
        let passed_s = self.monotonic_s.saturating_sub(then.monotonic_s);
        then.unix_s.saturating_add(passed_s).abs_diff(self.unix_s) > STEP_S
    }
}

/// Saves the host's memory at intervals, and a last time when dropped.
#[derive(Debug)]
pub struct Keeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Reads the saved memory into the host, and starts the thread that saves it. If either fails,
    /// an event says why, and the agent runs without saving.
    pub fn start(config: &Config, host: &Arc<Mutex<Host>>) -> Self {
        let mut keeper = Self { stop: None, thread: None };
        if !config.memory.enabled {
            return keeper;
        }
        let state_dir = config.state_dir();
        let taken = MemoryFile::take(&state_dir);
        let kept = taken.and_then(|file| {
            take_in(&file, config, host)?;
            keeper.keep(file, config, host)
        });
        if let Err(error) = kept {
            let (path, reason) = (state_dir.display().to_string(), error.to_string());
            lock(host).record(&Event::MemoryUnkept { path, reason });
        }
        keeper
    }

    fn keep(
        &mut self,
        file: MemoryFile,
        config: &Config,
        host: &Arc<Mutex<Host>>,
    ) -> Result<(), Error> {
        let interval = Duration::from_secs(config.memory.save_interval_s);
        let saved = lock(host).memory().revision();
        let (host, saved_at) = (Arc::clone(host), Now::read());
        let mut saver = Saver { file, host, saved, saved_at, has_failed: false };
        let (stop, stopped) = mpsc::channel::<()>();
        let run = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                saver.save(Now::read());
            }
            saver.save(Now::read());
        };
        let named = thread::Builder::new().name("memory".to_owned());
        self.thread = Some(named.spawn(run).map_err(on("the memory thread"))?);
        self.stop = Some(stop);
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in the thread has already printed its message
        }
    }
}

/// Names this boot of the host. In another one, the cookies of network namespaces mean others.
fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Reads the file into the host's memory. A file that breaks a rule is renamed. If the rename
/// fails, this is an error, because the file must not be overwritten.
fn take_in(file: &MemoryFile, config: &Config, host: &Mutex<Host>) -> Result<(), Error> {
    let path = file.path().display().to_string();
    let event = match file.read(&config.memory) {
        Ok(None) => {
            lock(host).memory_mut().begin_boot(&boot_id());
            return Ok(());
        }
        Ok(Some(mut memory)) => {
            memory.begin_boot(&boot_id());
            let destinations = memory.len() as u64;
            *lock(host).memory_mut() = memory;
            Event::MemoryRead { path, destinations }
        }
        Err(rule) => {
            lock(host).memory_mut().begin_boot(&boot_id());
            let to = file.set_aside()?.display().to_string();
            Event::MemorySetAside { path, to, rule }
        }
    };
    lock(host).record(&event);
    Ok(())
}

struct Saver {
    file: MemoryFile,
    host: Arc<Mutex<Host>>,
    /// The revision of the memory that is on disk.
    saved: u64,
    saved_at: Now,
    has_failed: bool,
}

impl Saver {
    /// Saves the memory if it has changed. The host's lock is held only for a copy.
    ///
    /// The memory is also saved after the wall clock was set. The file stores wall-clock times, so
    /// with the old ones the next agent would judge every entry by the size of the step, and drop
    /// entries as too old.
    fn save(&mut self, now: Now) {
        let memory = {
            let host = lock(&self.host);
            let is_saved = host.memory().revision() == self.saved;
            let is_dated = host.memory().is_empty() || !now.has_stepped_since(self.saved_at);
            if is_saved && is_dated {
                return;
            }
            host.memory().clone()
        };
        let text = memory.to_json(now.monotonic_s, now.unix_s);
        let path = self.file.path().display().to_string();
        let event = match self.file.write(&text) {
            Ok(()) => {
                (self.saved, self.saved_at) = (memory.revision(), now);
                let destinations = memory.len() as u64;
                let was_not = std::mem::take(&mut self.has_failed);
                was_not.then_some(Event::MemoryKept { path, destinations })
            }
            Err(error) => {
                let reason = error.to_string();
                let is_first = !std::mem::replace(&mut self.has_failed, true);
                is_first.then_some(Event::MemoryUnkept { path, reason })
            }
        };
        if let Some(event) = event {
            lock(&self.host).record(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Recorder;
    use remuda_selector::antelope::memory::Memory;
    use std::net::IpAddr;
    use tempfile::TempDir;

    #[derive(Clone, Debug, Default)]
    struct Heard(Arc<Mutex<Vec<Event>>>);

    impl Recorder for Heard {
        fn record(&mut self, _flow: Option<u32>, event: &Event) {
            lock(&self.0).push(event.clone());
        }
    }

    struct Agent {
        config: Config,
        heard: Heard,
        host: Arc<Mutex<Host>>,
    }

    impl Agent {
        fn in_folder(folder: &TempDir) -> Self {
            let mut config = Config::default();
            config.agent.state_dir = Some(folder.path().join("state"));
            config.memory.save_interval_s = 1;
            let heard = Heard::default();
            let host = Host::new(config.clone(), Box::new(heard.clone()));
            Self { config, heard, host: Arc::new(Mutex::new(host)) }
        }

        fn keeper(&self) -> Keeper {
            Keeper::start(&self.config, &self.host)
        }

        fn note(&self, address: &str) {
            let address: IpAddr = address.parse().expect("an address");
            assert!(lock(&self.host).memory_mut().note(address, "bbr", 1.0, clock::monotonic_s()));
        }

        fn events(&self) -> Vec<Event> {
            std::mem::take(&mut *lock(&self.heard.0))
        }

        /// Waits for the next event.
        fn hear(&self) -> Event {
            for _ in 0..1_000 {
                if let Some(event) = lock(&self.heard.0).pop() {
                    return event;
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("nothing happened");
        }

        fn file(&self) -> std::path::PathBuf {
            crate::run_dir::memory_file(&self.config.state_dir())
        }
    }

    fn folder() -> TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[test]
    fn the_next_agent_remembers() {
        let folder = folder();
        let first = Agent::in_folder(&folder);
        let keeper = first.keeper();
        first.note("192.0.2.7");
        drop(keeper);
        assert_eq!(first.events(), []);
        let next = Agent::in_folder(&folder);
        let keeper = next.keeper();
        let read = Event::MemoryRead { path: next.file().display().to_string(), destinations: 2 };
        assert_eq!(next.events(), [read]);
        assert_eq!(lock(&next.host).memory().len(), 2);
        let before = fs::metadata(next.file()).expect("it is there").modified().expect("a time");
        drop(keeper);
        let after = fs::metadata(next.file()).expect("it is there").modified().expect("a time");
        assert_eq!(before, after, "nothing has changed, so nothing is written");
    }

    #[test]
    fn it_is_saved_while_the_agent_runs() {
        let folder = folder();
        let agent = Agent::in_folder(&folder);
        let keeper = agent.keeper();
        agent.note("192.0.2.7");
        for _ in 0..1_000 {
            if agent.file().exists() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert!(agent.file().exists(), "kill -9 would lose a few seconds at most");
        drop(keeper);
    }

    #[test]
    fn a_poisoned_file_is_set_aside_and_the_agent_begins_with_nothing() {
        let folder = folder();
        let agent = Agent::in_folder(&folder);
        drop(agent.keeper());
        fs::write(agent.file(), "{\"version\":1,\"saved_unix").expect("it is written");
        let keeper = agent.keeper();
        match &agent.events()[..] {
            [Event::MemorySetAside { to, rule, .. }] => {
                assert!(rule.contains("EOF"), "{rule}");
                assert!(fs::read_to_string(to).expect("it is kept").starts_with("{\"version\""));
            }
            other => panic!("{other:?}"),
        }
        agent.note("192.0.2.7");
        drop(keeper);
        assert!(agent.file().exists());
    }

    #[test]
    fn where_nothing_can_be_kept_the_agent_goes_on() {
        let folder = folder();
        let mut agent = Agent::in_folder(&folder);
        agent.config.agent.state_dir = Some(folder.path().join("file/state"));
        fs::write(folder.path().join("file"), "").expect("a file in the way");
        let keeper = agent.keeper();
        match &agent.events()[..] {
            [Event::MemoryUnkept { path, reason }] => {
                assert!(path.ends_with("file/state") && reason.contains("file/state"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        agent.note("192.0.2.7");
        drop(keeper);
    }

    /// The wall clock is set while the agent runs: from 1970, where a host without a clock battery
    /// starts, to today, or back by a year. No entry ages or gets lost, for this agent or the next,
    /// whether or not anything else happens afterwards.
    #[test]
    fn a_clock_that_steps_makes_nothing_older() {
        const TODAY_S: u64 = 1_785_000_000;
        for (before_s, after_s) in [(100, TODAY_S), (TODAY_S, TODAY_S - 31_536_000)] {
            let folder = folder();
            let agent = Agent::in_folder(&folder);
            let file = MemoryFile::take(&agent.config.state_dir()).expect("it is free");
            let (host, at) =
                (Arc::clone(&agent.host), |monotonic_s, unix_s| Now { monotonic_s, unix_s });
            let (saved, saved_at) = (lock(&host).memory().revision(), at(1_000, before_s));
            let mut saver = Saver { file, host, saved, saved_at, has_failed: false };
            let known = |now: Now| {
                let text = fs::read_to_string(agent.file()).expect("it is there");
                let (config, now_s) = (&agent.config.memory, now.monotonic_s);
                Memory::parse(&text, config, now_s, now.unix_s).expect("it is whole").len()
            };
            let address: IpAddr = "192.0.2.7".parse().expect("an address");
            assert!(lock(&agent.host).memory_mut().note(address, "bbr", 1.0, 1_000));
            saver.save(at(1_000, before_s));
            let first = fs::read_to_string(agent.file()).expect("it is there");
            saver.save(at(1_030, before_s + 31));
            let again = fs::read_to_string(agent.file()).expect("it is there");
            assert_eq!(again, first, "a second is no step: nothing is written");
            // The clock is set, and nothing else happens.
            saver.save(at(1_060, after_s));
            assert!(
                lock(&agent.host).memory_mut().remembered(address, 1_060).is_some(),
                "this agent knows"
            );
            assert_eq!(known(at(7, after_s + 60)), 2, "and so does the next one");
            assert_eq!(known(at(7, after_s + 3_541)), 0, "until its hour is over");
            assert_eq!(agent.events(), []);
        }
    }

    #[test]
    fn nothing_known_is_not_written_because_of_a_clock() {
        let folder = folder();
        let agent = Agent::in_folder(&folder);
        let file = MemoryFile::take(&agent.config.state_dir()).expect("it is free");
        let saved_at = Now { monotonic_s: 1, unix_s: 1 };
        let host = Arc::clone(&agent.host);
        let mut saver = Saver { file, host, saved: 0, saved_at, has_failed: false };
        saver.save(Now { monotonic_s: 2, unix_s: 9_999 });
        assert!(!agent.file().exists());
    }

    #[test]
    fn what_is_off_touches_no_disk() {
        let folder = folder();
        let mut agent = Agent::in_folder(&folder);
        agent.config.memory.enabled = false;
        drop(agent.keeper());
        assert!(!agent.config.state_dir().exists());
    }

    #[test]
    fn a_disk_that_takes_nothing_is_said_once_and_so_is_its_end() {
        let folder = folder();
        let agent = Agent::in_folder(&folder);
        let keeper = agent.keeper();
        let in_the_way = agent.file().with_extension("new");
        fs::create_dir(&in_the_way).expect("a folder in the way");
        agent.note("192.0.2.7");
        assert!(matches!(agent.hear(), Event::MemoryUnkept { .. }));
        agent.note("192.0.2.8");
        thread::sleep(Duration::from_millis(1_500));
        assert_eq!(agent.events(), [], "once is enough");
        fs::remove_dir(&in_the_way).expect("out of the way");
        assert!(matches!(agent.hear(), Event::MemoryKept { destinations: 3, .. }));
        drop(keeper);
    }
}
