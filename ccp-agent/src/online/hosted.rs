//! The comparison of models for the flows of a host.

use super::Online;
use crate::config::Config;
use crate::events::Event;
use crate::host::Host;
use crate::lock::lock;
use crate::run_dir;
use std::sync::{Arc, Mutex};

/// Starts the comparison unless it is configured off. From then on the host's flows read the model
/// in force from a slot. If the start fails, an event says why, and the agent keeps the configured
/// model.
pub fn start(config: &Config, host: &Mutex<Host>) -> Option<Arc<Mutex<Online>>> {
    if !config.online.enabled {
        return None;
    }
    let loaded = lock(host).setup.loaded.clone();
    match Online::take(config, &loaded) {
        Ok(online) => {
            let online = Arc::new(Mutex::new(online));
            lock(host).online = Some(Arc::clone(&online));
            with(&online, host, |_| ());
            Some(online)
        }
        Err(error) => {
            let path = run_dir::models_dir(&config.state_dir()).display().to_string();
            lock(host).record(&Event::ModelUnkept { path, reason: error.to_string() });
            None
        }
    }
}

/// Runs `act` on the online state, and records the events. Do not call this with the host's lock
/// held.
pub fn with<T>(
    online: &Mutex<Online>,
    host: &Mutex<Host>,
    act: impl FnOnce(&mut Online) -> T,
) -> T {
    let (done, events) = {
        let mut online = lock(online);
        let done = act(&mut online);
        (done, std::mem::take(&mut online.events))
    };
    if !events.is_empty() {
        let mut host = lock(host);
        events.iter().for_each(|event| host.record(event));
    }
    done
}
