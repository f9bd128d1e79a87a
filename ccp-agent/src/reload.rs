//! SIGHUP: the agent reads its configuration file again. `guard`, `prefer` and `rule` take effect
//! at once, without breaking a flow; other changes are named and wait for a restart.

use crate::config::Config;
use crate::error::on;
use crate::events::Event;
use crate::host::Host;
use crate::lock::lock;
use crate::{Error, Setup};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use toml::{Table, Value};

/// The tables whose changes take effect at once.
const AT_ONCE: [&str; 3] = ["guard", "prefer", "rule"];

/// Waits for SIGHUP until dropped.
pub struct Reloader(Handle);

impl Drop for Reloader {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Keys with another value, such as `guard.deny`, in both files.
fn changed(old: &Config, new: &Config) -> Result<Vec<String>, Error> {
    let table = |config: &Config| {
        let refuse = |rule: String| Error::Config { path: "the configuration".to_owned(), rule };
        Table::try_from(config).map_err(|error| refuse(error.to_string()))
    };
    let mut keys = Vec::new();
    compare("", &table(old)?, &table(new)?, &mut keys);
    Ok(keys)
}

fn compare(prefix: &str, old: &Table, new: &Table, keys: &mut Vec<String>) {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    for key in new.keys().chain(gone) {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (old.get(key), new.get(key)) {
            (Some(Value::Table(old)), Some(Value::Table(new))) => compare(&name, old, new, keys),
            (old, new) if old == new => {}
            _ => keys.push(name),
        }
    }
}

fn is_at_once(key: &str) -> bool {
    AT_ONCE.contains(&key.split('.').next().unwrap_or(key))
}

/// Checks what a file says on this host.
fn check(host: &Mutex<Host>, new: Config) -> Result<Config, Error> {
    let authors = lock(host).setup.authors.clone();
    new.validate(&authors.names())?;
    new.prefer.check().map_err(|rule| {
        let path = "the configuration".to_owned();
        Error::Config { path, rule }
    })?;
    Ok(new)
}

/// Takes over what can change while flows run. `file` is what the file had before, as flags may
/// have changed the configuration in force.
fn apply(host: &mut Host, file: &mut Config, new: Config) -> Result<Event, Error> {
    let default = &host.setup.config.agent.default;
    if new.guard.denies(default) {
        let fix = "fix: `remuda set new` another one first, or remove it from guard.deny";
        return Err(Error::Refused(format!(
            "guard.deny has {default:?}, which is the default in force\n{fix}"
        )));
    }
    let (changed, waits) = changed(file, &new)?.into_iter().partition(|key| is_at_once(key));
    host.setup.config.guard = new.guard.clone();
    host.obey_preferences(&new.prefer);
    host.obey_rules(&new.rules);
    *file = new;
    Ok(Event::Reloaded { changed, waits })
}

fn reload(host: &Mutex<Host>, path: Option<&PathBuf>, file: &mut Config) {
    let new = match path {
        Some(path) => Config::read(path),
        None => Err(Error::Refused(
            "SIGHUP: the agent has no configuration file\nfix: start it with --config FILE".into(),
        )),
    };
    // Before the lock: it may read files, and ask the kernel for algorithms.
    let new = new.and_then(|new| check(host, new));
    let mut host = lock(host);
    let event = match new.and_then(|new| apply(&mut host, file, new)) {
        Ok(event) => {
            tracing::info!(?event, "the configuration was read again");
            event
        }
        Err(error) => {
            tracing::warn!(%error, "the configuration stays as it was");
            Event::ReloadRefused { reason: error.to_string() }
        }
    };
    host.record(&event);
}

/// Starts the thread that waits for SIGHUP.
pub fn start(setup: &Setup, host: &Arc<Mutex<Host>>) -> Result<Reloader, Error> {
    let mut signals = Signals::new([SIGHUP]).map_err(on("signal handler"))?;
    let handle = signals.handle();
    let (host, path) = (Arc::clone(host), setup.file.clone());
    let mut file = match &path {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let work = move || signals.forever().for_each(|_| reload(&host, path.as_ref(), &mut file));
    let thread = thread::Builder::new().name("reload".to_owned());
    thread.spawn(work).map_err(on("the thread for SIGHUP"))?;
    Ok(Reloader(handle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Recorder;

    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<Event>>>);

    impl Recorder for Notes {
        fn record(&mut self, _flow: Option<u32>, event: &Event) {
            lock(&self.0).push(event.clone());
        }
    }

    #[test]
    fn guard_and_preferences_change_at_once_and_all_else_waits_or_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("remuda.toml");
        let write = |text: &str| std::fs::write(&path, text).expect("it is written");
        write("[agent]\ndefault = 'reno'\n");
        let mut file = Config::read(&path).expect("it parses");
        let notes = Notes::default();
        let mut flagged = file.clone();
        flagged.agent.default = "cubic".to_owned(); // as by a flag
        let host = Mutex::new(Host::new(flagged, Box::new(notes.clone())));

        write(
            "[agent]\ndefault = 'bbr'\n[guard]\ndeny = ['copa']\ndwell_ms_min = 7\n\
             [[prefer]]\nlocal_port = 443\nwants = 'delay'\n",
        );
        reload(&host, Some(&path), &mut file);
        let event = lock(&notes.0).pop().expect("an event");
        let Event::Reloaded { changed, waits } = event else { panic!("{event:?}") };
        assert_eq!(changed, ["guard.deny", "guard.dwell_ms_min", "prefer"]);
        assert_eq!(waits, ["agent.default"]);
        assert_eq!(lock(&host).setup.config.guard.deny, ["copa"]);
        assert_eq!(lock(&host).setup.config.agent.default, "cubic", "the flag's");
        assert_eq!(lock(&host).preferences().len(), 1);

        for (text, rule) in [
            ("[guard]\ncwnd_pkts_max = 1", "guard.cwnd_pkts_max"),
            ("[guard", "remuda.toml"),
            ("[[prefer]]\nwants = 'fast'", "fast"),
        ] {
            write(text);
            reload(&host, Some(&path), &mut file);
            let event = lock(&notes.0).pop().expect("an event");
            let Event::ReloadRefused { reason } = event else { panic!("{event:?}") };
            assert!(reason.contains(rule), "{reason}");
            assert_eq!(lock(&host).setup.config.guard.deny, ["copa"], "nothing has changed");
            assert_eq!(lock(&host).preferences().len(), 1);
        }
        reload(&host, None, &mut file);
        let event = lock(&notes.0).pop().expect("an event");
        assert!(format!("{event:?}").contains("--config"), "{event:?}");
        write("");
        reload(&host, Some(&path), &mut file);
        assert!(lock(&host).preferences().is_empty());
        assert!(lock(&host).setup.config.guard.deny.is_empty());
    }
}
