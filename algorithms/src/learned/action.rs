//! What an action of a trained network does to a window. The training environments of the Python
//! package and the arms that follow a trained network apply actions by this code.

use super::observation::Observer;

/// RFC 5681 section 3.1: with fewer segments every acknowledgement is delayed.
pub const PKTS_MIN: f64 = 2.0;
/// RFC 6928's initial window: before anything is known, a window of ten such floors is allowed.
pub const CWND_PKTS_MIN: f64 = 10.0;
/// The largest window, in bandwidth-delay products: twice the path and the deepest queue that the
/// environments draw from ranges.
const BDP_MAX: f64 = 10.0;

/// The largest window before anything was delivered, in segments: half as much again as 1 Gbit/s
/// over 800 ms holds. A flow whose first ACK does not come must not fill the host's memory.
const UNKNOWN_PKTS_MAX: f64 = 100_000.0;

/// The factor by which an action from -1 to 1 multiplies. An action and its negative cancel out.
pub fn factor(action: f64, scale: f64) -> f64 {
    let action = action.clamp(-1.0, 1.0);
    if action >= 0.0 { 1.0 + scale * action } else { 1.0 / (1.0 - scale * action) }
}

/// Limits a window, in bytes, to what the path can carry, as far as that is known.
pub fn bound_window(window_bytes: f64, mss_bytes: f64, observer: &Observer) -> f64 {
    let low = PKTS_MIN * mss_bytes;
    let unknown = UNKNOWN_PKTS_MAX * mss_bytes;
    let high = observer.bdp_bytes().map_or(unknown, |bdp| bdp * BDP_MAX);
    window_bytes.clamp(low, high.max(CWND_PKTS_MIN * low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::observation::Features;

    #[test]
    fn an_action_and_its_negative_cancel_out() {
        for action in [0.0, 0.3, 1.0] {
            let both = factor(action, 0.25) * factor(-action, 0.25);
            assert!((both - 1.0).abs() < 1e-12, "{action}: {both}");
        }
        assert_eq!((factor(1.0, 0.25), factor(7.0, 0.25)), (1.25, 1.25));
    }

    #[test]
    fn a_window_keeps_two_segments() {
        let observer = Observer::new(Features::Sizes, 1);
        assert_eq!(bound_window(1.0, 1_448.0, &observer), 2.0 * 1_448.0);
        assert_eq!(bound_window(1e8, 1_448.0, &observer), 1e8, "the path is not known yet");
        assert_eq!(bound_window(1e9, 1_448.0, &observer), 100_000.0 * 1_448.0);
    }
}
