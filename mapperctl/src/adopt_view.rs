//! `mapperctl adopt` and `release`: what came of it, in a line or two.

use crate::plain_text::harmless;
use crate::quantities::counted;
use mapper_control::schema::{AdoptReply, ReleaseReply};

/// What was adopted and what it has now.
pub(crate) fn adopted(reply: &AdoptReply) -> String {
    harmless(&format!(
        "{} is application {} (id {}): {} on {} ({})",
        reply.adopted,
        reply.name,
        reply.app,
        match reply.processes {
            1 => "1 process".to_owned(),
            several => format!("{several} processes"),
        },
        counted(reply.cpu_count, "CPU"),
        reply.cpus
    )) + "\n"
}

/// What was released and what could not be put back.
pub(crate) fn released(reply: &ReleaseReply) -> String {
    let mut text = harmless(&format!(
        "{} ({}) is managed no more",
        reply.name, reply.adopted
    ));
    match &reply.trouble {
        None => text.push_str(" and has what it had before\n"),
        Some(trouble) => {
            text.push_str(&format!(
                ", but not all is as before: {}\n",
                harmless(trouble)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_control::schema::AdoptTarget;
    use mapper_model::{AppId, AppName, CpuSet};

    #[test]
    fn the_result_is_one_line() {
        let mut reply = AdoptReply {
            protocol: 2,
            app: AppId(3),
            name: AppName::new("db").unwrap(),
            adopted: AdoptTarget::Unit("db.service".into()),
            processes: 2,
            cpus: CpuSet::first(4),
            cpu_count: 4,
        };
        assert_eq!(
            adopted(&reply),
            "unit db.service is application db (id 3): 2 processes on 4 CPUs (0-3)\n"
        );
        // A path is whatever somebody called a directory.
        reply.adopted = AdoptTarget::Cgroup("a\u{1b}[2J".into());
        assert!(adopted(&reply).starts_with("control group a?[2J is"));
    }

    #[test]
    fn what_could_not_be_restored_is_reported() {
        let mut reply = ReleaseReply {
            protocol: 2,
            app: AppId(3),
            name: AppName::new("db").unwrap(),
            adopted: AdoptTarget::Pid(7),
            trouble: None,
        };
        assert_eq!(
            released(&reply),
            "db (process 7) is managed no more and has what it had before\n"
        );
        reply.trouble = Some("open /a: gone".into());
        // What it has instead is known to the trouble alone.
        assert_eq!(
            released(&reply),
            "db (process 7) is managed no more, but not all is as before: open /a: gone\n"
        );
    }
}
