//! What commands show in a terminal (tmux), beside what they print in a pipe.

use ccp_agent::host::Target;
use remuda_live::transfer::{Running, Transfer};
use remuda_live::{Clock, Testbed};
use remuda_tests::tmux::{Shown, lacks_tmux, show};
use remuda_tests::{Place, binary, exclusive, skip, wait_for, wired};
use std::time::Duration;

const FLOWS: usize = 6;
const HEADERS: [&str; 12] =
    ["flow", "peer", "port", "arm", "cwnd", "Mbit/s", "pace", "srtt", "min", "lost", "age", "idle"];
/// The terminal and the pipe are read one after the other, and a flow may change between.
const TRIES: usize = 20;
const LIMIT: Duration = Duration::from_secs(20);

/// A line of the shell that asks this place's agent.
fn line(place: &Place, command: &str) -> String {
    format!("{} {command} --run-dir {}", binary().display(), place.run_dir().display())
}

fn piped(place: &Place, command: &str) -> String {
    let arguments: Vec<&str> = command.split_whitespace().collect();
    let (is_good, text) = place.remuda(&arguments);
    assert!(is_good, "{command}: {text}");
    text
}

/// What a command shows in a terminal; it succeeds, and no line is wrapped by the terminal.
fn shown(place: &Place, columns: u16, rows: u16, command: &str) -> Shown {
    let shown = show(columns, rows, &line(place, command));
    assert_eq!(shown.status, 0, "{command}:\n{}", shown.text());
    assert_eq!(shown.lines, shown.unwrapped, "{command}: a line is wider than {columns} columns");
    assert!(!shown.text().contains("panicked"), "{command}:\n{}", shown.text());
    shown
}

/// The words of a text, with each number as `N`: numbers change between two looks, and the width of
/// a column and the height of a picture with them.
fn words(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        // A line of the picture of `explain`.
        let line =
            line.split_once(" |").or(line.split_once(" +-")).map_or(line, |(scale, _)| scale);
        let mut in_number = false;
        for letter in line.chars() {
            let is_number = letter.is_ascii_digit() || (in_number && letter == '.');
            if !is_number {
                out.push(letter);
            } else if !in_number {
                out.push('N');
            }
            in_number = is_number;
        }
        out.push('\n');
    }
    let words = out.split_whitespace();
    // A rate that is not known yet, or that the window makes.
    words.map(|word| if word == "-" { "N" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Compares a command's words in a terminal of 80 columns and 24 rows and in a pipe until they are
/// the same. Returns what the terminal shows.
fn same(place: &Place, command: &str, text_of: fn(&Shown) -> String) -> String {
    let mut last = (String::new(), String::new());
    for _ in 0..TRIES {
        let in_terminal = text_of(&shown(place, 80, 24, command));
        last = (words(&in_terminal), words(&piped(place, command)));
        if last.0 == last.1 {
            assert!(!in_terminal.contains('…'), "{command} cuts:\n{in_terminal}");
            println!("{command}, in a terminal of 80 columns:\n{in_terminal}\n");
            return in_terminal;
        }
    }
    panic!("{command}: in a terminal\n{}\nin a pipe\n{}", last.0, last.1);
}

fn headers(text: &str, line: usize) -> Vec<&str> {
    text.lines().nth(line).unwrap_or_default().split_whitespace().collect()
}

/// Flows of the place's agent over a path; the second family is IPv6 for every other one if asked.
fn start(place: &Place, path: &Testbed, with_ipv6: bool) -> Vec<Running> {
    let start = |n: usize| {
        let transfer = Transfer {
            algorithm: Some(place.name.clone()),
            ipv6: with_ipv6 && n % 2 == 1,
            ..Transfer::default()
        };
        transfer.start(path.server(), path.client()).expect("it starts")
    };
    let running = (0..FLOWS).map(start).collect();
    let all = format!("\n{FLOWS} flows\n");
    wait_for("all flows", LIMIT, || piped(place, "flows").ends_with(&all));
    running
}

/// A configuration with which the agent learns initial windows.
fn learning(place: &Place) -> String {
    place.file("remuda.toml", "[iw]\nenabled = true\n").display().to_string()
}

fn stop(running: Vec<Running>) {
    running.iter().for_each(Running::stop);
    running.into_iter().for_each(|flow| drop(flow.join().expect("every byte arrives")));
}

#[test]
fn flows_top_and_explain_show_in_80_columns_what_they_print_in_a_pipe() {
    let _one = exclusive();
    if skip() || lacks_tmux() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--policy", "rein"]);
    let path = wired(24.0, 10.0, 1.0);
    let running = start(&place, &path, false);
    let rows = agent.flows().expect("the flows");
    agent.set(Target::Flow(rows[0].id), "bbr").expect("it is set");
    let clock = Clock::start();
    let flows = same(&place, "flows", Shown::text);
    assert_eq!(headers(&flows, 0), HEADERS, "{flows}");
    let whys = flows.lines().filter(|line| line.starts_with("      ") && line.len() > 10);
    assert!(whys.count() >= FLOWS, "a line with the reason for each flow:\n{flows}");
    let top = same(&place, "top --updates 2 --interval-s 0.2", |shown| {
        // In a pipe both updates follow each other.
        let update = shown.screen.join("\n");
        format!("{update}\n\n{update}")
    });
    assert_eq!(headers(&top, 1), HEADERS, "{top}");
    let explain = same(&place, &format!("explain {}", rows[0].id), Shown::text);
    for part in ["What held it back", "Its arms", "now bbr, for", "Mbit/s over its life", "#"] {
        assert!(explain.contains(part), "{part} in\n{explain}");
    }
    println!("compared within {:.1?}", clock.elapsed());
    stop(running);
    agent.stop().expect("it ends");
}

#[test]
fn tables_of_rules_and_windows_fit_80_columns() {
    let _one = exclusive();
    if skip() || lacks_tmux() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--policy", "rein", "--config", &learning(&place)]);
    let long = "rule add antelope --destination 2001:db8:85a3::/48 --local-port 443 --uid 1000 \
                --mark 7 --share 0.99 --name downloads";
    for rule in ["rule add bbr3 --destination 203.0.113.0/24 --name web", long] {
        piped(&place, rule);
    }
    same(&place, "iw", Shown::text);
    let list = shown(&place, 80, 24, "rule list").text();
    println!("{list}");
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    for word in piped(&place, "rule list").split_whitespace().filter(is_word) {
        assert!(list.contains(word), "{word}:\n{list}");
    }
    agent.stop().expect("it ends");
}

#[test]
fn a_terminal_of_20_columns_is_readable() {
    let _one = exclusive();
    if skip() || lacks_tmux() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic", "--config", &learning(&place)]);
    let path = wired(24.0, 10.0, 1.0);
    let running = start(&place, &path, true);
    piped(&place, "rule add bbr3 --destination 203.0.113.0/24 --name web");
    let rows = agent.flows().expect("the flows");
    let explain = format!("explain {}", rows[0].id);
    for (command, parts) in [
        ("flows", &["flowpeer", &*rows[0].remote, &*rows[1].remote, "6flows"][..]),
        ("top --updates 1", &["6flows", "busyinthelastsecond", "flow"]),
        (&*explain, &[&*rows[0].remote, "Whatheldit", "startswithcubic", "0to"]),
        ("rule list", &["rule:web", "203.0.113.0/24", "use:bbr3", "otherflows:cubic"]),
        ("iw", &["groups", "recordsstored"]),
    ] {
        let text = shown(&place, 20, 40, command).text();
        println!("{command}, in a terminal of 20 columns:\n{text}\n");
        let joined: String = text.split_whitespace().collect();
        for part in parts {
            assert!(joined.contains(part), "{command}: {part} in\n{text}");
        }
    }
    stop(running);
    agent.stop().expect("it ends");
}
