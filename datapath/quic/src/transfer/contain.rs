//! Opens the files of the served folder, and nothing outside of it.
//!
//! Another user may change the tree at any moment, so no path is checked before it is opened. The
//! folder is opened once; the kernel resolves each request beneath that descriptor in one system
//! call (`openat2` with `RESOLVE_BENEATH`), and what it has opened is then looked at.

use crate::transfer::{Error, Refusal, on};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// The longest request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 4_096;
/// The kernel gives up with EAGAIN when a folder is renamed while it resolves a `..` of a link.
/// After this many attempts the file counts as unreadable.
const ATTEMPTS: u32 = 16;

/// The file name of a request `GET /NAME`, relative to the folder.
pub fn name_of(request: &[u8]) -> Result<&str, Refusal> {
    let line = std::str::from_utf8(request).map_err(|_| Refusal::Request)?;
    let line = line.trim_end_matches(['\r', '\n']);
    let name = line.strip_prefix("GET /").ok_or(Refusal::Request)?;
    if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Refusal::NoFile);
    }
    Ok(name)
}

/// A regular file, and the size that it had when it was opened.
#[derive(Debug)]
pub struct Opened {
    pub file: File,
    pub bytes: u64,
}

/// The served folder. Renaming the folder or replacing its path changes nothing for the server.
#[derive(Debug)]
pub struct Folder {
    dir: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty());
        let dir = dir.map_err(|errno| on(path)(errno.into()))?;
        Ok(Self { dir, path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the kernel has `openat2`, and that this process may open files of the folder.
    pub fn check(&self, user: &str) -> Result<(), Error> {
        let folder = self.path.clone();
        match self.resolve(".", OFlags::PATH | OFlags::DIRECTORY) {
            Ok(_) => Ok(()),
            // A seccomp filter that does not know the call answers EPERM.
            Err(Errno::NOSYS | Errno::PERM) => Err(Error::NoOpenat2),
            Err(Errno::ACCESS) => Err(Error::Closed { folder, user: user.to_owned() }),
            Err(errno) => Err(on(folder)(errno.into())),
        }
    }

    /// Opens a regular file beneath the folder. Links are followed as long as they stay beneath the
    /// folder; absolute links and the links of /proc never do. A FIFO or a device does not block
    /// and is not read: like a folder, it counts as no file.
    pub fn file(&self, name: &str) -> Result<Opened, Refusal> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.resolve(name, flags).map_err(refusal)?;
        let stat = fstat(&file).map_err(|_| Refusal::Unreadable)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refusal::NoFile);
        }
        let bytes = u64::try_from(stat.st_size).map_err(|_| Refusal::Unreadable)?;
        Ok(Opened { file: file.into(), bytes })
    }

    fn resolve(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut opened = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            opened = openat2(&self.dir, name, flags | OFlags::CLOEXEC, Mode::empty(), beneath);
            if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        opened
    }
}

/// A name that leads out of the folder (EXDEV) is answered like one that does not exist.
fn refusal(errno: Errno) -> Refusal {
    match errno {
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::ISDIR
        | Errno::XDEV
        | Errno::LOOP
        | Errno::NAMETOOLONG
        | Errno::INVAL
        | Errno::NXIO
        | Errno::NODEV => Refusal::NoFile,
        _ => Refusal::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, makedev, mknodat};
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// The content of the file that a request names.
    fn answer(folder: &Folder, request: &[u8]) -> Result<String, Refusal> {
        let mut opened = folder.file(name_of(request)?)?;
        let mut text = String::new();
        opened.file.read_to_string(&mut text).expect("it is read");
        assert_eq!(opened.bytes, text.len() as u64);
        Ok(text)
    }

    #[test]
    fn only_files_in_the_folder_are_opened() {
        let outer = tempfile::tempdir().expect("a folder");
        let path = outer.path().join("served");
        fs::create_dir_all(path.join("inner")).expect("folders");
        fs::write(outer.path().join("secret"), "secret").expect("a file");
        fs::write(path.join("inner/a b"), "inside").expect("a file");
        symlink("../secret", path.join("out")).expect("a link");
        symlink(outer.path().join("secret"), path.join("absolute")).expect("a link");
        symlink("..", path.join("up")).expect("a link");
        symlink("/proc/self/root", path.join("slash")).expect("a link");
        symlink("inner/a b", path.join("in")).expect("a link");
        symlink("../inner/../in", path.join("inner/back")).expect("a link");
        let folder = Folder::open(&path).expect("it is there");
        folder.check("me").expect("it is readable");
        let none = Err(Refusal::NoFile);
        let rows: [(&[u8], Result<&str, Refusal>); 18] = [
            (b"GET /inner/a b\r\n", Ok("inside")),
            (b"GET /in", Ok("inside")),
            (b"GET /inner/back", Ok("inside")),
            (b"GET /inner", none),
            (b"GET /", none),
            (b"GET /out", none),
            (b"GET /absolute", none),
            (b"GET /up/secret", none),
            (b"GET /slash/etc/passwd", none),
            (b"GET /../secret", none),
            (b"GET /inner/../../secret", none),
            (b"GET //etc/passwd", none),
            (b"GET //proc/self/cwd/Cargo.toml", none),
            (b"GET /absent", none),
            (b"GET /in/", none),
            (b"GET /a\0b", none),
            (b"POST /in", Err(Refusal::Request)),
            (b"\xff\xfe", Err(Refusal::Request)),
        ];
        for (request, want) in rows {
            let got = answer(&folder, request);
            assert_eq!(got, want.map(str::to_owned), "{:?}", request.escape_ascii().to_string());
        }
    }

    /// The links of /proc are refused by the kernel even where they lie beneath the folder.
    #[test]
    fn the_links_of_proc_are_refused() {
        let folder = Folder::open(Path::new("/proc/self")).expect("/proc is mounted");
        for name in ["root/etc/passwd", "cwd/Cargo.toml", "exe", "fd/0"] {
            assert_eq!(folder.file(name).expect_err(name), Refusal::NoFile, "{name}");
        }
    }

    #[test]
    fn a_fifo_or_a_device_neither_blocks_nor_is_read() {
        let outer = tempfile::tempdir().expect("a folder");
        let make = |name: &str, kind, device| {
            mknodat(CWD, outer.path().join(name), kind, Mode::from_raw_mode(0o666), device)
        };
        make("fifo", FileType::Fifo, 0).expect("a FIFO");
        let folder = Folder::open(outer.path()).expect("it is there");
        assert_eq!(folder.file("fifo").expect_err("a FIFO"), Refusal::NoFile);
        std::os::unix::net::UnixDatagram::bind(outer.path().join("socket")).expect("a socket");
        assert_eq!(folder.file("socket").expect_err("a socket"), Refusal::NoFile);
        match make("zero", FileType::CharacterDevice, makedev(1, 5)) {
            Ok(()) => {
                // A file system mounted with `nodev` answers EACCES, which is "unreadable".
                let refusal = folder.file("zero").expect_err("a device");
                assert!(matches!(refusal, Refusal::NoFile | Refusal::Unreadable), "{refusal:?}");
            }
            Err(errno) => println!("SKIPPED: a device node needs root ({errno})"),
        }
    }

    #[test]
    fn the_folder_is_the_one_that_was_there_at_the_start() {
        let outer = tempfile::tempdir().expect("a folder");
        let (path, moved) = (outer.path().join("served"), outer.path().join("moved"));
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("file"), "first").expect("a file");
        let folder = Folder::open(&path).expect("it is there");
        fs::rename(&path, &moved).expect("it is renamed");
        symlink("/etc", &path).expect("a link");
        assert_eq!(answer(&folder, b"GET /passwd"), Err(Refusal::NoFile));
        assert_eq!(answer(&folder, b"GET /file"), Ok("first".to_owned()));
    }
}
