//! Copies of ring records, one after another in one buffer that is reused.

/// Before each record stands its length in bytes.
type Length = u32;

/// Copies of records in the order of arrival.
#[derive(Debug, Default)]
pub struct Records(Vec<u8>);

impl Records {
    /// Adds a copy of `record`. A ring's record is shorter than 512 MiB.
    pub fn push(&mut self, record: &[u8]) {
        let Ok(length) = Length::try_from(record.len()) else { return };
        self.0.extend(length.to_ne_bytes());
        self.0.extend(record);
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let (record, after) = after.split_at_checked(Length::from_ne_bytes(*length) as usize)?;
            rest = after;
            Some(record)
        })
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_whole_and_in_order() {
        let mut records = Records::default();
        for record in [&[1, 2, 3][..], &[], &[4]] {
            records.push(record);
        }
        assert_eq!(records.iter().collect::<Vec<_>>(), [&[1, 2, 3][..], &[], &[4]]);
        records.clear();
        assert_eq!(records.iter().count(), 0);
    }
}
