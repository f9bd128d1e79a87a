//! The lines of `remuda advise`: two for each destination, of at most 80 characters.

use super::Advice;
use super::verdict::{Evidence, Verdict, points};
use crate::wrap::wrapped;

const WIDTH: usize = 80;

/// How to read the lines.
pub const LEGEND: &str = "\
gain: goodput of that arm over goodput of the present arm, as a 95 % interval
";

fn counted(count: usize) -> String {
    if count == 1 { "1 flow".to_owned() } else { format!("{count} flows") }
}

fn verdict(advice: &Advice) -> String {
    let (arm, least, most) = match &advice.verdict {
        Verdict::CannotSay { flows_missing: Some(missing), .. } => {
            return format!("cannot say: {} more", counted(*missing));
        }
        Verdict::CannotSay { why, .. } => return format!("cannot say: {why}"),
        Verdict::Gain { arm, least_percent, most_percent, .. } => {
            (arm, *least_percent, *most_percent)
        }
    };
    let now = advice.present_arm.as_deref().unwrap_or("the present arm");
    if least > 0.0 {
        format!("{arm} would gain {least:.0} to {most:.0} %")
    } else if most < 0.0 {
        format!("keep {now}: {arm} would lose {:.0} to {:.0} %", -most, -least)
    } else {
        format!("keep {now}: {arm} would do {} to {} %", points(least), points(most))
    }
}

fn seen(advice: &Advice) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(arm) = &advice.present_arm {
        parts.push(format!("now {arm}"));
    }
    parts.extend(advice.goodput_mbit_per_sec.map(|rate| format!("{rate:.1} Mbit/s")));
    parts.extend(advice.rtt_ms.map(|ms| format!("round trip {ms:.0} ms")));
    parts.extend(advice.loss_percent.map(|loss| format!("{loss:.2} % lost")));
    if advice.running > 0 {
        parts.push(format!("{} running", advice.running));
    }
    if let Verdict::Gain { evidence, .. } = &advice.verdict {
        parts.push(match evidence {
            Evidence::ControlGroup => "by control group".to_owned(),
            Evidence::Simulated => "simulated".to_owned(),
        });
    }
    parts.join(", ")
}

/// What is said of one destination.
pub fn lines(advice: &Advice) -> String {
    let Advice { destination, ended, .. } = advice;
    let first = format!("{destination}: {}, {}", counted(*ended), verdict(advice));
    let mut text = wrapped(&first, WIDTH, 4) + "\n";
    let seen = seen(advice);
    if !seen.is_empty() {
        text.push_str(&format!("  {}\n", wrapped(&seen, WIDTH - 2, 4)));
    }
    text
}
