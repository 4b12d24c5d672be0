//! The critical bottleneck of an application, and the order in which applications are placed
//! [MAPPER §3.4]. Thresholds come from the machine profile.
//!
//! An interval shows *sharing* if the activity of its most active thread is high, or medium while
//! instructions per cycle are not high; *memory* if the application's last-level misses exceed what
//! its nodes can serve; *compute* if instructions per cycle are high; else none. A bottleneck is
//! believed after it showed in several intervals in a row, as every change starts an exploration.

use mapper_model::{Bottleneck, MachineProfile, Rates};
use serde::{Deserialize, Serialize};

/// The bottleneck that the rates of one interval show.
pub(crate) fn shown(rates: &Rates, nodes: u32, machine: &MachineProfile) -> Bottleneck {
    let ipc_high = rates.ipc.is_some_and(|ipc| ipc > machine.ipc_high);
    let sharing = rates.sharing_per_cycle.unwrap_or(0.0);
    let capacity = machine.llc_misses_per_s * f64::from(nodes.max(1));
    if sharing > machine.sharing_high_per_cycle
        || (sharing > machine.sharing_medium_per_cycle && !ipc_high)
    {
        Bottleneck::Sharing
    } else if rates.llc_misses_per_s.is_some_and(|rate| rate > capacity) {
        Bottleneck::Memory
    } else if ipc_high {
        Bottleneck::Compute
    } else {
        Bottleneck::None
    }
}

/// Its contribution to a bottleneck: the aggregate rate of the event, per second [MAPPER Table 2].
pub(crate) fn severity(bottleneck: Bottleneck, rates: &Rates, machine: &MachineProfile) -> f64 {
    match bottleneck {
        Bottleneck::Sharing => {
            rates.inter_socket_per_s.unwrap_or(0.0) + rates.intra_socket_per_s.unwrap_or(0.0)
        }
        Bottleneck::Memory => rates.llc_misses_per_s.unwrap_or(0.0),
        Bottleneck::Compute => rates.ipc_sum.unwrap_or(0.0) * machine.clock_hz,
        Bottleneck::None => 0.0,
    }
}

/// Believes a bottleneck once it has shown often enough in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BottleneckFilter {
    believed: Bottleneck,
    candidate: Bottleneck,
    seen: u32,
}

impl BottleneckFilter {
    /// Processes what one interval shows and returns what is believed.
    pub(crate) fn observe(&mut self, shown: Bottleneck, intervals: u32) -> Bottleneck {
        if shown == self.believed {
            self.seen = 0;
        } else if shown == self.candidate && self.seen > 0 {
            self.seen += 1;
        } else {
            self.candidate = shown;
            self.seen = 1;
        }
        if self.seen >= intervals.max(1) {
            self.believed = self.candidate;
            self.seen = 0;
        }
        self.believed
    }
}

/// One application in the order of placement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Contender {
    /// Critical bottleneck.
    pub bottleneck: Bottleneck,
    /// Contribution to it.
    pub severity: f64,
}

/// The indices of the contenders in the order of placement: sharing, memory, compute, none; within a
/// class the more severe first, equal ones in their order [MAPPER §3.4, readings "MAPPER refinement"].
pub fn mapping_order(contenders: &[Contender]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&contenders[a], &contenders[b]);
        a.bottleneck
            .cmp(&b.bottleneck)
            .then(b.severity.total_cmp(&a.severity))
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Rates {
        Rates {
            active_threads: 4,
            cycles: 1e9,
            ipc: Some(0.5),
            ..Rates::default()
        }
    }

    #[test]
    fn the_worst_bottleneck_is_shown() {
        use Bottleneck::{Compute, Memory, None, Sharing};
        let machine = MachineProfile::default();
        let busy = Rates {
            ipc: Some(1.4),
            ..rates()
        };
        let memory = Rates {
            llc_misses_per_s: Some(machine.llc_misses_per_s * 1.1),
            ..busy
        };
        let sharing = |sharing, ipc| Rates {
            sharing_per_cycle: Some(sharing),
            ipc: Some(ipc),
            ..memory
        };
        for (rates, nodes, expected) in [
            (rates(), 1, None),
            (busy, 1, Compute),
            (memory, 1, Memory),
            // Two nodes serve twice as much.
            (memory, 2, Compute),
            (sharing(1e-3, 1.4), 1, Sharing),
            // Medium sharing counts only where the cores are not busy.
            (sharing(5e-4, 0.6), 2, Sharing),
            (sharing(5e-4, 1.1), 2, Compute),
        ] {
            assert_eq!(shown(&rates, nodes, &machine), expected, "{rates:?}");
        }
    }

    #[test]
    fn a_bottleneck_that_flickers_is_not_believed() {
        let mut filter = BottleneckFilter::default();
        for _ in 0..20 {
            assert_eq!(filter.observe(Bottleneck::Memory, 3), Bottleneck::None);
            assert_eq!(filter.observe(Bottleneck::Memory, 3), Bottleneck::None);
            assert_eq!(filter.observe(Bottleneck::Compute, 3), Bottleneck::None);
        }
        filter.observe(Bottleneck::Memory, 3);
        filter.observe(Bottleneck::Memory, 3);
        assert_eq!(filter.observe(Bottleneck::Memory, 3), Bottleneck::Memory);
    }

    #[test]
    fn within_a_class_the_more_severe_is_placed_first() {
        let contender = |bottleneck, severity| Contender {
            bottleneck,
            severity,
        };
        let order = mapping_order(&[
            contender(Bottleneck::None, 99.0),
            contender(Bottleneck::Sharing, 1.0),
            contender(Bottleneck::Compute, 5.0),
            contender(Bottleneck::Sharing, 2.0),
        ]);
        assert_eq!(order, [3, 1, 2, 0]);
    }
}
