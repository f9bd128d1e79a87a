//! Starts the process of an author's file.
//!
//! What the file prints goes to stderr, because stdout is for results. The kernel kills the process
//! when the thread that started it ends, so start it from the main thread.

use super::frame::{FRAME_BYTES_MAX, FromAuthor, Hello};
use crate::error::on;
use crate::{Error, nofile};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socketpair};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time until the process must have announced its arms: importing packages may take long.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The process; dropping this kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The agent's end of the socket; `None` after [`Process::take_socket`].
    socket: Option<OwnedFd>,
    pub hello: Hello,
    announcement: Vec<u8>,
}

fn refuse<T>(file: &Path, rule: impl std::fmt::Display) -> Result<T, Error> {
    Err(Error::Author(format!("{}: {rule}", file.display())))
}

impl Process {
    /// Runs the arms of `file` with the Python interpreter `python`, and waits for their
    /// announcement.
    pub fn start(python: &Path, file: &Path) -> Result<Self, Error> {
        Self::start_with(python, file, &[])
    }

    /// Like [`Process::start`], with `arguments` in the file's `sys.argv`.
    pub fn start_with(python: &Path, file: &Path, arguments: &[OsString]) -> Result<Self, Error> {
        if !file.is_file() {
            return refuse(file, "there is no such file");
        }
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .map_err(|errno| on("a socket for the author")(errno.into()))?;
        let inherited = theirs.as_raw_fd();
        let mut command = Command::new(python);
        command
            .args(["-P", "-u", "-m", "remuda._serve"])
            .arg(file)
            .arg(inherited.to_string())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(std::io::stderr());
        let limit = nofile::of_children();
        // SAFETY: the closure makes three system calls, all allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                set_pdeathsig(Signal::SIGKILL)?;
                limit.iter().try_for_each(nofile::set)?;
                if libc::fcntl(inherited, libc::F_SETFD, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().map_err(on(python.display()))?;
        drop(theirs);
        let hello = Hello { version: 0, arms: Vec::new() };
        let mut process = Self { child, socket: None, hello, announcement: Vec::new() };
        process.hello = process.greeting(&ours, python, file)?;
        process.socket = Some(ours);
        Ok(process)
    }

    /// The agent's end of the socket. The process ends when the new owner closes it.
    pub fn take_socket(&mut self) -> Result<OwnedFd, Error> {
        self.socket
            .take()
            .ok_or_else(|| Error::Author("its socket has been taken already".to_owned()))
    }

    fn greeting(&mut self, ours: &OwnedFd, python: &Path, file: &Path) -> Result<Hello, Error> {
        let mut fds = [PollFd::new(ours.as_fd(), PollFlags::POLLIN)];
        let limit_ms = u16::try_from(START_LIMIT.as_millis()).unwrap_or(u16::MAX);
        match poll(&mut fds, limit_ms) {
            Ok(1..) => {}
            Err(Errno::EINTR) => return refuse(file, "interrupted before it had started"),
            _ => {
                let limit_s = START_LIMIT.as_secs();
                return refuse(file, format!("it announces no arms within {limit_s} s"));
            }
        }
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        let bytes = recv(ours.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap_or(0);
        match FromAuthor::parse(&buffer[..bytes]) {
            Ok(FromAuthor::Hello(hello)) => {
                self.announcement = buffer[..bytes].to_vec();
                Ok(hello)
            }
            Ok(FromAuthor::Failed(_, text)) => refuse(file, text.trim_end()),
            Ok(FromAuthor::Answer(_)) => refuse(file, "it sent a decision before its announcement"),
            Err(_) if bytes == 0 => refuse(
                file,
                format!(
                    "{} ended at once\nfix: use a Python that has the package remuda: run \
                     `tools/python.sh build`, then give --python target/venv/bin/python",
                    python.display()
                ),
            ),
            Err(error) => refuse(file, error),
        }
    }

    /// The frame of the announcement.
    pub fn announcement(&self) -> Vec<u8> {
        self.announcement.clone()
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The process id, for messages.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child has not been waited for yet, so its process id cannot belong to another
        // process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
