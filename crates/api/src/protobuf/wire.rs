//! The protobuf wire format.

use super::ProtobufError;

/// A field's value, by wire type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wire<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads fields in sequence.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next field and its number, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, ProtobufError> {
        let Some(tag) = self.number()? else { return Ok(None) };
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed)?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.number()?.ok_or(ProtobufError::Short)?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.number()?.ok_or(ProtobufError::Short)?;
                let length = usize::try_from(length).map_err(|_| ProtobufError::Malformed)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(ProtobufError::Malformed),
        };
        Ok(Some((number, wire)))
    }

    /// Returns the next varint, or `None` at the end.
    pub(super) fn number(&mut self) -> Result<Option<u64>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array::<1>()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(Some(value));
            }
        }
        Err(ProtobufError::Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        self.take(N)?.try_into().map_err(|_| ProtobufError::Short)
    }
}
