//! Goodput over a flow's life, drawn with plain characters.

use ccp_agent::flow::Life;

const ROWS: usize = 8;
/// Characters of the scale at the left.
const SCALE: usize = 9;

/// Columns of `#`, one or more for each period, under a scale in Mbit/s.
pub fn text(life: &Life, width: usize) -> String {
    let Life { mbit_per_sec, period_s, .. } = life;
    let most = mbit_per_sec.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return "  nothing was acknowledged yet\n".to_owned();
    }
    let room = width.saturating_sub(SCALE + 1).max(1);
    // Of a narrow terminal, a column is the mean of several periods.
    let each = mbit_per_sec.len().div_ceil(room);
    let columns: Vec<f64> =
        mbit_per_sec.chunks(each).map(|it| it.iter().sum::<f64>() / it.len() as f64).collect();
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let least = most * row as f64 / ROWS as f64;
        let mark = |value: &f64| if *value > least { '#' } else { ' ' };
        let line: String = columns.iter().map(mark).collect();
        let scale = most * (row + 1) as f64 / ROWS as f64;
        let line = format!("{scale:>8.2} |{line}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let seconds = period_s * mbit_per_sec.len() as f64;
    let axis = "-".repeat(columns.len());
    let span = format!("0 to {seconds:.1} s");
    let indent = " ".repeat((SCALE + 1).min(width.saturating_sub(span.len())));
    format!("{text}{:>8} +{axis}\n{indent}{span}\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_period_is_as_high_as_the_picture() {
        let mbit_per_sec = vec![1.0, 8.0, 4.0, 0.0];
        let life = Life { mbit_per_sec, period_s: 0.5, ..Life::default() };
        let text = text(&life, 80);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "    8.00 | #");
        assert_eq!(lines[4], "    4.00 | ##");
        assert_eq!(lines[7], "    1.00 |###");
        assert_eq!(lines[9], "          0 to 2.0 s");
        assert!(super::text(&life, 12).lines().all(|line| line.chars().count() <= 20));
        let long = Life { mbit_per_sec: vec![1.0; 60], period_s: 16.0, ..Life::default() };
        for width in [20, 80] {
            let text = super::text(&long, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.ends_with("0 to 960.0 s\n"), "{text}");
        }
        assert!(super::text(&Life::default(), 80).contains("nothing"));
    }
}
