//! The clock of the emulator. No other module of this crate reads one.

use remuda_link::Nanos;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Counts nanoseconds of the monotonic clock from its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the emulator's one clock")]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The time since its start.
    pub fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    /// The time since its start, for tests and benchmarks.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Wall-clock milliseconds since 1970, for the head of a log.
#[expect(clippy::disallowed_methods, reason = "a log says when it was made")]
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The processor time that the calling thread has used.
pub(crate) fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(secs, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The processor time of a thread; zero if the system does not report it.
pub(crate) fn thread_cpu<T>(thread: &JoinHandle<T>) -> Duration {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the handle keeps the thread's id valid until it is joined; both pointers are to
    // locals of the right type.
    let failed = unsafe {
        libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        return Duration::ZERO;
    }
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(secs, u32::try_from(time.tv_nsec).unwrap_or(0))
}
