//! What is wrong with the tree, and the list of what is still allowed to be.
//!
//! The list (`xtask/tidy-exceptions.txt`) has one line for each violation that stood when its rule was
//! introduced. It may only shrink: a violation that is not in it is a finding, and so is a line whose
//! violation is gone.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    /// `PLACE: what is wrong; what to do`.
    pub(super) text: String,
    /// The line of the exceptions file that allows it; findings without one are never allowed.
    pub(super) exception: Option<String>,
}

impl Finding {
    /// A finding of a rule without exceptions.
    pub(super) fn strict(text: String) -> Self {
        Self {
            text,
            exception: None,
        }
    }

    /// A finding that the line `exception` allows.
    pub(super) fn with_exception(text: String, exception: String) -> Self {
        Self {
            text,
            exception: Some(exception),
        }
    }
}

/// The lines of the exceptions file without comments.
pub(super) fn listed(file: &str) -> BTreeSet<&str> {
    let lines = file.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// The findings that remain once the listed exceptions are taken out, and one for each listed
/// exception that no longer occurs.
pub(super) fn without_exceptions(findings: Vec<Finding>, listed: &BTreeSet<&str>) -> Vec<Finding> {
    let occurring: BTreeSet<String> = exceptions(&findings);
    let is_listed = |finding: &Finding| {
        let exception = finding.exception.as_deref();
        exception.is_some_and(|line| listed.contains(line))
    };
    let mut left: Vec<Finding> = findings.into_iter().filter(|f| !is_listed(f)).collect();
    left.extend(
        listed
            .iter()
            .filter(|line| !occurring.contains(**line))
            .map(|line| {
                Finding::strict(format!(
                    "xtask/tidy-exceptions.txt: \"{line}\" no longer occurs; remove it \
                 (`cargo xtask tidy --update`)"
                ))
            }),
    );
    left
}

/// The exceptions that would allow the findings, in order.
pub(super) fn exceptions(findings: &[Finding]) -> BTreeSet<String> {
    let lines = findings.iter().filter_map(|f| f.exception.clone());
    lines.collect()
}

/// The exceptions file for the present findings.
///
/// # Errors
/// If it would have more lines of any rule than it has now: the list may only shrink. Lines may change as
/// files are renamed.
pub(super) fn updated(file: &str, findings: &[Finding]) -> anyhow::Result<String> {
    let present = exceptions(findings);
    let before = by_rule(listed(file).into_iter());
    for (rule, count) in by_rule(present.iter().map(String::as_str)) {
        let allowed = before.get(rule).copied().unwrap_or(0);
        if count > allowed {
            bail!(
                "{count} exceptions of the rule \"{rule}\", {allowed} before; the list may only shrink"
            );
        }
    }
    let comments = file.lines().filter(|line| line.starts_with('#'));
    let lines = comments.map(str::to_owned).chain(present);
    Ok(lines.map(|line| line + "\n").collect())
}

/// How many lines each rule, the first word of a line, has.
fn by_rule<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts
            .entry(line.split(' ').next().unwrap_or_default())
            .or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(file: &str) -> Finding {
        Finding::with_exception(format!("{file}: circle"), format!("circle {file}"))
    }

    #[test]
    fn a_listed_violation_is_no_finding_and_a_new_one_is() {
        let findings = vec![circle("a.rs"), circle("b.rs")];
        let left = without_exceptions(findings, &listed("# comment\n\ncircle a.rs\n"));
        assert_eq!(left, [circle("b.rs")]);
    }

    #[test]
    fn an_exception_that_no_longer_occurs_is_a_finding() {
        let left = without_exceptions(Vec::new(), &listed("circle a.rs\n"));
        assert!(left[0].text.contains("remove it"), "{left:?}");
    }

    #[test]
    fn an_update_may_rename_exceptions_and_never_adds_any() {
        let file = "# comment\ncircle a.rs\n";
        let renamed = updated(file, &[circle("b.rs")]).unwrap();
        assert_eq!(renamed, "# comment\ncircle b.rs\n");
        assert!(updated(file, &[circle("b.rs"), circle("c.rs")]).is_err());
    }
}
