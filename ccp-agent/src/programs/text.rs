//! Parses the text of a datapath program, with the position of every word.
//!
//! The portus compiler reports errors without a position. It compiles a misspelt name into a
//! register that nothing sets, and it recurses as deep as the text nests. So this parser reads the
//! text first. It refuses whatever is not in CCP's language, and gives the position and a fix.
//!
//! Comments are replaced by spaces beforehand: portus accepts them in few places and panics on the
//! others.

use std::borrow::Cow;
use std::ops::Range;

/// Names that every datapath provides: libccp's primitives and implicit registers.
const PROVIDED: &[&str] = &[
    "Ack.bytes_acked",
    "Ack.bytes_misordered",
    "Ack.ecn_bytes",
    "Ack.ecn_packets",
    "Ack.lost_pkts_sample",
    "Ack.now",
    "Ack.packets_acked",
    "Ack.packets_misordered",
    "Cwnd",
    "Flow.bytes_in_flight",
    "Flow.bytes_pending",
    "Flow.packets_in_flight",
    "Flow.rate_incoming",
    "Flow.rate_outgoing",
    "Flow.rtt_sample_us",
    "Flow.was_timeout",
    "Micros",
    "Rate",
];
/// The provided names that a program may set.
const PROVIDED_SETTABLE: &[&str] = &["Cwnd", "Micros", "Rate"];
/// Operators with two operands that yield a value.
const OPERATORS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "==",
    "<",
    ">",
    "&&",
    "||",
    "add",
    "sub",
    "mul",
    "div",
    "eq",
    "lt",
    "gt",
    "and",
    "or",
    "max",
    "min",
    "wrapped_max",
];
/// Operators that also read the register to which they assign, so they may stand only in an
/// assignment.
const CONDITIONAL: &[&str] = &["if", "!if", "ewma"];
const ASSIGNMENTS: &[&str] = &[":=", "bind"];
const COMMANDS: &[&str] = &["report", "fallthrough"];
/// The deepest nesting; more would need more temporaries than a datapath has.
const DEPTH_MAX: usize = 32;
/// The first number that is too large for a literal of portus.
const NUMBER_END: u64 = 1 << 31;
const INFINITY: &str = "+infinity";
/// portus reads these as words of their own even where a longer name begins with them.
const PREFIXES: &[&str] = &["true", "false", "volatile"];
const OUTSIDE: &str = "this stands in no parentheses; a program is (def ...) and then (when \
                       CONDITION STATEMENTS...), once or more";
const SHAPE: &str = "a program is (def ...) and then (when CONDITION STATEMENTS...), once or more";

/// An error and its position, an offset in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: usize,
    /// What is wrong, and the fix.
    pub rule: String,
    /// The words that are allowed there.
    pub known: Option<String>,
}

fn fault<T>(at: usize, rule: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, rule: rule.into(), known: None })
}

/// Text without spaces and parentheses.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    pub text: &'a str,
    at: usize,
}

/// The content of a pair of parentheses.
#[derive(Debug)]
pub struct List<'a> {
    span: Range<usize>,
    pub forms: Vec<Form<'a>>,
}

/// An element of a list.
#[derive(Debug)]
pub enum Form<'a> {
    /// A name, a number or an operator.
    Word(Word<'a>),
    List(List<'a>),
}

impl<'a> Form<'a> {
    fn at(&self) -> usize {
        self.span().start
    }

    fn span(&self) -> Range<usize> {
        match self {
            Self::Word(word) => word.at..word.at + word.text.len(),
            Self::List(list) => list.span.clone(),
        }
    }

    pub fn word(&self) -> Option<Word<'a>> {
        match self {
            Self::Word(word) => Some(*word),
            Self::List(_) => None,
        }
    }
}

impl<'a> List<'a> {
    /// The first word, for example an operator.
    pub fn head(&self) -> Option<&'a str> {
        self.forms.first().and_then(Form::word).map(|word| word.text)
    }
}

/// A clause, by the positions of its parts in the text.
#[derive(Clone, Debug)]
pub struct Clause {
    pub condition: Range<usize>,
    /// The statements that run when the condition holds.
    pub statements: Vec<Range<usize>>,
}

/// A program, by the positions of its parts in the text.
#[derive(Clone, Debug)]
pub struct Outline {
    pub def: Range<usize>,
    pub clauses: Vec<Clause>,
}

/// Replaces comments, from `#` to the end of the line, by spaces, so that every other byte keeps
/// its position.
pub fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains('#') {
        return Cow::Borrowed(text);
    }
    let blanked = text.split_inclusive('\n').map(|line| {
        let code = line.find('#').unwrap_or(line.len());
        let end = line.trim_end_matches('\n').len().max(code);
        [&line[..code], &" ".repeat(end - code), &line[end..]].concat()
    });
    Cow::Owned(blanked.collect())
}

/// Checks that the parentheses within a part of a program match, even if they would match in the
/// whole program.
pub fn balanced(text: &str) -> Result<(), Fault> {
    lists(text).map(|_| ())
}

/// Parses a program without comments, and refuses whatever is not in the language.
pub fn outline(text: &str) -> Result<Outline, Fault> {
    let lists = lists(text)?;
    let Some((def, rest)) = lists.split_first() else { return fault(0, SHAPE) };
    let names = Names::declared_in(def)?;
    if rest.is_empty() {
        return fault(def.span.start, SHAPE);
    }
    let clauses = rest.iter().map(|list| names.clause(list)).collect::<Result<_, Fault>>()?;
    Ok(Outline { def: def.span.clone(), clauses })
}

/// The names that a program without comments declares, in order; report fields as `Report.NAME`.
pub fn declared(text: &str) -> Result<Vec<String>, Fault> {
    let lists = lists(text)?;
    let Some(def) = lists.first() else { return fault(0, SHAPE) };
    Ok(Names::declared_in(def)?.own)
}

/// Splits the text into its top-level lists.
pub fn lists(text: &str) -> Result<Vec<List<'_>>, Fault> {
    let (mut open, mut done): (Vec<List<'_>>, Vec<List<'_>>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        match next {
            ' ' | '\t' | '\r' | '\n' => at += 1,
            '(' if open.len() == DEPTH_MAX => {
                return fault(at, format!("it nests deeper than {DEPTH_MAX}; split it"));
            }
            '(' => {
                open.push(List { span: at..at, forms: Vec::new() });
                at += 1;
            }
            ')' => {
                at += 1;
                let Some(mut list) = open.pop() else {
                    return fault(at - 1, "this ) closes nothing");
                };
                list.span.end = at;
                match open.last_mut() {
                    Some(outer) => outer.forms.push(Form::List(list)),
                    None => done.push(list),
                }
            }
            _ => {
                let Some(list) = open.last_mut() else { return fault(at, OUTSIDE) };
                let word = word(text, at, list.forms.is_empty())?;
                at += word.text.len();
                list.forms.push(Form::Word(word));
            }
        }
    }
    open.last().map_or(Ok(done), |list| fault(list.span.start, "this ( is never closed"))
}

/// Reads the word at an offset. portus accepts an operator of symbols without a space after it:
/// `(+1 x)`.
fn word(text: &str, at: usize, is_head: bool) -> Result<Word<'_>, Fault> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '(' | ')');
    let rest = &text[at..];
    let mut length = rest.find(ends).unwrap_or(rest.len());
    if let Some(offset) = rest[..length].find(|c: char| !c.is_ascii_graphic()) {
        return fault(at + offset, "the language is made of ASCII letters, digits and signs");
    }
    let symbols = rest[..length].find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(length);
    let known = OPERATORS.contains(&&rest[..symbols]) || ASSIGNMENTS.contains(&&rest[..symbols]);
    if is_head && known {
        length = symbols;
    }
    Ok(Word { text: &rest[..length], at })
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_')
}

/// Whether the word is a constant. Too large a number is an error.
fn is_constant(word: Word<'_>) -> Result<bool, Fault> {
    if !word.text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(["true", "false", INFINITY].contains(&word.text));
    }
    if word.text.parse().is_ok_and(|number: u64| number < NUMBER_END) {
        return Ok(true);
    }
    fault(word.at, format!("a number must be below 2^31 = {NUMBER_END}, or {INFINITY}"))
}

/// The names that a program declares.
#[derive(Debug, Default)]
struct Names {
    own: Vec<String>,
}

impl Names {
    fn declared_in(def: &List<'_>) -> Result<Self, Fault> {
        if def.head() != Some("def") {
            return fault(def.span.start, SHAPE);
        }
        let mut names = Self::default();
        for form in &def.forms[1..] {
            match form {
                Form::List(list) if list.head() == Some("Report") => {
                    for field in &list.forms[1..] {
                        names.declare("Report.", field)?;
                    }
                }
                control => names.declare("", control)?,
            }
        }
        Ok(names)
    }

    fn declare(&mut self, prefix: &str, form: &Form<'_>) -> Result<(), Fault> {
        let rule = "a declaration is (NAME VALUE) or (volatile NAME VALUE)";
        let Form::List(list) = form else { return fault(form.at(), rule) };
        let words: Option<Vec<Word<'_>>> = list.forms.iter().map(Form::word).collect();
        let (name, value) = match words.as_deref() {
            Some([name, value]) => (*name, *value),
            Some([first, name, value]) if first.text == "volatile" => (*name, *value),
            _ => return fault(list.span.start, rule),
        };
        if !is_name(name.text) {
            return fault(name.at, format!("{:?} is no name: letters, digits, _ and .", name.text));
        }
        if let Some(prefix) = PREFIXES.iter().find(|prefix| name.text.starts_with(*prefix)) {
            let rule = format!("portus reads {prefix} where a name begins so; take another name");
            return fault(name.at, rule);
        }
        if !is_constant(value)? {
            return fault(value.at, format!("{:?} is no number, true or false", value.text));
        }
        let full = format!("{prefix}{}", name.text);
        if PROVIDED.contains(&full.as_str()) {
            return fault(name.at, format!("{full:?} is the datapath's own; take another name"));
        }
        if self.own.contains(&full) {
            return fault(name.at, format!("{full:?} is declared already"));
        }
        self.own.push(full);
        Ok(())
    }

    fn clause(&self, list: &List<'_>) -> Result<Clause, Fault> {
        let [_, condition, statements @ ..] = list.forms.as_slice() else {
            return fault(list.span.start, SHAPE);
        };
        if list.head() != Some("when") || statements.is_empty() {
            return fault(list.span.start, SHAPE);
        }
        self.expression(condition)?;
        statements.iter().try_for_each(|form| self.statement(form))?;
        let statements = statements.iter().map(Form::span).collect();
        Ok(Clause { condition: condition.span(), statements })
    }

    fn statement(&self, form: &Form<'_>) -> Result<(), Fault> {
        match form {
            Form::List(list) if list.head().is_some_and(|head| ASSIGNMENTS.contains(&head)) => {
                self.assignment(list)
            }
            Form::List(list) if list.forms.len() == 1 && is_command(list) => Ok(()),
            Form::List(list) if list.head().is_some_and(|head| CONDITIONAL.contains(&head)) => {
                fault(list.span.start, CONDITIONAL_RULE)
            }
            _ => fault(form.at(), "a statement is (:= NAME VALUE), (report) or (fallthrough)"),
        }
    }

    fn assignment(&self, list: &List<'_>) -> Result<(), Fault> {
        let [_, target, value] = list.forms.as_slice() else {
            return fault(list.span.start, "an assignment is (:= NAME VALUE)");
        };
        let Some(name) = target.word() else {
            return fault(target.at(), "only a name can be assigned to");
        };
        self.known(name)?;
        let provided = PROVIDED.contains(&name.text) && !PROVIDED_SETTABLE.contains(&name.text);
        if provided || is_constant(name)? {
            return fault(name.at, format!("{:?} cannot be assigned to", name.text));
        }
        match value {
            Form::List(list) if list.head().is_some_and(|head| CONDITIONAL.contains(&head)) => {
                self.operands(list)
            }
            other => self.expression(other),
        }
    }

    fn expression(&self, form: &Form<'_>) -> Result<(), Fault> {
        let list = match form {
            Form::Word(word) => return self.known(*word),
            Form::List(list) => list,
        };
        let head = list.head().unwrap_or_default();
        if ASSIGNMENTS.contains(&head) {
            return self.assignment(list);
        }
        if CONDITIONAL.contains(&head) {
            return fault(list.span.start, CONDITIONAL_RULE);
        }
        if is_command(list) {
            return fault(list.span.start, format!("({head}) is a statement, not a value"));
        }
        if [">=", "<=", "!="].contains(&head) {
            let rule = format!("the language has no {head}; write it with <, >, == and ||");
            return fault(list.span.start, rule);
        }
        if !OPERATORS.contains(&head) {
            return Err(Fault {
                at: list.forms.first().map_or(list.span.start, Form::at),
                rule: format!("{head:?} is no operator"),
                known: Some([OPERATORS, CONDITIONAL, ASSIGNMENTS].concat().join(" ")),
            });
        }
        self.operands(list)
    }

    fn operands(&self, list: &List<'_>) -> Result<(), Fault> {
        let [_, left, right] = list.forms.as_slice() else {
            let (head, count) = (list.head().unwrap_or_default(), list.forms.len() - 1);
            return fault(list.span.start, format!("{head} takes two operands, not {count}"));
        };
        self.expression(left)?;
        self.expression(right)
    }

    /// Refuses a word that is neither a constant nor a name with a value.
    fn known(&self, word: Word<'_>) -> Result<(), Fault> {
        let own = || self.own.iter().map(String::as_str);
        if is_constant(word)? || PROVIDED.iter().copied().chain(own()).any(|it| it == word.text) {
            return Ok(());
        }
        let known: Vec<&str> = PROVIDED.iter().copied().chain(own()).collect();
        let nearest = known.iter().max_by_key(|name| alike(word.text, name));
        let rule = format!(
            "nothing sets {:?}; the nearest known name is {:?}; one of your own is declared in \
             (def ...)",
            word.text,
            nearest.copied().unwrap_or_default()
        );
        Err(Fault { at: word.at, rule, known: Some(known.join(" ")) })
    }
}

const CONDITIONAL_RULE: &str = "if, !if and ewma stand only as what is assigned: (:= NAME (if \
                                CONDITION VALUE)); for more, write a (when CONDITION ...)";

fn is_command(list: &List<'_>) -> bool {
    list.head().is_some_and(|head| COMMANDS.contains(&head))
}

/// How many leading and trailing letters two words share.
fn alike(word: &str, known: &str) -> usize {
    let front = word.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
    let back = word.chars().rev().zip(known.chars().rev()).take_while(|(a, b)| a == b).count();
    front + back
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEF: &str = "(def (Report (volatile acked 0)) (mine 5) (is_on false))\n";

    /// In `marked`, a `~` stands before the expected position of the error.
    fn refused(marked: &str, part: &str) {
        let at = marked.find('~').expect("a mark");
        let error = outline(&marked.replace('~', "")).expect_err(marked);
        assert_eq!(error.at, at, "{marked}: {error:?}");
        assert!(error.rule.contains(part), "{marked}: {error:?}");
    }

    fn body_refused(marked: &str, part: &str) {
        refused(&format!("{DEF}{marked}"), part);
    }

    #[test]
    fn parts_are_found_where_they_lie() {
        let text = format!("{DEF}(when (> Micros mine) (:= Micros 0)\n (report))");
        let outline = outline(&text).expect("it fits");
        assert_eq!(&text[outline.def], DEF.trim_end());
        let clause = &outline.clauses[0];
        assert_eq!(&text[clause.condition.clone()], "(> Micros mine)");
        let statements: Vec<&str> = clause.statements.iter().map(|s| &text[s.clone()]).collect();
        assert_eq!(statements, ["(:= Micros 0)", "(report)"]);
    }

    #[test]
    fn parentheses_and_signs() {
        body_refused("~(when true (report)", "never closed");
        body_refused("(when true (report))~)", "closes nothing");
        refused("~when (def (a 0)) (when true (report))", "in no parentheses");
        body_refused("(when true (:= mine ~é) (report))", "ASCII");
        let deep = format!("(when {}~({}", "(+ ".repeat(DEPTH_MAX - 1), "+ ".repeat(3));
        body_refused(&deep, "nests deeper");
    }

    #[test]
    fn shape() {
        refused("~", "(def ...)");
        refused("~def", "(def ...)");
        refused("~(when true (report))", "(def ...)");
        refused("~(def (mine 0))", "(def ...)");
        body_refused("~(if true (report))", "(when");
        body_refused("~(when true)", "(when");
        body_refused("(when true ~(reset))", "a statement is");
        body_refused("(when true ~mine)", "a statement is");
        body_refused("(when true ~(if is_on (:= mine 1)) (report))", "only as what is assigned");
        body_refused("(when true ~(report mine))", "a statement is");
    }

    #[test]
    fn comments_become_spaces_and_all_else_stays_where_it_is() {
        for (text, want) in [
            ("(a)", "(a)"),
            ("# a (\n(b) # é\n(c)#", "     \n(b)     \n(c) "),
            ("#\n\n(a # b # c\n)", " \n\n(a        \n)"),
        ] {
            let got = without_comments(text);
            assert_eq!((got.as_ref(), got.len()), (want, text.len()));
        }
    }

    #[test]
    fn declarations() {
        refused("(def ~mine) (when true (report))", "a declaration is");
        refused("(def ~(mine)) (when true (report))", "a declaration is");
        refused("(def (~2nd 0)) (when true (report))", "no name");
        refused("(def (mine ~x)) (when true (report))", "no number");
        refused("(def (~volatile_one 0)) (when true (report))", "portus reads volatile");
        refused("(def (volatile ~true_one 0)) (when true (report))", "portus reads true");
        refused("(def (Report (~falsehood 0))) (when true (report))", "portus reads false");
        refused("(def (Report (a 0)) (~Report.a 0)) (when true (report))", "declared already");
        refused("(def (mine 0) (~mine 1)) (when true (report))", "declared already");
        refused("(def (~Cwnd 0)) (when true (report))", "the datapath's own");
        refused("(def (mine ~2147483648)) (when true (report))", "below 2^31");
    }

    #[test]
    fn expressions() {
        body_refused("(when ~(>= Micros 5) (report))", "no >=");
        body_refused("(when (~plus Micros 5) (report))", "no operator");
        body_refused("(when ~(> Micros) (report))", "two operands, not 1");
        body_refused("(when ~(report) (report))", "not a value");
        body_refused("(when true (:= mine (+ ~(ewma 1 2) 3)))", "only as what is assigned");
        body_refused("(when true (:= ~Ack.now 1))", "cannot be assigned");
        body_refused("(when true (:= ~5 1))", "cannot be assigned");
        body_refused("(when true (:= ~(+ 1 2) 1))", "only a name");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_with_all() {
        body_refused("(when true (:= Report.acked ~Flow.rtt_smaple_us))", "Flow.rtt_sample_us");
        body_refused("(when true (:= ~Report.akced 1))", "nearest known name is \"Report.acked\"");
        body_refused("(when true (:= ~yours 1))", "nothing sets \"yours\"");
        let text = format!("{DEF}(when true (:= yours 1))");
        let known = outline(&text).expect_err("refused").known.expect("names");
        assert!(known.starts_with("Ack.bytes_acked ") && known.ends_with(" is_on"), "{known}");
    }

    #[test]
    fn what_portus_takes_is_taken() {
        for body in [
            "(when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))",
            "(when (and is_on (gt Micros 5)) (bind mine (max (+1 mine) (wrapped_max 2 3))))",
            "(when (!= 1 2) (report))",
            "(when true (:= mine (!if is_on (:= mine 4))))",
            "(when (> (* Micros 2) +infinity) (:=Cwnd 3) (report))",
        ] {
            let fits = outline(&format!("{DEF}{body}")).is_ok();
            let compiles = portus::lang::compile(format!("{DEF}{body}").as_bytes(), &[]).is_ok();
            assert_eq!(fits, compiles, "{body}");
        }
    }
}
