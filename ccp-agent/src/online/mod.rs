//! Compares the models that Antelope uses on live flows, and replaces the model in force with a
//! better one.
//!
//! ```text
//! samples ─▶ spans: outcome of a state ─▶ scores of the model in force ─▶ drift
//!                                     └─▶ paired: a shadow against it, flow by flow
//! candidate.json ─▶ store ─▶ shadow ─ is better ─▶ slot: in force, for running flows too
//!                               previous ─ is better, or an order ─▶ slot
//! ```
//!
//! None of this delays a report. It runs in the thread that stores samples ([`crate::samples`]); an
//! operator's order runs in the client's thread. A flow reads the slot at its next decision. If a
//! step fails, an event says why, and the model in force stays.

mod config;
mod drift;
pub mod hosted;
mod paired;
mod report;
mod scores;
mod shadow;
mod spans;
mod store;
#[cfg(test)]
mod tests;

pub use config::OnlineConfig;
pub use report::{DriftRow, ModelRow, Report, ShadowRow};
pub use scores::{ArmScore, Score};

use crate::config::Config;
use crate::error::on;
use crate::events::Event;
use crate::interval::Interval;
use crate::setup::antelope_text;
use crate::{Error, clock, run_dir};
use drift::{Drift, Drifted};
use remuda_algorithms::{Loaded, Sample, Slot};
use remuda_selector::antelope::model::{Model, digest_of};
use remuda_selector::antelope::policy::MODEL;
use scores::{Miss, Scores};
use shadow::{Judged, Shadow};
use spans::{Outcome, Spans};
use std::io;
use std::sync::Arc;
use store::{Place, State, Store};

/// The model in force, its scores, and the models that may replace it.
pub struct Online {
    config: OnlineConfig,
    store: Store,
    slot: Slot<Model>,
    /// The configured or shipped model.
    base: Arc<Model>,
    /// When the model came into force, by the wall clock, for display.
    since_unix_s: u64,
    spans: Spans,
    scores: Scores,
    drift: Drift,
    drifted: Option<Drifted>,
    candidate: Option<Shadow>,
    previous: Option<Shadow>,
    /// Events to record once the lock is free.
    events: Vec<Event>,
}

impl Online {
    fn take(config: &Config, loaded: &Loaded) -> Result<Self, Error> {
        let store = Store::take(&run_dir::models_dir(&config.state_dir()))?;
        let slot = loaded.slot(MODEL).unwrap_or_else(|| loaded.put(MODEL, Model::shipped()));
        let mut online = Self {
            config: config.online.clone(),
            store,
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
        let text = match &config.policy.antelope.model {
            None => Ok(Model::shipped_text().to_owned()),
            Some(path) => antelope_text(path),
        };
        let kept = text.and_then(|text| online.keep_base(&text));
        online.record_unkept(Place::Base, kept);
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

    /// Restores the model that was in force when the last agent ended, if its file is intact.
    fn resume(&mut self) {
        match self.store.current(self.base.digest()) {
            Ok(Some((model, since_unix_s))) => {
                self.since_unix_s = since_unix_s;
                self.slot.put(Arc::new(model));
                match self.store.read(Place::Previous) {
                    Ok(model) => self.previous = model.map(|model| self.shadow(Arc::new(model))),
                    Err(reason) => {
                        self.record_refused(Place::Previous, reason);
                        let removed = self.store.remove(Place::Previous);
                        self.record_unkept(Place::Previous, removed);
                    }
                }
            }
            Ok(None) => {
                let removed = self.store.remove(Place::Previous);
                self.record_unkept(Place::Previous, removed);
            }
            Err(rule) => {
                let [path, to] = [Place::Current, Place::Left].map(|it| self.store.path(it));
                let [path, to] = [path, to].map(|it| it.display().to_string());
                self.events.push(Event::ModelSetAside { path, to, rule });
                let moved = self.store.rename(Place::Current, Place::Left);
                let removed = moved.and_then(|()| self.store.remove(Place::Previous));
                self.record_unkept(Place::Current, removed);
            }
        }
    }

    /// A shadow of `model`, scored only by flows that start from now on: the model may have been
    /// trained on those that already run.
    fn shadow(&self, model: Arc<Model>) -> Shadow {
        Shadow::new(model, self.spans.newest())
    }

    /// Checks whether the trainer has written a new candidate. Call this about once a second.
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
                self.record_refused(Place::Candidate, "its file has been deleted".to_owned());
            }
            Ok(None) => {}
            Err(rule) => self.refuse(rule),
        }
    }

    fn take_candidate(&mut self, model: Model) {
        if self.candidate.as_ref().is_some_and(|it| it.model.digest() == model.digest()) {
            return; // the same candidate is already in the shadow
        }
        let (rows, flows) = model.lineage().map_or((0, 0), |it| (it.rows, it.flows));
        let digest = model.digest().to_owned();
        self.events.push(Event::ModelCandidate { model: digest, rows, flows });
        self.candidate = Some(self.shadow(Arc::new(model)));
    }

    /// The reason why the model cannot be compared with the model in force; `None` if it can.
    fn refusal(&self, model: &Model) -> Option<String> {
        let in_force = self.slot.get();
        let Some(lineage) = model.lineage() else {
            return Some(
                "online: it is missing; a candidate must be trained on samples of live flows"
                    .to_owned(),
            );
        };
        if lineage.parent != in_force.digest() {
            let (theirs, ours) = (&lineage.parent, in_force.digest());
            let fix = "fix: train again from the model in force";
            return Some(format!("online.parent = {theirs}: the model in force is {ours}\n{fix}"));
        }
        let is_alike = model.arms() == in_force.arms();
        (!is_alike).then(|| "arms: they must be the same as in the model in force".to_owned())
    }

    fn refuse(&mut self, reason: String) {
        self.candidate = None;
        self.record_refused(Place::Candidate, reason);
        let moved = self.store.rename(Place::Candidate, Place::Refused);
        self.record_unkept(Place::Candidate, moved);
    }

    fn record_refused(&mut self, place: Place, reason: String) {
        let path = self.store.path(place).display().to_string();
        self.events.push(Event::ModelRefused { path, reason });
    }

    fn record_unkept(&mut self, place: Place, done: Result<(), Error>) {
        if let Err(error) = done {
            let path = self.store.path(place).display().to_string();
            self.events.push(Event::ModelUnkept { path, reason: error.to_string() });
        }
    }

    /// Takes in one sample of a flow.
    pub fn sample(&mut self, flow: u32, sample: &Sample) {
        if let Some(outcome) = self.spans.add(flow, sample) {
            self.score(&outcome);
        }
    }

    /// Handles the end of a flow.
    pub fn ended(&mut self, flow: u32) {
        if let Some(outcome) = self.spans.ended(flow) {
            self.score(&outcome);
        }
        for shadow in [&mut self.candidate, &mut self.previous].into_iter().flatten() {
            shadow.paired.ended(flow);
        }
        self.judge();
    }

    fn score(&mut self, outcome: &Outcome) {
        let in_force = self.slot.get();
        let predicted = in_force.value(&outcome.features, outcome.arm);
        let Some(miss) = predicted.map(|predicted| Miss::of(&predicted, &outcome.actual)) else {
            return;
        };
        self.scores.add(outcome.arm, miss, outcome.is_first);
        self.spans.scored(outcome.flow);
        // Only the first error of each flow counts, because errors of one flow are not independent.
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
        let OnlineConfig { flows_min, flows_max, .. } = self.config;
        // Judge the previous model first: if it comes back, a candidate trained from the present
        // one is dropped.
        let mut judged = |it: &mut Shadow| it.judged(flows_min, flows_max);
        if let Some(Judged::Better(gain)) = self.previous.as_mut().map(&mut judged) {
            let why = "the previous model is better on the flows since then";
            let done = self.go_back(why, Some(gain));
            self.record_unkept(Place::Current, done);
        }
        match self.candidate.as_mut().map(judged) {
            Some(Judged::Better(gain)) => self.take_over(gain),
            Some(Judged::NotBetter(gain)) => {
                let Interval { mean, least, most } = gain;
                let by =
                    format!("its bounded error is lower by {mean:.4} ({least:.4} to {most:.4})");
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
            // After a restart the new model would not be there, so it does not take over. Its
            // comparison starts again.
            self.candidate = Some(self.shadow(shadow.model));
            return self.record_unkept(Place::Candidate, Err(error));
        }
        let flows = shadow.paired.flows();
        self.put(shadow.model, "it is better in the shadow", flows, Some(gain));
        self.previous = Some(self.shadow(before));
    }

    /// Brings `model` into force.
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

    /// Brings the previous model back into force, and drops models trained from the present one.
    /// This takes effect at once: an error means only that the files could not be changed, so the
    /// next agent may start with another model.
    fn go_back(&mut self, why: &str, gain: Option<Interval>) -> Result<(), Error> {
        let Some(shadow) = self.previous.take() else { return Ok(()) };
        let is_base = shadow.model.digest() == self.base.digest();
        let flows = if gain.is_some() { shadow.paired.flows() } else { 0 };
        self.put(shadow.model, why, flows, gain);
        self.leave(if is_base { Place::Base } else { Place::Previous })
    }

    fn leave(&mut self, to: Place) -> Result<(), Error> {
        if self.candidate.is_some() {
            self.refuse("online.parent: its parent is no longer in force".to_owned());
        }
        self.store.go_back(to, &State::new(self.base.digest(), self.since_unix_s))
    }

    /// Carries out an operator's order to bring back the previous model.
    ///
    /// # Errors
    ///
    /// There is no previous model. Or the model is in force, but the files could not be changed.
    pub fn back(&mut self) -> Result<Report, Error> {
        if self.previous.is_none() {
            let fix = "fix: `remuda model base` brings back the configured or shipped one";
            return Err(Error::Refused(format!("there is no model to go back to\n{fix}")));
        }
        let done = self.go_back("an operator's order", None);
        self.report_of(done)
    }

    /// Carries out an operator's order to bring back the configured or shipped model.
    ///
    /// # Errors
    ///
    /// That model is already in force. Or it is in force now, but the files could not be changed.
    pub fn back_to_base(&mut self) -> Result<Report, Error> {
        if self.slot.get().digest() == self.base.digest() {
            let is = "the configured or shipped model is in force already";
            return Err(Error::Refused(format!("{is}\nfix: none is needed")));
        }
        self.put(Arc::clone(&self.base), "an operator's order", 0, None);
        let done = self.leave(Place::Base);
        self.report_of(done)
    }

    fn report_of(&self, kept: Result<(), Error>) -> Result<Report, Error> {
        let unkept = "it is in force, but the next agent may begin with another one";
        kept.map_err(|error| {
            Error::Refused(format!("{unkept}: {error}\nfix: free some disk space"))
        })?;
        Ok(self.report())
    }
}
