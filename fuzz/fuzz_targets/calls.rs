//! What arrives on the control socket: bytes are cut into frames, frames are read as Varlink calls and replies. The
//! first byte says how many bytes arrive at a time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mapper_control::codec::{FrameDecoder, MAX_REQUEST_BYTES};
use mapper_control::schema::{LaunchReply, Status};
use mapper_control::{Call, ErrorReply, Reply, RequestError};

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else {
        return;
    };
    let mut decoder = FrameDecoder::new(MAX_REQUEST_BYTES);
    for mut arrived in bytes.chunks(usize::from(first) * 16 + 1) {
        loop {
            match decoder.next(&mut arrived) {
                Ok(Some(message)) => read(&message),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});

fn read(message: &[u8]) {
    assert!(message.len() <= MAX_REQUEST_BYTES);
    let _ = serde_json::from_slice::<Status>(message);
    let _ = serde_json::from_slice::<LaunchReply>(message);
    let _ = serde_json::from_slice::<ErrorReply>(message);
    match Call::parse(message) {
        Ok(call) => same_after_encoding(&call),
        Err(RequestError::Refused { error, .. }) => {
            error.encode().expect("a refusal can be sent");
        }
        Err(RequestError::NotVarlink(_)) => {}
    }
}

fn same_after_encoding(call: &Call) {
    if let Some(Ok(reply)) = Reply::about_service(&call.request, "0") {
        reply
            .encode()
            .expect("a reply about the service can be sent");
    }
    // Escapes may make it longer than a message may be.
    let Ok(mut bytes) = call.encode() else {
        return;
    };
    assert_eq!(bytes.pop(), Some(0));
    let again = Call::parse(&bytes).expect("a call that was encoded can be read");
    let written = |call: &Call| call.encode().expect("it could be encoded before");
    assert_eq!(written(call), written(&again));
}
