//! One workload on a machine with one memory controller [NuPoCo §3.3, equations 1-6].
//!
//! N of the M cores run a balanced data-parallel workload that issues λ requests per cycle of work
//! and core. With R from the queue ([`crate::nupoco::queue`]):
//!
//! * CPU utilisation (eq. 5) = 1/(1 + λR),
//! * speedup (eq. 1) = N·(1 + λ/µ)/(1 + λR), relative to one core, whose response is 1/µ,
//! * system utilisation (eq. 6) = CPU utilisation · N/M + controller utilisation; up to 2.
//!
//! Invariants: without requests the speedup is N exactly; speedup ≤ N; the speedup does not fall when N grows.

use crate::error::{ModelError, check_cores, lacks};
use crate::nupoco::queue;
use crate::units::{Cycles, RequestsPerCycle, Speedup, Utilisation};
use serde::Serialize;

/// A machine whose cores share one memory controller.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SmpMachine {
    cores: u32,
    service: Cycles,
}

impl SmpMachine {
    /// A machine of `cores` whose controller serves a request in `service` (the papers' 1/µ).
    ///
    /// # Errors
    /// For no core.
    pub fn new(cores: u32, service: Cycles) -> Result<Self, ModelError> {
        if cores == 0 {
            return Err(lacks("core"));
        }
        Ok(Self { cores, service })
    }

    /// The cores, M in eq. 6.
    pub const fn cores(&self) -> u32 {
        self.cores
    }

    /// The service time of the controller, 1/µ.
    pub const fn service(&self) -> Cycles {
        self.service
    }
}

/// The model's prediction for one workload on N cores.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SmpPrediction {
    /// Busy share of the memory controller, MCTUtil (eq. 4).
    pub memory: Utilisation,
    /// Mean memory response time, MRT (eq. 3).
    pub response: Cycles,
    /// Share of its time that a core works, CPUUtil (eq. 5).
    pub cpu: Utilisation,
    /// Speedup over one core (eq. 1).
    pub speedup: Speedup,
    /// TotalTime(N) over CPUTime(1); infinite on no cores.
    pub total_time_over_cpu_time_of_one: f64,
    /// CPU and memory together (eq. 6).
    pub system: Utilisation,
}

/// Predicts a workload of `rate` alone on `cores` of `machine`.
///
/// # Errors
/// When the machine has fewer cores.
pub fn predict(
    machine: &SmpMachine,
    cores: u32,
    rate: RequestsPerCycle,
) -> Result<SmpPrediction, ModelError> {
    check_cores("the machine", cores.into(), machine.cores)?;
    let state = queue::solve(cores, rate, machine.service);
    let n = f64::from(cores);
    let response = state.response.get();
    let cpu = cpu_utilisation(rate.get(), response);
    Ok(SmpPrediction {
        memory: state.utilisation,
        response: state.response,
        cpu: Utilisation(cpu),
        speedup: Speedup(speedup(n, rate.get(), response, machine.service.get())),
        total_time_over_cpu_time_of_one: 1.0 / (n * cpu),
        system: Utilisation(cpu * n / f64::from(machine.cores) + state.utilisation.get()),
    })
}

/// Eq. 5: the share of a cycle of work in work and waiting.
#[inline]
pub(crate) fn cpu_utilisation(rate: f64, response: f64) -> f64 {
    1.0 / (1.0 + rate * response)
}

/// Eq. 1, with the workload alone on one core (response = service) as reference [readings N3].
#[inline]
pub(crate) fn speedup(cores: f64, rate: f64, response: f64, service: f64) -> f64 {
    cores * ((1.0 + rate * service) / (1.0 + rate * response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine(cores: u32) -> SmpMachine {
        SmpMachine::new(cores, Cycles::new(50.0).unwrap()).unwrap()
    }

    fn rate(value: f64) -> RequestsPerCycle {
        RequestsPerCycle::new(value).unwrap()
    }

    #[test]
    fn without_requests_the_speedup_is_the_core_count_exactly() {
        let p = predict(&machine(16), 16, rate(0.0)).unwrap();
        assert_eq!(p.speedup.get(), 16.0);
        assert_eq!(p.cpu.get(), 1.0);
        assert_eq!(p.memory.get(), 0.0);
        assert_eq!(p.system.get(), 1.0);
    }

    #[test]
    fn workload_b_of_figure_4_saturates_at_a_speedup_of_three() {
        let p = predict(&machine(16), 16, rate(0.01)).unwrap();
        assert!((p.speedup.get() - 2.999_999_999).abs() < 1e-8);
        assert!((p.system.get() - 1.125).abs() < 1e-8);
    }

    #[test]
    fn more_cores_than_the_machine_has_are_refused() {
        let error = predict(&machine(16), 17, rate(0.01)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "17 cores handed out of 16 on the machine: hand out at most 16"
        );
    }

    proptest! {
        #[test]
        fn a_core_more_never_slows_down(cores in 1u32..256, mrr in 0.0..0.5f64) {
            let m = machine(256);
            let fewer = predict(&m, cores - 1, rate(mrr)).unwrap().speedup.get();
            let more = predict(&m, cores, rate(mrr)).unwrap().speedup.get();
            prop_assert!(more >= fewer * (1.0 - 1e-12));
            prop_assert!(more <= f64::from(cores) * (1.0 + 1e-12));
        }

        #[test]
        fn total_time_is_the_inverse_of_the_speedup(cores in 1u32..64, mrr in 0.0..0.5f64) {
            let m = machine(64);
            let one = predict(&m, 1, rate(mrr)).unwrap();
            let n = predict(&m, cores, rate(mrr)).unwrap();
            let ratio = one.total_time_over_cpu_time_of_one / n.total_time_over_cpu_time_of_one;
            prop_assert!((ratio / n.speedup.get() - 1.0).abs() < 1e-12);
        }
    }
}
