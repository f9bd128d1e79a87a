//! Something that fails again and again, and must not fill the error output.

/// The shortest time between two warnings about the same trouble.
const SAY_INTERVAL_NS: u64 = 60_000_000_000;

/// Counts how often something has failed, and says when that is worth a warning: at the first
/// failure, then once a minute, and when it works again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// Failures since it worked, or since its end was last told.
    times: u64,
    said_ns: Option<u64>,
    /// A warning has told of the trouble, and nothing has told of its end.
    is_told: bool,
}

impl Trouble {
    /// Counts a failure. Returns the number of failures if a warning is due.
    pub fn again(&mut self, now_ns: u64) -> Option<u64> {
        self.times += 1;
        let is_due = self.said_ns.is_none_or(|said| now_ns.saturating_sub(said) >= SAY_INTERVAL_NS);
        if is_due {
            (self.said_ns, self.is_told) = (Some(now_ns), true);
        }
        is_due.then_some(self.times)
    }

    /// It works. Returns the number of failures if a warning has told of the trouble.
    pub fn over(&mut self) -> Option<u64> {
        if !std::mem::take(&mut self.is_told) {
            return None;
        }
        Some(std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_and_the_end_are_told_and_a_minute_s_worth_in_between() {
        let mut trouble = Trouble::default();
        assert_eq!(trouble.over(), None, "nothing has failed");
        let told = (0..600_000).filter_map(|ms| trouble.again(ms * 1_000_000)).collect::<Vec<_>>();
        assert_eq!(told.len(), 10, "ten minutes");
        assert_eq!(told[..2], [1, 60_001]);
        assert_eq!((trouble.over(), trouble.over()), (Some(600_000), None));
    }

    #[test]
    fn what_fails_every_other_time_is_told_once_a_minute() {
        let mut trouble = Trouble::default();
        let mut told = 0;
        let mut counted = 0;
        for second in 0..180 {
            told += u64::from(trouble.again(second * 1_000_000_000).is_some());
            counted += trouble.over().unwrap_or(0);
        }
        assert_eq!(told, 3);
        assert_eq!(counted, 1 + 60 + 60, "each telling counts those before it");
    }
}
