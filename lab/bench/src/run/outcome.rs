//! The line of JSON that every workload program ends with, and whether a run can be believed.

use serde::Deserialize;

use super::processes::{Ending, Outcome};

/// What a workload program says about its run.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct WorkloadLine {
    pub(crate) program: String,
    pub(crate) seconds: f64,
    pub(crate) checksum: f64,
    pub(crate) ok: bool,
    /// 99th percentile of the latencies, of a program that answers requests.
    pub(crate) p99_ms: Option<f64>,
}

/// Whether a run can be believed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Right(WorkloadLine),
    /// It did not end in time, so there is no result to judge.
    TimedOut,
    Wrong(String),
}

/// Judges the run of the program called `name`.
pub(crate) fn judge(name: &str, outcome: &Outcome) -> Verdict {
    let wrong = |reason: String| {
        let stderr = outcome.stderr.trim();
        let more = if stderr.is_empty() { "" } else { ": " };
        Verdict::Wrong(format!("{name} {reason}{more}{stderr}"))
    };
    match outcome.ending {
        Ending::TimedOut => return Verdict::TimedOut,
        Ending::Signalled(signal) => return wrong(format!("was ended by signal {signal}")),
        Ending::Exited(0) => {}
        Ending::Exited(code) => return wrong(format!("exited with status {code}")),
    }
    let last = outcome.stdout.lines().last().unwrap_or_default();
    match serde_json::from_str::<WorkloadLine>(last) {
        Err(_) => wrong(format!("ended with \"{last}\" instead of its line of JSON")),
        Ok(line) if line.program != name => wrong(format!("calls itself \"{}\"", line.program)),
        Ok(line) if !line.ok => wrong("found its own result wrong".to_owned()),
        Ok(line) => Verdict::Right(line),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LINE: &str =
        "{\"program\":\"md\",\"seconds\":2.5,\"threads\":2,\"checksum\":7.5,\"ok\":true}\n";

    #[test]
    fn only_the_program_itself_can_say_that_it_is_right_and_one_without_end_is_not_wrong() {
        for (ending, stdout, wanted) in [
            (Ending::Exited(0), LINE, "7.5"),
            (Ending::Exited(1), LINE, "wrong"),
            (Ending::Signalled(11), LINE, "wrong"),
            (Ending::Exited(0), "", "wrong"),
            (Ending::Exited(0), "{\"program\":\"md\"}", "wrong"),
            (Ending::Exited(0), &LINE.replace("true", "false"), "wrong"),
            (Ending::Exited(0), &LINE.replace("md", "cg"), "wrong"),
            (Ending::TimedOut, "", "no end"),
        ] {
            let outcome = Outcome {
                elapsed: Duration::from_secs(1),
                ending,
                stdout: stdout.to_owned(),
                stderr: String::new(),
            };
            let found = match judge("md", &outcome) {
                Verdict::Right(line) => line.checksum.to_string(),
                Verdict::Wrong(_) => "wrong".to_owned(),
                Verdict::TimedOut => "no end".to_owned(),
            };
            assert_eq!(found, wanted, "{ending:?} {stdout:?}");
        }
    }
}
