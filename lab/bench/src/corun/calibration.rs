//! How much work a program is given, so that alone on its fair share it takes a set time.

use anyhow::bail;

use super::shares::scaled;

/// Runs in which the work is chosen.
const MOST_RUNS: usize = 6;

/// The steps that take `aim_s` seconds, found from `first_guess` by runs that `time_of` times.
///
/// A short run says little, since start-up counts for too much: the steps grow until a run is long
/// enough to be believed.
///
/// # Errors
/// Those of `time_of`, and a time that does not grow with the steps, which names `program`.
pub(crate) fn choose_steps(
    program: &str,
    first_guess: u64,
    aim_s: f64,
    mut time_of: impl FnMut(u64) -> anyhow::Result<f64>,
) -> anyhow::Result<u64> {
    let mut steps = first_guess;
    for _ in 0..MOST_RUNS {
        let took_s = time_of(steps)?.max(1e-4);
        if took_s >= 0.3 * aim_s {
            return Ok(scaled(steps, aim_s / took_s));
        }
        steps = scaled(steps, (0.4 * aim_s / took_s).min(50.0)).max(steps + 1);
    }
    bail!("the running time of {program} does not grow with its steps")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_take_the_time_aimed_at_whatever_the_first_guess() {
        for first_guess in [1, 50, 5000] {
            let time_of = |steps: u64| Ok(0.05 + 0.001 * f64::from(u32::try_from(steps).unwrap()));
            let steps = choose_steps("md", first_guess, 2.0, time_of).unwrap();
            assert!((1700..=2050).contains(&steps), "{first_guess}: {steps}");
        }
    }

    #[test]
    fn a_program_whose_time_does_not_grow_is_named() {
        let error = choose_steps("md", 1, 2.0, |_| Ok(0.1)).unwrap_err();
        assert!(error.to_string().contains("md does not grow"), "{error}");
        let error = choose_steps("md", 1, 2.0, |_| bail!("broken")).unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }
}
