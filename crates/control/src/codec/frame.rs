//! Cutting a stream of bytes into messages.

use serde::Serialize;

/// The longest call a daemon accepts, without its zero byte.
pub const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// The longest reply a client accepts, without its zero byte. A status takes some kilobytes for each application.
pub const MAX_REPLY_BYTES: usize = 4 * 1024 * 1024;

/// A message that cannot be sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is longer than allowed.
    #[error("message is longer than {0} bytes")]
    TooLong(usize),
    /// It cannot be written as JSON.
    #[error("message cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Cuts bytes into messages, holding at most one unfinished message.
///
/// ```
/// # use mapper_control::codec::{FrameDecoder, MAX_REQUEST_BYTES};
/// let mut decoder = FrameDecoder::new(MAX_REQUEST_BYTES);
/// let mut arrived: &[u8] = b"{\"a\":1}\0{\"b\"";
/// assert_eq!(decoder.next(&mut arrived)?, Some(b"{\"a\":1}".to_vec()));
/// assert_eq!(decoder.next(&mut arrived)?, None); // used up, a message has begun
/// # Ok::<(), mapper_control::codec::FrameError>(())
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    // Invariant: no zero byte, and at most `limit` bytes.
    begun: Vec<u8>,
    limit: usize,
}

impl FrameDecoder {
    /// A decoder of messages of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            begun: Vec::new(),
            limit,
        }
    }

    /// Takes bytes off the front of `arrived` up to the end of a message, and returns the message without its zero byte;
    /// `None` when all of `arrived` was taken and the message continues.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; the stream cannot be used any further, since the next message cannot be found.
    pub fn next(&mut self, arrived: &mut &[u8]) -> Result<Option<Vec<u8>>, FrameError> {
        let end = arrived.iter().position(|&byte| byte == 0);
        let (part, rest) = match end {
            Some(end) => (&arrived[..end], &arrived[end + 1..]),
            None => (*arrived, &arrived[arrived.len()..]),
        };
        if self.begun.len() + part.len() > self.limit {
            return Err(FrameError::TooLong(self.limit));
        }
        *arrived = rest;
        self.make_room(part.len());
        self.begun.extend_from_slice(part);
        Ok(end.map(|_| std::mem::take(&mut self.begun)))
    }

    /// The length of the unfinished message.
    pub const fn unfinished(&self) -> usize {
        self.begun.len()
    }

    /// Grows as a vector does, but never beyond the limit.
    fn make_room(&mut self, more: usize) {
        let needed = self.begun.len() + more;
        if needed > self.begun.capacity() {
            let roomy = (2 * self.begun.capacity()).clamp(needed, self.limit.max(needed));
            self.begun.reserve_exact(roomy - self.begun.len());
        }
    }
}

/// A message as bytes, with its zero byte.
pub fn encode(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = serde_json::to_vec(message)?;
    if bytes.len() > limit {
        return Err(FrameError::TooLong(limit));
    }
    bytes.push(0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds the stream in pieces of the given sizes (after the last, seven bytes each).
    fn decode_in_pieces(
        stream: &[u8],
        sizes: &[usize],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut decoder = FrameDecoder::new(limit);
        let mut messages = Vec::new();
        let mut rest = stream;
        let mut sizes = sizes.iter().copied().chain(std::iter::repeat(7));
        while !rest.is_empty() {
            let (mut piece, tail) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
            rest = tail;
            while let Some(message) = decoder.next(&mut piece)? {
                messages.push(message);
            }
            assert!(piece.is_empty());
            assert!(decoder.begun.capacity() <= limit);
        }
        Ok(messages)
    }

    proptest! {
        #[test]
        fn messages_arrive_whole_however_the_bytes_are_cut(
            messages in prop::collection::vec(prop::collection::vec(1u8.., 0..40), 0..12),
            sizes in prop::collection::vec(1usize..50, 1..20),
        ) {
            let stream: Vec<u8> =
                messages.iter().flat_map(|m| m.iter().copied().chain([0])).collect();
            prop_assert_eq!(decode_in_pieces(&stream, &sizes, 40).unwrap(), messages);
        }

        #[test]
        fn random_bytes_neither_panic_nor_fill_memory(
            stream in prop::collection::vec(any::<u8>(), 0..2000),
            sizes in prop::collection::vec(1usize..300, 1..20),
            limit in 0usize..64,
        ) {
            // The bound on memory is asserted in `decode_in_pieces`.
            let longest = stream.split(|&b| b == 0).map(<[u8]>::len).max().unwrap_or(0);
            let decoded = decode_in_pieces(&stream, &sizes, limit);
            prop_assert_eq!(decoded.is_err(), longest > limit);
        }
    }

    #[test]
    fn a_message_of_the_limit_passes_and_one_byte_more_does_not() {
        let text = "x".repeat(8); // 10 bytes as JSON
        assert_eq!(encode(&text, 10).unwrap().len(), 11);
        let long = encode(&text, 9);
        assert!(matches!(long, Err(FrameError::TooLong(9))));
    }
}
