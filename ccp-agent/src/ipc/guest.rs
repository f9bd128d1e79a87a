//! Users other than root and the agent's own whose processes may be datapaths:
//! `agent.datapath_users`.
//!
//! Such a user cannot enter the run directory. It gets a directory of its own beside that, which
//! has a second name of the agent's socket and is a run directory to the user's datapaths. The user
//! rules over that directory, so the agent hears the user only from addresses there, and sends to
//! nothing there but to a socket of that user.

use crate::Error;
use crate::error::on;
use nix::errno::Errno;
use nix::unistd::User;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

/// The most datapaths of one such user at once.
pub const PEERS_OF_GUEST_MAX: usize = 16;

#[derive(Debug)]
pub struct Guest {
    uid: u32,
    directory: PathBuf,
    /// The name of the agent's socket there.
    socket: PathBuf,
}

impl Guest {
    /// Gives a user, by name or number, its directory with a name of the agent's socket.
    pub fn admit(user: &str, socket: &Path) -> Result<Self, Error> {
        let uid = uid_of(user)?;
        let run_dir = socket.parent().unwrap_or(Path::new("/"));
        let run_dir = fs::canonicalize(run_dir).map_err(on(run_dir.display()))?;
        let directory = directory_of(&run_dir, uid);
        make(&directory, uid)?;
        let name = directory.join(socket.file_name().unwrap_or_default());
        match fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(on(name.display())(error));
            }
            _ => {}
        }
        fs::hard_link(socket, &name).map_err(on(name.display()))?;
        Ok(Self { uid, directory, socket: name })
    }

    /// Whether a datagram of this user comes from an address in the user's own directory: the text
    /// of an address elsewhere could be that of another datapath.
    pub fn is_heard(&self, uid: u32, address: &Path) -> bool {
        uid == self.uid && self.has(address)
    }

    pub fn has(&self, address: &Path) -> bool {
        address.parent() == Some(&self.directory)
    }

    /// A path that leads to the user's socket at this address and to nothing else, as long as the
    /// file is open: what is found there is opened before it is looked at, and links are not
    /// followed.
    pub fn reach(&self, address: &Path) -> nix::Result<(File, PathBuf)> {
        let flags = nix::libc::O_PATH | nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC;
        let errno =
            |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(nix::libc::EIO));
        let found = OpenOptions::new().read(true).custom_flags(flags).open(address);
        let found = found.map_err(errno)?;
        let about = found.metadata().map_err(errno)?;
        if !about.file_type().is_socket() || about.uid() != self.uid {
            return Err(Errno::ECONNREFUSED);
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        Ok((found, path))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The next agent replaces it otherwise.
        let _ = fs::remove_file(&self.socket);
    }
}

/// `/run/remuda.65534` for the run directory `/run/remuda`.
fn directory_of(run_dir: &Path, uid: u32) -> PathBuf {
    let mut name = OsString::from(run_dir.file_name().unwrap_or_default());
    name.push(format!(".{uid}"));
    run_dir.with_file_name(name)
}

pub fn uid_of(user: &str) -> Result<u32, Error> {
    let refuse = |rule: String| Error::Config { path: "the configuration".to_owned(), rule };
    let found = match user.parse() {
        Ok(uid) => return Ok(uid),
        Err(_) => User::from_name(user),
    };
    let rule = "there is no such user; give a name or a number of /etc/passwd";
    let found = found.ok().flatten();
    let found = found.ok_or_else(|| refuse(format!("agent.datapath_users: {user:?}: {rule}")))?;
    Ok(found.uid.as_raw())
}

/// Makes the user's directory, or takes the one that is there.
fn make(directory: &Path, uid: u32) -> Result<(), Error> {
    let failed = || on(directory.display());
    let parent = directory.parent().unwrap_or(Path::new("/"));
    let about = fs::metadata(parent).map_err(on(parent.display()))?;
    if about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0 {
        return Err(Error::OpenFolder(parent.display().to_string()));
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        // Nobody else can replace a directory of root in such a folder.
        Ok(()) => chown(directory, Some(uid), None).map_err(failed())?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed()(error)),
    }
    let about = fs::symlink_metadata(directory).map_err(failed())?;
    let rule = if !about.is_dir() {
        "it is not a directory"
    } else if about.uid() != uid {
        "it belongs to another user than the one of agent.datapath_users; remove it"
    } else if about.mode() & 0o077 != 0 {
        "others can enter it; it must have mode 0700"
    } else {
        return Ok(());
    };
    Err(Error::NotPrivate { path: directory.display().to_string(), rule })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_user_is_heard_from_its_own_directory_only() {
        let guest = Guest {
            uid: 65_534,
            directory: PathBuf::from("/run/remuda.65534"),
            socket: PathBuf::from("/nonexistent/datapath.sock"),
        };
        assert_eq!(directory_of(Path::new("/run/remuda"), 65_534), guest.directory);
        for (uid, address, want) in [
            (65_534, "/run/remuda.65534/quic-1-0.sock", true),
            (65_533, "/run/remuda.65534/quic-1-0.sock", false),
            (65_534, "/run/remuda/quic-1-0.sock", false),
            (65_534, "/run/remuda.65534/../remuda/quic-1-0.sock", false),
            (65_534, "/run/remuda.65534/inner/quic-1-0.sock", false),
            (65_534, "/run/remuda.65533/quic-1-0.sock", false),
            (65_534, "", false),
        ] {
            assert_eq!(guest.is_heard(uid, Path::new(address)), want, "{uid} {address}");
        }
    }

    #[test]
    fn what_is_no_user_is_refused_by_name() {
        assert_eq!(uid_of("root").expect("it is there"), 0);
        assert_eq!(uid_of("4711").expect("a number is enough"), 4711);
        for bad in ["", "no such user", "-1", "4294967296"] {
            let error = uid_of(bad).expect_err(bad).to_string();
            assert!(error.contains(&format!("agent.datapath_users: {bad:?}: there is no such")));
        }
    }

    #[test]
    fn a_message_reaches_a_socket_of_the_user_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = nix::unistd::geteuid().as_raw();
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir).expect("a folder");
        let agent = run_dir.join("datapath.sock");
        let _agent = UnixDatagram::bind(&agent).expect("it binds");
        let guest = Guest::admit(&own.to_string(), &agent).expect("it is this user");
        let at = |name: &str| guest.directory.join(name);
        UnixDatagram::unbound().expect("a socket").connect(at("datapath.sock")).expect("a name");
        let datapath = UnixDatagram::bind(at("own.sock")).expect("it binds");
        let (_open, path) = guest.reach(&at("own.sock")).expect("its own socket");
        UnixDatagram::unbound().expect("a socket").send_to(b"x", path).expect("it is sent");
        assert_eq!(datapath.recv(&mut [0; 8]).expect("it came"), 1);
        symlink(&agent, at("link")).expect("a link");
        fs::write(at("file"), "x").expect("a file");
        for (name, want) in
            [("link", Errno::ECONNREFUSED), ("file", Errno::ECONNREFUSED), ("none", Errno::ENOENT)]
        {
            assert_eq!(guest.reach(&at(name)).map(|_| ()), Err(want), "{name}");
        }
        let stranger = Guest { uid: own + 1, directory: guest.directory.clone(), socket: at("-") };
        assert_eq!(stranger.reach(&at("own.sock")).map(|_| ()), Err(Errno::ECONNREFUSED));
        let name = at("datapath.sock");
        drop(guest);
        assert!(!name.exists(), "the name goes with the agent");
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir).expect("a folder");
        let agent = run_dir.join("datapath.sock");
        let _agent = UnixDatagram::bind(&agent).expect("it binds");
        let uid = nix::unistd::geteuid().as_raw() + 1;
        DirBuilder::new().mode(0o700).create(directory_of(&run_dir, uid)).expect("a folder");
        let error = Guest::admit(&uid.to_string(), &agent).expect_err("it is not that user's");
        assert!(error.to_string().contains("belongs to another user"), "{error}");
    }
}
