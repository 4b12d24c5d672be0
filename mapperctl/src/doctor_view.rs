//! `mapperctl doctor`: what the machine offers, what a daemon that runs makes of it, and what to do next.

use crate::plain_text::{Width, harmless, wrapped};
use mapper_control::schema::{Selection, Status};
use mapper_host::doctor::{Condition, Finding};
use mapper_manual::wording;

pub(crate) fn view(
    findings: &[Finding],
    daemon: Result<&Status, &anyhow::Error>,
    width: Width,
) -> String {
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
    if let Ok(status) = daemon {
        out.push_str("\nThe daemon that runs uses:\n");
        chosen(&mut out, "enforcer", &status.daemon.enforcer, width);
        chosen(&mut out, "counters", &status.daemon.counters, width);
        if let Some(isolation) = &status.daemon.isolation {
            chosen(&mut out, "isolation", isolation, width);
        }
    }
    out.push_str("\nWhat to do next:\n");
    for (number, step) in (1..).zip(steps(findings, daemon)) {
        out.push_str(&wrapped(&format!("{number}. "), &step, width));
    }
    out
}

fn steps(findings: &[Finding], daemon: Result<&Status, &anyhow::Error>) -> Vec<String> {
    let launch = wording::launch();
    let mut steps = Vec::new();
    if let Err(error) = daemon {
        steps.push(format!("No daemon answers: {error:#}."));
    }
    let bad: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.condition != Condition::Good)
        .map(|finding| finding.what)
        .collect();
    if !bad.is_empty() {
        let names = bad.join(", ");
        steps.push(format!(
            "Programs run without what is limited or missing ({names}); see each remedy above for more."
        ));
    }
    steps.push(match daemon {
        Ok(status) if !status.apps.is_empty() => {
            format!(
                "Look at the programs that run: `{} status`.",
                wording::ask()
            )
        }
        _ => format!("Start a program: `{launch} -- PROGRAM`."),
    });
    steps
}

/// What a script that needs everything has to know.
pub(crate) fn missing(findings: &[Finding], daemon: Option<&Status>) -> Option<String> {
    let lacking = findings
        .iter()
        .filter(|finding| finding.condition == Condition::Missing);
    let mut missing: Vec<&str> = lacking.map(|finding| finding.what).collect();
    missing.extend(daemon.is_none().then_some("a daemon that answers"));
    (!missing.is_empty()).then(|| missing.join(", "))
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
        let none = anyhow::anyhow!("nobody listens; start one");
        assert_eq!(
            view(&findings, Err(&none), Width::new(80)),
            "For this user on this machine:\n\
             ok       kernel: 6.12\n\
             missing  hardware counters: none\n           remedy: ask for a virtual PMU\n\
             \nWhat to do next:\n\
             1. No daemon answers: nobody listens; start one.\n\
             2. Programs run without what is limited or missing (hardware counters); see each\n   \
             remedy above for more.\n\
             3. Start a program: `mapper-launch -- PROGRAM`.\n"
        );
        let status = crate::samples::status();
        let text = view(&findings[..1], Ok(&status), Width::new(80));
        let next = "What to do next:\n1. Look at the programs that run: `mapperctl status`.\n";
        assert!(text.ends_with(next), "{text}");
    }

    #[test]
    fn a_check_names_what_is_missing_and_a_daemon_that_does_not_answer() {
        let finding = |what, condition| Finding {
            what,
            condition,
            seen: String::new(),
            remedy: String::new(),
        };
        let good = finding("kernel", Condition::Good);
        let bad = finding("event table", Condition::Missing);
        let limited = finding("open files", Condition::Limited);
        let status = crate::samples::status();
        let fine = [good.clone(), limited];
        assert_eq!(missing(&fine, Some(&status)), None);
        let says = missing(&[good, bad], None).unwrap();
        assert_eq!(says, "event table, a daemon that answers");
    }
}
