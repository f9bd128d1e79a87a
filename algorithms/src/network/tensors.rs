//! Reads the safetensors format: eight bytes with the length of a header, little endian; the
//! header, a JSON object that gives each tensor's type, shape and place; the numbers.
//!
//! Stricter than the format: only F32, and the tensors must fill the file without gaps.

use super::error::NetworkError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The key of the header that is no tensor.
const METADATA: &str = "__metadata__";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// One tensor of a file.
#[derive(Debug)]
pub struct Tensor<'a> {
    pub dtype: String,
    pub shape: Vec<usize>,
    /// Four bytes for each number, little endian.
    pub data: &'a [u8],
}

fn refuse(rule: impl Into<String>) -> NetworkError {
    NetworkError::Format(rule.into())
}

/// The tensors of a file, by name.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor<'_>>, NetworkError> {
    let (length, rest) =
        bytes.split_first_chunk::<8>().ok_or_else(|| refuse("it is shorter than 8 bytes"))?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (header, data) = rest
        .split_at_checked(length)
        .ok_or_else(|| refuse(format!("its header should have {length} bytes, beyond its end")))?;
    let header: BTreeMap<String, Value> =
        serde_json::from_slice(header).map_err(|error| refuse(format!("its header: {error}")))?;
    let mut tensors = BTreeMap::new();
    let mut places = Vec::new();
    for (name, value) in header.into_iter().filter(|(name, _)| name != METADATA) {
        let entry = Entry::deserialize(value)
            .map_err(|error| refuse(format!("its header, tensor {name:?}: {error}")))?;
        let [begin, end] = entry.data_offsets;
        let count = entry.shape.iter().try_fold(4usize, |size, axis| size.checked_mul(*axis));
        let part = data.get(begin..end).ok_or_else(|| {
            refuse(format!("tensor {name:?} lies at bytes {begin} to {end} of {}", data.len()))
        })?;
        // Another type has other sizes; the caller refuses the type.
        if entry.dtype == "F32" && count != Some(part.len()) {
            let rule = format!("tensor {name:?} has {} bytes, and another shape", part.len());
            return Err(refuse(rule));
        }
        places.push((begin, end));
        let tensor = Tensor { dtype: entry.dtype, shape: entry.shape, data: part };
        tensors.insert(name, tensor);
    }
    places.sort_unstable();
    let mut filled = 0;
    for (begin, end) in places {
        if begin != filled {
            return Err(refuse(format!("bytes {filled} to {begin} belong to no or two tensors")));
        }
        filled = end;
    }
    if filled != data.len() {
        return Err(refuse(format!("it has {} bytes after its last tensor", data.len() - filled)));
    }
    Ok(tensors)
}
