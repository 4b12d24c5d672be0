//! `mapperctl doctor`: what the machine offers, and what a daemon that runs makes of it.

use crate::plain_text::{Width, harmless, wrapped};
use mapper_control::schema::{Selection, Status};
use mapper_host::doctor::{Condition, Finding};
use mapper_manual::wording;

pub(crate) fn view(findings: &[Finding], daemon: Option<&Status>, width: Width) -> String {
    let mut out = String::from("For this user on this machine:\n");
    for finding in findings {
        let mark = match finding.condition {
            Condition::Good => "ok     ",
            Condition::Limited => "limited",
            Condition::Missing => "missing",
        };
        let text = format!("{}: {}", finding.what, harmless(&finding.seen));
        out.push_str(&wrapped(&format!("{mark}  "), &text, width));
        if !finding.remedy.is_empty() {
            let remedy = format!("remedy: {}", harmless(&finding.remedy));
            out.push_str(&wrapped("           ", &remedy, width));
        }
    }
    out.push('\n');
    match daemon {
        None if wording::is_one_command() => {
            out.push_str("No daemon answers; `mapper start` starts one.\n");
        }
        None => out.push_str("No daemon answers.\n"),
        Some(status) => {
            out.push_str("The daemon that runs uses:\n");
            chosen(&mut out, "enforcer", &status.daemon.enforcer, width);
            chosen(&mut out, "counters", &status.daemon.counters, width);
            if let Some(isolation) = &status.daemon.isolation {
                chosen(&mut out, "isolation", isolation, width);
            }
        }
    }
    out
}

fn chosen(out: &mut String, what: &str, selection: &Selection, width: Width) {
    let label = format!("{what}  ");
    out.push_str(&wrapped(&label, &harmless(&selection.name), width));
    for why in &selection.not_better {
        let text = format!("not better: {}", harmless(why));
        out.push_str(&wrapped("          ", &text, width));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_its_mark_and_its_remedy() {
        let findings = [
            Finding {
                what: "kernel",
                condition: Condition::Good,
                seen: "6.12".into(),
                remedy: String::new(),
            },
            Finding {
                what: "hardware counters",
                condition: Condition::Missing,
                seen: "none".into(),
                remedy: "ask for a virtual PMU".into(),
            },
        ];
        assert_eq!(
            view(&findings, None, Width::new(80)),
            "For this user on this machine:\n\
             ok       kernel: 6.12\n\
             missing  hardware counters: none\n           remedy: ask for a virtual PMU\n\
             \nNo daemon answers.\n"
        );
    }
}
