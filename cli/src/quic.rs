//! `remuda quic-serve` and `remuda quic-get`

use crate::output::visible_name;
use crate::stop::stop_flag;
use crate::{Failure, RunDirArgs};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use remuda_quic::transfer::{Controller, Fingerprint, Get, Serve, Served, Server, Target, User};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the progress is updated.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// Serve the files of a folder over QUIC, until Ctrl-C.
///
/// The agent of the run directory controls the rate of each connection: `remuda flows` shows the
/// connections, and `remuda set` changes their arm like that of any other flow. Without an agent
/// they run NewReno. The server makes a new certificate at each start; clients check it by the
/// fingerprint that the server prints.
///
/// Started as root, the server binds its port, opens the folder, and then becomes the user
/// `nobody`, or the one that --user names. That user must be able to read the files. An agent of
/// root hears that user if agent.datapath_users lists it; give --run-dir the directory that the
/// agent makes for the user, such as /run/remuda.65534.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The folder to serve; nothing outside it is served, not even through links, and absolute
    /// links are refused wherever they lead (needs Linux 5.6)
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address and UDP port; port 0 chooses a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// The congestion control: the agent, or one of noq's algorithms for comparison
    #[arg(long, value_name = "NAME", default_value = "agent")]
    controller: ControllerArg,
    /// The user that serves, once the port and the folder are open; root keeps root's rights
    /// [default: nobody when started as root, else the user that starts it]
    #[arg(long, value_name = "NAME|UID")]
    user: Option<String>,
    #[command(flatten)]
    run_dir: RunDirArgs,
}

/// [`Controller`] for the command line.
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
    pub fn run(self) -> Result<(), Failure> {
        let user = match self.user {
            Some(user) => Some(User::find(&user)?),
            None => User::default_of_process()?,
        };
        let settings = Serve {
            user,
            folder: self.folder,
            listen: self.listen,
            controller: self.controller.into(),
            run_dir: self.run_dir.run_dir,
        };
        let stop = stop_flag()?;
        let server = Server::bind(&settings, |served| eprintln!("{}", line(&served)))?;
        if server.datapath().is_some_and(|datapath| !datapath.has_agent()) {
            say_no_agent(&settings);
        }
        println!("listening {}\npin {}", server.address(), server.fingerprint());
        server.run(stop);
        Ok(())
    }
}

fn say_no_agent(settings: &Serve) {
    let run_dir = settings.run_dir.display();
    eprintln!("remuda: no agent in {run_dir}: connections run NewReno until one starts");
    match settings.user.as_ref().filter(|user| !user.is_root()) {
        None => eprintln!("fix: remuda agent --run-dir {run_dir}"),
        Some(user) => {
            let user = user.name();
            eprintln!(
                "fix: an agent that lists {user:?} in agent.datapath_users, and the directory that \
                 it makes for this user as --run-dir; or --user root"
            );
        }
    }
}

fn line(served: &Served) -> String {
    let Served { remote, file, elapsed, sent } = served;
    let file = visible_name(file);
    match sent {
        Ok((bytes, sha256)) => {
            format!("{file} to {remote}: {}, sha256 {sha256}", amount(*bytes, *elapsed))
        }
        Err(why) => format!("{file} to {remote}: {why}"),
    }
}

/// Bytes, their time and their rate.
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
    /// The file to write [default: the file's own name, in the current folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The fingerprint that the server has printed
    #[arg(long, value_name = "SHA256")]
    pin: Option<String>,
    /// Fetch the file this many times at once, each over its own connection, and compare; for
    /// tests. quic-serve sends 64 files at once to a client, and a request waits at most 10 s
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
}

impl GetArgs {
    pub fn run(self) -> Result<(), Failure> {
        let target = Target::parse(&self.address)?;
        let pin = self.pin.ok_or(remuda_quic::transfer::Error::NoPin)?;
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

/// Bytes and rate so far, on a terminal. Dropping it removes the line.
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
                std::thread::sleep(UPDATE_INTERVAL);
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
