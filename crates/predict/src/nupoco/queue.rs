//! The finite-source queue M/M/1/N/N: N cores, one memory controller.
//!
//! Each of N customers (cores) works for an exponential time of mean 1/λ, then issues one request
//! and waits for it; one server (a controller or a link) answers in exponential time of mean 1/µ,
//! first come first served [NuPoCo §3.3, Figure 3]. The results are the busy share of the server, U
//! (eq. 4), and the mean response time, R (eq. 3). Rates are per cycle, times in cycles.
//!
//! As printed, the sum of eq. 4 overflows near N = 170, and `1 - P0` and eq. 3 lose every digit when
//! the load is small [readings, Numerics]. With r = λ/µ and P0 the chance of an idle server, these
//! recurrences of positive terms give the same numbers:
//!
//! ```text
//! P0(0) = 1    P0(n) = P0(n-1) / (P0(n-1) + n r)      U(n) = n r / (P0(n-1) + n r)
//! R(1) = 1/µ   Q(n) = n λ R(n) / (1 + λ R(n))         R(n+1) = (1 + Q(n)) / µ
//! ```
//!
//! Invariants: 0 ≤ U ≤ 1; 1/µ ≤ R ≤ N/µ; U and R do not fall when N or λ grows; the throughput
//! seen from both sides agrees, U·µ = N λ/(1 + λ R). N = 0 gives U = 0 and R = 1/µ.

use crate::units::{Cycles, RequestsPerCycle, Utilisation};
use serde::Serialize;

/// The steady state of the queue.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct QueueState {
    /// Busy share of the server (eq. 4).
    pub utilisation: Utilisation,
    /// Mean time from issue to answer (eq. 3).
    pub response: Cycles,
}

/// Solves the queue of `customers` that issue `rate` requests per cycle of work, served in `service`.
pub fn solve(customers: u32, rate: RequestsPerCycle, service: Cycles) -> QueueState {
    solve_raw(customers, rate.get(), service.get())
}

/// [`solve`] without units, for inner loops.
#[inline]
pub(crate) fn solve_raw(customers: u32, rate: f64, service: f64) -> QueueState {
    let state = |utilisation, response| QueueState {
        utilisation: Utilisation(utilisation),
        response: Cycles::known(response),
    };
    let load = rate * service;
    if customers == 0 || load == 0.0 {
        return state(0.0, service);
    }
    if !(load * f64::from(customers)).is_finite() {
        // Far past saturation: every core waits in the queue.
        return state(1.0, f64::from(customers) * service);
    }
    let mut idle = 1.0; // P0(n-1)
    let mut utilisation = 0.0; // U(n)
    let mut response = service; // R(n)
    for n in 1..=customers {
        let offered = f64::from(n) * load;
        let sum = idle + offered;
        utilisation = offered / sum;
        idle /= sum;
        if n == customers {
            break;
        }
        if idle == 0.0 {
            // P0 has underflowed: the server never rests, and eq. 3 with U = 1 is exact.
            return state(1.0, f64::from(customers) * service - 1.0 / rate);
        }
        response = next_response(f64::from(n), rate, service, response);
    }
    state(utilisation, response)
}

/// R(n+1) from R(n).
#[inline]
pub(crate) fn next_response(n: f64, rate: f64, service: f64, response: f64) -> f64 {
    let asked = rate * response;
    service * (1.0 + n * asked / (1.0 + asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Equation 4 as printed, by its sum; good for small n only.
    fn printed_utilisation(n: u32, load: f64) -> f64 {
        let mut term = 1.0;
        let mut sum = 1.0;
        for k in 1..=n {
            term *= f64::from(n - k + 1) * load;
            sum += term;
        }
        1.0 - 1.0 / sum
    }

    #[test]
    fn without_customers_or_requests_the_server_is_idle() {
        for (customers, rate) in [(0, 0.01), (16, 0.0)] {
            let state = solve_raw(customers, rate, 50.0);
            assert_eq!((state.utilisation.get(), state.response.get()), (0.0, 50.0));
        }
        let one = solve_raw(1, 0.01, 50.0);
        assert!((one.utilisation.get() - 1.0 / 3.0).abs() < 1e-15);
        assert_eq!(one.response.get(), 50.0);
    }

    #[test]
    fn tiny_loads_keep_their_relative_accuracy() {
        // To first order U = n r, and R = (1 + (n-1) r)/µ.
        let state = solve_raw(64, 1e-14, 50.0);
        assert!((state.utilisation.get() / (64.0 * 50e-14) - 1.0).abs() < 1e-10);
        assert!((state.response.get() / 50.0 - 1.0 - 63.0 * 50e-14).abs() < 1e-15);
    }

    #[test]
    fn great_loads_saturate_without_overflow_or_nan() {
        let state = solve_raw(1_000_000, 0.01, 50.0);
        assert_eq!(state.utilisation.get(), 1.0);
        assert!((state.response.get() - (50e6 - 100.0)).abs() < 1e-6);
        let state = solve_raw(7, 1e300, 1e300);
        assert_eq!(state.utilisation.get(), 1.0);
        assert_eq!(state.response.get(), 7.0 * 1e300);
        let state = solve_raw(7, 1e200, 1e100);
        assert!((state.utilisation.get() - 1.0).abs() < 1e-12);
        assert!((state.response.get() / 7e100 - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn recurrences_equal_the_printed_equations(n in 1u32..40, load in 1e-3..4.0f64) {
            let state = solve_raw(n, load / 50.0, 50.0);
            let printed = printed_utilisation(n, load);
            prop_assert!((state.utilisation.get() - printed).abs() < 1e-12);
            let mrt = 50.0 * (f64::from(n) / printed - 1.0 / load);
            prop_assert!((state.response.get() / mrt - 1.0).abs() < 1e-8);
        }

        #[test]
        fn requests_issued_are_requests_served(n in 1u32..300, rate in 1e-9..1.0f64, service in 0.1..1e3f64) {
            let state = solve_raw(n, rate, service);
            let served = state.utilisation.get() / service;
            let issued = f64::from(n) * rate / (1.0 + rate * state.response.get());
            prop_assert!((served / issued - 1.0).abs() < 1e-9);
        }

        #[test]
        fn load_and_customers_never_shorten_the_queue(
            n in 0u32..200, rate in 0.0..1.0f64, more in 0.0..1.0f64, service in 0.1..1e3f64,
        ) {
            let state = solve_raw(n, rate, service);
            let crowded = solve_raw(n + 1, rate, service);
            let eager = solve_raw(n, rate + more, service);
            for worse in [crowded, eager] {
                prop_assert!(worse.utilisation.get() >= state.utilisation.get() * (1.0 - 1e-12));
                prop_assert!(worse.response.get() >= state.response.get() * (1.0 - 1e-12));
            }
            prop_assert!((0.0..=1.0).contains(&state.utilisation.get()));
            prop_assert!(state.response.get() >= service);
            prop_assert!(state.response.get() <= f64::from(n.max(1)) * service * (1.0 + 1e-12));
        }
    }
}
