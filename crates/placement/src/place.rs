//! From units to seats: keep what is held, and place afresh only where that pays.
//!
//! First everybody keeps what it holds; who has too much gives by the residency rule, who has too
//! little takes from what is free, in order of priority ([`keep`]). That disturbs nobody. Then the
//! same units are placed from an empty board in the same order, with a preference for where they
//! are ([`afresh`]); an application that must be together may so displace another one that does not
//! care. The second placement replaces the first only if it costs fewer points
//! ([`contention`](crate::contention)) by more than the moves are worth, and is then itself put to
//! the test, until nothing better is found.
//!
//! Invariants: a placement that is the answer once is the answer to itself, so nobody moves while
//! nothing changes; who grows keeps its CPUs unless moving pays; every seat has at most one unit.

use crate::board::{Board, Nature};
use crate::contention;
use crate::layout::{Layout, NOBODY};
use crate::regions::Regions;
use crate::seats::Seats;
use crate::trim::trim;
use crate::unit::Units;

/// Gives and takes as little as possible.
pub(crate) fn keep<'l>(
    layout: &'l Layout,
    natures: &'l [Nature],
    units: &Units<'_>,
    order: &[usize],
) -> Board<'l> {
    let mut board = Board::new(layout, natures);
    for (seat, &unit) in units.held.iter().enumerate() {
        if unit != NOBODY {
            board.take(unit, seat as u32);
        }
    }
    for (unit, id) in units.list.iter().zip(0..) {
        trim(&mut board, id, unit);
    }
    let mut affinity = Vec::new();
    let mut hands = Hands::default();
    for &unit in order {
        affinity.clear();
        affinity.extend_from_slice(board.counts(unit as u32));
        let have: u32 = affinity.iter().sum();
        let need = units.list[unit].want.saturating_sub(have);
        hands.place(&mut board, units, unit, need, &affinity, &units.held);
    }
    board
}

/// Places everybody on an empty board; `before` is where they are.
pub(crate) fn afresh<'l>(before: &Board<'l>, units: &Units<'_>, order: &[usize]) -> Board<'l> {
    let mut board = Board::new(before.layout, before.natures);
    let mut hands = Hands::default();
    for &unit in order {
        let want = units.list[unit].want;
        let affinity = before.counts(unit as u32);
        hands.place(&mut board, units, unit, want, affinity, &before.owner);
    }
    board
}

/// Replaces a placement by a fresh one as long as that pays. A moved CPU has to bring `move_cost`
/// points.
pub(crate) fn improve<'l>(
    mut board: Board<'l>,
    units: &Units<'_>,
    order: &[usize],
    move_cost: u32,
) -> Board<'l> {
    let mut points = contention::points(&board, &units.list);
    // Every round takes points off, so there is a last one.
    loop {
        let other = afresh(&board, units, order);
        let moved = board
            .owner
            .iter()
            .zip(&other.owner)
            .filter(|(a, b)| a != b && **b != NOBODY)
            .count() as u64;
        if moved == 0 {
            return board;
        }
        let better = contention::points(&other, &units.list);
        if better + moved * u64::from(move_cost.max(1)) > points {
            return board;
        }
        board = other;
        points = better;
    }
}

/// The buffers of the two choices.
#[derive(Default)]
struct Hands {
    regions: Regions,
    seats: Seats,
}

impl Hands {
    fn place(
        &mut self,
        board: &mut Board<'_>,
        units: &Units<'_>,
        number: usize,
        need: u32,
        affinity: &[u32],
        before: &[u32],
    ) {
        if need == 0 {
            return;
        }
        let (id, unit) = (number as u32, &units.list[number]);
        self.regions.choose(board, id, unit, need, affinity);
        for (region, &count) in (0..).zip(&self.regions.take) {
            if count > 0 {
                self.seats.take(board, id, unit, region, count, before);
            }
        }
    }
}
