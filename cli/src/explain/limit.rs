//! What held a flow back, and what would help.

use crate::wrap::wrapped;
use ccp_agent::flow::{Life, Limit, Lossy, Row};

/// A flow reports several times a round trip, unless it is idle or stalled.
const SILENT_MIN_S: f64 = 2.0;
/// A limit is printed if it held for at least this share of the flow's life.
const SHARE_MIN: f64 = 0.02;
/// A round trip of so many times the least one stands in a queue.
const QUEUED: f64 = 1.3;
/// A policer starts to drop at one rate: the spread of that rate is at most this, and the flow was
/// once this many times as fast, while there were tokens.
const POLICED_SPREAD: f64 = 0.3;
const POLICED_BURST: f64 = 1.5;
/// As many losses must look alike.
const POLICED_EPISODES: u64 = 5;

/// Why packets are lost, as far as the moments of losses tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Queue,
    Policer,
    Random,
    Unknown,
}

pub fn cause(life: &Life) -> Cause {
    let Some(Lossy { episodes, rate_mbit_per_sec, rate_spread, rtt_over_min }) = life.losses else {
        return Cause::Unknown;
    };
    if rtt_over_min >= QUEUED {
        Cause::Queue
    } else if episodes >= POLICED_EPISODES
        && rate_spread <= POLICED_SPREAD
        && life.most_mbit_per_sec >= POLICED_BURST * rate_mbit_per_sec
    {
        Cause::Policer
    } else {
        Cause::Random
    }
}

fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::Application => "the application",
        Limit::ReceiveWindow => "the receive window",
        Limit::SendBuffer => "the send buffer",
        Limit::Loss => "losses",
        Limit::Window => "the arm's window",
        Limit::Pacing => "the arm's rate",
        Limit::Guard => "the guard",
    }
}

fn of_losses(life: &Life) -> String {
    let at = life.losses.map_or_else(String::new, |it| format!("{:.1}", it.rate_mbit_per_sec));
    match cause(life) {
        Cause::Queue => "a queue of the path overflows, so the path is full: an arm that keeps \
                         the queue short, such as copa or bbr, loses less"
            .to_owned(),
        Cause::Policer => format!(
            "a policer drops what exceeds {at} Mbit/s, with no queue before it: an arm that paces, \
             such as bbr, loses less; only a higher limit there is faster"
        ),
        Cause::Random => {
            "packets are lost without a queue: an arm that does not answer each loss, \
                          such as bbr or copa, is faster"
                .to_owned()
        }
        Cause::Unknown => "too few losses to say why".to_owned(),
    }
}

/// What a limit means, and what would help.
fn advice(limit: Limit, row: &Row, life: &Life) -> String {
    match limit {
        Limit::Application => "it had nothing to send: no arm makes it faster".to_owned(),
        Limit::ReceiveWindow => "the peer reads too slowly, or its buffer is too small for this \
                                 path: a larger receive buffer there (net.ipv4.tcp_rmem) helps"
            .to_owned(),
        Limit::SendBuffer => "the application fills its send buffer, which is too small for this \
                              path: a larger one (SO_SNDBUF, net.ipv4.tcp_wmem) helps"
            .to_owned(),
        Limit::Loss => of_losses(life),
        Limit::Window | Limit::Pacing => match life.losses {
            Some(_) => of_losses(life),
            None => format!("{} sends as much as it thinks the path takes", row.arm),
        },
        Limit::Guard => "the arm wants more than the guard allows: guard.cwnd_pkts_max, \
                         guard.rate_mbit_per_sec_max and the step of [guard] are the bounds"
            .to_owned(),
    }
}

/// Each limit with its share of the time, the largest first, and what it means.
pub fn text(row: &Row, life: &Life, width: usize) -> String {
    let total: f64 = life.held.iter().map(|(_, seconds)| seconds).sum();
    let mut held = life.held.clone();
    held.retain(|(_, seconds)| *seconds >= SHARE_MIN * total && *seconds > 0.0);
    held.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    if held.is_empty() {
        return "  nothing yet: it has sent no report\n".to_owned();
    }
    let silent = if life.silent_s < SILENT_MIN_S {
        String::new()
    } else {
        let text = format!(
            "  now no report for {:.0} s: nothing is acknowledged, as the application or the path \
             is silent",
            life.silent_s
        );
        wrapped(&text, width, 8) + "\n"
    };
    let line = |(limit, seconds): &(Limit, f64)| {
        let share = 100.0 * seconds / total;
        let text = format!("  {share:3.0} % {}: {}", name(*limit), advice(*limit, row, life));
        wrapped(&text, width, 8) + "\n"
    };
    silent + &held.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossy(rate_spread: f64, rtt_over_min: f64, most_mbit_per_sec: f64) -> Life {
        let losses = Lossy { episodes: 9, rate_mbit_per_sec: 10.0, rate_spread, rtt_over_min };
        Life { losses: Some(losses), most_mbit_per_sec, ..Life::default() }
    }

    #[test]
    fn losses_have_a_queue_one_rate_or_neither() {
        assert_eq!(cause(&Life::default()), Cause::Unknown);
        assert_eq!(cause(&lossy(0.1, 2.0, 40.0)), Cause::Queue);
        assert_eq!(cause(&lossy(0.1, 1.1, 40.0)), Cause::Policer);
        assert_eq!(cause(&lossy(0.6, 1.1, 40.0)), Cause::Random);
        // A short queue drops at one rate too, but the flow was never faster.
        assert_eq!(cause(&lossy(0.1, 1.1, 11.0)), Cause::Random);
    }
}
