//! Which arms are added, under which numbers, and which are refused.

use super::fake::{decision, line, pair};
use super::*;
use crate::flow::Driver;
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{Measurement, PathState};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const MSS: Bytes = Bytes(1_448);

fn program(name: &str) -> ProgramSpec {
    ProgramSpec { name: name.to_owned(), text: String::new(), own: vec![], registers: vec![] }
}

fn arm(name: &str, programs: Vec<ProgramSpec>) -> ArmSpec {
    ArmSpec {
        name: name.to_owned(),
        summary: "of a test".to_owned(),
        report: String::new(),
        control: String::new(),
        rules: String::new(),
        report_rule: String::new(),
        reports_per_round: 4,
        programs,
    }
}

fn hello(arms: Vec<ArmSpec>) -> Hello {
    Hello { version: PROTOCOL_VERSION, arms }
}

fn one(name: &str) -> Hello {
    hello(vec![arm(name, vec![program("report")])])
}

/// A line whose other end is never read.
fn mute() -> Arc<Line> {
    Arc::new(Line::new(pair().0, false, LONG))
}

fn uids(authors: &Authors) -> Vec<u32> {
    authors.programs().iter().map(|program| program.uid - UID_FIRST).collect()
}

#[test]
fn a_new_author_gets_the_numbers_of_those_that_have_left() {
    let authors = Authors::default();
    let first = mute();
    authors.add(Arc::clone(&first), &one("a")).expect("it is added");
    let two = arm("b", vec![program("fast"), program("slow")]);
    authors.add(mute(), &hello(vec![two])).expect("it is added");
    assert_eq!(uids(&authors), [1, 2, 3]);
    first.end("a test");
    assert_eq!(authors.lines().len(), 1, "a closed connection is not polled");
    assert_eq!(authors.remove_ended(), ["a"]);
    for _ in 0..200 {
        let again = mute();
        authors.add(Arc::clone(&again), &one("c")).expect("it is added");
        assert_eq!(uids(&authors), [2, 3, 1]);
        let compiled = &authors.programs()[2].compiled;
        assert_eq!(compiled.install[8..12], (UID_FIRST + 1).to_le_bytes());
        again.end("a test");
        assert_eq!(authors.remove_ended(), ["c"]);
    }
}

fn refused(hello: &Hello, said: &str) {
    let authors = Authors::default();
    authors.add(mute(), &one("here")).expect("it is added");
    let error = authors.add(mute(), hello).expect_err(said).to_string();
    assert!(error.contains(said), "{error}");
    assert_eq!(authors.names(), ["here"], "all or nothing: {said}");
}

#[test]
fn names_are_unique() {
    for name in ["here", "cubic", "rein"] {
        refused(&one(name), "is there already");
    }
    let twice = ["new", "new"].map(|name| arm(name, vec![program("report")]));
    refused(&hello(twice.to_vec()), "is there already");
    refused(&one("No Name"), "is no name of an arm");
    for name in ["", "a b", "a/b", "2nd", &"x".repeat(33)] {
        refused(&hello(vec![arm("new", vec![program(name)])]), "is no name of a program");
    }
    let same = vec![program("Default-1.2"), program("Default-1.2")];
    refused(&hello(vec![arm("new", same)]), "two programs are called \"Default-1.2\"");
}

/// An arm whose program is all its own, and declares `count` control registers.
fn one_with_registers(count: usize) -> Hello {
    let registers: Vec<String> = (0..count).map(|number| format!("r{number}")).collect();
    let declared: String = registers.iter().map(|name| format!("({name} 0)")).collect();
    let text = format!("(def (Report (volatile acked 0)) {declared})\n(when true (report))");
    let own = vec!["acked".to_owned()];
    hello(vec![arm("new", vec![ProgramSpec { text, own, registers, ..program("report") }])])
}

#[test]
fn limits() {
    refused(&hello(vec![]), "0 arms");
    refused(&hello(vec![arm("new", vec![])]), "0 programs");
    let long = ArmSpec { rules: " ".repeat(TEXT_BYTES_MAX + 1), ..one("new").arms.remove(0) };
    refused(&hello(vec![long]), "program new/report, `rules`: 16385 bytes: 16384 at most");
    refused(&Hello { version: 1, arms: vec![] }, "it speaks protocol version 1, not 2");
    let undeclared = ProgramSpec { registers: vec!["factor".to_owned()], ..program("report") };
    refused(&hello(vec![arm("new", vec![undeclared])]), "does not declare factor");
    refused(&one_with_registers(17), "has 17 control registers of its own: 16 at most");
    let authors = Authors::default();
    let added = authors.add(mute(), &one_with_registers(16));
    assert_eq!(added.expect("CCP's bbr has more than four"), ["new"]);
}

#[test]
fn a_comment_at_the_end_of_a_part_hides_nothing_of_the_next() {
    let commented = ArmSpec {
        report: "(volatile mine 0) # counts".to_owned(),
        control: "(factor 2) # (".to_owned(),
        rules: "# nothing yet".to_owned(),
        ..one("new").arms.remove(0)
    };
    let authors = Authors::default();
    authors.add(mute(), &hello(vec![commented])).expect("it is added");
    let program = &authors.programs()[0];
    assert!(program.compiled.register("Report.mine").is_some());
    assert!(program.compiled.register("factor").is_some());
}

#[test]
fn an_unknown_name_is_answered_with_the_authors_arms_as_well() {
    let setup = crate::Setup::default();
    setup.authors.add(mute(), &one("mine_own")).expect("it is added");
    let errors = [
        setup.kind_of("minne").expect_err("unknown"),
        Driver::build("minne", &setup).map(|_| ()).expect_err("unknown"),
    ];
    for error in errors {
        assert!(error.to_string().contains("mine_own"), "{error}");
    }
    let rows = crate::control::authored_rows(&setup.authors);
    assert_eq!((rows[0].arm.as_str(), rows[0].summary.as_str()), ("mine_own", "of a test"));
    assert_eq!((rows[0].fields, rows[0].instructions > 10), (15, true));
}

#[test]
fn a_program_that_reports_at_every_ack_of_a_fast_path_fails() {
    let (line, author) = line(false, LONG);
    let authors = Authors::default();
    authors.add(Arc::new(line), &one("new")).expect("it is added");
    let mut flow = authors.build("new").expect("it is there");
    flow.resume(&PathState::new(MSS, MSS), Time::ZERO);
    for n in 0..20_000 {
        let now = Time(Duration::from_micros(25 * n));
        flow.on_measurement(&Measurement::QUIET, now);
    }
    assert_eq!(flow.failure(), None, "40,000 a second are many, not too many");
    for n in 0..=5_000 {
        let now = Time(Duration::from_secs(1) + Duration::from_micros(19 * n));
        flow.on_measurement(&Measurement::QUIET, now);
    }
    let why = flow.failure().expect("it fails");
    assert!(why.contains("reports too often"), "{why}");
    assert!(author.hear().is_some());
}

#[test]
fn what_an_author_hands_off_raises_no_window() {
    let (line, author) = line(false, LONG);
    let (authors, line) = (Authors::default(), Arc::new(line));
    authors.add(Arc::clone(&line), &one("new")).expect("it is added");
    let mut flow = authors.build("new").expect("it is there");
    let mut path = PathState::new(MSS, Bytes(100_000));
    flow.resume(&path, Time::ZERO);
    for (says, handed) in [(u64::MAX, 100_000), (50_000, 50_000), (0, 2 * MSS.0)] {
        let seq = u32::from_le_bytes(author.hear().expect("asked")[5..9].try_into().expect("4"));
        assert!(author.say(&decision(1, seq, says)));
        line.receive();
        flow.on_measurement(&Measurement::QUIET, Time::ZERO);
        flow.on_measurement(&Measurement::QUIET, Time::ZERO);
        path.cwnd = Bytes(100_000);
        flow.hand_off(&mut path);
        assert_eq!(path.cwnd, Bytes(handed), "it says {says}");
    }
}
