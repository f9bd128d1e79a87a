//! Datapath programs of a given length, all of whose instructions run at every ACK.

use crate::Fallible;
use crate::message;

const HEAD: &str = "(def (Report (acked 0) (lost 0) (rtt 0) (rate 0) (flight 0) (big 0) (spare 0)))
(when true
";

/// Typical statements of arms' programs: sums, extremes, averages, choices.
const STATEMENTS: [&str; 6] = [
    "(:= Report.acked (+ Report.acked Ack.bytes_acked))",
    "(:= Report.lost (+ Report.lost Ack.lost_pkts_sample))",
    "(:= Report.rtt (ewma 5 Flow.rtt_sample_us))",
    "(:= Report.rate (max Report.rate (min Flow.rate_outgoing Flow.rate_incoming)))",
    "(:= Report.flight (max Report.flight Flow.bytes_in_flight))",
    "(:= Report.big (if (> Flow.bytes_in_flight Report.acked) Report.flight))",
];
const FILLER: &str = "(:= Report.spare Cwnd)";

fn text(statements: usize, fillers: usize) -> String {
    let body = STATEMENTS.iter().cycle().take(statements);
    let body = body.chain(std::iter::repeat_n(&FILLER, fillers));
    body.fold(HEAD.to_owned(), |text, statement| text + "    " + statement + "\n") + ")"
}

fn length(text: &str) -> Fallible<usize> {
    Ok(message::install(1, text)?.1.instructions())
}

/// The text of a program with exactly that many instructions at every ACK.
pub fn program(instructions: usize) -> Fallible<String> {
    let mut statements = 0;
    while length(&text(statements + 1, 0)).is_ok_and(|length| length <= instructions) {
        statements += 1;
    }
    let fillers = instructions.saturating_sub(length(&text(statements, 0))?);
    let text = text(statements, fillers);
    match length(&text)? {
        got if got == instructions => Ok(text),
        got => {
            Err(format!("no program of {instructions} instructions; the nearest has {got}").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_the_length_asked_for() {
        for instructions in [10, 11, 12, 40, 100, 200] {
            let text = program(instructions).expect("there is one");
            assert_eq!(length(&text).expect("it compiles"), instructions);
        }
    }
}
