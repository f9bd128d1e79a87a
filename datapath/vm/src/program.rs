use crate::ffi;
use crate::refusal::Refusal;
use std::fmt;
use std::sync::Arc;

/// A decoded program; cloning is cheap.
#[derive(Clone)]
pub struct Program {
    raw: Arc<ffi::Program>,
}

impl Program {
    /// Validates and decodes a whole `INSTALL`.
    pub fn from_install(message: &[u8]) -> Result<Self, Refusal> {
        let mut raw = ffi::Program::EMPTY;
        let mut record = 0;
        // SAFETY: `raw` and `record` are ours to write, and C reads the message within its length.
        let code = unsafe {
            ffi::remuda_decode(&raw mut raw, message.as_ptr(), message.len(), &raw mut record)
        };
        match Refusal::of(code, message, Some(record)) {
            Some(refusal) => Err(refusal),
            None => Ok(Self { raw: Arc::new(raw) }),
        }
    }

    /// The agent's number of the program.
    pub fn uid(&self) -> u32 {
        self.raw.uid
    }

    /// The number of fields in a report; at most 32.
    pub fn report_fields(&self) -> usize {
        self.raw.fields as usize
    }

    pub(crate) fn raw(&self) -> *const ffi::Program {
        Arc::as_ptr(&self.raw)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("uid", &self.uid())
            .field("report_fields", &self.report_fields())
            .finish_non_exhaustive()
    }
}
