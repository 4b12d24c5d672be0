//! What came of reading the configuration again.

use crate::plain_text::harmless;
use mapper_control::schema::ReloadReply;

pub(crate) fn view(reply: &ReloadReply) -> String {
    let mut text = String::new();
    if reply.changed.is_empty() && reply.needs_restart.is_empty() {
        text.push_str("nothing has changed\n");
    }
    for change in &reply.changed {
        text.push_str(&format!("{}\n", harmless(change)));
    }
    for change in &reply.needs_restart {
        text.push_str(&format!("after a restart: {}\n", harmless(change)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_now_is_distinguished_from_what_waits_for_a_restart() {
        let reply = ReloadReply {
            protocol: 2,
            changed: vec!["interval: 1s → 250ms".into()],
            needs_restart: vec!["socket: a → b".into()],
        };
        assert_eq!(
            view(&reply),
            "interval: 1s → 250ms\nafter a restart: socket: a → b\n"
        );
        assert_eq!(view(&ReloadReply::default()), "nothing has changed\n");
    }
}
