//! The agent's metrics, scraped by a real Prometheus, and the queries of the dashboard.

use ccp_agent::child::AgentChild;
use remuda_tests::quic::{Server, file, same};
use remuda_tests::{Place, binary, exclusive, root, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A port of loopback that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The body of the answer to a GET.
fn get(port: u16, path: &str) -> Option<String> {
    let mut client = TcpStream::connect(("127.0.0.1", port)).ok()?;
    client.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    client.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.lines().next()?.contains(" 200").then(|| body.to_owned())
}

/// A query in the form of an address.
fn escaped(query: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    query.bytes().map(escape).collect()
}

/// The series that Prometheus answers a query with.
fn series(port: u16, query: &str) -> Vec<Value> {
    let body = get(port, &format!("/api/v1/query?query={}", escaped(query)));
    let answer: Value = serde_json::from_str(&body.unwrap_or_default()).unwrap_or_default();
    if answer["status"] != "success" {
        return Vec::new();
    }
    answer["data"]["result"].as_array().cloned().unwrap_or_default()
}

struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn prometheus(program: &Path, folder: &Path, port: u16, scraped: u16) -> Prometheus {
    let config = folder.join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}\nscrape_configs:\n- job_name: \
         remuda\n  static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]\n"
    );
    fs::write(&config, text).expect("it is written");
    let child = Command::new(program)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("log")).expect("a file"))
        .spawn();
    Prometheus(child.expect("it starts"))
}

/// Fetches files over QUIC, so that the agent has something to count.
fn fetch(agent: &AgentChild, folder: &Path) {
    let whole = file(folder, "whole", 20_000_000);
    let served =
        Server::start(Command::new(binary()), folder, ("127.0.0.1:0", "agent", agent.run_dir()));
    for _ in 0..3 {
        let to = folder.join("got");
        let output = served.get(Command::new(binary()), "whole", &to).output().expect("it runs");
        assert!(output.status.success() && same(&whole, &to), "{output:?}");
    }
}

#[test]
fn prometheus_scrapes_the_agent_and_answers_the_dashboards_queries() {
    let _one = exclusive();
    let program = root().join("target/prometheus/usr/bin/prometheus");
    if !program.exists() {
        println!(
            "SKIPPED: there is no {}: `tools/unpack.sh prometheus` fetches it",
            program.display()
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::new();
    let (port, scraped) = (free_port(), free_port());
    let text = format!(
        "[agent]\nbpf = false\nmetrics = '127.0.0.1:{scraped}'\n[[rule]]\ndestination = \
         '127.0.0.0/8'\nuse = 'bbr'\nname = 'near'\n"
    );
    let config = place.file("remuda.toml", &text);
    let agent = place.agent(&["--config", config.to_str().expect("a path"), "--arm", "cubic"]);
    let _prometheus = prometheus(&program, folder.path(), port, scraped);
    wait_for("a first scrape", PATIENCE, || {
        series(port, "up == 1").len() == 1 || {
            let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(!log.contains("level=error"), "{log}");
            false
        }
    });
    fetch(&agent, folder.path());
    // The last scrape may be older than the third flow.
    wait_for("three flows of the rule", PATIENCE, || {
        let query = "remuda_rule_flows_started_total{rule=\"near\",group=\"rule\"}";
        series(port, query).first().is_some_and(|it| it["value"][1] == "3")
    });
    wait_for("the bytes of the arm", PATIENCE, || {
        let acked = series(port, "remuda_acked_bytes_total{arm=\"bbr\"}");
        let value = acked.first().and_then(|it| it["value"][1].as_str()?.parse::<f64>().ok());
        // What is acknowledged after the last report is not in it.
        value.is_some_and(|bytes| bytes >= 40_000_000.0)
    });

    let text =
        fs::read_to_string(root().join("packaging/grafana/remuda.json")).expect("it is there");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let mut answered = 0;
    for query in queries.map(|target| target["expr"].as_str().expect("a query")) {
        let query = query.replace("$instance", ".*").replace("$__rate_interval", "1m");
        // No flow runs any more, so a gauge by arm or rule may have no series.
        let is_of_running = query.contains("by (arm) (remuda_flows");
        wait_for(&query, PATIENCE, || is_of_running || !series(port, &query).is_empty());
        answered += 1;
    }
    println!("Prometheus answers all {answered} queries of the dashboard");
    let scraped = get(scraped, "/metrics").expect("the metrics");
    let page = fs::read_to_string(root().join("docs/metrics.md")).expect("the page");
    for line in scraped.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        assert!(page.contains(&format!("`{name}`")), "docs/metrics.md lacks {name}");
    }
    agent.stop().expect("it ends");
}

#[test]
fn an_address_that_others_reach_or_that_is_taken_is_refused() {
    let _one = exclusive();
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = other.local_addr().expect("an address").to_string();
    for (address, part) in [
        ("0.0.0.0:9465", "loopback"),
        ("192.0.2.1:9465", "loopback"),
        ("9465", "metrics"),
        (taken.as_str(), "agent.metrics"),
    ] {
        let place = Place::new();
        let text = format!("[agent]\nbpf = false\nmetrics = '{address}'\n");
        let config = place.file("remuda.toml", &text);
        let mut command = Command::new(binary());
        let run_dir = place.run_dir();
        command.arg("agent").arg("--config").arg(config).arg("--run-dir").arg(run_dir);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(part), "{address}: {said}");
    }
}
