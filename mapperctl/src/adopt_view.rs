//! `mapperctl adopt` and `release`: what came of it, in a line or two.

use crate::plain_text::harmless;
use crate::quantities::counted;
use mapper_control::schema::{AdoptReply, ReleaseReply};

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

pub(crate) fn released(reply: &ReleaseReply) -> String {
    let before = match &reply.trouble {
        None => " and has what it had before".to_owned(),
        Some(trouble) => format!(", but not all is as before: {trouble}"),
    };
    let (name, adopted) = (&reply.name, &reply.adopted);
    harmless(&format!("{name} ({adopted}) is managed no more{before}")) + "\n"
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
        let line = "unit db.service is application db (id 3): 2 processes on 4 CPUs (0-3)\n";
        assert_eq!(adopted(&reply), line);
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
        let text = "db (process 7) is managed no more and has what it had before\n";
        assert_eq!(released(&reply), text);
        reply.trouble = Some("open /a: gone".into());
        let text = "db (process 7) is managed no more, but not all is as before: open /a: gone\n";
        assert_eq!(released(&reply), text);
    }
}
