//! `remuda quic-serve` and `remuda quic-get`

use crate::stop::stop_flag;
use crate::{Failure, RunDirArgs};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use remuda_quic_transfer::{Controller, Fingerprint, Get, Serve, Served, Server, Target};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often progress is shown.
const TURN: Duration = Duration::from_millis(200);

/// Serve the files of a folder over QUIC, until Ctrl-C.
///
/// The agent of the run directory decides how fast each connection sends: `remuda flows` shows
/// them, and `remuda set` changes them as any other flow. Without an agent they run NewReno. The
/// certificate is made at start; clients know it by the fingerprint that is printed.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The folder; nothing outside of it is served, links out of it neither
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address and UDP port; port 0 takes any
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// Who decides how fast to send: the agent, or noq's own algorithm for comparison
    #[arg(long, value_name = "NAME", default_value = "agent")]
    controller: ControllerArg,
    #[command(flatten)]
    run_dir: RunDirArgs,
}

/// [`Controller`] as a word.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ControllerArg {
    Agent,
    Cubic,
    Newreno,
    Bbr,
}

impl From<ControllerArg> for Controller {
    fn from(word: ControllerArg) -> Self {
        match word {
            ControllerArg::Agent => Self::Agent,
            ControllerArg::Cubic => Self::Cubic,
            ControllerArg::Newreno => Self::NewReno,
            ControllerArg::Bbr => Self::Bbr,
        }
    }
}

impl ServeArgs {
    /// Runs it.
    pub fn run(self) -> Result<(), Failure> {
        let settings = Serve {
            folder: self.folder,
            listen: self.listen,
            controller: self.controller.into(),
            run_dir: self.run_dir.run_dir,
        };
        let stop = stop_flag()?;
        let server = Server::bind(&settings, |served| eprintln!("{}", told(&served)))?;
        if server.datapath().is_some_and(|datapath| !datapath.has_agent()) {
            let run_dir = settings.run_dir.display();
            eprintln!("remuda: no agent in {run_dir}: NewReno until one comes");
            eprintln!("fix: remuda agent --run-dir {run_dir}");
        }
        println!("listening {}\npin {}", server.address(), server.fingerprint());
        server.run(stop);
        Ok(())
    }
}

fn told(served: &Served) -> String {
    let Served { remote, file, elapsed, sent } = served;
    match sent {
        Ok((bytes, sha256)) => {
            format!("{file} to {remote}: {}, sha256 {sha256}", amount(*bytes, *elapsed))
        }
        Err(why) => format!("{file} to {remote}: {why}"),
    }
}

/// Bytes, the time they took, and their rate.
fn amount(bytes: u64, elapsed: Duration) -> String {
    let secs = elapsed.as_secs_f64();
    let rate = bytes as f64 * 8e-6 / secs.max(1e-9);
    format!("{bytes} bytes in {secs:.3} s ({rate:.1} Mbit/s)")
}

/// Fetch a file from `remuda quic-serve`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// Server and file: HOST:PORT/FILE
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Where to write it; by default its own name, here
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The fingerprint that the server has printed
    #[arg(long, value_name = "SHA256")]
    pin: Option<String>,
    /// Fetch it so many times at once, each over a connection of its own, and compare; for tests
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
}

impl GetArgs {
    /// Runs it.
    pub fn run(self) -> Result<(), Failure> {
        let target = Target::parse(&self.address)?;
        let pin = self.pin.ok_or(remuda_quic_transfer::Error::NoPin)?;
        let output = self.output.unwrap_or_else(|| target.file_name().into());
        let get = Get {
            pin: Fingerprint::parse(&pin)?,
            output: Some(output.clone()),
            connections: self.connections.into(),
            target,
        };
        let (received, stop) = (Arc::new(AtomicU64::new(0)), stop_flag()?);
        let progress = Progress::start(&received);
        let fetched = get.run(&received, stop);
        drop(progress);
        let fetched = fetched?;
        let total = fetched.bytes * u64::from(self.connections);
        println!("{}: {}", output.display(), amount(total, fetched.elapsed));
        println!("sha256 {}", fetched.sha256);
        Ok(())
    }
}

/// Bytes and rate so far, on a terminal; gone when it is dropped.
struct Progress(ProgressBar);

impl Progress {
    fn start(received: &Arc<AtomicU64>) -> Self {
        let style = ProgressStyle::with_template("{spinner} {bytes} ({bytes_per_sec})");
        let bar = ProgressBar::new_spinner();
        let bar = bar.with_style(style.expect("a template without mistakes"));
        let (shown, received) = (bar.downgrade(), Arc::clone(received));
        std::thread::spawn(move || {
            while let Some(bar) = shown.upgrade().filter(|bar| !bar.is_finished()) {
                bar.set_position(received.load(Ordering::Relaxed));
                drop(bar);
                std::thread::sleep(TURN);
            }
        });
        Self(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
