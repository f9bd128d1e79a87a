//! An algorithm of the host's own kernel, as an arm: `native:cubic`, `native:bbr` and so on.
//!
//! The flow runs the kernel's code, and nothing of ours at its ACKs: this arm only goes on learning
//! the path, from what the datapath finds when it looks at the socket, so that another arm
//! can take over. The papers Antelope and Rein choose among these; and they are the baseline of
//! fidelity.
//!
//! Differs from other arms:
//!   - it decides nothing: its decision is the window that the kernel has;
//!   - a switch to it is as warm as the kernel lets it be: window and threshold are handed over,
//!     what the algorithm keeps for itself (CUBIC's `W_max`, BBR's model) starts anew;
//!   - a look is a sample of many ACKs: largest and smallest of a report are of the looks in it.

use crate::arm::{Arm, ArmInfo, Decision, Queue};
use crate::interned::interned_str;
use crate::list;
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::reno;
use crate::units::Time;
use crate::window;

/// What the names of such arms begin with.
pub const PREFIX: &str = "native:";
/// `TCP_CA_NAME_MAX`, without the 0 at its end.
pub const NAME_BYTES_MAX: usize = 15;

/// One of the kernel's algorithms, for one flow.
#[derive(Clone, Debug)]
pub struct Native {
    info: &'static ArmInfo,
    path: PathState,
    decision: Decision,
}

/// The kernel's name in an arm's; `None` if it is no such arm.
pub fn kernel_name(arm: &str) -> Option<&str> {
    let name = arm.strip_prefix(PREFIX)?;
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    (fits && name.bytes().all(|byte| byte.is_ascii_graphic())).then_some(name)
}

/// The queue that the arm of this name leaves. An algorithm of the kernel's own leaves the queue of
/// our arm of the same name.
pub fn queue(arm: &str) -> Option<Queue> {
    list::arm(kernel_name(arm).unwrap_or(arm))?.queue
}

impl Native {
    /// The arm of that name; `None` if the name is not `native:` and an algorithm's name. The
    /// caller checks that the kernel has the algorithm: memory for each name is never freed.
    pub fn new(arm: &str) -> Option<Self> {
        let kernels = kernel_name(arm)?;
        let info = ArmInfo {
            name: interned_str(arm),
            summary: "an algorithm of the kernel's own",
            native: Some(interned_str(kernels)),
            make: None,
            queue: queue(arm),
            ..reno::ARM
        };
        let path = window::no_path();
        let decision = Decision { cwnd: path.cwnd, rate: None };
        Some(Self { info: info.leaked(), path, decision })
    }
}

impl Arm for Native {
    fn info(&self) -> &'static ArmInfo {
        self.info
    }

    fn resume(&mut self, path: &PathState, _now: Time) -> Decision {
        self.path = window::sane(path);
        self.decision = Decision { cwnd: self.path.cwnd, rate: None };
        self.decision
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        self.decision.cwnd = m.cwnd.max(self.path.cwnd_floor());
        self.decision
    }

    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.decision.cwnd;
        path.rate = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Readiness;
    use crate::script::{MSS, path};
    use crate::units::{Bytes, Packets};

    #[test]
    fn a_name_is_the_kernels_behind_the_prefix() {
        let arm = Native::new("native:cubic").expect("a name");
        assert_eq!((arm.info().name, arm.info().native), ("native:cubic", Some("cubic")));
        for no_name in ["cubic", "native:", "native:a name", "native:0123456789abcdef"] {
            assert!(Native::new(no_name).is_none(), "{no_name}");
        }
    }

    #[test]
    fn it_follows_the_kernels_window_and_hands_it_off() {
        let mut arm = Native::new("native:bbr").expect("a name");
        assert_eq!(arm.resume(&path(20), Time::ZERO).cwnd, Packets(20).to_bytes(MSS));
        let m = Measurement { cwnd: Packets(31).to_bytes(MSS), ..Measurement::QUIET };
        assert_eq!(arm.on_measurement(&m, Time::ZERO).cwnd, m.cwnd);
        let mut handed = path(20);
        arm.hand_off(&mut handed);
        assert_eq!((handed.cwnd, handed.rate), (m.cwnd, None));
        let none = Measurement { cwnd: Bytes(0), ..m };
        assert!(arm.on_measurement(&none, Time::ZERO).cwnd > Bytes(0));
    }

    #[test]
    fn a_path_whose_datapath_has_none_is_refused() {
        let arm = Native::new("native:reno").expect("a name");
        assert!(matches!(arm.can_resume(&path(20)), Readiness::Refuse(_)));
        let mut with = path(20);
        with.datapath.native = true;
        assert_eq!(arm.can_resume(&with), Readiness::Ready);
    }
}
