//! How long a line takes at a memory or on a link that others use as well, in seconds.
//!
//! The *open* form is the time in a server that is busy for a share ρ of its time, S/(1 − ρ). Speeds depend on that
//! time and ρ on the speeds, so ρ stays below 1.
//!
//! The *finite* form, for memories, is NuPoCo's own queue M/M/1/N/N of [`mapper_predict`], with the misses that can
//! be under way as customers: N = Σ threads · overlapping misses over all programs with data there. By Little's law
//! think time and response together take N/X, where X arrives. It hands NuPoCo's allocator the model's own law: use
//! it to separate the error of that law from that of its parameters, not to judge NuPoCo.

use crate::constants::Constants;
use mapper_predict::nupoco::queue;
use mapper_predict::{Cycles, RequestsPerCycle};

/// The least idle share of a server's time: bounds the open queue.
const LEAST_IDLE: f64 = 0.02;
/// The shortest think time as a share of the service time: bounds the rate of a customer.
const LEAST_THINKING: f64 = 1e-3;

/// Time in a server that is busy for this share of the time. Beyond 98 % it grows along the tangent, or not at all
/// in the vectors.
pub(crate) fn open_response_s(constants: &Constants, service_s: f64, busy: f64) -> f64 {
    let over = (busy - (1.0 - LEAST_IDLE)).max(0.0);
    service_s * (1.0 / (1.0 - busy).max(LEAST_IDLE) + constants.saturated_slope * over)
}

/// Time at a memory with `count` misses under way at most, `arrive_per_s` of them at the present response time. Between whole
/// numbers of customers it is linear.
pub(crate) fn finite_response_s(
    count: f64,
    arrive_per_s: f64,
    response_s: f64,
    service_s: f64,
) -> f64 {
    if arrive_per_s <= 0.0 || count <= 1.0 {
        return service_s;
    }
    let thinks_s = count / arrive_per_s - response_s;
    let rate = RequestsPerCycle::new(1.0 / thinks_s.max(LEAST_THINKING * service_s));
    // The papers' unit is the cycle; here it stands for a second. Checked machines give no infinite numbers.
    let (Ok(rate), Ok(service)) = (rate, Cycles::new(service_s)) else {
        return service_s;
    };
    let whole = |customers: f64| queue::solve(customers as u32, rate, service).response.get();
    let (below, part) = (count.floor(), count.fract());
    let response_s = whole(below);
    match part > 0.0 {
        true => response_s + part * (whole(below + 1.0) - response_s),
        false => response_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVICE_S: f64 = 1e-9;

    /// The response at which customers with this think time settle.
    fn settled(count: f64, thinks_s: f64) -> f64 {
        let mut response_s = SERVICE_S;
        for _ in 0..2000 {
            let arrive_per_s = count / (thinks_s + response_s);
            let found_s = finite_response_s(count, arrive_per_s, response_s, SERVICE_S);
            response_s += 0.3 * (found_s - response_s);
        }
        response_s
    }

    #[test]
    fn a_customer_alone_never_waits_and_many_settle_where_nupocos_queue_does() {
        assert_eq!(settled(1.0, SERVICE_S), SERVICE_S);
        assert_eq!(settled(0.4, SERVICE_S), SERVICE_S);
        let rate = RequestsPerCycle::new(1.0 / 20e-9).unwrap();
        let expected = queue::solve(16, rate, Cycles::new(SERVICE_S).unwrap());
        let found = settled(16.0, 20e-9);
        assert!((found / expected.response.get() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn many_customers_with_long_think_times_are_the_open_form() {
        // Half busy: twice the service.
        let found = settled(10_000.0, 2e4 * SERVICE_S);
        assert!((found / (2.0 * SERVICE_S) - 1.0).abs() < 0.01, "{found}");
    }

    proptest! {
        #[test]
        fn no_customer_waits_for_more_than_all_others_and_throughput_stays_below_bandwidth(
            count in 1.0_f64..400.0,
            thinks in 0.01_f64..1e4,
        ) {
            let response_s = settled(count, thinks * SERVICE_S);
            let rounds_s = thinks * SERVICE_S + response_s;
            prop_assert!(response_s >= SERVICE_S * (1.0 - 1e-9));
            prop_assert!(response_s <= count.ceil() * SERVICE_S * (1.0 + 1e-9));
            prop_assert!(count / rounds_s * SERVICE_S <= 1.0 + 1e-3);
        }
    }
}
