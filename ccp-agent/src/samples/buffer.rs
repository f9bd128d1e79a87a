//! The host's end of the queue to the thread that writes samples.

use crate::clock;
use crate::events::{Event, Recorder};
use crate::user_budget::UserBudget;
use remuda_algorithms::Sample;
use remuda_selector::antelope::memory::{LeftOut, WhyNot};
use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, TrySendError};

/// What the host sends to the writer thread about a flow.
#[derive(Debug)]
pub(super) enum Message {
    Sample(Sample),
    Ended,
}

/// Whose flow it is, if the flow's samples are not taken without a question.
#[derive(Clone, Copy, Debug)]
struct Source {
    uid: u32,
    is_believed: bool,
}

/// The host's end of the queue to the writer thread.
#[derive(Debug)]
pub struct SampleBuffer {
    pub(super) to: Option<SyncSender<(u32, Message)>>,
    pub(super) left_out: u64,
    /// The flows of users other than root, and those that are not believed.
    sources: HashMap<u32, Source>,
    budget: UserBudget,
    not_learned: LeftOut,
}

impl SampleBuffer {
    /// Takes so many samples a minute of the flows of one user, except root.
    pub fn new(user_samples_per_min_max: u32) -> Self {
        let per_min = f64::from(user_samples_per_min_max);
        Self {
            to: None,
            left_out: 0,
            sources: HashMap::new(),
            budget: UserBudget::new(per_min / 60.0, per_min),
            not_learned: LeftOut::default(),
        }
    }

    /// Samples of this flow may come from now on.
    pub fn begin(&mut self, flow: u32, uid: u32, is_believed: bool) {
        if uid != 0 || !is_believed {
            self.sources.insert(flow, Source { uid, is_believed });
        }
    }

    /// The samples that were not taken because of the user whose flow it was.
    pub fn not_learned(&self) -> &LeftOut {
        &self.not_learned
    }

    /// Whether a sample of the flow is taken; counts it if not.
    fn may_put(&mut self, flow: u32) -> bool {
        let Some(Source { uid, is_believed }) = self.sources.get(&flow).copied() else {
            return true;
        };
        let why = if !is_believed {
            WhyNot::Untrusted
        } else if !self.budget.take(uid, clock::monotonic_us()) {
            WhyNot::TooFast
        } else {
            return true;
        };
        self.not_learned.count(uid, why);
        false
    }

    /// A recorder that writes events to `log` and samples to this buffer.
    pub fn recorder<'a>(&'a mut self, log: &'a mut dyn Recorder) -> SamplingRecorder<'a> {
        SamplingRecorder { log, samples: self }
    }

    /// Queues a sample. Drops it when no writer thread runs, and drops and counts it when the queue
    /// is full.
    pub fn put(&mut self, flow: u32, sample: Sample) {
        if self.to.is_none() || !self.may_put(flow) {
            return;
        }
        let Some(to) = &self.to else { return };
        match to.try_send((flow, Message::Sample(sample))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.left_out += 1,
            Err(TrySendError::Disconnected(_)) => self.to = None,
        }
    }

    /// No further sample of the flow comes.
    pub fn forget(&mut self, flow: u32) {
        self.sources.remove(&flow);
    }

    /// Reports the end of a flow. When the queue is full, this message is dropped.
    pub fn end(&mut self, flow: u32) {
        if let Some(to) = &self.to {
            let _ = to.try_send((flow, Message::Ended)); // the writer drops idle flows
        }
    }
}

/// Sends events to a log and samples to a [`SampleBuffer`].
pub struct SamplingRecorder<'a> {
    log: &'a mut dyn Recorder,
    samples: &'a mut SampleBuffer,
}

impl Recorder for SamplingRecorder<'_> {
    fn record(&mut self, flow: Option<u32>, event: &Event) {
        self.log.record(flow, event);
    }

    fn sample(&mut self, flow: u32, sample: Sample) {
        self.samples.put(flow, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::Seen;
    use remuda_algorithms::units::Time;
    use remuda_selector::antelope::memory::LeftOutRow;
    use std::sync::mpsc;

    fn sample() -> Sample {
        let (from, until) = (Time::ZERO, Time::ZERO);
        Sample { arm: "bbr", from, until, seen: Seen::default(), features: Box::default() }
    }

    #[test]
    fn users_put_so_many_and_strangers_none() {
        let (to, from) = mpsc::sync_channel(1_000);
        let mut buffer = SampleBuffer { to: Some(to), ..SampleBuffer::new(60) };
        buffer.begin(1, 0, true);
        buffer.begin(2, 1_000, true);
        buffer.begin(3, 1_001, false);
        for flow in 1..=3 {
            (0..100).for_each(|_| buffer.put(flow, sample()));
        }
        drop(buffer.to.take());
        let taken: Vec<u32> = from.iter().map(|(flow, _)| flow).collect();
        let of = |flow| taken.iter().filter(|it| **it == flow).count();
        assert_eq!((of(1), of(3)), (100, 0));
        assert!((60..=61).contains(&of(2)), "{}", of(2));
        let [fast, stranger] = buffer.not_learned().rows()[..] else { panic!("two rows") };
        assert_eq!((fast.uid, fast.why), (1_000, WhyNot::TooFast));
        let want = LeftOutRow { uid: 1_001, why: WhyNot::Untrusted, count: 100 };
        assert_eq!(stranger, want);
        (1..=3).for_each(|flow| buffer.forget(flow));
        assert!(buffer.sources.is_empty());
    }
}
