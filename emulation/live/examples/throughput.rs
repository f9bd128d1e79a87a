//! Measures how much TCP an emulated path carries, and how many packets are lost on the way.
//!
//! `throughput [RATE_MBIT_PER_SEC [SECONDS]]`: 20 ms each way, a queue of two bandwidth-delay
//! products, one CUBIC flow up. Needs root.

use remuda_live::{Error, LinkSpec, PathSpec, QueueSpec, Testbed, probe};

const DELAY_MS: f64 = 20.0;

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1).map_while(|arg| arg.parse::<f64>().ok());
    let rate = args.next().unwrap_or(500.0);
    let seconds = args.next().unwrap_or(8.0);
    let link = LinkSpec {
        rate_mbit_per_sec: Some(rate),
        delay_ms: DELAY_MS,
        queue: QueueSpec::droptail_bdp(2.0),
        ..LinkSpec::default()
    };
    let testbed = Testbed::new(&PathSpec::symmetric(link))?;
    let server = testbed.server();
    let bytes = (rate * 1e6 / 8.0 * seconds) as u64;
    let transfer =
        probe::transfer(testbed.client(), (server, server.ipv4().into()), bytes, Some("cubic"))?;
    let stats = testbed.stats()?;
    let up = &stats.up;
    println!(
        "{rate} Mbit/s, {DELAY_MS} ms one way: {:.1} Mbit/s of payload in {:.2} s\n\
         link dropped {} up, {} down; kernel lost {} before and {} after the link up, {} and {} \
         down\nqueueing delay p50 {:.2}, p99 {:.2} ms; pump {:.0} % of a core",
        transfer.mbit_per_sec(),
        transfer.elapsed.as_secs_f64(),
        up.link.dropped.total(),
        stats.down.link.dropped.total(),
        up.lost_before_link,
        up.lost_after_link,
        stats.down.lost_before_link,
        stats.down.lost_after_link,
        up.link.queueing_delay.p50_ms,
        up.link.queueing_delay.p99_ms,
        stats.pump_cpu.as_secs_f64() / transfer.elapsed.as_secs_f64() * 100.0,
    );
    Ok(())
}
