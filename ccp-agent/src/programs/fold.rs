//! Merges the fields of several reports into one report.
//!
//! A slow author gets fewer reports, each about a longer time. `Measurement::and` merges the shared
//! signals. A field that the program declares itself is merged in the way in which the program
//! updates it.

use super::text::{Form, List, lists, without_comments};
use std::collections::HashMap;

/// Primitives with this prefix count since the previous ACK; others describe the present state.
/// `Ack.now` is the exception: it is a time.
const COUNTED: &str = "Ack.";
const MOMENT: &str = "Ack.now";
const TIMEOUT: &str = "Flow.was_timeout";

/// How to merge a field's earlier value with its next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// Take the next value: the field keeps its value from report to report, or describes the
    /// present state.
    #[default]
    Newest,
    /// Add them: the field counts from 0 in each report.
    Sum,
    /// Take the larger one; also for flags, where true is larger.
    Larger,
    Smaller,
}

impl Fold {
    pub fn of(self, before: u64, next: u64) -> u64 {
        match self {
            Self::Newest => next,
            Self::Sum => before.saturating_add(next),
            Self::Larger => before.max(next),
            Self::Smaller => before.min(next),
        }
    }
}

/// For each name that a program assigns to: how to merge its values, if the field starts anew with
/// each report.
pub fn folds(text: &str) -> HashMap<String, Fold> {
    let text = without_comments(text);
    let mut found = HashMap::new();
    for list in lists(&text).unwrap_or_default() {
        assigned(&list, &mut found);
    }
    found
}

fn assigned(list: &List<'_>, found: &mut HashMap<String, Fold>) {
    if let (Some(":=" | "bind"), [_, Form::Word(name), value]) =
        (list.head(), list.forms.as_slice())
    {
        let fold = fold(name.text, value);
        let so_far = found.entry(name.text.to_owned()).or_default();
        if *so_far == Fold::Newest {
            *so_far = fold;
        }
    }
    for form in &list.forms {
        if let Form::List(inner) = form {
            assigned(inner, found);
        }
    }
}

fn fold(name: &str, value: &Form<'_>) -> Fold {
    match value {
        Form::Word(word) if word.text == TIMEOUT || word.text == "true" => Fold::Larger,
        Form::Word(word) if is_counted(word.text) => Fold::Sum,
        Form::Word(_) => Fold::Newest,
        Form::List(list) => {
            let own = list.forms.iter().any(|form| form.word().is_some_and(|w| w.text == name));
            match list.head() {
                Some("max" | "wrapped_max" | "||" | "or") if own => Fold::Larger,
                Some("min") if own => Fold::Smaller,
                Some("+" | "add") if own => Fold::Sum,
                Some("if" | "!if") => list.forms.last().map_or(Fold::Newest, |it| fold(name, it)),
                _ => Fold::Newest,
            }
        }
    }
}

fn is_counted(word: &str) -> bool {
    word.starts_with(COUNTED) && word != MOMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(statement: &str, want: Fold) {
        let text = format!("(def (Report (volatile it 0)))\n(when true {statement} (report))");
        let got = folds(&text).get("Report.it").copied();
        assert_eq!(got, Some(want), "{statement}");
    }

    #[test]
    fn a_field_is_folded_as_its_program_gathers_it() {
        check("(:= Report.it (+ Report.it Ack.bytes_acked))", Fold::Sum);
        check("(:= Report.it (+ 1 Report.it))", Fold::Sum);
        check("(:= Report.it Ack.lost_pkts_sample)", Fold::Sum);
        check("(:= Report.it (max Report.it Flow.rtt_sample_us))", Fold::Larger);
        check("(bind Report.it (min Report.it Flow.rtt_sample_us))", Fold::Smaller);
        check("(:= Report.it Flow.was_timeout)", Fold::Larger);
        check("(:= Report.it (!if Flow.was_timeout true))", Fold::Larger);
        check("(:= Report.it (if Flow.was_timeout (+ Report.it 1)))", Fold::Sum);
        check("(:= Report.it Flow.rtt_sample_us)", Fold::Newest);
        check("(:= Report.it Ack.now)", Fold::Newest);
        check("(:= Report.it 0) (:= Report.it (+ Report.it 1)) (:= Report.it 5)", Fold::Sum);
        check("(:= Report.it (ewma 8 Flow.rtt_sample_us))", Fold::Newest);
    }

    #[test]
    fn two_values_become_one() {
        let folds = [Fold::Newest, Fold::Sum, Fold::Larger, Fold::Smaller];
        assert_eq!(folds.map(|fold| fold.of(5, 3)), [3, 8, 5, 3]);
        assert_eq!(Fold::Sum.of(u64::MAX, 3), u64::MAX);
    }
}
