//! `mapperctl promise`: the promise of now and the one before.

use crate::plain_text::harmless;
use mapper_control::schema::PromiseReply;

pub(crate) fn view(reply: &PromiseReply) -> String {
    let [now, before] = [reply.qos, reply.before].map(|qos| qos.get() * 100.0);
    let line = format!(
        "{} is promised {now:.0} % of its fair-share speed; before, {before:.0} %",
        reply.name
    );
    harmless(&line) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{AppId, AppName, Qos};

    #[test]
    fn both_promises_are_in_one_line() {
        let reply = PromiseReply {
            protocol: 2,
            app: AppId(3),
            name: AppName::new("fit").unwrap(),
            qos: Qos::new(0.95).unwrap(),
            before: Qos::default(),
        };
        let line = "fit is promised 95 % of its fair-share speed; before, 85 %\n";
        assert_eq!(view(&reply), line);
    }
}
