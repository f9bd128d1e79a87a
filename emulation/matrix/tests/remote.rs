//! Jobs that another process runs: every valid answer is stored, and every invalid one is named.
//!
//! The process is a shell script. It answers each job with the content of a file named for the
//! job's index, and ends if there is no such file.

use ccp_agent::Setup;
use remuda_matrix::{BUILD, Only, Plan, Ran, Row, Store, run, run_remotely, suite_named};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FAKE: &str = r#"
printf '%s\n' "$2"
while read -r line; do
    index=${line#*'"index":'}
    index=${index%%,*}
    cat "$1/$index" || exit 3
done
"#;

/// Two environments, two drivers, one seed.
fn plan() -> Plan {
    let suites = [suite_named("ccp").expect("it comes with us")];
    let only = Only { parts: vec!["fixed".to_owned(), "drop".to_owned()], ..Only::default() };
    let drivers = ["reno", "window:20"].map(str::to_owned);
    Plan::of(&suites, &only, &drivers, 1..=1).expect("it has environments")
}

fn local(plan: &Plan) -> Vec<Row> {
    let (setup, stopped) = (Arc::new(Setup::default()), AtomicBool::new(false));
    let rows = run(plan, (None, &setup), (1, &stopped), |_| {});
    rows.into_iter().map(|row| row.expect("it ended").expect("it runs")).collect()
}

fn ready(ahead: usize) -> String {
    format!("{{\"build\":\"{BUILD}\"}}\n{{\"ahead\":{ahead}}}")
}

fn done(index: usize, row: &Row) -> String {
    let row = serde_json::to_string(row).expect("a row is numbers and texts");
    format!(r#"{{"done":{{"index":{index},"row":{row}}}}}"#)
}

/// The script, with its first lines and one answer for each job.
fn fake(folder: &Path, ready: &str, answers: &[String]) -> Command {
    for (index, answer) in answers.iter().enumerate() {
        fs::write(folder.join(index.to_string()), format!("{answer}\n")).expect("it is written");
    }
    let mut command = Command::new("sh");
    command.args(["-c", FAKE, "fake"]).arg(folder).arg(ready);
    command
}

fn ran(plan: &Plan, store: Option<&Store>, command: &mut Command) -> Ran {
    run_remotely((plan, &[]), store, (command, &AtomicBool::new(false)), |_| {})
}

fn rows(ran: Ran) -> Vec<Option<Row>> {
    ran.rows.into_iter().map(|row| row.and_then(Result::ok)).collect()
}

#[test]
fn right_answers_are_kept_and_not_asked_for_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan();
    let want = local(&plan);
    let answers: Vec<String> =
        want.iter().enumerate().map(|(index, row)| done(index, row)).collect();
    let store = Store::open(&folder.path().join("runs"), "code".to_owned()).expect("a store");
    for ahead in [1, 3, 100] {
        let ran = ran(&plan, None, &mut fake(folder.path(), &ready(ahead), &answers));
        assert!(ran.broken.is_none(), "{:?}", ran.broken);
        assert_eq!(rows(ran).into_iter().flatten().collect::<Vec<_>>(), want);
    }
    // The answer of the third job is missing: the earlier answers are kept.
    fs::remove_file(folder.path().join("2")).expect("it was there");
    let mut command = fake(folder.path(), &ready(1), &answers[..2]);
    let part = ran(&plan, Some(&store), &mut command);
    let error = part.broken.as_ref().expect("it ended").to_string();
    assert!(error.contains("ended (exit status: 3) with 1 runs unanswered"), "{error}");
    let all: Vec<Option<Row>> = want.iter().cloned().map(Some).collect();
    assert_eq!(rows(part), [all[0].clone(), all[1].clone(), None, None]);
    let mut kept = 0;
    let mut command = fake(folder.path(), &ready(1), &answers);
    let stopped = AtomicBool::new(false);
    let whole = run_remotely((&plan, &[]), Some(&store), (&mut command, &stopped), |so_far| {
        kept = so_far.kept;
    });
    assert_eq!((kept, rows(whole)), (2, all.clone()));
    // A row that cannot be stored is still returned.
    let runs = folder.path().join("full");
    let full = Store::open(&runs, "code".to_owned()).expect("a store");
    fs::remove_dir(&runs).expect("it is empty");
    fs::write(&runs, "").expect("a file in its place");
    let mut unkept = None;
    let mut command = fake(folder.path(), &ready(1), &answers);
    let whole = run_remotely((&plan, &[]), Some(&full), (&mut command, &stopped), |so_far| {
        unkept.clone_from(&so_far.unkept);
    });
    assert_eq!((unkept.map(|it| it.runs), rows(whole)), (Some(4), all.clone()));
    // All rows are stored, so the program, which does not exist, is not started.
    assert_eq!(rows(ran(&plan, Some(&store), &mut Command::new("/no/such"))), all);
}

#[test]
fn a_run_that_fails_elsewhere_costs_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan();
    let want = local(&plan);
    let mut answers: Vec<String> =
        want.iter().enumerate().map(|(index, row)| done(index, row)).collect();
    answers[1] = r#"{"failed":{"index":1,"why":"ccp/fixed, window:20, seed 1: no"}}"#.to_owned();
    answers[2] += "\n{\"ahead\":9}";
    let ran = ran(&plan, None, &mut fake(folder.path(), &ready(1), &answers));
    assert!(ran.broken.is_none(), "{:?}", ran.broken);
    let Some(Err(error)) = &ran.rows[1] else { panic!("{:?}", ran.rows[1]) };
    let name = plan.jobs[1].name();
    let told = error.to_string();
    assert!(told.starts_with(&format!("{name}: ")) && told.ends_with("no"), "{told}");
    assert_eq!(rows(ran).iter().flatten().count(), 3);
}

/// The first answer is valid, the second is not.
#[test]
fn what_is_no_answer_is_named_and_what_was_right_is_kept() {
    let plan = plan();
    let want = local(&plan);
    let first = done(0, &want[0]);
    let null = done(1, &want[1]).replace("null", "\"much\"");
    for (second, said) in [
        (done(99, &want[1]), "wrote `run 99`: there are 4 runs, from 0"),
        (first.clone(), "wrote `run 0`: this run is already done"),
        (done(3, &want[3]), "wrote `run 3`: this run was not sent to the process"),
        (done(1, &want[3]), "seed 1`: run 1 is ccp/"),
        (null, "is not a message: invalid type: string \"much\""),
        ("Traceback (most recent call last):".to_owned(), "is not a message: expected value"),
        ("{\"done\":{\"index\":1}}".to_owned(), "is not a message: missing field `row`"),
        ("{\"later\":1}".to_owned(), "is not a message: unknown variant `later`"),
        (format!("{first}{first}"), "is not a message: trailing characters"),
        ("x".repeat(2 << 20), "a line has less than 1 MiB"),
        (ready(1), "`build` may only be the first line"),
        ("{\"ahead\":0}".to_owned(), "must be from 1 to 1000000"),
        ("{\"broken\":\"no cluster\"}".to_owned(), ": no cluster"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let answers = [first.clone(), second];
        let ran = ran(&plan, None, &mut fake(folder.path(), &ready(1), &answers));
        let error = ran.broken.as_ref().expect("it broke a rule").to_string();
        assert!(error.starts_with("sh -c") && error.contains(said), "{said}: {error}");
        assert_eq!(rows(ran), [Some(want[0].clone()), None, None, None], "{said}");
    }
}

#[test]
fn what_does_not_begin_well_is_not_given_anything() {
    let plan = plan();
    let other = ready(1).replace("of sources ", "of sources 0");
    for (first, said) in [
        (other.as_str(), "fix: build and install both from the same source tree"),
        ("{\"ahead\":1}", "the first line must be `build`, and then `ahead`"),
        (&format!("{{\"build\":\"{BUILD}\"}}\n{{\"build\":\"{BUILD}\"}}"), "and then `ahead`"),
        (&ready(0), "must be from 1 to 1000000"),
        ("ready", "is not a message"),
        ("{\"broken\":\"no Ray\\nfix: install it\"}", "no Ray\nfix: install it"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = ran(&plan, None, &mut fake(folder.path(), first, &[]));
        let error = ran.broken.as_ref().expect("it is refused").to_string();
        assert!(error.contains(said), "{said}: {error}");
        assert!(rows(ran).iter().all(Option::is_none));
    }
    let named = |mut command: Command| {
        let broken = ran(&plan, None, &mut command).broken;
        broken.expect("it cannot run").to_string()
    };
    let error = named(Command::new("/no/such"));
    assert!(error.starts_with("cannot start /no/such: No such file"), "{error}");
    let error = named(Command::new("false"));
    assert!(error.contains("false ended (exit status: 1) with 0 runs"), "{error}");
    assert!(error.contains("fix: use a Python that has the package"), "{error}");
}

#[test]
fn ctrl_c_ends_the_process_and_keeps_what_was_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan();
    let want = local(&plan);
    // The first job gets an answer, the others none; the test would hang if the process were not
    // ended.
    let answers = [done(0, &want[0]), String::new(), String::new(), String::new()];
    let quiet = FAKE.replace("cat", "[ \"$index\" -gt 0 ] || cat").replace("exit 3", "true");
    let mut command = fake(folder.path(), &ready(4), &answers);
    let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    command = Command::new("sh");
    command.args(["-c", &quiet]).args(&arguments[2..]);
    let stopped = AtomicBool::new(false);
    let ran = run_remotely((&plan, &[]), None, (&mut command, &stopped), |_| {
        stopped.store(true, Ordering::Relaxed);
    });
    assert!(ran.broken.is_none(), "{:?}", ran.broken);
    assert_eq!(rows(ran), [Some(want[0].clone()), None, None, None]);
}
