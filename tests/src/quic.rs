//! Runs `remuda quic-serve` and `remuda quic-get` as a user does.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server; it ends when this value is dropped.
pub struct Server {
    child: Child,
    pub address: String,
    /// SHA-256 of the server's certificate.
    pub pin: String,
}

impl Server {
    /// Starts a server. `remuda` is the command, in the namespace where it should run. The server's
    /// log is `serve.log` in the folder that it serves.
    ///
    /// The server keeps the user of the test: the folder and the run directory are private to that
    /// user, and the agent hears no other.
    pub fn start(remuda: Command, folder: &Path, settings: (&str, &str, &Path)) -> Self {
        // SAFETY: no arguments, no failure.
        let own = unsafe { libc::geteuid() };
        Self::start_as(&own.to_string(), remuda, folder, settings)
    }

    /// Starts a server that becomes `user`.
    pub fn start_as(
        user: &str,
        mut remuda: Command,
        folder: &Path,
        (listen, controller, run_dir): (&str, &str, &Path),
    ) -> Self {
        remuda.arg("quic-serve").arg(folder).args(["--user", user]);
        remuda.args(["--listen", listen, "--controller", controller, "--run-dir"]).arg(run_dir);
        remuda.stdout(Stdio::piped());
        remuda.stderr(File::create(folder.join("serve.log")).expect("a log"));
        let mut child = remuda.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut word = |key: &str| {
            let line = lines.next().expect("a line").expect("text");
            line.strip_prefix(key).expect("the key").trim().to_owned()
        };
        let (address, pin) = (word("listening"), word("pin"));
        Self { child, address, pin }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The command that fetches a file of this server, made from the command `remuda`.
    pub fn get(&self, mut remuda: Command, name: &str, to: &Path) -> Command {
        remuda.arg("quic-get").arg(format!("{}/{name}", self.address));
        remuda.args(["--pin", &self.pin, "-o"]).arg(to);
        remuda.stdout(Stdio::piped()).stderr(Stdio::piped());
        remuda
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file whose bytes do not repeat soon.
pub fn file(folder: &Path, name: &str, bytes: usize) -> PathBuf {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let content: Vec<u8> = std::iter::repeat_with(&mut next).flatten().take(bytes).collect();
    let path = folder.join(name);
    fs::write(&path, content).expect("the file is written");
    path
}

/// Whether two files are equal, byte by byte.
pub fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).expect("a file") == fs::read(b).expect("a file")
}
