//! Written results can be read back, the same outcome gives the same bytes, and pictures and qlog
//! files are valid for their readers.

use proptest::prelude::*;
use remuda_results::{About, Sweep, Table, details, overview, png, qlog, read, svg, write};
use remuda_scenarios::outcome::{
    Became, Decided, Engine, FlowOutcome, FlowSample, LinkOutcome, LinkSample, Outcome, Switch,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Two flows over one link with a queue; the first flow changes its arm.
fn outcome() -> Outcome {
    let flow = |flow: u32, name: &str, driver: &str, arm: &str| FlowOutcome {
        flow,
        name: name.to_owned(),
        driver: driver.to_owned(),
        arm: arm.to_owned(),
        delivered_bytes: 10_000_000,
        goodput_mbit_per_sec: 8.0,
        sent_pkts: 7_000,
        retransmitted_pkts: 35,
        rtt_min_ms: Some(40.0),
        rtt_p95_ms: Some(72.5),
        ..FlowOutcome::default()
    };
    let mut flows = vec![flow(0, "a <&\" b", "rein", "bbr"), flow(1, "late", "cubic", "cubic")];
    let (from, to, why) = ("cubic".to_owned(), "bbr".to_owned(), "small buffer".to_owned());
    flows[0].switches.push(Switch { t_s: 3.02, from, to, why });
    flows[0].decisions = vec![
        Decided { t_s: 1.0, arm: "cubic".to_owned(), to: "cubic".to_owned(), ..Decided::default() },
        Decided {
            t_s: 3.02,
            became: Became::Switched,
            arm: "cubic".to_owned(),
            to: "bbr".to_owned(),
            why: "small \"buffer\"".to_owned(),
            features: [("bbr".to_owned(), "0.5 +- 0.1".to_owned())].into(),
        },
    ];
    flows[0].decisions_left_out = 3;
    flows[1].start_s = 2.0;
    flows[1].end_s = Some(9.5);
    let look = |n: u32, flow: u32| FlowSample {
        t_s: f64::from(n) / 10.0,
        flow,
        arm: Arc::from(if flow == 0 && n > 30 { "bbr" } else { "cubic" }),
        cwnd_pkts: f64::from(10 + n % 30),
        pacing_mbit_per_sec: (flow == 0).then_some(1.0 / 3.0),
        srtt_ms: (n > 0).then(|| 40.0 + f64::from(n % 30)),
        in_flight_pkts: n % 40,
        delivered_bytes: u64::from(n) * 100_000 / u64::from(flow + 1),
        retransmitted_pkts: u64::from(n / 30),
    };
    let queue = |n: u32| LinkSample {
        t_s: f64::from(n) / 10.0,
        link: 0,
        queue_packets: u64::from(n % 30),
        queue_bytes: u64::from(n % 30) * 1500,
    };
    Outcome {
        scenario: "two <flows>".to_owned(),
        engine: Engine::Sim,
        seed: 7,
        duration_s: 10.0,
        flows,
        links: vec![LinkOutcome {
            name: "down".to_owned(),
            packets_in: 14_000,
            packets_out: 13_930,
            bytes_out: 20_895_000,
            dropped_pkts: 70,
            queueing_p95_ms: 31.4,
            ..LinkOutcome::default()
        }],
        flow_samples: (0..=100).flat_map(|n| [look(n, 0), look(n, 1)]).collect(),
        link_samples: (0..=100).map(queue).collect(),
        packets: 14_000,
    }
}

fn about() -> About {
    let scenario_toml = Some("name = 'two'\n".to_owned());
    About { commit: Some("0123456789ab".to_owned()), scenario_toml }
}

fn bytes_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("a file"));
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).expect("it is readable"))
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

#[test]
fn what_is_written_is_read_back_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/run");
    write(&path, &outcome(), &about()).unwrap();
    assert_eq!(read(&path).unwrap(), outcome());
    let names: Vec<String> = bytes_of(&path).into_iter().map(|(name, _)| name).collect();
    let mut want = Table::ALL.map(|table| format!("{}.parquet", table.name()));
    want.sort();
    assert_eq!(names, want);
}

#[test]
fn the_same_outcome_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str| {
        let path = folder.path().join(name);
        write(&path, &outcome(), &about()).unwrap();
        let mut sweep = Sweep::create(&path.join("sweep"), &about()).unwrap();
        sweep.add(&outcome()).unwrap();
        sweep.add(&outcome()).unwrap();
        sweep.finish().unwrap();
        let mut files = bytes_of(&path.join("sweep"));
        fs::remove_dir_all(path.join("sweep")).unwrap();
        files.extend(bytes_of(&path));
        files
    };
    let first = written("first");
    for again in 0..8 {
        assert!(written(&format!("again-{again}")) == first);
    }
    // Also where files of these names existed before.
    assert!(written("first") == first);
}

#[test]
fn a_folder_that_is_none_or_holds_something_else_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("flows.parquet: No such file"), "{error}");
    fs::write(folder.path().join("flows.parquet"), b"no parquet at all").unwrap();
    let error = read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("flows.parquet: "), "{error}");
    let error = write(&folder.path().join("flows.parquet"), &outcome(), &about()).unwrap_err();
    assert!(error.to_string().contains("flows.parquet: "), "{error}");
}

#[test]
fn an_svg_has_every_panel_and_no_text_breaks_it() {
    let text = svg(&outcome()).unwrap();
    assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{}", &text[..80]);
    for part in ["delivery rate, Mbit/s", "window, packets", "smoothed RTT, ms", "queue, packets"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.contains("a &lt;&amp;&quot; b") || text.contains("a &lt;&amp;\" b"));
    assert!(!text.contains("<flows>"));
    assert!(text.matches("<polyline").count() >= 7, "{}", text.matches("<polyline").count());
    assert_eq!(svg(&outcome()).unwrap(), text, "the same bytes");
}

#[test]
fn a_png_is_one_and_has_text_without_a_font_on_this_machine() {
    let file = png(&outcome()).unwrap();
    if let Some(folder) = std::env::var_os("REMUDA_PLOTS") {
        fs::write(Path::new(&folder).join("two.png"), &file).unwrap();
        fs::write(Path::new(&folder).join("two.svg"), svg(&outcome()).unwrap()).unwrap();
    }
    let mut reader = ::png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.color_type), (2400, ::png::ColorType::Rgb));
    // The title: dark pixels in the first 80 rows, which hold nothing else.
    let row = info.width as usize * 3;
    let dark = pixels[..row * 80].chunks(3).filter(|rgb| rgb.iter().all(|it| *it < 100)).count();
    assert!(dark > 200, "{dark} dark pixels of text");
    let colours: std::collections::BTreeSet<&[u8]> = pixels.chunks(3).step_by(7).collect();
    assert!(colours.len() > 20, "{} colours", colours.len());
}

#[test]
fn without_a_time_series_a_plot_says_what_to_do() {
    let outcome = Outcome { flow_samples: Vec::new(), ..outcome() };
    let error = svg(&outcome).unwrap_err().to_string();
    assert!(error.ends_with("it has no time series; set its sample_ms above 0"), "{error}");
}

#[test]
fn a_qlog_is_what_qvis_reads() {
    let outcome = outcome();
    let files: Vec<_> = qlog(&outcome, |_| 1448).collect();
    assert_eq!(files.len(), 2);
    let (flow, text) = &files[0];
    assert_eq!(flow.flow, 0);
    let file: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(file["qlog_version"], "0.3");
    assert_eq!(file["qlog_format"], "JSON");
    let trace = &file["traces"][0];
    assert_eq!(trace["vantage_point"]["type"], "server");
    assert_eq!(trace["common_fields"]["time_format"], "relative");
    let events = trace["events"].as_array().unwrap();
    let mut before = -1.0;
    for event in events {
        let time = event["time"].as_f64().unwrap();
        assert!(time >= before, "in order of time");
        before = time;
    }
    let of = |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
    let metrics = of("recovery:metrics_updated");
    assert_eq!(metrics.len(), 101);
    assert_eq!(metrics[1]["time"], 100.0);
    assert_eq!(metrics[1]["data"]["congestion_window"], 11 * 1448);
    assert_eq!(metrics[1]["data"]["bytes_in_flight"], 1448);
    assert_eq!(metrics[1]["data"]["smoothed_rtt"], 41.0);
    assert_eq!(metrics[1]["data"]["pacing_rate"], 333_333);
    assert_eq!(metrics[0]["data"].get("smoothed_rtt"), None);
    let states = of("recovery:congestion_state_updated");
    assert_eq!((states.len(), &states[0]["time"]), (1, &serde_json::json!(3020.0)));
    let want = serde_json::json!({ "old": "cubic", "new": "bbr", "trigger": "small buffer" });
    assert_eq!(states[0]["data"], want);
    let sent = of("transport:packet_sent");
    let bytes: u64 = sent.iter().map(|it| it["data"]["raw"]["length"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 10_000_000);
    let number = |event: &serde_json::Value| event["data"]["header"]["packet_number"].as_u64();
    let numbers: Vec<u64> = sent.iter().map(|it| number(it).unwrap()).collect();
    assert_eq!(numbers, (1..=sent.len() as u64).collect::<Vec<_>>());
    // The samples numbered 30, 60 and 90 report one lost segment each. Sample N is packet N.
    let lost = of("recovery:packet_lost");
    assert_eq!(lost.iter().map(|it| number(it).unwrap()).collect::<Vec<_>>(), [30, 60, 90]);
    for event in lost {
        assert_eq!(event["data"]["segments_sent_again"], 1);
        assert_eq!(event["data"]["header"]["packet_type"], "1RTT");
    }
    each_event_is_one_of_the_schema(events);
    let empty = Outcome { flow_samples: Vec::new(), ..outcome.clone() };
    for (_, text) in qlog(&empty, |_| 1448) {
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(!file["traces"][0]["events"].as_array().unwrap().is_empty());
    }
}

/// An event has time, name and data; its name is one of draft-ietf-quic-qlog-quic-events-02.
fn each_event_is_one_of_the_schema(events: &[serde_json::Value]) {
    let names: [serde_json::Value; 5] = [
        "recovery:parameters_set",
        "recovery:metrics_updated",
        "recovery:congestion_state_updated",
        "recovery:packet_lost",
        "transport:packet_sent",
    ]
    .map(Into::into);
    for event in events {
        let keys: Vec<&String> = event.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["data", "name", "time"]);
        assert!(event["data"].is_object() && names.contains(&event["name"]));
        // qvis warns about these keys, which draft 01 had.
        for old in ["packet_type", "packet_number", "packet_size"] {
            assert_eq!(event["data"].get(old), None, "{event}");
        }
    }
}

#[test]
fn a_person_sees_units_and_the_switch() {
    let text = details(&outcome());
    for part in ["two <flows>: 10 s of sim, seed 7", "Mbit/s", "bbr (switch 1)", "0.500", "9.50"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let many = overview([&outcome(), &outcome()]);
    assert!(many.contains("31.4") && many.contains("1.000"), "{many}");
}

fn any_text() -> impl Strategy<Value = String> {
    "[ -~äß\u{1F600}]{0,12}"
}

fn any_maybe() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of(0.0..1e9f64)
}

fn any_decision() -> impl Strategy<Value = Decided> {
    let became = prop_oneof![
        Just(Became::Stayed),
        Just(Became::Switched),
        Just(Became::Vetoed),
        Just(Became::RolledBack),
    ];
    let features = proptest::collection::btree_map(any_text(), any_text(), 0..4);
    (0.0..1e3f64, became, any_text(), any_text(), any_text(), features).prop_map(
        |(t_s, became, arm, to, why, features)| Decided { t_s, became, arm, to, why, features },
    )
}

fn any_flow() -> impl Strategy<Value = FlowOutcome> {
    let switch = (0.0..1e3f64, any_text(), any_text(), any_text());
    let switch = switch.prop_map(|(t_s, from, to, why)| Switch { t_s, from, to, why });
    let switches = proptest::collection::vec(switch, 0..3);
    let decisions = (proptest::collection::vec(any_decision(), 0..3), any::<u64>());
    let texts = (any_text(), any_text(), any_text());
    (texts, any_maybe(), any_maybe(), any::<u64>(), 0.0..1e9f64, switches, decisions).prop_map(
        |((name, driver, arm), end_s, rtt_p50_ms, sent_pkts, start_s, switches, decisions)| {
            FlowOutcome {
                name,
                driver,
                arm,
                start_s,
                end_s,
                rtt_p50_ms,
                sent_pkts,
                switches,
                decisions: decisions.0,
                decisions_left_out: decisions.1,
                ..FlowOutcome::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_outcome_is_read_back(
        mut flows in proptest::collection::vec(any_flow(), 0..5),
        scenario in any_text(),
        seed in any::<u64>(),
        duration_s in 1e-3..1e6f64,
        looks in proptest::collection::vec((0.0..1e3f64, any_maybe(), any::<u32>()), 0..50),
    ) {
        for (at, flow) in flows.iter_mut().enumerate() {
            flow.flow = at as u32;
        }
        let look = |(t_s, srtt_ms, in_flight_pkts)| FlowSample {
            t_s,
            srtt_ms,
            in_flight_pkts,
            ..FlowSample::default()
        };
        let flow_samples = looks.into_iter().map(look).collect();
        let outcome =
            Outcome { scenario, seed, duration_s, flows, flow_samples, ..Outcome::default() };
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &outcome, &About::default()).unwrap();
        prop_assert_eq!(read(folder.path()).unwrap(), outcome);
    }
}

#[test]
fn the_readme_has_every_column() {
    let readme = include_str!("../README.md");
    for table in Table::ALL {
        let start = format!("| `{}` |", table.name());
        let row = readme.lines().find(|line| line.starts_with(&start)).unwrap();
        let batch = remuda_results::batch(table, &outcome(), &about()).unwrap();
        for field in batch.schema().fields() {
            let named = format!("`{}`", field.name());
            let shared = ["scenario", "engine", "seed"].contains(&field.name().as_str());
            assert!(row.contains(&named) || shared, "{}: {named}", table.name());
        }
    }
}
