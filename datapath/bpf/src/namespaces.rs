//! Every network namespace of the host, visited.
//!
//! A socket iterator sees the namespace that its descriptor was created in, so each is entered by a
//! thread of its own; the caller's namespace stays what it is.

use crate::Error;
use libbpf_rs::{Link, libbpf_sys as sys};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

/// Entries of a folder of /proc; none if it just went.
fn entries(path: PathBuf) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Every place where a namespace may be held: by a thread, by a descriptor, by a name of `ip
/// netns`.
fn holders() -> impl Iterator<Item = PathBuf> {
    let processes = || entries("/proc".into());
    let threads = processes().flat_map(|process| entries(process.join("task")));
    let descriptors = processes().flat_map(|process| entries(process.join("fd")));
    let held = descriptors.filter(|path| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("net:["))
    });
    threads.map(|thread| thread.join("ns/net")).chain(held).chain(entries("/run/netns".into()))
}

/// One descriptor per namespace.
fn all() -> Vec<File> {
    let mut seen = HashSet::new();
    holders()
        .filter(|path| fs::metadata(path).is_ok_and(|meta| seen.insert((meta.dev(), meta.ino()))))
        .filter_map(|path| File::open(path).ok())
        .collect()
}

/// Those of these inode numbers that still are; the search ends with the last.
fn some(inodes: &HashSet<u32>) -> Vec<File> {
    let mut left: HashSet<u64> = inodes.iter().map(|inode| u64::from(*inode)).collect();
    let mut found = Vec::new();
    for path in holders() {
        if left.is_empty() {
            break;
        }
        let wanted = |meta: &fs::Metadata| left.contains(&meta.ino());
        if fs::metadata(&path).is_ok_and(|meta| wanted(&meta))
            && let Ok(file) = File::open(path)
            && file.metadata().is_ok_and(|meta| left.remove(&meta.ino()))
        {
            found.push(file);
        }
    }
    found
}

/// Runs the iterator over the sockets of every namespace.
pub fn walk_sockets(iterator: &Link) -> Result<(), Error> {
    walk(iterator, &all())
}

/// Runs it over those of the namespaces of these inode numbers.
pub fn walk_sockets_of(iterator: &Link, inodes: &HashSet<u32>) -> Result<(), Error> {
    walk(iterator, &some(inodes))
}

fn walk(iterator: &Link, namespaces: &[File]) -> Result<(), Error> {
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
        // A namespace that is not one of networks, or just gone, has no sockets for us.
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
