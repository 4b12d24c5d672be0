//! Applications that serve requests: how busy they are, and how long requests take.
//!
//! Requests arrive at random and wait when all CPUs are busy (Erlang's formula C). The time that 99
//! of 100 requests do not exceed is made of a part that grows with the time a request takes, the
//! waiting for a CPU, and under plain Linux the delay until a woken thread runs.
//!
//! A description tells the latency of the service alone on the machine, so it has to be one that the machine
//! serves: with more work than CPUs there is no such latency ([`check_served`]).

use crate::application::{AppError, AppModel, Service};
use crate::machine::Machine;

/// The share of its latency alone on the machine that a service may wait for a CPU there. The latency is told
/// with that waiting, and the model adds it once more.
const MOST_WAITING: f64 = 0.1;

/// Checks that a machine serves an application when that is alone, if it serves requests.
///
/// # Errors
/// [`AppError`] tells how much work arrives and how much the machine can do.
pub fn check_served(app: &AppModel, name: &str, machine: &Machine) -> Result<(), AppError> {
    let Some(Service::Latency {
        arrivals_per_s,
        demand_s,
        tail_s,
    }) = app.service
    else {
        return Ok(());
    };
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
    Err(AppError {
        app: name.to_owned(),
        what: "service.arrivals_per_s",
        value: arrivals_per_s,
        fix: format!(
            "fewer, or a shorter service.demand_s than {demand_s} s, for {} with {cpus} CPUs: alone on it {waits}",
            machine.name
        )
        .into(),
    })
}

/// The probability that a request has to wait, with this load on this many servers.
#[must_use]
pub fn probability_of_waiting(load: f64, servers: f64) -> f64 {
    if load <= 0.0 {
        return 0.0;
    }
    if servers <= load {
        return 1.0;
    }
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

/// Waiting time that 99 of 100 requests do not exceed. Without steady state it is taken at 99.9 % of
/// what the servers can do.
#[must_use]
pub fn waiting_p99_s(arrivals_per_s: f64, demand_s: f64, servers: f64) -> f64 {
    let servers = servers.max(1.0);
    let load = (arrivals_per_s * demand_s).min(0.999 * servers);
    let waits = probability_of_waiting(load, servers);
    let spare_per_s = (servers - load) / demand_s;
    (100.0 * waits).ln().max(0.0) / spare_per_s
}

/// Latency that 99 of 100 requests do not exceed when it was that of each pair for so many seconds.
/// Beyond its 99th percentile each is taken to thin out exponentially.
#[must_use]
pub fn overall_p99_s(latencies: &[(f64, f64)]) -> Option<f64> {
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
    use crate::presets;

    #[test]
    fn a_service_that_no_cpus_of_a_machine_could_serve_is_refused_and_no_preset_is_one() {
        let machines = presets::machines().unwrap();
        for (name, spec) in machines {
            let machine = Machine::new(&name, spec).unwrap();
            for (name, app) in presets::apps().unwrap() {
                check_served(&app, &name, &machine).unwrap();
            }
        }
        let machine = presets::machine("hsw80").unwrap();
        let told = |arrivals_per_s: f64, demand_s: f64| {
            let mut app = presets::app("memcached").unwrap();
            app.service = Some(Service::Latency {
                arrivals_per_s,
                demand_s,
                tail_s: 2.0 * demand_s,
            });
            app.check("mine").unwrap();
            check_served(&app, "mine", &machine)
        };
        let busy = told(2e4, 0.01).unwrap_err().to_string();
        assert!(
            busy.contains("\"mine\": service.arrivals_per_s is 20000")
                && busy.contains("hsw80 with 80 CPUs")
                && busy.contains("keeps 200 CPUs busy"),
            "{busy}"
        );
        let waits = told(7950.0, 0.01).unwrap_err().to_string();
        assert!(waits.contains("requests wait up to"), "{waits}");
        assert!(told(1e9, 1.0).is_err());
        told(4e3, 0.01).unwrap();
    }

    #[test]
    fn no_request_is_done_before_its_work_is() {
        let mut app = presets::app("memcached").unwrap();
        app.service = Some(Service::Latency {
            arrivals_per_s: 100.0,
            demand_s: 0.01,
            tail_s: 0.009,
        });
        let told = app.check("mine").unwrap_err().to_string();
        assert!(
            told.contains("service.tail_s is 0.009: give at least service.demand_s"),
            "{told}"
        );
    }

    #[test]
    fn waiting_for_a_cpu_matters_below_sixteen_of_them() {
        let wait_ms = |servers| 1e3 * waiting_p99_s(20_000.0, 0.45e-3, servers);
        assert!(wait_ms(20.0) < 1e-9);
        assert!((wait_ms(16.0) - 0.06).abs() < 0.01, "{}", wait_ms(16.0));
        assert!((wait_ms(12.0) - 0.49).abs() < 0.03, "{}", wait_ms(12.0));
    }

    #[test]
    fn the_worse_half_of_the_time_makes_the_tail() {
        let overall = overall_p99_s(&[(0.010, 1.0), (0.020, 1.0)]).unwrap();
        assert!((0.017..0.020).contains(&overall), "{overall}");
        let same = overall_p99_s(&[(0.010, 3.0)]).unwrap();
        assert!((same - 0.010).abs() < 1e-9);
        assert_eq!(overall_p99_s(&[]), None);
    }

    #[test]
    fn overload_is_slow_but_finite() {
        let wait = waiting_p99_s(20_000.0, 0.45e-3, 4.0);
        assert!(wait.is_finite() && wait > 0.1);
        assert_eq!(probability_of_waiting(0.0, 3.0), 0.0);
    }
}
