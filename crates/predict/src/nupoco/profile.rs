//! From measured request rates to the rates that the models take [readings N8].
//!
//! A counter gives x requests per *unhalted* cycle, which includes waiting for memory. The models
//! take λ, requests per cycle of *work*. A cycle of work, of whose λ requests the share κ are read
//! misses that stall the core [readings N9], lasts 1 + κλR(λ) unhalted cycles, so
//!
//! ```text
//! x = λ / (1 + κ λ R(λ))    or    λ = x / (1 − κ x R(λ))
//! ```
//!
//! with R(λ) the response time when every profiled core issues at rate λ. The right-hand form
//! diverges as an iteration near saturation; x grows strictly with λ, so λ is found by bisection. A
//! measurement beyond the limit of x means that the service time is wrong.
//!
//! Invariants: λ ≥ x; λ = x when nothing stalls; putting λ back into the model gives x.

use crate::error::ModelError;
use crate::nupoco::queue;
use crate::units::{Cycles, RequestsPerCycle};

/// What one profile measured, per core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// All requests that load the memory (reads, writes, prefetches) per unhalted cycle.
    pub requests: RequestsPerCycle,
    /// Read misses, the requests that stall a core, per unhalted cycle.
    pub stalling_reads: RequestsPerCycle,
}

/// The same per cycle of work, as the models take it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WorkRates {
    /// All requests per cycle of work.
    pub requests: RequestsPerCycle,
    /// Stalling reads per cycle of work.
    pub stalling_reads: RequestsPerCycle,
}

/// Converts a profile taken with `cores` on one controller of service time `service`.
///
/// # Errors
/// [`ModelError::Saturated`] when the model cannot serve what was measured.
pub fn on_one_controller(
    measured: Measured,
    cores: u32,
    service: Cycles,
) -> Result<WorkRates, ModelError> {
    convert(measured, |rate| queue::solve(cores, rate, service).response)
}

/// Converts a profile with any model of the response time: `response`, of a stalling read when every
/// profiled core issues at the given rate, must not fall when the rate grows.
///
/// # Errors
/// [`ModelError::Saturated`] when the model cannot serve what was measured.
pub fn convert(
    measured: Measured,
    response: impl Fn(RequestsPerCycle) -> Cycles,
) -> Result<WorkRates, ModelError> {
    let x = measured.requests.get();
    let stalling = measured.stalling_reads.get();
    if x == 0.0 || stalling == 0.0 {
        return Ok(WorkRates {
            requests: measured.requests,
            stalling_reads: measured.stalling_reads,
        });
    }
    let stall_share = stalling / x;
    let predicted = |rate: f64| {
        rate / (1.0 + stall_share * rate * response(RequestsPerCycle::known(rate)).get())
    };

    // Double from λ = x until the prediction is high enough. Past 1e9 it has reached its limit.
    let mut low = x;
    let mut high = x;
    while predicted(high) < x {
        if high > 1e9 {
            return Err(ModelError::Saturated {
                measured: x,
                limit: predicted(high),
            });
        }
        low = high;
        high *= 2.0;
    }
    // Halve the bracket until it no longer gets smaller.
    loop {
        let middle = low + 0.5 * (high - low);
        if middle <= low || middle >= high {
            break;
        }
        if predicted(middle) < x {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(WorkRates {
        requests: RequestsPerCycle::known(high),
        stalling_reads: RequestsPerCycle::known(high * stall_share),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn convert(cores: u32, requests: f64, stalling_reads: f64) -> Result<WorkRates, ModelError> {
        let rate = |value| RequestsPerCycle::new(value).unwrap();
        let measured = Measured {
            requests: rate(requests),
            stalling_reads: rate(stalling_reads),
        };
        on_one_controller(measured, cores, Cycles::new(50.0).unwrap())
    }

    #[test]
    fn one_core_follows_the_closed_form() {
        // R = 50, x = λ/(1+50λ): λ = 0.01 is measured as 0.01/1.5.
        let x = 0.01 / 1.5;
        assert!((convert(1, x, x).unwrap().requests.get() - 0.01).abs() < 1e-15);
        // Without stalls it stays as measured.
        assert_eq!(convert(8, 0.02, 0.0).unwrap().requests.get(), 0.02);
    }

    #[test]
    fn more_than_the_controller_serves_is_refused() {
        // 8 cores share 1/50 request per cycle: 0.0025 each.
        let error = convert(8, 0.003, 0.003).unwrap_err();
        assert!(
            error.to_string().starts_with(
                "measured 0.003 requests per unhalted cycle and core, but the modelled memory \
                 serves less than 0.0024999"
            ),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn the_model_rate_gives_back_the_measurement(
            cores in 1u32..64, load in 1e-6..1.0f64, stall_share in 0.0..1.0f64,
        ) {
            // Near saturation the measurement no longer tells rates apart; stay well below.
            let true_rate = load / (50.0 * f64::from(cores));
            let response = queue::solve_raw(cores, true_rate, 50.0).response.get();
            let x = true_rate / (1.0 + stall_share * true_rate * response);
            let rates = convert(cores, x, x * stall_share).unwrap();
            prop_assert!((rates.requests.get() / true_rate - 1.0).abs() < 1e-6,
                "{} for {true_rate}", rates.requests.get());
            prop_assert!(rates.requests.get() >= x);
        }
    }
}
