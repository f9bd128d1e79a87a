//! What live flows say of the models that Antelope picks by, and what comes of that.
//!
//! ```text
//! samples ─▶ spans: what came of a state ─▶ scores of the model in force ─▶ drift
//!                                       └─▶ paired: a shadow against it, flow by flow
//! candidate.json ─▶ store ─▶ shadow ─ is better ─▶ slot: in force, in running flows too
//!                               previous ─ is better, or an order ─▶ slot
//! ```
//!
//! Nothing of this is in a report's way: it happens in the thread that keeps samples
//! ([`crate::samples`]), and an order in its client's. A flow asks the slot at its next decision.
//! Whatever fails on the way is an event, and the model in force stays.

mod config;
mod drift;
mod paired;
mod report;
mod scores;
mod shadow;
mod spans;
mod store;
#[cfg(test)]
mod tests;

pub use config::OnlineConfig;
pub use paired::Interval;
pub use report::{DriftRow, ModelRow, Report, ShadowRow};
pub use scores::{ArmScore, Score};

use crate::config::{Config, antelope_text};
use crate::error::on;
use crate::events::Event;
use crate::host::Host;
use crate::lock::lock;
use crate::{Error, clock, run_dir};
use drift::{Drift, Drifted};
use remuda_algorithms::{Sample, Slot};
use remuda_selector::antelope::model::{Model, digest_of};
use scores::{Miss, Scores};
use shadow::{Judged, Shadow};
use spans::{Outcome, Spans};
use std::io;
use std::sync::{Arc, Mutex};
use store::{Place, State, Store};

/// Which model is in force, how it does, and what may take over.
pub struct Online {
    config: OnlineConfig,
    store: Store,
    slot: Slot<Model>,
    /// The configured or shipped one.
    base: Arc<Model>,
    /// By the wall clock, for people.
    since_unix_s: u64,
    spans: Spans,
    scores: Scores,
    drift: Drift,
    drifted: Option<Drifted>,
    candidate: Option<Shadow>,
    previous: Option<Shadow>,
    /// What is to be recorded.
    events: Vec<Event>,
}

/// Begins, if it is not configured off: the host's flows read the model in force from a slot from
/// then on. What cannot be is an event, and the agent goes on with the configured model.
pub fn start(config: &Config, host: &Mutex<Host>) -> Option<Arc<Mutex<Online>>> {
    if !config.online.enabled {
        return None;
    }
    match Online::take(config) {
        Ok(online) => {
            let slot = online.slot.clone();
            let online = Arc::new(Mutex::new(online));
            {
                let mut host = lock(host);
                host.config.policy.antelope.loaded = Some(slot);
                host.online = Some(Arc::clone(&online));
            }
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

/// Has something done, and records what happened. Never to be called with the host's lock held.
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

impl Online {
    fn take(config: &Config) -> Result<Self, Error> {
        let antelope = &config.policy.antelope;
        let loaded = || Slot::new(Model::shipped());
        let slot = antelope.loaded.clone().unwrap_or_else(loaded);
        let mut online = Self {
            config: config.online.clone(),
            store: Store::take(&run_dir::models_dir(&config.state_dir()))?,
            base: slot.get(),
            slot,
            since_unix_s: clock::wall().as_secs(),
            spans: Spans::default(),
            scores: Scores::default(),
            drift: Drift::new(config.online.drift()),
            drifted: None,
            candidate: None,
            previous: None,
            events: Vec::new(),
        };
        let text = match &antelope.model {
            None => Ok(Model::shipped_text().to_owned()),
            Some(path) => antelope_text(path),
        };
        let kept = text.and_then(|text| online.keep_base(&text));
        online.say_unkept(Place::Base, kept);
        online.resume();
        online.look();
        Ok(online)
    }

    fn keep_base(&self, text: &str) -> Result<(), Error> {
        if digest_of(text) == self.base.digest() {
            return self.store.keep_base(text);
        }
        let path = self.store.path(Place::Base);
        Err(on(path.display())(io::Error::other("the configured file changed since it was read")))
    }

    /// What was in force when the last agent ended is again, if it can be.
    fn resume(&mut self) {
        match self.store.current(self.base.digest()) {
            Ok(Some((model, since_unix_s))) => {
                self.since_unix_s = since_unix_s;
                self.slot.put(Arc::new(model));
                match self.store.read(Place::Previous) {
                    Ok(model) => self.previous = model.map(|model| self.shadow(Arc::new(model))),
                    Err(reason) => {
                        self.say_refused(Place::Previous, reason);
                        let removed = self.store.remove(Place::Previous);
                        self.say_unkept(Place::Previous, removed);
                    }
                }
            }
            Ok(None) => {
                let removed = self.store.remove(Place::Previous);
                self.say_unkept(Place::Previous, removed);
            }
            Err(rule) => {
                let [path, to] = [Place::Current, Place::Left].map(|it| self.store.path(it));
                let [path, to] = [path, to].map(|it| it.display().to_string());
                self.events.push(Event::ModelSetAside { path, to, rule });
                let moved = self.store.rename(Place::Current, Place::Left);
                let removed = moved.and_then(|()| self.store.remove(Place::Previous));
                self.say_unkept(Place::Current, removed);
            }
        }
    }

    /// Against the model in force, by flows that are yet to come: those there are may be among
    /// what it was trained on.
    fn shadow(&self, model: Arc<Model>) -> Shadow {
        Shadow::new(model, self.spans.newest(), self.config.flows_min)
    }

    /// Looks whether the trainer has left something. To be called about once a second.
    pub fn look(&mut self) {
        if !self.store.has_news() {
            return;
        }
        match self.store.read(Place::Candidate) {
            Ok(Some(model)) => match self.refusal(&model) {
                None => self.take_candidate(model),
                Some(rule) => self.refuse(rule),
            },
            Ok(None) if self.candidate.is_some() => {
                self.candidate = None;
                self.say_refused(Place::Candidate, "its file is gone".to_owned());
            }
            Ok(None) => {}
            Err(rule) => self.refuse(rule),
        }
    }

    fn take_candidate(&mut self, model: Model) {
        if self.candidate.as_ref().is_some_and(|it| it.model.digest() == model.digest()) {
            return; // the same again
        }
        let (rows, flows) = model.lineage().map_or((0, 0), |it| (it.rows, it.flows));
        let digest = model.digest().to_owned();
        self.events.push(Event::ModelCandidate { model: digest, rows, flows });
        self.candidate = Some(self.shadow(Arc::new(model)));
    }

    /// Why it cannot be in the shadow of the model in force.
    fn refusal(&self, model: &Model) -> Option<String> {
        let in_force = self.slot.get();
        let Some(lineage) = model.lineage() else {
            return Some(
                "online: it is missing, as of a model that no live flow taught".to_owned(),
            );
        };
        if lineage.parent != in_force.digest() {
            let (theirs, ours) = (&lineage.parent, in_force.digest());
            let fix = "fix: train it anew, from the model in force";
            return Some(format!("online.parent = {theirs}: in force is {ours}\n{fix}"));
        }
        let is_alike = model.arms() == in_force.arms();
        (!is_alike).then(|| "arms: they must be those of the model in force".to_owned())
    }

    fn refuse(&mut self, reason: String) {
        self.candidate = None;
        self.say_refused(Place::Candidate, reason);
        let moved = self.store.rename(Place::Candidate, Place::Refused);
        self.say_unkept(Place::Candidate, moved);
    }

    fn say_refused(&mut self, place: Place, reason: String) {
        let path = self.store.path(place).display().to_string();
        self.events.push(Event::ModelRefused { path, reason });
    }

    fn say_unkept(&mut self, place: Place, done: Result<(), Error>) {
        if let Err(error) = done {
            let path = self.store.path(place).display().to_string();
            self.events.push(Event::ModelUnkept { path, reason: error.to_string() });
        }
    }

    /// Takes in what a policy saw.
    pub fn sample(&mut self, flow: u32, sample: &Sample) {
        if let Some(outcome) = self.spans.add(flow, sample) {
            self.score(&outcome);
        }
    }

    /// A flow has ended.
    pub fn ended(&mut self, flow: u32) {
        if let Some(outcome) = self.spans.ended(flow) {
            self.score(&outcome);
        }
    }

    fn score(&mut self, outcome: &Outcome) {
        let in_force = self.slot.get();
        let said = in_force.value(&outcome.features, outcome.arm);
        let Some(miss) = said.map(|said| Miss::of(&said, &outcome.came)) else { return };
        self.scores.add(outcome.arm, miss, outcome.is_first);
        self.spans.scored(outcome.flow);
        // One of a flow, as those of one are not independent.
        if let Some(drifted) = outcome.is_first.then(|| self.drift.add(miss.power())).flatten() {
            self.drifted = Some(drifted);
            let Drifted { usual, now, of } = drifted;
            let model = in_force.digest().to_owned();
            self.events.push(Event::Drift { model, usual, now, flows: of });
        }
        for shadow in [&mut self.candidate, &mut self.previous].into_iter().flatten() {
            shadow.add(outcome, miss);
        }
        self.judge();
    }

    fn judge(&mut self) {
        let flows_max = self.config.flows_max;
        // First, as what descends from a model that has to go has to go as well.
        if let Some(Judged::Better(gain)) = self.previous.as_mut().map(|it| it.judged(flows_max)) {
            let why = "the model before is better on the flows since";
            let done = self.go_back(why, Some(gain));
            self.say_unkept(Place::Current, done);
        }
        match self.candidate.as_mut().map(|it| it.judged(flows_max)) {
            Some(Judged::Better(gain)) => self.take_over(gain),
            Some(Judged::NotBetter(gain)) => {
                let Interval { mean, least, most } = gain;
                let by =
                    format!("its squared error is less by {mean:.4} ({least:.4} to {most:.4})");
                let rule = "the interval must lie above 0";
                self.refuse(format!("{by} after {flows_max} flows: {rule}"));
            }
            Some(Judged::NotYet) | None => {}
        }
    }

    fn take_over(&mut self, gain: Interval) {
        let Some(shadow) = self.candidate.take() else { return };
        let before = self.slot.get();
        let place =
            if before.digest() == self.base.digest() { Place::Base } else { Place::Current };
        let state = State::new(self.base.digest(), clock::wall().as_secs());
        if let Err(error) = self.store.take_over(shadow.model.digest(), place, &state) {
            // What would not be there after a restart does not take over: it begins anew.
            self.candidate = Some(self.shadow(shadow.model));
            return self.say_unkept(Place::Candidate, Err(error));
        }
        let flows = shadow.flows();
        self.put(shadow.model, "it is better in the shadow", flows, Some(gain));
        self.previous = Some(self.shadow(before));
    }

    /// That model is in force from now on.
    fn put(&mut self, model: Arc<Model>, why: &str, flows: u64, gain: Option<Interval>) {
        let [from, to] = [&self.slot.get(), &model].map(|it| it.digest().to_owned());
        self.events.push(Event::Model { from, to, why: why.to_owned(), flows, gain });
        self.slot.put(model);
        self.since_unix_s = clock::wall().as_secs();
        self.spans.begin_anew();
        self.scores = Scores::default();
        self.drift = Drift::new(self.config.drift());
        self.drifted = None;
        self.previous = None;
    }

    /// The model before is in force again, and what descends from the one left is dropped. At once:
    /// an error is of the disk, and of what the next agent begins with.
    fn go_back(&mut self, why: &str, gain: Option<Interval>) -> Result<(), Error> {
        let Some(shadow) = self.previous.take() else { return Ok(()) };
        let is_base = shadow.model.digest() == self.base.digest();
        let flows = if gain.is_some() { shadow.flows() } else { 0 };
        self.put(shadow.model, why, flows, gain);
        self.leave(if is_base { Place::Base } else { Place::Previous })
    }

    fn leave(&mut self, to: Place) -> Result<(), Error> {
        if self.candidate.is_some() {
            self.refuse("online.parent: it is no more in force".to_owned());
        }
        self.store.go_back(to, &State::new(self.base.digest(), self.since_unix_s))
    }

    /// An operator's order: the model before is in force again.
    ///
    /// # Errors
    ///
    /// There is none. Or it is in force, and could not be kept.
    pub fn back(&mut self) -> Result<Report, Error> {
        if self.previous.is_none() {
            let fix = "fix: `remuda model base` returns to the configured or shipped one";
            return Err(Error::Refused(format!("there is no model to go back to\n{fix}")));
        }
        let done = self.go_back("an operator's order", None);
        self.obeyed(done)
    }

    /// An operator's order: the configured or shipped model is in force again.
    ///
    /// # Errors
    ///
    /// It is already. Or it is in force, and that could not be kept.
    pub fn back_to_base(&mut self) -> Result<Report, Error> {
        if self.slot.get().digest() == self.base.digest() {
            let is = "the configured or shipped model is in force already";
            return Err(Error::Refused(format!("{is}\nfix: none is needed")));
        }
        self.put(Arc::clone(&self.base), "an operator's order", 0, None);
        let done = self.leave(Place::Base);
        self.obeyed(done)
    }

    fn obeyed(&self, kept: Result<(), Error>) -> Result<Report, Error> {
        let unkept = "it is in force, but the next agent may begin with another one";
        kept.map_err(|error| Error::Refused(format!("{unkept}: {error}\nfix: make room for it")))?;
        Ok(self.report())
    }
}
