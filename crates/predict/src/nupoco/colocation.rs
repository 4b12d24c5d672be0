//! Several workloads on a machine with one memory controller [NuPoCo §3.3, last paragraph].
//!
//! The queue knows one kind of customer. The paper uses "the weighted average of the workloads' MRR
//! of all assigned cores", which [`Reading`] takes in three ways [readings N2]. From the response
//! time each workload gets its CPU utilisation (eq. 5) and speedup (eq. 1, relative to itself alone
//! on one core [readings N3]); the system utilisation (eq. 6) is Σ cores·CPUUtil / M + MCTUtil
//! [readings N4].
//!
//! Invariants: requests issued by all cores are requests served; a workload without requests
//! speeds up by its core count, and no workload by more.

use crate::error::{ModelError, check_cores};
use crate::nupoco::queue;
use crate::nupoco::smp::{self, SmpMachine};
use crate::units::{Cycles, RequestsPerCycle, Speedup, Utilisation};
use serde::{Deserialize, Serialize};

/// How the queue sees workloads of different rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// C: customers are the cores of workloads that issue requests; reproduces Figures 4-6. It
    /// jumps when a rate leaves zero, because all cores of the workload become customers.
    #[default]
    Requesting,
    /// W: customers are all assigned cores.
    Assigned,
    /// The mean-value solution with one class of customers a workload: continuous, equal to C when
    /// all requesting workloads are alike; its cost grows with the product of the core counts.
    Exact,
}

/// A workload and the cores it holds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Share {
    /// Cores held.
    pub cores: u32,
    /// Requests per cycle of work and core.
    pub rate: RequestsPerCycle,
}

/// What the model says of all workloads together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Colocation {
    /// Customers of the queue.
    pub customers: u32,
    /// Their mean request rate.
    pub mean_rate: RequestsPerCycle,
    /// Mean memory response time over all requests.
    pub response: Cycles,
    /// Busy share of the controller (eq. 4).
    pub memory: Utilisation,
    /// Each workload, in the order given.
    pub workloads: Vec<WorkloadPrediction>,
    /// Σ cores·CPUUtil / M.
    pub cpu: Utilisation,
    /// Eq. 6 [readings N4].
    pub system: Utilisation,
}

/// What the model says of one of them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct WorkloadPrediction {
    /// Cores held.
    pub cores: u32,
    /// Mean response time that its requests see.
    pub response: Cycles,
    /// Share of its cores' time that is work (eq. 5).
    pub cpu: Utilisation,
    /// Speedup over itself alone on one core (eq. 1).
    pub speedup: Speedup,
}

/// Most states of the exact solution, Π(cores + 1) over the workloads that issue requests.
pub const EXACT_STATE_LIMIT: u128 = 1 << 22;

/// Predicts `shares` side by side on `machine`.
///
/// # Errors
/// For more cores than there are; for more than [`EXACT_STATE_LIMIT`] states with [`Reading::Exact`].
pub fn predict(
    machine: &SmpMachine,
    shares: &[Share],
    reading: Reading,
) -> Result<Colocation, ModelError> {
    let assigned: u64 = shares.iter().map(|s| u64::from(s.cores)).sum();
    check_cores("the machine", assigned, machine.cores())?;
    let crowd = Crowd::of(shares.iter().copied(), reading);
    let service = machine.service().get();
    let (memory, response, own_response) = if reading == Reading::Exact {
        exact(shares, service)?
    } else {
        let state = queue::solve_raw(crowd.customers, crowd.mean_rate(), service);
        let (memory, response) = (state.utilisation.get(), state.response.get());
        (memory, response, vec![response; shares.len()])
    };

    let workloads: Vec<WorkloadPrediction> = shares
        .iter()
        .zip(&own_response)
        .map(|(share, &response)| {
            let (cores, rate) = (f64::from(share.cores), share.rate.get());
            WorkloadPrediction {
                cores: share.cores,
                response: Cycles::known(response),
                cpu: Utilisation(smp::cpu_utilisation(rate, response)),
                speedup: Speedup(smp::speedup(cores, rate, response, service)),
            }
        })
        .collect();
    let cpu = workloads
        .iter()
        .map(|w| f64::from(w.cores) * w.cpu.get())
        .sum::<f64>()
        / f64::from(machine.cores());
    Ok(Colocation {
        customers: crowd.customers,
        mean_rate: RequestsPerCycle::known(crowd.mean_rate()),
        response: Cycles::known(response),
        memory: Utilisation(memory),
        workloads,
        cpu: Utilisation(cpu),
        system: Utilisation(cpu + memory),
    })
}

/// The customers of the queue under readings C and W, summed up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Crowd {
    pub(crate) customers: u32,
    rates: f64,
}

impl Crowd {
    pub(crate) fn of(shares: impl Iterator<Item = Share>, reading: Reading) -> Self {
        let mut crowd = Self::default();
        for share in shares {
            if reading == Reading::Assigned || share.rate > RequestsPerCycle::ZERO {
                crowd.customers += share.cores;
                crowd.rates += f64::from(share.cores) * share.rate.get();
            }
        }
        crowd
    }

    pub(crate) fn mean_rate(self) -> f64 {
        if self.customers == 0 {
            0.0
        } else {
            self.rates / f64::from(self.customers)
        }
    }
}

/// Mean-value analysis with one class a workload: utilisation, overall response, response by
/// workload. By the arrival theorem a request of class k finds the queue of the same system with one
/// customer of class k less. `queue[state]` is the mean number of requests at the controller for the
/// populations that `state` encodes in mixed radix.
fn exact(shares: &[Share], service: f64) -> Result<(f64, f64, Vec<f64>), ModelError> {
    struct Class {
        share: usize,
        cores: u32,
        rate: f64,
        stride: usize,
    }
    let requesting = |s: &Share| s.cores > 0 && s.rate > RequestsPerCycle::ZERO;
    let states = shares
        .iter()
        .filter(|s| requesting(s))
        .fold(1u128, |states, s| {
            states.saturating_mul(u128::from(s.cores) + 1)
        });
    if states > EXACT_STATE_LIMIT {
        return Err(ModelError::Invalid(format!(
            "the exact solution needs {states} states for these core counts, limit \
             {EXACT_STATE_LIMIT}: use reading C"
        )));
    }
    let mut classes = Vec::new();
    let mut stride = 1;
    for (share, s) in shares.iter().enumerate().filter(|(_, s)| requesting(s)) {
        classes.push(Class {
            share,
            cores: s.cores,
            rate: s.rate.get(),
            stride,
        });
        stride *= s.cores as usize + 1;
    }

    let mut queue = vec![0.0; stride];
    let mut population = vec![0u32; classes.len()];
    let mut utilisation = 0.0;
    let mut waiting = 0.0;
    let mut response_of = vec![service; classes.len()];
    for state in 1..stride {
        // Count up by one in mixed radix.
        for (count, class) in population.iter_mut().zip(&classes) {
            if *count < class.cores {
                *count += 1;
                break;
            }
            *count = 0;
        }
        utilisation = 0.0;
        waiting = 0.0;
        for ((class, &count), response) in classes.iter().zip(&population).zip(&mut response_of) {
            if count == 0 {
                continue;
            }
            *response = service * (1.0 + queue[state - class.stride]);
            let throughput = f64::from(count) * class.rate / (1.0 + class.rate * *response);
            utilisation += throughput * service;
            waiting += throughput * *response;
        }
        queue[state] = waiting;
    }

    // A workload without customers would find the whole queue before it.
    let mut own_response = vec![service * (1.0 + queue[stride - 1]); shares.len()];
    for (class, response) in classes.iter().zip(response_of) {
        own_response[class.share] = response;
    }
    let response = if utilisation > 0.0 {
        waiting / utilisation * service
    } else {
        service
    };
    Ok((utilisation.min(1.0), response, own_response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine(cores: u32) -> SmpMachine {
        SmpMachine::new(cores, Cycles::new(50.0).unwrap()).unwrap()
    }

    fn share(cores: u32, rate: f64) -> Share {
        Share {
            cores,
            rate: RequestsPerCycle::new(rate).unwrap(),
        }
    }

    const READINGS: [Reading; 3] = [Reading::Requesting, Reading::Assigned, Reading::Exact];

    #[test]
    fn reading_c_jumps_where_the_exact_solution_is_continuous() {
        let m = machine(16);
        let at = |rate, reading| {
            let p = predict(&m, &[share(8, rate), share(8, 0.01)], reading).unwrap();
            p.workloads[1].response.get()
        };
        assert!((at(0.0, Reading::Requesting) - 300.344_086).abs() < 1e-5);
        // The customers double, so does the response, though the load hardly grew.
        let jump = at(1e-6, Reading::Requesting) - at(0.0, Reading::Requesting);
        assert!(jump > 250.0, "jump {jump}");
        let step = at(1e-6, Reading::Exact) - at(0.0, Reading::Exact);
        assert!((0.0..0.5).contains(&step), "step {step}");
    }

    #[test]
    fn an_empty_machine_is_idle() {
        for reading in READINGS {
            let p = predict(&machine(16), &[], reading).unwrap();
            assert_eq!(p.system.get(), 0.0);
            assert_eq!(p.response.get(), 50.0);
        }
    }

    #[test]
    fn the_exact_solution_says_when_it_is_too_large() {
        let shares: Vec<Share> = (0..5).map(|_| share(50, 0.01)).collect();
        let error = predict(&machine(250), &shares, Reading::Exact).unwrap_err();
        assert!(error.to_string().contains("345025251 states"), "{error}");
    }

    proptest! {
        #[test]
        fn all_readings_agree_when_the_workloads_are_alike(
            a in 0u32..20, b in 0u32..20, rate in 1e-4..0.1f64,
        ) {
            let m = machine(40);
            let alone = smp::predict(&m, a + b, RequestsPerCycle::new(rate).unwrap()).unwrap();
            for reading in READINGS {
                let p = predict(&m, &[share(a, rate), share(b, rate)], reading).unwrap();
                prop_assert!((p.response.get() / alone.response.get() - 1.0).abs() < 1e-9);
                prop_assert!((p.memory.get() - alone.memory.get()).abs() < 1e-9);
            }
        }

        #[test]
        fn exact_equals_reading_c_beside_a_workload_without_requests(
            a in 0u32..20, b in 0u32..20, rate in 0.0..0.1f64,
        ) {
            let m = machine(40);
            let shares = [share(a, 0.0), share(b, rate)];
            let c = predict(&m, &shares, Reading::Requesting).unwrap();
            let exact = predict(&m, &shares, Reading::Exact).unwrap();
            prop_assert!((c.system.get() - exact.system.get()).abs() < 1e-9);
        }

        #[test]
        fn requests_issued_are_requests_served(
            a in 0u32..16, b in 0u32..16, c in 0u32..8,
            ra in 0.0..0.05f64, rb in 0.0..0.05f64, rc in 0.0..0.05f64,
        ) {
            let shares = [share(a, ra), share(b, rb), share(c, rc)];
            let p = predict(&machine(40), &shares, Reading::Exact).unwrap();
            let issued: f64 = p.workloads.iter().zip(&shares)
                .map(|(w, s)| f64::from(s.cores) * s.rate.get() * w.cpu.get()).sum();
            prop_assert!((issued * 50.0 - p.memory.get()).abs() < 1e-9);
        }

        #[test]
        fn no_workload_beats_its_core_count(
            a in 0u32..16, b in 0u32..16, ra in 0.0..0.5f64, rb in 0.0..0.5f64, r in prop::sample::select(READINGS.to_vec()),
        ) {
            let p = predict(&machine(32), &[share(a, ra), share(b, rb)], r).unwrap();
            for w in &p.workloads {
                prop_assert!(w.speedup.get() <= f64::from(w.cores) * (1.0 + 1e-9));
                prop_assert!(w.response.get() >= 50.0);
            }
            prop_assert!(p.system.get() <= 2.0 + 1e-9);
        }
    }
}
