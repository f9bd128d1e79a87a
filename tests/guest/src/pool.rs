//! Runs several guests at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many guests run at a time: one for each processor.
pub fn at_once() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Runs `work` on each job, in this order, as many at a time as there are processors. `done` gets
/// each result as the job ends. After an error no further job starts.
///
/// # Errors
///
/// The first error of `work`.
pub fn each<J: Sync, R, E: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R, E> + Sync,
    done: impl FnMut(&J, R) + Send,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new((done, Ok(())));
    let worker = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(job);
            let mut outcome = outcome.lock().unwrap_or_else(|broken| broken.into_inner());
            match result {
                Ok(result) => (outcome.0)(job, result),
                Err(error) => {
                    next.store(jobs.len(), Ordering::Relaxed);
                    if outcome.1.is_ok() {
                        outcome.1 = Err(error);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once() {
            scope.spawn(worker);
        }
    });
    outcome.into_inner().unwrap_or_else(|broken| broken.into_inner()).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_is_done_once_and_none_after_an_error() {
        let jobs: Vec<u32> = (0..100).collect();
        let mut sum = 0;
        let all = each(&jobs, |job| Ok::<_, ()>(*job), |_, result| sum += result);
        assert_eq!((all, sum), (Ok(()), 4_950));
        let mut done = 0;
        let failed =
            each(&jobs, |job| if *job < 3 { Ok(()) } else { Err(*job) }, |_, ()| done += 1);
        assert!(failed.is_err() && done == 3, "{failed:?}, {done} done");
    }
}
