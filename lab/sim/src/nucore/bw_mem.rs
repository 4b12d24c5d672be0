//! The machine as NuCore's authors measured it: with a program that streams on chosen cores from the memory of a chosen
//! node (`bw_mem` of lmbench) [NuCore §6.4, §6.5]. Measured in the model, so that the integer program is not handed the
//! model's own parameters.
//!
//! * One way from node j to i: the most that one to all cores of i read from j.
//! * Both ways: the most that as many cores of i and j read from each other.
//! * α and β: c cores of node k read from it, and one to all cores of each other node do, too. The most that these others
//!   get together, against what the c cores would ask alone: α is the intercept and −β the slope of the line of least
//!   squares (Figure 10).

use super::allocation::AllocationError;
use crate::application::Behaviour;
use crate::constants::Constants;
use crate::machine::{LINE_BYTES, Machine};
use crate::performance::{Events, solve_spread};
use crate::stream::streaming;
use mapper_model::CpuSet;
use mapper_predict::nucore::{self, MachineSpec, Pair};

/// So many cores of a node that stream from another.
type Stream = (Pair, u32);

/// What was measured, as the integer program takes it.
pub(super) fn measured(
    machine: &Machine,
    constants: &Constants,
) -> Result<nucore::Machine, AllocationError> {
    let bench = Bench {
        machine,
        constants,
        streaming: streaming()?,
    };
    let nodes = machine.nodes();
    let mut spec = MachineSpec {
        name: machine.name.clone(),
        nodes,
        cores: vec![machine.spec.cores_per_socket; nodes],
        ..MachineSpec::default()
    };
    for from in 0..nodes {
        for to in (0..nodes).filter(|&to| to != from) {
            let pair = Pair::new(from, to);
            let one_way = bench.over(&[pair]);
            let both_ways = (from < to).then(|| bench.over(&[pair, pair.reversed()]));
            let (one, both) = match machine.route(from, to).len() {
                2 => {
                    spec.route.insert(pair, path(machine, pair));
                    (&mut spec.virtual_one_way, &mut spec.virtual_both_ways)
                }
                _ => (&mut spec.physical, &mut spec.physical_both_ways),
            };
            one.insert(pair, one_way);
            both.extend(both_ways.map(|limit| (pair, limit)));
        }
        let (alpha, beta) = bench.shared_memory(from);
        spec.alpha.push(alpha);
        spec.beta.push(beta);
    }
    nucore::Machine::new(spec).map_err(|source| AllocationError::of(machine, source))
}

/// The nodes that data pass over two links.
fn path(machine: &Machine, pair: Pair) -> Vec<usize> {
    let first = machine.route(pair.from, pair.to).first();
    let over = |via: &usize| {
        let route = machine.route(pair.from, *via);
        route.len() == 1 && route.first() == first
    };
    let mut path = vec![pair.from];
    path.extend((0..machine.nodes()).find(over));
    path.push(pair.to);
    path
}

struct Bench<'a> {
    machine: &'a Machine,
    constants: &'a Constants,
    streaming: Behaviour,
}

impl Bench<'_> {
    /// What the first so many streams get together while all run, in GB/s.
    fn received(&self, streams: &[Stream], counted: usize) -> f64 {
        let programs = streams.iter().map(|(pair, cores)| {
            let mut app = self.streaming;
            app.home_node = Some(pair.from);
            let context = |core| self.machine.context_at([pair.to as u32, core, 0]);
            (app, (0..*cores).filter_map(context).collect())
        });
        let programs: Vec<(Behaviour, CpuSet)> = programs.collect();
        let solution = solve_spread(self.machine, self.constants, &programs);
        let gb_per_s = |speed: &Events| speed.misses * LINE_BYTES / 1e9;
        solution.apps.iter().take(counted).map(gb_per_s).sum()
    }

    /// The most over one to all cores of a node.
    fn most(&self, received: impl Fn(u32) -> f64) -> f64 {
        let cores = 1..=self.machine.spec.cores_per_socket;
        cores.map(received).fold(0.0, f64::max)
    }

    /// The most that goes over these pairs together, with as many cores at each end.
    fn over(&self, pairs: &[Pair]) -> f64 {
        self.most(|cores| {
            let streams: Vec<Stream> = pairs.iter().map(|pair| (*pair, cores)).collect();
            self.received(&streams, streams.len())
        })
    }

    /// α and β of a node. The only node of a machine gives all to its own cores.
    fn shared_memory(&self, node: usize) -> (f64, f64) {
        let own = Pair::new(node, node);
        if self.machine.nodes() == 1 {
            return (self.over(&[own]), 0.0);
        }
        let each = self.received(&[(own, 1)], 1);
        let outgoing = |local: u32, of_each: u32| -> f64 {
            let others = (0..self.machine.nodes()).filter(|&to| to != node);
            let others = others.map(|to| (Pair::new(node, to), of_each));
            let mut streams: Vec<Stream> = others.collect();
            let away = streams.len();
            streams.extend((local > 0).then_some((own, local)));
            self.received(&streams, away)
        };
        let point = |local: u32| {
            let most = self.most(|of_each| outgoing(local, of_each));
            (f64::from(local) * each, most)
        };
        let line: Vec<_> = (0..=self.machine.spec.cores_per_socket)
            .map(point)
            .collect();
        let (intercept, slope) = least_squares(&line);
        (intercept.max(0.0), (-slope).max(0.0))
    }
}

/// Intercept and slope of the line through points of at least two different abscissas.
fn least_squares(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let (mut with_y, mut with_x) = (0.0, 0.0);
    for (x, y) in points {
        with_y += (x - mean_x) * (y - mean_y);
        with_x += (x - mean_x).powi(2);
    }
    let slope = with_y / with_x;
    (mean_y - slope * mean_x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::machine;

    fn spec(name: &str) -> MachineSpec {
        let measured = measured(&machine(name), &Constants::default()).unwrap();
        measured.spec().clone()
    }

    #[test]
    fn the_line_goes_through_points_that_lie_on_one() {
        let points = [0.0, 1.0, 3.0].map(|x| (x, 20.0 - 0.25 * x));
        let (intercept, slope) = least_squares(&points);
        assert!((intercept - 20.0).abs() < 1e-9 && (slope + 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_is_measured_of_a_link_or_memory_is_a_good_part_of_it_and_no_more() {
        let found = spec("x7550");
        assert_eq!(found.physical.len(), 12);
        assert!(found.route.is_empty());
        for (pair, one_way) in &found.physical {
            assert!((7.0..10.2).contains(one_way), "{pair}: {one_way}");
        }
        for (pair, both_ways) in &found.physical_both_ways {
            let one_way = found.physical[pair];
            assert!(*both_ways <= 2.0 * one_way + 1e-6 && *both_ways > one_way);
        }
        for (alpha, beta) in found.alpha.iter().zip(&found.beta) {
            assert!((12.0..20.26).contains(alpha), "{alpha}");
            assert!((0.01..1.0).contains(beta), "{beta}");
        }
    }

    #[test]
    fn pairs_without_a_link_have_the_route_and_the_limit_of_their_slowest_link() {
        let found = spec("opt48");
        assert_eq!(found.physical.len() + found.route.len(), 56);
        assert_eq!(found.route[&Pair::new(0, 7)], [0, 1, 7]);
        for (pair, route) in &found.route {
            let hops = route.windows(2).map(|hop| Pair::new(hop[0], hop[1]));
            let links = hops.map(|pair| found.physical[&pair]);
            let slowest = links.fold(f64::INFINITY, f64::min);
            let limit = found.virtual_one_way[pair];
            assert!(limit <= slowest + 1e-6, "{pair}: {limit} over {slowest}");
        }
    }
}
