//! The host's end of the queue to the thread that writes samples.

use crate::events::{Event, Recorder};
use remuda_algorithms::Sample;
use std::sync::mpsc::{SyncSender, TrySendError};

/// What the host sends to the writer thread about a flow.
#[derive(Debug)]
pub(super) enum Message {
    Sample(Sample),
    Ended,
}

/// The host's end of the queue to the writer thread.
#[derive(Debug, Default)]
pub struct SampleBuffer {
    pub(super) to: Option<SyncSender<(u32, Message)>>,
    pub(super) left_out: u64,
}

impl SampleBuffer {
    /// A recorder that writes events to `log` and samples to this buffer.
    pub fn recorder<'a>(&'a mut self, log: &'a mut dyn Recorder) -> SamplingRecorder<'a> {
        SamplingRecorder { log, samples: self }
    }

    /// Queues a sample. Drops it when no writer thread runs, and drops and counts it when the queue
    /// is full.
    pub fn put(&mut self, flow: u32, sample: Sample) {
        let Some(to) = &self.to else { return };
        match to.try_send((flow, Message::Sample(sample))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.left_out += 1,
            Err(TrySendError::Disconnected(_)) => self.to = None,
        }
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
