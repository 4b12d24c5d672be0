//! The bytes and descriptors of a message.
//!
//! A message is JSON text ended by a zero byte, which JSON never contains. [`FrameDecoder`] cuts bytes into messages;
//! [`Outgoing`] is a message to send, which may take several writes; [`receive`] and [`Outgoing::write_to`] pass file
//! descriptors along (`SCM_RIGHTS`). They wait only on blocking sockets.

mod descriptors;
mod frame;

pub use descriptors::{MAX_DESCRIPTORS, Outgoing, Progress, receive};
pub use frame::{FrameDecoder, FrameError, MAX_REPLY_BYTES, MAX_REQUEST_BYTES, encode};
