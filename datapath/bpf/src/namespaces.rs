//! Runs a socket iterator in every network namespace of the host.
//!
//! A socket iterator sees the namespace in which its descriptor was created. So a thread of its own
//! enters each namespace, and the caller's namespace does not change.

use crate::Error;
use libbpf_rs::{Link, libbpf_sys as sys};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::iter;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

/// The shortest time between two searches for namespaces that were not found.
const SEARCH_INTERVAL_NS: u64 = 1_000_000_000;

/// Entries of a folder of /proc; none if its process has just ended.
fn entries(path: PathBuf) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Every path that can hold a namespace: of a thread, of a descriptor, of a name of `ip netns`.
fn holders() -> impl Iterator<Item = PathBuf> {
    let processes = || entries("/proc".into());
    let threads = processes().flat_map(|process| entries(process.join("task")));
    let descriptors = processes().flat_map(|process| entries(process.join("fd")));
    let held = descriptors.filter(|path| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("net:["))
    });
    let threads = threads.map(|thread| thread.join("ns/net"));
    // The likeliest come first: this thread's namespace and named ones.
    let near = iter::once(PathBuf::from("/proc/thread-self/ns/net"));
    near.chain(entries("/run/netns".into())).chain(threads).chain(held)
}

/// One descriptor per namespace.
fn all() -> Vec<File> {
    let mut seen = HashSet::new();
    holders()
        .filter(|path| fs::metadata(path).is_ok_and(|meta| seen.insert((meta.dev(), meta.ino()))))
        .filter_map(|path| File::open(path).ok())
        .collect()
}

/// The namespaces with these inode numbers that still exist. The search stops when all are found.
fn some(inodes: &HashSet<u32>) -> HashMap<u32, File> {
    let mut found = HashMap::new();
    for path in holders() {
        if found.len() == inodes.len() {
            break;
        }
        let inode = |meta: fs::Metadata| u32::try_from(meta.ino()).unwrap_or(0);
        let Some(seen) = fs::metadata(&path).ok().map(inode) else { continue };
        if inodes.contains(&seen)
            && !found.contains_key(&seen)
            && let Ok(file) = File::open(path)
            && file.metadata().is_ok_and(|meta| inode(meta) == seen)
        {
            found.insert(seen, file);
        }
    }
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
        walk(iterator, self.known.values())
    }
}

/// Runs the iterator over the sockets of every namespace.
pub fn walk_sockets(iterator: &Link) -> Result<(), Error> {
    walk(iterator, all().iter())
}

fn walk<'a>(iterator: &Link, namespaces: impl Iterator<Item = &'a File>) -> Result<(), Error> {
    let link = iterator.as_fd().as_raw_fd();
    for namespace in namespaces {
        thread::scope(|scope| scope.spawn(|| walk_one(namespace, link)).join())
            .unwrap_or_else(|_| Err(io::Error::other("the walking thread panicked")))
            .map_err(|source| Error::File { path: "/proc/PID/ns/net".to_owned(), source })?;
    }
    Ok(())
}

fn walk_one(namespace: &File, link: RawFd) -> io::Result<()> {
    // SAFETY: both descriptors are open; setns changes this thread only, which ends with us.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        // Not a network namespace, or it has just ended: it has no sockets.
        return Ok(());
    }
    // SAFETY: the link is open; the descriptor returned is ours alone.
    let fd = unsafe { sys::bpf_iter_create(link) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: as above.
    let mut walk = unsafe { File::from_raw_fd(fd) };
    let mut sink = [0; 64];
    while walk.read(&mut sink)? > 0 {}
    Ok(())
}
