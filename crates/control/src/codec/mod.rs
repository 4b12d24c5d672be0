//! The bytes and descriptors of a message.
//!
//! A message is JSON text ended by a zero byte, which JSON never contains. [`FrameDecoder`] cuts
//! bytes, however they arrive, into messages; [`Outgoing`] is a message on its way out, which may
//! take several writes; [`receive`] and [`Outgoing::write_to`] carry file descriptors along
//! (`SCM_RIGHTS`). None of these ever waits unless the socket itself is a blocking one.

mod descriptors;
mod frame;

pub use descriptors::{MAX_DESCRIPTORS, Outgoing, Progress, receive};
pub use frame::{FrameDecoder, FrameError, MAX_REPLY_BYTES, MAX_REQUEST_BYTES, encode};
