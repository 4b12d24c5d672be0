//! Applications that serve requests: how busy they are, and how long requests take.
//!
//! Requests arrive at random and wait when all CPUs are busy (Erlang's formula C). The 99th percentile is the sum of
//! a part that grows with the time of a request, the waiting for a CPU, and under plain Linux the wake-up delay.

use crate::application::{AppError, AppModel};
use crate::machine::Machine;

/// The largest share of its latency alone that a service may wait for a CPU there: the given latency includes that
/// waiting, and the model adds it once more.
const MOST_WAITING: f64 = 0.1;

/// Checks that a machine can serve a service that is alone on it; without that there is no latency to relate to.
///
/// # Errors
/// [`AppError`] names the work that arrives and what the machine can do.
pub fn check_served(app: &AppModel, name: &str, machine: &Machine) -> Result<(), AppError> {
    let Some(requests) = app.requests() else {
        return Ok(());
    };
    let (arrivals_per_s, demand_s, tail_s) =
        (requests.arrivals_per_s, requests.demand_s, requests.tail_s);
    let cpus = f64::from(machine.contexts());
    let load = arrivals_per_s * demand_s;
    let waiting_s = waiting_p99_s(arrivals_per_s, demand_s, cpus);
    if load < cpus && waiting_s <= MOST_WAITING * tail_s {
        return Ok(());
    }
    let waits = if load < cpus {
        format!(
            "requests wait up to {waiting_s:.2e} s for a CPU there, of the {tail_s} s that service.tail_s says \
             they take in all"
        )
    } else {
        format!("that keeps {load} CPUs busy")
    };
    let fix = format!(
        "fewer, or a shorter service.demand_s than {demand_s} s, for {} with {cpus} CPUs: alone on it {waits}",
        machine.name
    );
    Err(AppError(
        name.to_owned(),
        "service.arrivals_per_s",
        arrivals_per_s,
        fix,
    ))
}

/// The probability that a request has to wait, with this load on this many servers.
fn probability_of_waiting(load: f64, servers: f64) -> f64 {
    // Erlang's formula B by its recursion, then C; fractional servers are rounded down.
    let mut blocked = 1.0;
    let count = servers.floor().max(1.0) as u32;
    for server in 1..=count {
        blocked = load * blocked / (f64::from(server) + load * blocked);
    }
    let busy = load / f64::from(count);
    if busy >= 1.0 {
        return 1.0;
    }
    blocked / (1.0 - busy * (1.0 - blocked))
}

/// The 99th percentile of the waiting time, at no more than 99.9 % of what the servers can do.
pub(crate) fn waiting_p99_s(arrivals_per_s: f64, demand_s: f64, servers: f64) -> f64 {
    let servers = servers.max(1.0);
    let load = (arrivals_per_s * demand_s).min(0.999 * servers);
    let waits = probability_of_waiting(load, servers);
    let spare_per_s = (servers - load) / demand_s;
    (100.0 * waits).ln().max(0.0) / spare_per_s
}

/// The 99th percentile over times with these 99th percentiles and durations, each with an exponential tail.
pub(crate) fn overall_p99_s(latencies: &[(f64, f64)]) -> Option<f64> {
    let total_s: f64 = latencies.iter().map(|(_, seconds)| seconds).sum();
    let least = latencies.iter().map(|(p99_s, _)| *p99_s).reduce(f64::min)?;
    let most = latencies.iter().map(|(p99_s, _)| *p99_s).reduce(f64::max)?;
    // Share of the requests that take longer, in hundredths.
    let longer = |limit_s: f64| -> f64 {
        let beyond = |(p99_s, seconds): &(f64, f64)| {
            seconds / total_s * f64::exp((1.0 - limit_s / p99_s) * f64::ln(100.0))
        };
        latencies.iter().map(beyond).sum()
    };
    let (mut low, mut high) = (least, most);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if longer(middle) > 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{Requests, Service};
    use crate::fixtures::{app, hsw80};
    use crate::presets;

    #[test]
    fn a_service_that_no_cpus_of_a_machine_could_serve_is_refused_and_no_preset_is_one() {
        for (name, spec) in presets::read_machines(presets::MACHINES).unwrap() {
            let machine = Machine::new(&name, spec).unwrap();
            for (name, app) in presets::read_apps(presets::APPS).unwrap() {
                check_served(&app, &name, &machine).unwrap();
            }
        }
        let refused = |arrivals_per_s: f64, demand_s: f64| {
            let mut app = app("memcached");
            app.service = Some(Service::Latency(Requests {
                arrivals_per_s,
                demand_s,
                tail_s: 2.0 * demand_s,
            }));
            app.check("mine").unwrap();
            let checked = check_served(&app, "mine", &hsw80());
            checked.map_or_else(|error| error.to_string(), |()| String::new())
        };
        let busy = refused(2e4, 0.01);
        for part in [
            "\"mine\": service.arrivals_per_s is 20000",
            "hsw80 with 80 CPUs",
            "keeps 200 CPUs busy",
        ] {
            assert!(busy.contains(part), "{busy}");
        }
        assert!(refused(7950.0, 0.01).contains("requests wait up to"));
        assert!(!refused(1e9, 1.0).is_empty());
        assert_eq!(refused(4e3, 0.01), "");
    }

    #[test]
    fn waiting_for_a_cpu_matters_below_sixteen_of_them_and_stays_finite() {
        let wait_ms = |servers| 1e3 * waiting_p99_s(20_000.0, 0.45e-3, servers);
        assert!(wait_ms(20.0) < 1e-9);
        assert!((wait_ms(16.0) - 0.06).abs() < 0.01, "{}", wait_ms(16.0));
        assert!((wait_ms(12.0) - 0.49).abs() < 0.03, "{}", wait_ms(12.0));
        assert!(wait_ms(4.0).is_finite() && wait_ms(4.0) > 100.0);
        assert_eq!(probability_of_waiting(0.0, 3.0), 0.0);
    }

    #[test]
    fn the_worse_half_of_the_time_makes_the_tail() {
        let overall = overall_p99_s(&[(0.010, 1.0), (0.020, 1.0)]).unwrap();
        assert!((0.017..0.020).contains(&overall), "{overall}");
        let same = overall_p99_s(&[(0.010, 3.0)]).unwrap();
        assert!((same - 0.010).abs() < 1e-9);
        assert_eq!(overall_p99_s(&[]), None);
    }
}
