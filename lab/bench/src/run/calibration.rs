//! How much work a program is given, so that alone on its fair share it takes a set time.

use std::time::Duration;

use anyhow::bail;

use super::shares::scaled;

/// Runs in which the work of a program is chosen.
const MOST_RUNS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Alone {
    pub(crate) seconds: f64,
    /// How long it ran before and after that.
    pub(crate) around: Duration,
    pub(crate) checksum: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Calibrated {
    pub(crate) steps: u64,
    pub(crate) alone: Alone,
}

/// The steps that take about `aim_s` seconds, found from `first_steps` by runs alone.
///
/// A short run says little, since start-up counts for too much, and so does one that other work slowed down:
/// only a run that took about what it should is believed at once.
pub(crate) fn calibrate(
    program: &str,
    first_steps: u64,
    aim_s: f64,
    mut run: impl FnMut(u64) -> anyhow::Result<Alone>,
) -> anyhow::Result<Calibrated> {
    let mut steps = first_steps;
    for attempt in 1..=MOST_RUNS {
        let alone = run(steps)?;
        let took_s = alone.seconds.max(1e-4);
        let is_near = (0.85..1.2).contains(&(took_s / aim_s));
        // Where one step takes longer than aimed at, fewer are not possible.
        let is_least = steps == 1 && took_s >= aim_s;
        if is_near || is_least || (attempt == MOST_RUNS && took_s >= 0.3 * aim_s) {
            return Ok(Calibrated { steps, alone });
        }
        steps = scaled(steps, (aim_s / took_s).min(50.0));
    }
    bail!("the running time of {program} does not grow with its steps")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(seconds: f64) -> Alone {
        Alone {
            seconds,
            around: Duration::ZERO,
            checksum: 1.0,
        }
    }

    #[test]
    fn the_steps_take_the_time_aimed_at_whatever_the_first_guess() {
        for first_guess in [1, 50, 5000] {
            let run = |steps: u64| Ok(alone(0.05 + 0.001 * steps as f64));
            let found = calibrate("md", first_guess, 2.0, run).unwrap();
            let is_near = (1650..=2350).contains(&found.steps);
            assert!(is_near, "{first_guess}: {found:?}");
            assert!((1.7..=2.4).contains(&found.alone.seconds), "{found:?}");
        }
    }

    #[test]
    fn a_run_that_other_work_slowed_down_is_not_believed() {
        let mut runs = 0;
        let found = calibrate("md", 1000, 1.0, |steps| {
            runs += 1;
            let slowed = if runs == 1 { 4.0 } else { 1.0 };
            Ok(alone(slowed * 0.001 * steps as f64))
        });
        assert_eq!(found.unwrap().steps, 1000);
    }

    #[test]
    fn a_program_whose_time_does_not_grow_is_named() {
        let error = calibrate("md", 1, 2.0, |_| Ok(alone(0.1))).unwrap_err();
        assert!(error.to_string().contains("md does not grow"), "{error}");
        let error = calibrate("md", 1, 2.0, |_| bail!("broken")).unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }
}
