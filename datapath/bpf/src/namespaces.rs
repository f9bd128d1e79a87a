//! Runs a socket iterator in every network namespace of the host.
//!
//! A socket iterator sees the namespace in which its descriptor was created. So a thread of its own
//! enters each namespace, and the caller's namespace does not change.
//!
//! The links under `/proc/PID` belong to that process: between two system calls, a user can put a
//! FIFO or a device in the place of a namespace. So a link is first opened without effect
//! (`O_PATH`), then the object behind it is checked, and only then is that same object opened. The
//! search is bounded for each user, and so is the time that a namespace can take.

use crate::Error;
use crate::default_algorithm::DefaultAlgorithm;
use crate::iterator;
use crate::kernel::is_on;
use libbpf_rs::Link;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The shortest time between two searches for namespaces that were not found.
const SEARCH_INTERVAL_NS: u64 = 1_000_000_000;
/// The most threads, and the most descriptors, of one process that a search reads.
const LINKS_PER_PROCESS: usize = 4_096;
/// The most links of all processes of one user, other than root, that a search reads.
const LINKS_PER_USER: usize = 65_536;
/// The most namespaces that are taken from the processes of one user, other than root, so that a
/// user who makes many does not hide those of the others. The walk through a namespace takes 8 ms
/// on a host with 262,144 buckets of TCP sockets.
const NAMESPACES_PER_USER: usize = 512;
/// The most namespaces that one search finds.
const NAMESPACES_MAX: usize = 4_096;
/// The longest that a walk waits for one namespace. The iterator locks each socket, and a process
/// can hold the lock of its own socket for ever.
const NAMESPACE_TIME_MAX: Duration = Duration::from_secs(1);
/// After this many namespaces that did not end in time, a walk leaves out the others.
const STUCK_MAX: usize = 3;
/// The most reads of one iterator. A read visits up to a million sockets, then returns `EAGAIN`.
const READS_MAX: usize = 64;

const ROOT: u32 = 0;

/// Where a search finds a path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// A name of `ip netns`, which only root can make.
    Name,
    /// A link of /proc: of a thread or of a descriptor. It reads `net:[INODE]`.
    Link,
}

/// Entries of a folder of /proc; none if its process has just ended.
fn entries(path: PathBuf) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The real user of a process of /proc; `None` if the process has just ended. The owner of the
/// folder is not always the user: it is root for a process that cannot be dumped.
fn user(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next()?.parse().ok()
}

/// The inode number in a link that reads `net:[INODE]`.
fn link_inode(path: &Path) -> Option<u32> {
    let to = fs::read_link(path).ok()?;
    to.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Opens a network namespace. `None` if the path holds anything else, which is then not opened.
fn open(path: &Path, origin: Origin) -> io::Result<Option<File>> {
    let object = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(path)?;
    let same_object = PathBuf::from(format!("/proc/self/fd/{}", object.as_raw_fd()));
    // Read the link first: it does not ask the file system, which a user can make hang.
    if origin == Origin::Link && link_inode(&same_object).is_none() {
        return Ok(None);
    }
    if !is_on(&object, libc::NSFS_MAGIC) {
        return Ok(None);
    }
    let namespace = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(same_object)?;
    // SAFETY: an open descriptor, and a request without an argument.
    let kind = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_NSTYPE) };
    Ok((kind == libc::CLONE_NEWNET).then_some(namespace))
}

/// Whether an error of `open` is this process's own, and not that of a process which has ended.
fn lacks_resources(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Gives every network namespace that it finds to `found`, with its inode number, once.
struct Search<'a> {
    /// `None`: all namespaces.
    wanted: Option<&'a HashSet<u32>>,
    found: &'a mut dyn FnMut(u32, io::Result<File>),
    seen: HashSet<u32>,
    links: HashMap<u32, usize>,
    namespaces: HashMap<u32, usize>,
}

impl<'a> Search<'a> {
    fn run(wanted: Option<&'a HashSet<u32>>, found: &'a mut dyn FnMut(u32, io::Result<File>)) {
        let (links, namespaces) = (HashMap::new(), HashMap::new());
        let mut search = Self { wanted, found, seen: HashSet::new(), links, namespaces };
        // The likeliest come first: this thread's namespace and named ones.
        search.consider(Path::new("/proc/thread-self/ns/net"), Origin::Link, ROOT);
        for name in entries("/run/netns".into()).take(NAMESPACES_MAX) {
            search.consider(&name, Origin::Name, ROOT);
        }
        search.processes("task", Some("ns/net"));
        search.processes("fd", None);
    }

    fn is_complete(&self) -> bool {
        let most = self.wanted.map_or(NAMESPACES_MAX, |wanted| wanted.len().min(NAMESPACES_MAX));
        self.seen.len() >= most
    }

    /// Considers, for each process, every entry of `folder`, or the path `below` it.
    fn processes(&mut self, folder: &str, below: Option<&str>) {
        self.links.clear();
        for process in entries("/proc".into()) {
            if self.is_complete() {
                return;
            }
            let is_process = process.join(folder).exists();
            let Some(user) = is_process.then(|| user(&process)).flatten() else { continue };
            for entry in entries(process.join(folder)).take(LINKS_PER_PROCESS) {
                let links = self.links.entry(user).or_default();
                *links += 1;
                if user != ROOT && *links > LINKS_PER_USER {
                    break;
                }
                let path = below.map_or(entry.clone(), |below| entry.join(below));
                self.consider(&path, Origin::Link, user);
            }
        }
    }

    fn is_new(&self, inode: u32) -> bool {
        !self.seen.contains(&inode) && self.wanted.is_none_or(|wanted| wanted.contains(&inode))
    }

    fn consider(&mut self, path: &Path, origin: Origin, user: u32) {
        let taken = self.namespaces.get(&user).copied().unwrap_or(0);
        if self.is_complete() || (user != ROOT && taken >= NAMESPACES_PER_USER) {
            return;
        }
        if origin == Origin::Link && !link_inode(path).is_some_and(|inode| self.is_new(inode)) {
            return;
        }
        let namespace = match open(path, origin) {
            Ok(Some(namespace)) => namespace,
            Err(error) if lacks_resources(&error) => return (self.found)(0, Err(error)),
            Ok(None) | Err(_) => return,
        };
        let inode = namespace.metadata().ok().and_then(|meta| u32::try_from(meta.ino()).ok());
        if let Some(inode) = inode.filter(|inode| self.is_new(*inode)) {
            self.seen.insert(inode);
            *self.namespaces.entry(user).or_default() += usize::from(origin == Origin::Link);
            (self.found)(inode, Ok(namespace));
        }
    }
}

/// The namespaces with these inode numbers that still exist. The search stops when all are found.
fn some(inodes: &HashSet<u32>) -> HashMap<u32, File> {
    let mut found = HashMap::new();
    Search::run(Some(inodes), &mut |inode, namespace| {
        if let Ok(namespace) = namespace {
            found.insert(inode, namespace);
        }
    });
    found
}

/// Finds namespaces by their inode numbers. Searching /proc is slow, so a thread does it, and a
/// later call uses what the thread found.
#[derive(Debug, Default)]
pub struct Finder {
    known: HashMap<u32, File>,
    searching: Option<JoinHandle<HashMap<u32, File>>>,
    searched_ns: u64,
}

impl Finder {
    /// Runs the iterator over the sockets of the namespaces of `inodes` that have been found, and
    /// starts a search for the others. All other namespaces are closed.
    pub fn walk(
        &mut self,
        iterator: &Link,
        inodes: &HashSet<u32>,
        now_ns: u64,
    ) -> Result<(), Error> {
        if let Some(done) = self.searching.take_if(|thread| thread.is_finished()) {
            self.known.extend(done.join().unwrap_or_default());
        }
        self.known.retain(|inode, _| inodes.contains(inode));
        let missing: HashSet<u32> =
            inodes.iter().copied().filter(|inode| !self.known.contains_key(inode)).collect();
        let due = now_ns.saturating_sub(self.searched_ns) >= SEARCH_INTERVAL_NS;
        if !missing.is_empty() && self.searching.is_none() && due {
            self.searched_ns = now_ns;
            let search = thread::Builder::new().name("namespaces".to_owned());
            // If no thread can start, a call after the interval tries again.
            self.searching = search.spawn(move || some(&missing)).ok();
        }
        let mut walker = Walker::new(iterator)?;
        for namespace in self.known.values() {
            walker.visit(namespace.try_clone());
        }
        walker.finish()
    }
}

/// Runs the iterator over the sockets of every namespace. A namespace that fails does not keep the
/// others from their turn; the error at the end counts those that failed.
pub fn walk_sockets(iterator: &Link) -> Result<(), Error> {
    let mut walker = Walker::new(iterator)?;
    Search::run(None, &mut |_, namespace| walker.visit(namespace));
    walker.finish()
}

/// Runs an iterator in one namespace after another, and counts those that fail.
struct Walker {
    link: Arc<OwnedFd>,
    visited: usize,
    failed: usize,
    stuck: usize,
    first: Option<io::Error>,
}

impl Walker {
    fn new(iterator: &Link) -> Result<Self, Error> {
        let link = iterator.as_fd().try_clone_to_owned();
        let link = link.map_err(|source| Error::Namespaces { failed: 0, visited: 0, source })?;
        Ok(Self { link: Arc::new(link), visited: 0, failed: 0, stuck: 0, first: None })
    }

    fn visit(&mut self, namespace: io::Result<File>) {
        let link = Arc::clone(&self.link);
        self.note(|| {
            let namespace = namespace?;
            in_time(NAMESPACE_TIME_MAX, move || walk_one(&namespace, &link))
        });
    }

    fn note(&mut self, visit: impl FnOnce() -> io::Result<()>) {
        self.visited += 1;
        let outcome =
            if self.stuck < STUCK_MAX { visit() } else { Err(io::ErrorKind::TimedOut.into()) };
        if let Err(error) = outcome {
            self.failed += 1;
            self.stuck += usize::from(error.kind() == io::ErrorKind::TimedOut);
            self.first.get_or_insert(error);
        }
    }

    fn finish(self) -> Result<(), Error> {
        let (failed, visited) = (self.failed, self.visited);
        self.first.map_or(Ok(()), |source| Err(Error::Namespaces { failed, visited, source }))
    }
}

/// Runs `work` in a thread of its own. If `work` has not ended after `limit`, the thread is left
/// behind: a thread that waits for a socket's lock cannot be stopped.
pub fn in_time<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("walker".to_owned()).spawn(move || {
        // An error means that nobody waits for the outcome any more.
        let _ = sender.send(work());
    })?;
    let outcome = receiver.recv_timeout(limit);
    if let Err(RecvTimeoutError::Timeout) = outcome {
        let text = format!("its sockets could not be visited within {limit:?}");
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    }
    thread.join().map_err(|_| io::Error::other("the walking thread panicked"))?;
    outcome.map_err(|_| io::Error::other("the walking thread gave no outcome"))?
}

/// Replaces, in every network namespace, a default algorithm that an agent named `name` has left,
/// by `native`, or by one that the namespace may choose. Returns how many namespaces were changed,
/// and how many failed.
pub fn mend_defaults(name: &str, native: &str) -> (usize, usize) {
    let (mut mended, mut failed) = (0, 0);
    Search::run(None, &mut |_, namespace| {
        let (name, native) = (name.to_owned(), native.to_owned());
        let mend = move |namespace: File| {
            if !enter(&namespace)? {
                return Ok(false);
            }
            let done = DefaultAlgorithm::mend(&name, &native).map_err(io::Error::other)?;
            Ok(done.is_some())
        };
        let done = namespace.and_then(|it| in_time(NAMESPACE_TIME_MAX, move || mend(it)));
        match done {
            Ok(is_mended) => mended += usize::from(is_mended),
            Err(_) => failed += 1,
        }
    });
    (mended, failed)
}

/// Moves this thread into a namespace. False: it lacks CAP_SYS_ADMIN there, and the namespace is
/// left alone.
fn enter(namespace: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open; setns changes this thread only, which ends with its work.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EPERM) { Ok(false) } else { Err(error) }
}

fn walk_one(namespace: &File, link: &OwnedFd) -> io::Result<()> {
    if enter(namespace)? { read_to_end(iterator::walk(link.as_fd())?) } else { Ok(()) }
}

fn read_to_end(mut iterator: impl Read) -> io::Result<()> {
    let mut sink = [0; 64];
    for _ in 0..READS_MAX {
        match iterator.read(&mut sink) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("the iterator did not end within {READS_MAX} reads")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::time::Instant;

    const OWN: &str = "/proc/thread-self/ns/net";

    fn slot(file: &File) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test measures how long the host takes")]
    fn only_a_network_namespace_is_opened_and_nothing_blocks() {
        let folder = std::env::temp_dir().join(format!("remuda-ns-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (fifo, plain) = (folder.join("fifo"), folder.join("plain"));
        let name = CString::new(fifo.to_str().expect("UTF-8")).expect("no NUL");
        // SAFETY: a terminated path.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        fs::write(&plain, "net:[4026531833]").expect("a file");
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
        let reader = reader.expect("a FIFO that has no writer: a plain open of it waits");
        let start = Instant::now();
        let others = [fifo, plain, folder.clone(), slot(&reader), "/dev/null".into()];
        for path in others.into_iter().chain(["/proc/self/ns/mnt".into()]) {
            for origin in [Origin::Link, Origin::Name] {
                let opened = open(&path, origin).expect("it can be looked at");
                assert!(opened.is_none(), "{}", path.display());
            }
        }
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(open(&folder.join("none"), Origin::Name).is_err());
        let own = open(Path::new(OWN), Origin::Name).expect("opens").expect("a namespace");
        assert!(open(&slot(&own), Origin::Link).expect("opens").is_some());
        fs::remove_dir_all(folder).expect("the folder goes");
    }

    #[test]
    fn the_own_namespace_is_found_by_its_number() {
        let inode = link_inode(Path::new(OWN)).expect("a link to a namespace");
        assert_eq!(some(&HashSet::from([inode])).len(), 1);
        // SAFETY: no arguments, no failure.
        assert_eq!(user(Path::new("/proc/self")), Some(unsafe { libc::getuid() }));
    }

    #[test]
    fn a_failure_is_counted_and_the_others_have_their_turn() {
        let link = Arc::new(OwnedFd::from(File::open("/dev/null").expect("opens")));
        let mut walker = Walker { link, visited: 0, failed: 0, stuck: 0, first: None };
        let mut turns = 0;
        for errno in [libc::EMFILE, 0, libc::ENOMEM, 0] {
            walker.note(|| {
                turns += 1;
                if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
            });
        }
        for _ in 0..2 * STUCK_MAX {
            walker.note(|| {
                turns += 1;
                in_time(Duration::from_millis(1), || {
                    thread::sleep(Duration::from_secs(1));
                    Ok(())
                })
            });
        }
        assert_eq!(turns, 4 + STUCK_MAX, "a stuck walk ends");
        let failed = 2 + 2 * STUCK_MAX;
        let Err(Error::Namespaces { failed: counted, visited, source }) = walker.finish() else {
            panic!("the failures are lost");
        };
        assert_eq!((counted, visited), (failed, failed + 2));
        assert_eq!(source.raw_os_error(), Some(libc::EMFILE), "the first");
    }

    #[test]
    fn an_iterator_is_read_again_after_a_million_sockets_but_not_for_ever() {
        struct Reads(Vec<io::Result<usize>>);
        impl Read for Reads {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                self.0.pop().unwrap_or(Ok(1))
            }
        }
        let again = || Err(io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(read_to_end(Reads(vec![Ok(0), again(), again()])).is_ok());
        assert!(read_to_end(Reads(vec![])).is_err(), "without end");
    }
}
