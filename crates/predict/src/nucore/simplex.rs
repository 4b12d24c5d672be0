//! A dual simplex method for packing programs whose bounds change and whose matrix does not.
//!
//! The program is max Σ x_f, 0 ≤ x_f ≤ upper_f, Σ_{f∈r} x_f ≤ limit_r ≥ 0. Every row gets a
//! variable z_r = Σ_{f∈r} x_f with the bound z_r ≤ limit_r, so the data are bounds alone:
//!
//! * all x at their upper bounds and all z basic is a dual feasible start: no first phase;
//! * a basis stays dual feasible when bounds change, so the next solve starts from the last one;
//! * rows enter the dictionary when they are first violated; most never are.
//!
//! The ratio test flips bounds: it passes a variable that can move to its other bound and leaves
//! the row violated, so one pivot does for a row that many flows overload.
//!
//! Invariants: the result does not depend on the starting basis beyond rounding; the multipliers
//! of the rows are never negative.

/// The constant part of the program: which flows each row adds up.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    flows: usize,
    rows: Vec<Vec<usize>>,
}

impl Packing {
    pub(crate) const fn new(flows: usize, rows: Vec<Vec<usize>>) -> Self {
        Self { flows, rows }
    }
}

/// The method did not converge; see [`Simplex::solve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoConvergence;

/// Bounds are met to this much.
const FEASIBLE: f64 = 1e-10;
/// Entries smaller than this are no pivots.
const PIVOT: f64 = 1e-9;
/// Reduced costs closer to zero than this have no sign.
const COST: f64 = 1e-11;
/// Pivots after which the dictionary is built afresh, against rounding.
const REBUILD_AFTER: u64 = 400;

/// Where a variable is in the dictionary. Variables are the flows, then the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Basic(usize),
    Nonbasic(usize),
    Absent,
}

/// The dictionary `basic = T · nonbasic`, and the solution of the last solve.
#[derive(Clone, Debug)]
pub(crate) struct Simplex {
    packing: Packing,
    /// T, row by row; as many columns as flows.
    t: Vec<f64>,
    basic: Vec<usize>,
    basic_value: Vec<f64>,
    nonbasic: Vec<usize>,
    nonbasic_value: Vec<f64>,
    at_upper: Vec<bool>,
    /// Reduced costs of the nonbasic variables.
    cost: Vec<f64>,
    place: Vec<Place>,
    /// Upper bounds of the flows, then of the rows.
    upper: Vec<f64>,
    pivots_since_rebuild: u64,
    pivots: u64,
    scratch: Vec<f64>,
    candidates: Vec<Candidate>,
    /// The flows of the last solution.
    flow: Vec<f64>,
}

/// A column that may enter, with its ratio of the dual ratio test and the size of its pivot.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    column: usize,
    ratio: f64,
    size: f64,
}

impl Simplex {
    pub(crate) fn new(packing: Packing) -> Self {
        let flows = packing.flows;
        let variables = flows + packing.rows.len();
        let mut simplex = Self {
            packing,
            t: Vec::new(),
            basic: Vec::new(),
            basic_value: Vec::new(),
            nonbasic: vec![0; flows],
            nonbasic_value: vec![0.0; flows],
            at_upper: vec![true; flows],
            cost: vec![1.0; flows],
            place: vec![Place::Absent; variables],
            upper: vec![0.0; variables],
            pivots_since_rebuild: 0,
            pivots: 0,
            scratch: vec![0.0; flows],
            candidates: Vec::with_capacity(flows),
            flow: vec![0.0; flows],
        };
        simplex.rebuild();
        simplex
    }

    /// Bounds of the flows, then limits of the rows, to fill in before [`Self::solve`].
    pub(crate) fn bounds_mut(&mut self) -> (&mut [f64], &mut [f64]) {
        self.upper.split_at_mut(self.packing.flows)
    }

    pub(crate) const fn pivots(&self) -> u64 {
        self.pivots
    }

    /// Solves for the bounds filled in, all of them 0 or more; the maximum.
    ///
    /// # Errors
    /// [`NoConvergence`] when not even a fresh start converges.
    pub(crate) fn solve(&mut self) -> Result<f64, NoConvergence> {
        if self.pivots_since_rebuild > REBUILD_AFTER {
            self.rebuild();
        }
        if let Ok(value) = self.run() {
            return Ok(value);
        }
        self.rebuild();
        self.run()
    }

    /// Bandwidth of a flow in the last solution.
    pub(crate) fn flow(&self, flow: usize) -> f64 {
        match self.place[flow] {
            Place::Basic(row) => self.basic_value[row],
            Place::Nonbasic(column) => self.nonbasic_value[column],
            Place::Absent => 0.0,
        }
    }

    /// The multiplier of a row in the last solution.
    pub(crate) fn multiplier(&self, row: usize) -> f64 {
        match self.place[self.packing.flows + row] {
            Place::Nonbasic(column) => self.cost[column].max(0.0),
            _ => 0.0,
        }
    }

    fn rebuild(&mut self) {
        let flows = self.packing.flows;
        self.t.clear();
        self.basic.clear();
        self.basic_value.clear();
        self.place.fill(Place::Absent);
        for flow in 0..flows {
            self.nonbasic[flow] = flow;
            self.place[flow] = Place::Nonbasic(flow);
        }
        self.at_upper.fill(true);
        self.cost.fill(1.0);
        self.pivots_since_rebuild = 0;
    }

    fn run(&mut self) -> Result<f64, NoConvergence> {
        self.drop_idle_rows();
        self.place_nonbasics();
        let patience = 20 + 4 * self.upper.len();
        let mut steps = 0;
        loop {
            let in_order = steps > patience;
            let Some((row, above)) = self.most_violated(in_order) else {
                if self.add_violated_rows() {
                    continue;
                }
                return Ok(self
                    .cost
                    .iter()
                    .zip(&self.nonbasic_value)
                    .map(|(c, x)| c * x)
                    .sum());
            };
            steps += 1;
            if steps > 50 * patience {
                return Err(NoConvergence);
            }
            let column = self.entering(row, above, in_order).ok_or(NoConvergence)?;
            self.pivot(row, column, above);
        }
    }

    /// Removes the rows from the dictionary that do not bind; the next solve may not need them.
    fn drop_idle_rows(&mut self) {
        let flows = self.packing.flows;
        let mut at = 0;
        while at < self.basic.len() {
            if self.basic[at] < flows {
                at += 1;
                continue;
            }
            self.place[self.basic[at]] = Place::Absent;
            let last = self.basic.len() - 1;
            if at < last {
                self.t.copy_within(last * flows.., at * flows);
                self.place[self.basic[last]] = Place::Basic(at);
            }
            self.t.truncate(last * flows);
            self.basic.swap_remove(at);
            self.basic_value.swap_remove(at);
        }
    }

    /// Puts every nonbasic variable at the bound that suits its reduced cost.
    fn place_nonbasics(&mut self) {
        let flows = self.packing.flows;
        for column in 0..flows {
            let variable = self.nonbasic[column];
            let cost = self.cost[column];
            let upper = variable >= flows || cost > COST || (cost > -COST && self.at_upper[column]);
            self.at_upper[column] = upper;
            self.nonbasic_value[column] = if upper { self.upper[variable] } else { 0.0 };
        }
        for (value, row) in self
            .basic_value
            .iter_mut()
            .zip(self.t.chunks_exact(flows.max(1)))
        {
            *value = dot(row, &self.nonbasic_value);
        }
    }

    /// The basic variable furthest outside its bounds (`in_order`: the first), and whether it is above.
    fn most_violated(&self, in_order: bool) -> Option<(usize, bool)> {
        let mut worst = FEASIBLE;
        let mut found = None;
        let mut found_variable = usize::MAX;
        for (row, (&variable, &value)) in self.basic.iter().zip(&self.basic_value).enumerate() {
            let over = value - self.upper[variable];
            let under = if variable < self.packing.flows {
                -value
            } else {
                f64::NEG_INFINITY
            };
            let by = over.max(under);
            let wins = if in_order {
                by > FEASIBLE && variable < found_variable
            } else {
                by > worst
            };
            if wins {
                (worst, found, found_variable) = (by, Some((row, over > under)), variable);
            }
        }
        found
    }

    /// The dual ratio test, with bound flips; the column that enters.
    fn entering(&mut self, row: usize, above: bool, in_order: bool) -> Option<usize> {
        let flows = self.packing.flows;
        let sign = if above { 1.0 } else { -1.0 };
        let mut violation = if above {
            self.basic_value[row] - self.upper[self.basic[row]]
        } else {
            -self.basic_value[row]
        };
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for (at, &entry) in self.t[row * flows..(row + 1) * flows].iter().enumerate() {
            let alpha = sign * entry;
            let eligible = if self.at_upper[at] {
                alpha > PIVOT
            } else {
                alpha < -PIVOT
            };
            if eligible {
                let size = alpha.abs();
                candidates.push(Candidate {
                    column: at,
                    ratio: self.cost[at].abs() / size,
                    size,
                });
            }
        }
        let mut entering = None;
        while let Some(best) = self.best_candidate(&candidates, in_order) {
            let Candidate { column, size, .. } = candidates.swap_remove(best);
            let variable = self.nonbasic[column];
            let range = if variable < flows {
                self.upper[variable]
            } else {
                f64::INFINITY
            };
            let after_flip = violation - size * range;
            if in_order || after_flip <= FEASIBLE {
                entering = Some(column);
                break;
            }
            violation = after_flip;
            self.flip(column, range);
        }
        self.candidates = candidates;
        entering
    }

    /// The candidate of the least ratio; of equal ones the largest pivot, or the first variable.
    fn best_candidate(&self, candidates: &[Candidate], in_order: bool) -> Option<usize> {
        let mut best: Option<(usize, Candidate)> = None;
        for (at, &this) in candidates.iter().enumerate() {
            let wins = best.is_none_or(|(_, best)| {
                if (this.ratio - best.ratio).abs() > COST {
                    this.ratio < best.ratio
                } else if in_order {
                    self.nonbasic[this.column] < self.nonbasic[best.column]
                } else {
                    this.size > best.size
                }
            });
            if wins {
                best = Some((at, this));
            }
        }
        best.map(|(at, _)| at)
    }

    /// Moves a nonbasic flow to its other bound.
    fn flip(&mut self, column: usize, range: f64) {
        let flows = self.packing.flows;
        let step = if self.at_upper[column] { -range } else { range };
        self.at_upper[column] = !self.at_upper[column];
        self.nonbasic_value[column] = if self.at_upper[column] { range } else { 0.0 };
        for (value, row) in self.basic_value.iter_mut().zip(self.t.chunks_exact(flows)) {
            *value += row[column] * step;
        }
    }

    /// Exchanges basic `row`, which leaves to the bound it violates, with nonbasic `column`.
    fn pivot(&mut self, row: usize, column: usize, above: bool) {
        let flows = self.packing.flows;
        let leaving = self.basic[row];
        let entering = self.nonbasic[column];
        let bound = if above { self.upper[leaving] } else { 0.0 };
        let pivot = self.t[row * flows + column];
        let step = (bound - self.basic_value[row]) / pivot;
        for (value, other) in self.basic_value.iter_mut().zip(self.t.chunks_exact(flows)) {
            *value += other[column] * step;
        }
        self.basic_value[row] = self.nonbasic_value[column] + step;
        self.nonbasic_value[column] = bound;
        self.at_upper[column] = above;
        self.basic[row] = entering;
        self.nonbasic[column] = leaving;
        self.place[entering] = Place::Basic(row);
        self.place[leaving] = Place::Nonbasic(column);

        let inverse = 1.0 / pivot;
        let pivot_row = &mut self.t[row * flows..(row + 1) * flows];
        for entry in pivot_row.iter_mut() {
            *entry *= -inverse;
        }
        pivot_row[column] = inverse;
        self.scratch.copy_from_slice(pivot_row);
        for (at, other) in self.t.chunks_exact_mut(flows).enumerate() {
            let factor = other[column];
            if at == row || factor == 0.0 {
                continue;
            }
            other[column] = 0.0;
            add_scaled(other, factor, &self.scratch);
        }
        let factor = self.cost[column];
        self.cost[column] = 0.0;
        add_scaled(&mut self.cost, factor, &self.scratch);
        self.pivots_since_rebuild += 1;
        self.pivots += 1;
    }

    /// Adds the rows to the dictionary that the present flows overload; whether there were any.
    fn add_violated_rows(&mut self) -> bool {
        let flows = self.packing.flows;
        let before = self.basic.len();
        let mut flow = std::mem::take(&mut self.flow);
        for (at, value) in flow.iter_mut().enumerate() {
            *value = self.flow(at);
        }
        self.flow = flow;
        for row in 0..self.packing.rows.len() {
            let variable = flows + row;
            if self.place[variable] != Place::Absent {
                continue;
            }
            let load: f64 = self.packing.rows[row].iter().map(|&f| self.flow[f]).sum();
            if load <= self.upper[variable] + FEASIBLE {
                continue;
            }
            self.scratch.fill(0.0);
            for &flow in &self.packing.rows[row] {
                match self.place[flow] {
                    Place::Nonbasic(column) => self.scratch[column] += 1.0,
                    Place::Basic(at) => {
                        add_scaled(
                            &mut self.scratch,
                            1.0,
                            &self.t[at * flows..(at + 1) * flows],
                        );
                    }
                    Place::Absent => {}
                }
            }
            self.t.extend_from_slice(&self.scratch);
            self.place[variable] = Place::Basic(self.basic.len());
            self.basic.push(variable);
            self.basic_value.push(load);
        }
        self.basic.len() > before
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add_scaled(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solve(flows: &[f64], rows: &[(&[usize], f64)]) -> f64 {
        let packing = Packing::new(flows.len(), rows.iter().map(|(f, _)| f.to_vec()).collect());
        let mut simplex = Simplex::new(packing);
        let (upper, limit) = simplex.bounds_mut();
        upper.copy_from_slice(flows);
        for (limit, (_, value)) in limit.iter_mut().zip(rows) {
            *limit = *value;
        }
        simplex.solve().unwrap()
    }

    #[test]
    fn rows_and_caps_limit_the_flows() {
        assert_eq!(solve(&[1.0, 2.0], &[(&[0, 1], 5.0)]), 3.0);
        assert_eq!(solve(&[1.0, 2.0], &[]), 3.0);
        assert_eq!(solve(&[], &[]), 0.0);
        assert_eq!(solve(&[3.0, 4.0, 5.0], &[(&[0, 1, 2], 6.0)]), 6.0);
        // Three pairwise rows of limit 1: each flow 1/2, which no 0/1 choice reaches.
        let value = solve(&[1.0; 3], &[(&[0, 1], 1.0), (&[1, 2], 1.0), (&[0, 2], 1.0)]);
        assert!((value - 1.5).abs() < 1e-12);
    }

    #[test]
    fn the_next_solve_starts_from_the_last_basis_and_agrees_with_a_fresh_one() {
        let rows = vec![vec![0, 1, 2], vec![1, 2, 3], vec![0, 3]];
        let mut warm = Simplex::new(Packing::new(4, rows.clone()));
        for k in 0..200u32 {
            let bounds: Vec<f64> = (0..7).map(|i| f64::from((k * 7 + i * 13) % 11)).collect();
            let mut value = [0.0; 2];
            let mut fresh = Simplex::new(Packing::new(4, rows.clone()));
            for (value, simplex) in value.iter_mut().zip([&mut warm, &mut fresh]) {
                let (upper, limit) = simplex.bounds_mut();
                upper.copy_from_slice(&bounds[..4]);
                limit.copy_from_slice(&bounds[4..]);
                *value = simplex.solve().unwrap();
                let sum: f64 = (0..4).map(|f| simplex.flow(f)).sum();
                assert!((sum - *value).abs() < 1e-9);
                let dual: f64 = (0..3)
                    .map(|r| simplex.multiplier(r) * bounds[4 + r])
                    .sum::<f64>()
                    + (0..4)
                        .map(|f| {
                            let covered: f64 = (0..3)
                                .filter(|&r| rows[r].contains(&f))
                                .map(|r| simplex.multiplier(r))
                                .sum();
                            (1.0 - covered).max(0.0) * bounds[f]
                        })
                        .sum::<f64>();
                assert!((dual - *value).abs() < 1e-9);
            }
            assert!(
                (value[0] - value[1]).abs() < 1e-9,
                "{value:?} for {bounds:?}"
            );
        }
    }
}
