//! The solver of the bandwidth program against independent ones.
//!
//! Small random machines and demands are solved twice: by [`Program`], and by trying all core
//! counts with a general linear-programming library on the constraints as the paper writes them,
//! variable by variable. A second oracle leaves the core counts to the library's branch and bound,
//! with eq. 8 as printed. Larger cases are held against all allocations evaluated one by one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mapper_predict::nucore::{
    Demand, DramCharge, EffortLimit, Machine, MachineSpec, NodeAllocation, NuCoreError, Pair,
    Program,
};
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The constraints on bandwidth for given core counts, in the library's hands.
struct Written<'a> {
    machine: &'a MachineSpec,
    demands: &'a [Demand],
    charge: DramCharge,
    lp: Problem,
    /// By pair: (variable, memory that serves it).
    remote: BTreeMap<Pair, Vec<(Variable, usize)>>,
    local: Vec<Vec<Variable>>,
}

/// The core count of an application on a node: a number, or a variable of the program.
#[derive(Clone, Copy)]
enum Count {
    Fixed(u32),
    Free(Variable),
}

impl<'a> Written<'a> {
    fn new(machine: &'a MachineSpec, demands: &'a [Demand], charge: DramCharge) -> Self {
        Self {
            machine,
            demands,
            charge,
            lp: Problem::new(OptimizationDirection::Maximize),
            remote: BTreeMap::new(),
            local: vec![Vec::new(); machine.nodes],
        }
    }

    /// Ir ≤ a_i·r_ji, Iw ≤ a_j·w_ji (eqs. 2, 3).
    fn add_remote(&mut self, count: impl Fn(usize, usize) -> Count) {
        for (app, demand) in self.demands.iter().enumerate() {
            let reads = demand
                .reads
                .iter()
                .map(|(&p, &rate)| (p, rate, p.to, p.from));
            let writes = demand.writes.iter().map(|(&p, &rate)| match self.charge {
                DramCharge::AsPrinted => (p, rate, p.from, p.from),
                DramCharge::AtTheTarget => (p, rate, p.from, p.to),
            });
            for (pair, rate, node, memory) in reads.chain(writes).collect::<Vec<_>>() {
                let flow = match count(app, node) {
                    Count::Fixed(cores) => self.lp.add_var(1.0, (0.0, f64::from(cores) * rate)),
                    Count::Free(cores) => {
                        let flow = self.lp.add_var(1.0, (0.0, f64::INFINITY));
                        self.lp.add_constraint(
                            [(flow, 1.0), (cores, -rate)],
                            ComparisonOp::Le,
                            0.0,
                        );
                        flow
                    }
                };
                self.remote.entry(pair).or_default().push((flow, memory));
            }
        }
    }

    fn load(&self, link: Pair) -> Vec<(Variable, f64)> {
        self.remote
            .iter()
            .filter(|(pair, _)| {
                if self.machine.physical.contains_key(pair) {
                    **pair == link
                } else {
                    self.machine.route[pair]
                        .windows(2)
                        .any(|h| Pair::new(h[0], h[1]) == link)
                }
            })
            .flat_map(|(_, flows)| flows.iter().map(|&(flow, _)| (flow, 1.0)))
            .collect()
    }

    fn at_most(&mut self, sum: &[(Variable, f64)], limit: f64) {
        if !sum.is_empty() {
            self.lp.add_constraint(sum, ComparisonOp::Le, limit);
        }
    }

    /// Eqs. 9, 10 and 13.
    fn add_links(&mut self) {
        for (&link, &limit) in &self.machine.physical {
            self.at_most(&self.load(link), limit);
        }
        for (&link, &limit) in &self.machine.physical_both_ways {
            self.at_most(
                &[self.load(link), self.load(link.reversed())].concat(),
                limit,
            );
        }
        let own = |remote: &BTreeMap<Pair, Vec<(Variable, usize)>>, pair: Pair| {
            remote
                .get(&pair)
                .into_iter()
                .flatten()
                .map(|&(flow, _)| (flow, 1.0))
                .collect::<Vec<_>>()
        };
        for pair in self.machine.route.keys() {
            if let Some(&limit) = self.machine.virtual_one_way.get(pair) {
                self.at_most(&own(&self.remote, *pair), limit);
            }
            if let Some(&limit) = self.machine.virtual_both_ways.get(&pair.unordered()) {
                let sum = [own(&self.remote, *pair), own(&self.remote, pair.reversed())].concat();
                self.at_most(&sum, limit);
            }
        }
    }

    fn served_by(&self, node: usize) -> Vec<(Variable, f64)> {
        self.remote
            .values()
            .flatten()
            .filter(|&&(_, memory)| memory == node)
            .map(|&(flow, _)| (flow, 1.0))
            .collect()
    }

    /// The most bandwidth for fixed core counts, or nothing if eq. 11 cannot hold.
    fn bandwidth(mut self, held: &[Vec<u32>]) -> Option<f64> {
        self.add_remote(|app, node| Count::Fixed(held[app][node]));
        self.add_links();
        for node in 0..self.machine.nodes {
            let mut demand = 0.0;
            for (d, held) in self.demands.iter().zip(held) {
                let most = d.local[node][held[node] as usize];
                demand += most;
                let local = self.lp.add_var(1.0, (0.0, most));
                self.local[node].push(local);
            }
            let (alpha, beta) = (self.machine.alpha[node], self.machine.beta[node]);
            if beta * demand > alpha {
                return None;
            }
            let remote = self.served_by(node);
            self.at_most(&remote, alpha - beta * demand);
            let local = self.local[node].iter().map(|&l| (l, 1.0)).collect();
            self.at_most(&[remote, local].concat(), alpha);
        }
        objective(&self.lp)
    }

    /// The most bandwidth over all core counts of one application, eqs. 7 and 8 as printed.
    fn integer_program(mut self) -> Option<f64> {
        let most: Vec<i32> = self.machine.cores.iter().map(|&n| n as i32).collect();
        let cores: Vec<Variable> = most
            .iter()
            .map(|&n| self.lp.add_integer_var(0.0, (0, n)))
            .collect();
        self.add_remote(|_, node| Count::Free(cores[node]));
        self.add_links();
        let big = f64::from(most.iter().max().unwrap() + 1);
        for (node, &count) in cores.iter().enumerate() {
            let table = &self.demands[0].local[node];
            let local = self.lp.add_var(1.0, (0.0, f64::INFINITY));
            let mut demand = Vec::new();
            for c in 1..=self.machine.cores[node] {
                let y = self.lp.add_integer_var(0.0, (0, 1));
                let c_f = f64::from(c);
                // B·y ≥ a − c + ε, c·y ≤ a.
                let above = [(y, big), (count, -1.0)];
                self.lp.add_constraint(above, ComparisonOp::Ge, 0.5 - c_f);
                self.lp
                    .add_constraint([(y, c_f), (count, -1.0)], ComparisonOp::Le, 0.0);
                demand.push((y, table[c as usize] - table[c as usize - 1]));
            }
            let scaled = |factor: f64| demand.iter().map(move |&(y, d)| (y, factor * d));
            let (alpha, beta) = (self.machine.alpha[node], self.machine.beta[node]);
            let remote = self.served_by(node);
            let limits: Vec<_> = [(local, 1.0)].into_iter().chain(scaled(-1.0)).collect();
            let reserve: Vec<_> = remote.iter().copied().chain(scaled(beta)).collect();
            self.at_most(&limits, 0.0);
            self.at_most(&reserve, alpha);
            self.at_most(&[remote, vec![(local, 1.0)]].concat(), alpha);
        }
        objective(&self.lp)
    }
}

fn objective(lp: &Problem) -> Option<f64> {
    match lp.solve() {
        Ok(SolveOutcome::Solution(solution)) => Some(solution.objective()),
        Ok(SolveOutcome::Interrupted(_)) => unreachable!("no limit was set"),
        Err(_) => None,
    }
}

/// All core counts by application and node that fit the machine.
fn all_allocations(cores: &[u32], apps: usize) -> Vec<Vec<Vec<u32>>> {
    let mut all = vec![vec![vec![0; cores.len()]; apps]];
    for node in 0..cores.len() {
        for app in 0..apps {
            all = all
                .into_iter()
                .flat_map(|allocation| {
                    let held: u32 = allocation.iter().map(|a| a[node]).sum();
                    (0..=cores[node] - held).map(move |count| {
                        let mut next = allocation.clone();
                        next[app][node] = count;
                        next
                    })
                })
                .collect();
        }
    }
    all
}

/// Core counts node by node, within a node application by application.
fn tie_order(allocation: &[Vec<u32>]) -> Vec<u32> {
    (0..allocation[0].len())
        .flat_map(|node| allocation.iter().map(move |a| a[node]))
        .collect()
}

/// All three stages by trying everything.
fn by_enumeration(
    machine: &MachineSpec,
    demands: &[Demand],
    charge: DramCharge,
) -> Option<(f64, Vec<Vec<u32>>)> {
    let tried: Vec<(f64, Vec<Vec<u32>>)> = all_allocations(&machine.cores, demands.len())
        .into_iter()
        .filter(|a| {
            demands
                .iter()
                .zip(a)
                .all(|(d, a)| a.iter().sum::<u32>() >= d.least_cores)
        })
        .filter_map(|a| Some((Written::new(machine, demands, charge).bandwidth(&a)?, a)))
        .collect();
    let most = tried.iter().map(|t| t.0).fold(f64::NEG_INFINITY, f64::max);
    let size = |a: &[Vec<u32>]| a.iter().flatten().sum::<u32>();
    let near: Vec<_> = tried
        .into_iter()
        .filter(|t| t.0 >= most - 1e-4 - 1e-9)
        .collect();
    let fewest = near.iter().map(|t| size(&t.1)).min()?;
    near.into_iter()
        .filter(|t| size(&t.1) == fewest)
        .max_by_key(|t| tie_order(&t.1))
        .map(|t| (most, t.1))
}

fn amount(most: f64) -> impl Strategy<Value = f64> {
    (0..=(most * 4.0) as u32).prop_map(|quarters| f64::from(quarters) / 4.0)
}

/// A ring with chords left out: some pairs have a link, some a route, some neither.
fn machines(nodes: usize, most_cores: u32) -> impl Strategy<Value = MachineSpec> {
    let pairs = nodes * nodes;
    (
        prop::collection::vec(0..=most_cores, nodes),
        prop::collection::vec(prop::option::weighted(0.8, amount(8.0)), pairs),
        prop::collection::vec(prop::option::of(amount(10.0)), pairs),
        prop::collection::vec(prop::option::of(amount(4.0)), pairs),
        prop::collection::vec(prop::option::of(amount(6.0)), pairs),
        prop::collection::vec(amount(12.0), nodes),
        prop::collection::vec(0..4u32, nodes),
    )
        .prop_map(
            move |(cores, physical, both, uni_virtual, both_virtual, alpha, beta)| {
                let mut spec = MachineSpec {
                    nodes,
                    cores,
                    alpha,
                    beta: beta.into_iter().map(|b| f64::from(b) * 0.25).collect(),
                    ..MachineSpec::default()
                };
                for from in 0..nodes {
                    for to in (0..nodes).filter(|&to| to != from) {
                        let at = from * nodes + to;
                        if let Some(limit) = physical[at] {
                            spec.physical.insert(Pair::new(from, to), limit);
                        }
                        if let (true, Some(limit)) = (from < to, both[at]) {
                            spec.physical_both_ways.insert(Pair::new(from, to), limit);
                        }
                    }
                }
                for from in 0..nodes {
                    for to in (0..nodes).filter(|&to| to != from) {
                        let (pair, at) = (Pair::new(from, to), from * nodes + to);
                        let linked = |a, b| spec.physical.contains_key(&Pair::new(a, b));
                        let via = (0..nodes).find(|&v| linked(from, v) && linked(v, to));
                        if let (false, Some(via)) = (linked(from, to), via) {
                            spec.route.insert(pair, vec![from, via, to]);
                            if let Some(limit) = uni_virtual[at] {
                                spec.virtual_one_way.insert(pair, limit);
                            }
                            if let Some(limit) = both_virtual[at] {
                                spec.virtual_both_ways.insert(pair.unordered(), limit);
                            }
                        }
                    }
                }
                spec
            },
        )
}

fn demands(machine: MachineSpec, apps: usize) -> impl Strategy<Value = (MachineSpec, Vec<Demand>)> {
    let nodes = machine.nodes;
    let pairs = nodes * nodes;
    let tables = prop::collection::vec(prop::collection::vec(amount(6.0), 8), nodes);
    let kind = 0..3u32;
    let one = (
        tables,
        kind,
        prop::collection::vec(prop::option::of(amount(3.0)), pairs),
        prop::collection::vec(prop::option::of(amount(3.0)), pairs),
        prop::sample::select(vec![0, 0, 0, 1, 2]),
    );
    (Just(machine), prop::collection::vec(one, apps)).prop_map(move |(machine, raw)| {
        let total: u32 = machine.cores.iter().sum();
        let demands = raw
            .into_iter()
            .map(|(tables, kind, reads, writes, least)| {
                let local = tables
                    .iter()
                    .zip(&machine.cores)
                    .map(|(table, &cores)| {
                        let mut sum = 0.0;
                        (0..=cores as usize)
                            .map(|c| match (c, kind) {
                                (0, _) => 0.0,
                                // Linear, rising by odd steps, or going up and down.
                                (_, 0) => c as f64 * table[0],
                                (_, 1) => {
                                    sum += table[c] / 2.0;
                                    sum
                                }
                                _ => table[c],
                            })
                            .collect()
                    })
                    .collect();
                let over = |rates: &[Option<f64>]| {
                    (0..pairs)
                        .map(|at| (Pair::new(at / nodes, at % nodes), rates[at]))
                        .filter(|(pair, _)| {
                            machine.physical.contains_key(pair) || machine.route.contains_key(pair)
                        })
                        .filter_map(|(pair, rate)| Some((pair, rate?)))
                        .collect()
                };
                Demand {
                    local,
                    reads: over(&reads),
                    writes: over(&writes),
                    least_cores: least.min(total),
                }
            })
            .collect();
        (machine, demands)
    })
}

fn case(
    nodes: usize,
    cores: u32,
    apps: usize,
) -> impl Strategy<Value = (MachineSpec, Vec<Demand>)> {
    machines(nodes, cores).prop_flat_map(move |machine| demands(machine, apps))
}

fn charge() -> impl Strategy<Value = DramCharge> {
    prop_oneof![Just(DramCharge::AsPrinted), Just(DramCharge::AtTheTarget)]
}

fn check_against_enumeration(
    spec: &MachineSpec,
    demands: &[Demand],
    charge: DramCharge,
) -> Result<(), TestCaseError> {
    let machine = Machine::new(spec.clone()).unwrap();
    let program = Program::new(&machine, demands, charge).unwrap();
    let solved = program.solve(EffortLimit::default());
    let Some((most, allocation)) = by_enumeration(spec, demands, charge) else {
        prop_assert_eq!(solved, Err(NuCoreError::Infeasible));
        return Ok(());
    };
    let solved = solved.unwrap();
    prop_assert!(solved.proven);
    prop_assert_eq!(&solved.allocation.0, &allocation);
    prop_assert!((solved.total_bandwidth.get() - most).abs() <= 1e-4 + 1e-8);
    let predicted = program.bandwidth(&solved.allocation).unwrap();
    prop_assert!((predicted.total.get() - solved.total_bandwidth.get()).abs() < 1e-8);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn one_application_on_three_nodes_agrees_with_trying_everything(
        (spec, demands) in case(3, 3, 1), charge in charge(),
    ) {
        check_against_enumeration(&spec, &demands, charge)?;
    }

    #[test]
    fn one_application_on_four_nodes_agrees_with_trying_everything(
        (spec, demands) in case(4, 2, 1), charge in charge(),
    ) {
        check_against_enumeration(&spec, &demands, charge)?;
    }

    #[test]
    fn two_applications_agree_with_trying_everything(
        (spec, demands) in case(3, 2, 2), charge in charge(),
    ) {
        check_against_enumeration(&spec, &demands, charge)?;
    }

    #[test]
    fn three_applications_agree_with_trying_everything(
        (spec, demands) in case(2, 2, 3), charge in charge(),
    ) {
        check_against_enumeration(&spec, &demands, charge)?;
    }

    #[test]
    fn the_maximum_is_that_of_the_printed_integer_program(
        (spec, mut demands) in case(3, 3, 1), charge in charge(),
    ) {
        demands[0].least_cores = 0;
        let machine = Machine::new(spec.clone()).unwrap();
        let solved = Program::new(&machine, &demands, charge).unwrap()
            .solve(EffortLimit::default()).unwrap();
        let most = Written::new(&spec, &demands, charge).integer_program().unwrap();
        prop_assert!((solved.total_bandwidth.get() - most).abs() <= 1e-4 + 1e-6,
            "{} for {most}", solved.total_bandwidth);
    }

    #[test]
    fn the_prediction_agrees_with_the_library_and_adds_up(
        (spec, demands) in case(4, 3, 2), charge in charge(), pick in any::<u64>(),
    ) {
        let machine = Machine::new(spec.clone()).unwrap();
        let program = Program::new(&machine, &demands, charge).unwrap();
        let mut bits = pick;
        let mut allocation = vec![vec![0; 4]; 2];
        for node in 0..4 {
            let mut left = spec.cores[node];
            for app in &mut allocation {
                app[node] = (bits & 3) as u32 % (left + 1);
                left -= app[node];
                bits >>= 2;
            }
        }
        let predicted = program.bandwidth(&NodeAllocation(allocation.clone()));
        match Written::new(&spec, &demands, charge).bandwidth(&allocation) {
            None => {
                let overload = matches!(predicted, Err(NuCoreError::Overload { .. }));
                prop_assert!(overload);
            }
            Some(most) => {
                let predicted = predicted.unwrap();
                prop_assert!((predicted.total.get() - most).abs() < 1e-7);
                let local: f64 = predicted.local.iter().flatten().map(|b| b.get()).sum();
                let remote: f64 = predicted.remote.iter().map(|f| f.bandwidth.get()).sum();
                prop_assert!((local + remote - most).abs() < 1e-7);
            }
        }
    }
}
