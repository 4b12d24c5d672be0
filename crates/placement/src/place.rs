//! From demands to threads: keep what is held, and place afresh only where that pays.
//!
//! First every application keeps its CPUs; one with too many gives by the residency rule, one with too few
//! takes free ones, in order of priority ([`keep`]). Then the same demands are placed on an empty view, with
//! a preference for where they are ([`afresh`]). That placement replaces the first only if it costs fewer
//! points ([`contention`](crate::contention)) by more than the moves are worth; and so on.
//!
//! Invariants: a placement that is the answer once is the answer to itself, so none moves while nothing
//! changes; one that grows keeps its CPUs unless moving pays; every thread has at most one demand.

use crate::contention;
use crate::demand::Demands;
use crate::domains::Domains;
use crate::free_cpus::FreeCpus;
use crate::layout::{Layout, UNOWNED};
use crate::machine_view::{MachineView, Nature};
use crate::trim::trim;

/// Gives and takes as little as possible.
pub(crate) fn keep<'l>(
    layout: &'l Layout,
    natures: &'l [Nature],
    demands: &Demands<'_>,
    order: &[usize],
) -> MachineView<'l> {
    let mut view = MachineView::new(layout, natures);
    for (thread, &demand) in demands.held.iter().enumerate() {
        if demand != UNOWNED {
            view.take(demand, thread as u32);
        }
    }
    for (demand, id) in demands.list.iter().zip(0..) {
        trim(&mut view, id, demand);
    }
    let mut affinity = Vec::new();
    let mut chooser = Chooser::default();
    for &demand in order {
        affinity.clear();
        affinity.extend_from_slice(view.counts(demand as u32));
        let have: u32 = affinity.iter().sum();
        let need = demands.list[demand].want.saturating_sub(have);
        chooser.place(&mut view, demands, demand, need, &affinity, &demands.held);
    }
    view
}

/// Places everybody on an empty view; `before` is where they are.
pub(crate) fn afresh<'l>(
    before: &MachineView<'l>,
    demands: &Demands<'_>,
    order: &[usize],
) -> MachineView<'l> {
    let mut view = MachineView::new(before.layout, before.natures);
    let mut chooser = Chooser::default();
    for &demand in order {
        let want = demands.list[demand].want;
        let affinity = before.counts(demand as u32);
        chooser.place(&mut view, demands, demand, want, affinity, &before.owner);
    }
    view
}

/// Replaces a placement by a fresh one while each moved CPU brings at least `move_cost` points.
pub(crate) fn improve<'l>(
    mut view: MachineView<'l>,
    demands: &Demands<'_>,
    order: &[usize],
    move_cost: u32,
) -> MachineView<'l> {
    let mut points = contention::points(&view, &demands.list);
    // Every round takes points off, so there is a last one.
    loop {
        let other = afresh(&view, demands, order);
        let moved = view
            .owner
            .iter()
            .zip(&other.owner)
            .filter(|(a, b)| a != b && **b != UNOWNED)
            .count() as u64;
        if moved == 0 {
            return view;
        }
        let better = contention::points(&other, &demands.list);
        if better + moved * u64::from(move_cost.max(1)) > points {
            return view;
        }
        view = other;
        points = better;
    }
}

/// The buffers of the two choices.
#[derive(Default)]
struct Chooser {
    domains: Domains,
    threads: FreeCpus,
}

impl Chooser {
    fn place(
        &mut self,
        view: &mut MachineView<'_>,
        demands: &Demands<'_>,
        number: usize,
        need: u32,
        affinity: &[u32],
        before: &[u32],
    ) {
        if need == 0 {
            return;
        }
        let (id, demand) = (number as u32, &demands.list[number]);
        self.domains.choose(view, id, demand, need, affinity);
        for (domain, &count) in (0..).zip(&self.domains.take) {
            if count > 0 {
                self.threads.take(view, id, demand, domain, count, before);
            }
        }
    }
}
