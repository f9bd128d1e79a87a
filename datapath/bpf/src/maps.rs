//! Maps and rings by their descriptors alone. A process that has the descriptors needs no privilege
//! for any of this (Linux 5.19 and later).

use crate::error::tried;
use crate::kernel::Mapped;
use crate::records::Records;
use crate::{Error, libbpf};
use libbpf_rs::libbpf_sys as sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// A map, and the sizes of its keys and values in bytes.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
    entries: usize,
}

impl Map {
    /// Fails if `fd` is no map. `what` names the map in errors.
    pub fn new(fd: OwnedFd, what: &'static str) -> Result<Self, Error> {
        let mut info = sys::bpf_map_info::default();
        let mut bytes = size_of_val(&info) as u32;
        // SAFETY: an open descriptor, and room for as many bytes as are said.
        let done = unsafe { sys::bpf_map_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut bytes) };
        libbpf::done(done).map_err(tried(what))?;
        Ok(Self {
            fd,
            key_bytes: info.key_size as usize,
            value_bytes: info.value_size as usize,
            entries: info.max_entries as usize,
        })
    }

    /// Maps all entries into memory, each of which must have the size of `T`.
    pub fn mapped<T>(&self) -> Result<Mapped<T>, Error> {
        if self.value_bytes != size_of::<T>() {
            return Err(Error::Template("an entry of a map has another size"));
        }
        Mapped::new(self.fd.as_fd(), self.entries)
    }

    pub fn entries(&self) -> usize {
        self.entries
    }

    pub fn update(&self, key: &[u8], value: &[u8]) -> libbpf_rs::Result<()> {
        self.check(key, value.len())?;
        let (fd, key, value) = (self.fd.as_raw_fd(), key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: key and value have the sizes that the kernel reads.
        libbpf::done(unsafe { sys::bpf_map_update_elem(fd, key, value, 0) })
    }

    pub fn delete(&self, key: &[u8]) -> libbpf_rs::Result<()> {
        self.check(key, self.value_bytes)?;
        // SAFETY: the key has the size that the kernel reads.
        libbpf::done(unsafe { sys::bpf_map_delete_elem(self.fd.as_raw_fd(), key.as_ptr().cast()) })
    }

    /// Returns the value of an entry, or `None` if the map has no such entry or the kernel refuses
    /// the key.
    pub fn lookup(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.check(key, self.value_bytes).ok()?;
        let mut value = vec![0; self.value_bytes];
        let (fd, into) = (self.fd.as_raw_fd(), value.as_mut_ptr().cast());
        // SAFETY: key and value have the sizes that the kernel reads and writes.
        let done = unsafe { sys::bpf_map_lookup_elem(fd, key.as_ptr().cast(), into) };
        (done == 0).then_some(value)
    }

    /// The keys of all entries, at most as many as the map can hold: entries may come and go
    /// meanwhile, and then a key may be missed or come twice.
    pub fn keys(&self) -> libbpf_rs::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < self.entries {
            let mut next = vec![0; self.key_bytes];
            let last = keys.last().map_or(ptr::null(), |key| key.as_ptr());
            let (fd, into) = (self.fd.as_raw_fd(), next.as_mut_ptr().cast());
            // SAFETY: keys have the size that the kernel reads and writes.
            let done = unsafe { sys::bpf_map_get_next_key(fd, last.cast(), into) };
            if done == -libc::ENOENT {
                break;
            }
            libbpf::done(done)?;
            keys.push(next);
        }
        Ok(keys)
    }

    fn check(&self, key: &[u8], value_bytes: usize) -> libbpf_rs::Result<()> {
        let fits = key.len() == self.key_bytes && value_bytes == self.value_bytes;
        if fits { Ok(()) } else { Err(libbpf_rs::Error::from_raw_os_error(libc::EINVAL)) }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Another descriptor of a map, which can only be read. It takes a privilege to get one.
pub fn read_only(map: BorrowedFd<'_>) -> libbpf_rs::Result<OwnedFd> {
    let mut info = sys::bpf_map_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: an open descriptor, and room for as many bytes as are said.
    libbpf::done(unsafe { sys::bpf_map_get_info_by_fd(map.as_raw_fd(), &mut info, &mut bytes) })?;
    let options = sys::bpf_get_fd_by_id_opts {
        sz: size_of::<sys::bpf_get_fd_by_id_opts>() as sys::size_t,
        open_flags: sys::BPF_F_RDONLY,
        ..Default::default()
    };
    // SAFETY: the options outlive the call.
    let fd = unsafe { sys::bpf_map_get_fd_by_id_opts(info.id, &options) };
    libbpf::done(fd)?;
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A ring buffer's reading end.
#[derive(Debug)]
pub struct Ring {
    ring: NonNull<sys::ring_buffer>,
    /// What the ring's callback fills; owned, and freed after the ring.
    records: NonNull<Records>,
    map: Map,
}

// SAFETY: neither the ring nor its records are tied to a thread, and both are used through
// &mut self alone.
unsafe impl Send for Ring {}

// SAFETY: libbpf calls it during `Ring::take` alone, with the pointer that `Ring::new` gave.
unsafe extern "C" fn push(
    records: *mut libc::c_void,
    data: *mut libc::c_void,
    bytes: sys::size_t,
) -> libc::c_int {
    // SAFETY: the pointer that `Ring::new` gave, during `Ring::take`, which borrows the ring
    // mutably; and a record of so many bytes.
    unsafe {
        let record = std::slice::from_raw_parts(data.cast::<u8>(), bytes as usize);
        (*records.cast::<Records>()).push(record);
    }
    0
}

impl Ring {
    pub fn new(map: Map) -> Result<Self, Error> {
        let records = NonNull::from(Box::leak(Box::<Records>::default()));
        let fd = map.as_fd().as_raw_fd();
        // SAFETY: an open descriptor, and records that outlive the ring.
        let ring =
            unsafe { sys::ring_buffer__new(fd, Some(push), records.as_ptr().cast(), ptr::null()) };
        let Some(ring) = NonNull::new(ring) else {
            let error = std::io::Error::last_os_error();
            // SAFETY: leaked above, and nobody else's.
            drop(unsafe { Box::from_raw(records.as_ptr()) });
            return Err(tried("a ring buffer")(error.into()));
        };
        Ok(Self { ring, records, map })
    }

    /// Takes at most so many of the waiting records. Hand the buffer back to [`Self::reuse`].
    pub fn take(&mut self, most: usize) -> Records {
        // SAFETY: the ring lives; the callback only touches the records, which nobody else does
        // now.
        unsafe {
            sys::ring_buffer__consume_n(self.ring.as_ptr(), most as sys::size_t);
            std::mem::take(self.records.as_mut())
        }
    }

    pub fn reuse(&mut self, mut records: Records) {
        records.clear();
        // SAFETY: the records live as long as the ring, and nobody else touches them now.
        unsafe { *self.records.as_mut() = records };
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: both were made by `new`, and are freed once; the ring first, as it has a pointer
        // to the records.
        unsafe {
            sys::ring_buffer__free(self.ring.as_ptr());
            drop(Box::from_raw(self.records.as_ptr()));
        }
    }
}
