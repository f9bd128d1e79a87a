//! What commands show in a terminal of a given size: one of tmux, whose server and files are its
//! own.

use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// No line of the terminal is tmux's own, and what scrolls out of it is kept.
const CONFIG: &str = "set -g status off\nset -g history-limit 5000\n";
/// A command that takes longer, in seconds, is given up.
const LIMIT_S: &str = "30";

/// Returns true, and prints SKIPPED, if there is no tmux.
pub fn lacks_tmux() -> bool {
    let lacks = Command::new("tmux").arg("-V").output().is_err();
    if lacks {
        eprintln!("SKIPPED: needs tmux\nfix: make setup");
    }
    lacks
}

/// What a command has left in a terminal.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The lines that the terminal has had, without spaces at their ends.
    pub lines: Vec<String>,
    /// Those that are still on its screen.
    pub screen: Vec<String>,
    /// The same with each line that the terminal has wrapped in one piece.
    pub unwrapped: Vec<String>,
    /// The exit status of the command.
    pub status: i32,
}

impl Shown {
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

struct Server(TempDir);

impl Server {
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args([LIMIT_S, "tmux", "-u", "-f"]).arg(self.file("tmux.conf"));
        command.arg("-S").arg(self.file("socket")).args(arguments);
        let out = command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").output();
        let out = out.expect("timeout runs");
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "tmux {arguments:?}: {}: {errors}", out.status);
        out
    }

    /// The terminal's lines, with those that have left it.
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let out = self.tmux(&[&["capture-pane", "-p"], arguments].concat());
        let text = String::from_utf8(out.stdout).expect("tmux writes UTF-8");
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let socket = self.file("socket");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

/// Runs a line of the shell in a terminal of this size, and waits for its end.
///
/// # Panics
///
/// If tmux fails, or the line takes longer than half a minute.
pub fn show(columns: u16, rows: u16, line: &str) -> Shown {
    let server = Server(TempDir::new().expect("a folder for tmux"));
    std::fs::write(server.file("tmux.conf"), CONFIG).expect("the file is written");
    let (socket, status) = (server.file("socket"), server.file("status"));
    let line = format!(
        "{line}; echo $? >{}; tmux -S {} wait-for -S done; exec sleep 1000",
        status.display(),
        socket.display()
    );
    let (columns, rows) = (columns.to_string(), rows.to_string());
    server.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &line]);
    server.tmux(&["wait-for", "done"]);
    let status = std::fs::read_to_string(status).expect("the line has ended");
    Shown {
        lines: server.lines(&["-S", "-"]),
        screen: server.lines(&[]),
        unwrapped: server.lines(&["-S", "-", "-J"]),
        status: status.trim().parse().expect("a number"),
    }
}
