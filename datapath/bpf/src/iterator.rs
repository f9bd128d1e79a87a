//! Reads what a BPF iterator writes.

use crate::layout::{self, Plain};
use libbpf_rs::libbpf_sys as sys;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// The most that the kernel's iterator writes in one read, in bytes. A smaller buffer takes more
/// reads, and between two reads the iterator can skip a socket.
const READ_BYTES: usize = 32 << 10;

/// A new walk of the iterator `link`, in the network namespace of this thread.
pub fn walk(link: BorrowedFd<'_>) -> io::Result<File> {
    // SAFETY: an open descriptor.
    let walk = unsafe { sys::bpf_iter_create(link.as_raw_fd()) };
    if walk < 0 {
        return Err(io::Error::from_raw_os_error(-walk));
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { File::from_raw_fd(walk) })
}

/// Every record that a new walk of the iterator `link` writes.
pub fn records<T: Plain>(link: BorrowedFd<'_>) -> io::Result<Vec<T>> {
    let mut walk = walk(link)?;
    let mut room = vec![0; READ_BYTES];
    let mut all = Vec::new();
    loop {
        match walk.read(&mut room) {
            Ok(0) => return Ok(all),
            // Whole records: what does not fit is written at the next read.
            Ok(bytes) => {
                let records = room[..bytes].chunks_exact(size_of::<T>());
                all.extend(records.filter_map(layout::read::<T>));
            }
            // After a million sockets, a read ends without a record.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}
