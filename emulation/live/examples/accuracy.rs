//! Prints how close the emulator comes to its goals on this machine. Needs root; takes a minute.
//!
//! `accuracy [idle]`: with `idle`, only the round trips of an idle path.

use remuda_live::{Clock, Error, LinkSpec, PathSpec, QueueSpec, Testbed, VethPair, probe};
use std::time::Duration;

const DELAY_MS: f64 = 20.0;

fn testbed(rate: f64) -> Result<Testbed, Error> {
    let link = LinkSpec {
        rate_mbit_per_sec: Some(rate),
        delay_ms: DELAY_MS,
        queue: QueueSpec::droptail_bdp(2.0),
        ..LinkSpec::default()
    };
    Testbed::new(&PathSpec::symmetric(link))
}

fn main() -> Result<(), Error> {
    println!("# {DELAY_MS} ms one way, drop-tail queue of 2 BDP, one CUBIC flow up for about 6 s");
    idle(12.0)?;
    if std::env::args().any(|arg| arg == "idle") {
        return Ok(());
    }
    println!(
        "rate_mbit  rate_error_%  tcp_payload_mbit  link_drops_up  kernel_drops  cpu_%_of_a_core"
    );
    for rate in [12.0, 100.0, 300.0, 500.0] {
        loaded(rate)?;
    }
    Ok(())
}

/// Round trips of 64-byte datagrams. On an exact path they take twice the delay plus twice the
/// transmission time.
fn idle(rate: f64) -> Result<(), Error> {
    let gap = Duration::from_millis(5);
    let pair = VethPair::new()?;
    let bare = probe::round_trips(pair.client(), pair.server(), 200, gap)?;
    println!(
        "the probe itself, over a veth pair: RTT mean {:.3}, min {:.3} ms",
        bare.mean_ms, bare.min_ms
    );
    let testbed = testbed(rate)?;
    let trips = probe::round_trips(testbed.client(), testbed.server(), 200, gap)?;
    let nominal_ms = 2.0 * (DELAY_MS + 64.0 * 8.0 / rate / 1e3);
    println!(
        "idle RTT at {rate} Mbit/s: nominal {nominal_ms:.3} ms; error mean {:.3}, median {:.3}, \
         min {:.3}, max {:.3} ms; {} of {} returned",
        trips.mean_ms - nominal_ms,
        trips.p50_ms - nominal_ms,
        trips.min_ms - nominal_ms,
        trips.max_ms - nominal_ms,
        trips.returned,
        trips.returned + trips.lost,
    );
    Ok(())
}

fn loaded(rate: f64) -> Result<(), Error> {
    let mut testbed = testbed(rate)?;
    let flood = Duration::from_secs(3);
    let got = probe::saturated_rate(testbed.client(), testbed.server(), rate * 1.1, flood)?;
    testbed.reset_stats()?;
    let cpu_before = testbed.stats()?.pump_cpu;
    let clock = Clock::start();
    let server = testbed.server();
    let bytes = (rate * 1e6 / 8.0 * 6.0) as u64;
    let transfer =
        probe::transfer(testbed.client(), (server, server.ipv4().into()), bytes, Some("cubic"))?;
    let elapsed = clock.elapsed();
    let stats = testbed.stats()?;
    let kernel = [&stats.up, &stats.down].map(|it| it.lost_before_link + it.lost_after_link);
    println!(
        "{rate:9}  {:12.3}  {:16.1}  {:13}  {:12}  {:15.1}",
        (got / rate - 1.0) * 100.0,
        transfer.mbit_per_sec(),
        stats.up.link.dropped.total(),
        kernel.iter().sum::<u64>(),
        (stats.pump_cpu - cpu_before).as_secs_f64() / elapsed.as_secs_f64() * 100.0,
    );
    Ok(())
}
