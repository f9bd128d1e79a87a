//! The signals every datapath program gathers, written once.
//!
//! A policy sees the same measurement whatever arm runs, so every arm's program is made of
//! [`signals!`](crate::signals!), what else the arm needs, and a rule for when to report, most
//! often [`report_each_round!`](crate::report_each_round!). [`FIELDS`] is what the agent decodes.
//!
//! The language is CCP's (portus::lang). Its limits shape the text below: 16 report fields, eight
//! temporaries, no `>=`, no comments in a body, and literals below 2^31.

use std::ops::Range;

/// Names of the report fields, in the order of [`signals!`](crate::signals!).
pub const FIELDS: [&str; 15] = [
    "Report.acked_bytes",
    "Report.lost_pkts",
    "Report.ecn_pkts",
    "Report.timed_out",
    "Report.rtt_us",
    "Report.rtt_us_min",
    "Report.rtt_us_max",
    "Report.rtt_us_sum",
    "Report.rtt_us_sq_sum",
    "Report.rtt_samples",
    "Report.send_rate_bytes_per_sec",
    "Report.delivery_rate_bytes_per_sec",
    "Report.in_flight_bytes_max",
    "Report.cwnd_bytes",
    "Report.ack_train_us",
];

/// The control register that bounds how often a program may report, in microseconds. The agent
/// raises it when it has many flows.
pub const REPORT_INTERVAL: &str = "report_us";

/// The control register that says how often in a round trip a program reports.
pub const REPORTS_PER_ROUND: &str = "per_round";

/// Declares the signals, with further report fields (`report`) and control registers (`control`)
/// of the arm's own, and folds every ACK into them.
#[macro_export]
macro_rules! signals {
    (report: $report:literal, control: $control:literal) => {
        concat!(
            "(def (Report
    (volatile acked_bytes 0)
    (volatile lost_pkts 0)
    (volatile ecn_pkts 0)
    (volatile timed_out 0)
    (volatile rtt_us 0)
    (volatile rtt_us_min 2000000000)
    (volatile rtt_us_max 0)
    (volatile rtt_us_sum 0)
    (volatile rtt_us_sq_sum 0)
    (volatile rtt_samples 0)
    (volatile send_rate_bytes_per_sec 0)
    (volatile delivery_rate_bytes_per_sec 0)
    (volatile in_flight_bytes_max 0)
    (volatile cwnd_bytes 0)
    (volatile ack_train_us 0)
    ",
            $report,
            ")
    (report_us 10000)
    (per_round 4)
    (round_us 10000)
    (ack_us 0)
    (train_start_us 0)
    ",
            $control,
            ")
(when (> (- Ack.now ack_us) 2000)
    (:= train_start_us Ack.now)
    (fallthrough)
)
(when true
    (:= ack_us Ack.now)
    (:= Report.ack_train_us (max Report.ack_train_us (- Ack.now train_start_us)))
    (:= Report.acked_bytes (+ Report.acked_bytes Ack.bytes_acked))
    (:= Report.lost_pkts (+ Report.lost_pkts Ack.lost_pkts_sample))
    (:= Report.ecn_pkts (+ Report.ecn_pkts Ack.ecn_packets))
    (:= Report.send_rate_bytes_per_sec
        (max Report.send_rate_bytes_per_sec Flow.rate_outgoing))
    (:= Report.delivery_rate_bytes_per_sec
        (max Report.delivery_rate_bytes_per_sec (min Flow.rate_outgoing Flow.rate_incoming)))
    (:= Report.in_flight_bytes_max (max Report.in_flight_bytes_max Flow.bytes_in_flight))
    (:= Report.cwnd_bytes Cwnd)
    (fallthrough)
)
(when (&& Flow.was_timeout true)
    (:= Report.timed_out 1)
    (fallthrough)
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= round_us Flow.rtt_sample_us)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.rtt_us_min (min Report.rtt_us_min Flow.rtt_sample_us))
    (:= Report.rtt_us_max (max Report.rtt_us_max Flow.rtt_sample_us))
    (:= Report.rtt_us_sum (+ Report.rtt_us_sum Flow.rtt_sample_us))
    (:= Report.rtt_us_sq_sum (+ Report.rtt_us_sq_sum (* Flow.rtt_sample_us Flow.rtt_sample_us)))
    (:= Report.rtt_samples (+ Report.rtt_samples 1))
    (fallthrough)
)
"
        )
    };
}

/// Reports `per_round` times in a round trip, but not more often than each `report_us`; at once
/// after a timeout, and within a millisecond of a loss.
///
/// A round trip's ACKs may all come in a short part of it, and what is left of a report would wait
/// for the next round: slow start would be a round trip late. So on a path of some round trips a
/// report, that part of a window acknowledged counts as that part of the round trip.
#[macro_export]
macro_rules! report_each_round {
    () => {
        "(when (> Report.timed_out 0)
    (:= Micros 0)
    (report)
)
(when (&& (> Report.lost_pkts 0) (> Micros 1000))
    (:= Micros 0)
    (report)
)
(when (&& (> (* Micros per_round) round_us) (> Micros report_us))
    (:= Micros 0)
    (report)
)
(when (&& (&& (> (* Report.acked_bytes per_round) Cwnd) (> round_us (* report_us 4)))
        (> (* Micros 16) report_us))
    (:= Micros 0)
    (report)
)
"
    };
}

/// The program of an arm that needs nothing else.
pub const REPORT_EACH_ROUND: &str =
    concat!(crate::signals!(report: "", control: ""), crate::report_each_round!());

/// Stand in [`OPEN`] where an arm's own declarations go.
const REPORT_MARK: &str = "\u{1}";
const CONTROL_MARK: &str = "\u{2}";
const OPEN: &str = signals!(report: "\u{1}", control: "\u{2}");

/// What someone else has of their own beside the shared signals; each may be empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// Declarations of report fields.
    pub report: &'a str,
    /// Declarations of control registers.
    pub control: &'a str,
    /// Clauses that see every ACK.
    pub rules: &'a str,
    /// When to report; if empty, that of [`report_each_round!`](crate::report_each_round!).
    pub report_rule: &'a str,
}

/// Where a part stands in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name in [`Parts`].
    pub name: &'static str,
    pub span: Range<usize>,
}

/// A program around the shared signals that is known at run time only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// The whole of it.
    pub text: String,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// Puts a program together.
pub fn program(own: Parts<'_>) -> Composed {
    let rule = own.report_rule;
    let default_rule = if rule.trim().is_empty() { report_each_round!() } else { "" };
    let (head, rest) = OPEN.split_once(REPORT_MARK).expect("the text has its mark");
    let (middle, tail) = rest.split_once(CONTROL_MARK).expect("the text has its mark");
    let mut program = Composed { text: String::new(), parts: Vec::new() };
    let pieces = [
        (head, "report", own.report),
        (middle, "control", own.control),
        (tail, "rules", own.rules),
        ("\n", "report_rule", rule),
    ];
    for (shared, name, part) in pieces {
        program.text += shared;
        let start = program.text.len();
        program.text += part;
        program.parts.push(Part { name, span: start..program.text.len() });
    }
    program.text += default_rule;
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = concat!(signals!(report: "", control: ""), report_each_round!());

    #[test]
    fn a_program_of_run_time_has_its_own_beside_the_shared() {
        let rule = "(when (> Micros 7000) (:= Micros 0) (report))";
        let clauses = "(when true (:= Report.mine (+ Report.mine factor)) (fallthrough))";
        let own = Parts {
            report: "(volatile mine 0)",
            control: "(factor 2)",
            rules: clauses,
            report_rule: rule,
        };
        let made = program(own);
        let (_, scope) = portus::lang::compile(made.text.as_bytes(), &[]).expect("it compiles");
        assert!(scope.get("Report.mine").is_some() && scope.get("factor").is_some());
        let parts = made.parts.iter().map(|part| (part.name, &made.text[part.span.clone()]));
        let want = [
            ("report", own.report),
            ("control", own.control),
            ("rules", clauses),
            ("report_rule", rule),
        ];
        assert!(parts.eq(want));
        let bare = program(Parts { report_rule: " ", ..Parts::default() });
        let packed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(packed(&bare.text), packed(PROGRAM));
    }

    #[test]
    fn the_fields_stand_in_the_order_of_the_report() {
        let (_, scope) = portus::lang::compile(PROGRAM.as_bytes(), &[]).expect("signals compile");
        for (want, name) in (0u8..).zip(FIELDS) {
            match scope.get(name) {
                Some(portus::lang::Reg::Report(got, _, true)) => assert_eq!(*got, want, "{name}"),
                other => panic!("{name} is {other:?}"),
            }
        }
        for register in [REPORT_INTERVAL, REPORTS_PER_ROUND] {
            assert!(scope.get(register).is_some(), "{register}");
        }
    }
}
