//! Where `sam_mph` puts the application mixes of [SAM-MPH Tables 2 and 3], checked as rules.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use mapper_model::topology::Shape;
use mapper_model::{
    Allocation, AppId, AppName, AppSpec, AppView, Bottleneck, CpuSet, Explanation, MachineProfile,
    Placement, Profile, Share, Sharing, SharingClass, Snapshot, Strategy, Topology, Trigger,
};
use mapper_placement::{PlacementConfig, find};

/// How an application of the papers behaves [readings "Assumed per-app inputs"].
#[derive(Clone, Copy)]
struct App(&'static str, SharingClass, Option<f64>, f64, Bottleneck);

const SGD: App = App(
    "SGD",
    SharingClass::High,
    Some(398.0),
    0.62,
    Bottleneck::Sharing,
);
const BSGD: App = App(
    "BSGD",
    SharingClass::High,
    Some(421.0),
    0.60,
    Bottleneck::Sharing,
);
const LSGD: App = App(
    "LSGD",
    SharingClass::High,
    Some(455.0),
    0.58,
    Bottleneck::Sharing,
);
const SVD: App = App(
    "SVD",
    SharingClass::High,
    Some(442.0),
    0.75,
    Bottleneck::Sharing,
);
const RBM: App = App(
    "RBM",
    SharingClass::High,
    Some(403.0),
    0.80,
    Bottleneck::Sharing,
);
const HU: App = App(
    "HuBench",
    SharingClass::High,
    Some(745.0),
    0.35,
    Bottleneck::Sharing,
);
const ALS: App = App("ALS", SharingClass::Medium, None, 1.15, Bottleneck::Compute);
const PMF: App = App("PMF", SharingClass::Medium, None, 1.10, Bottleneck::Compute);
const LU: App = App(
    "LuBench",
    SharingClass::Medium,
    None,
    1.6,
    Bottleneck::Compute,
);
const MEM: App = App("Mem", SharingClass::Low, None, 0.3, Bottleneck::Memory);
const CPU: App = App("CPU", SharingClass::Low, None, 1.9, Bottleneck::Compute);
const ANY: App = App("any", SharingClass::Low, None, 0.5, Bottleneck::None);

fn ivy_bridge() -> Topology {
    Topology::regular(Shape {
        sockets: 2,
        cores_per_socket: 10,
        threads_per_core: 2,
    })
}

fn haswell() -> Topology {
    Topology::regular(Shape {
        sockets: 4,
        cores_per_socket: 10,
        threads_per_core: 2,
    })
}

/// A machine with applications on it.
struct Bench {
    policy: &'static str,
    topology: Topology,
    usable: CpuSet,
    held: Vec<CpuSet>,
    placement: Placement,
}

impl Bench {
    fn new(topology: Topology) -> Self {
        Self {
            policy: "sam_mph",
            usable: topology.cpus().clone(),
            topology,
            held: Vec::new(),
            placement: Placement::default(),
        }
    }

    /// Places a mix from where everybody is.
    fn place(&mut self, mix: &[(u32, App)]) -> &mut Self {
        let spec = AppSpec::named(AppName::new("app").unwrap());
        let profiles: Vec<Profile> = (1..)
            .zip(mix)
            .map(|(id, (_, app))| Profile {
                class: app.1,
                spc: app.2,
                ipc: Some(app.3),
                ipc_high: app.3 > 0.9,
                bottleneck: app.4,
                severity: 1.0,
                ..Profile::unknown(AppId(id))
            })
            .collect();
        let none = CpuSet::new();
        let views: Vec<AppView<'_>> = profiles
            .iter()
            .enumerate()
            .map(|(i, profile)| AppView {
                app: profile.app,
                spec: &spec,
                profile,
                held: self.held.get(i).unwrap_or(&none),
                allowed: None,
            })
            .collect();
        let shares = profiles.iter().zip(mix).map(|(profile, (cpus, _))| Share {
            app: profile.app,
            cpus: *cpus,
            sharing: Sharing::Exclusive,
            by_node: None,
            fair: *cpus,
            floor: None,
            spare: 0,
            norm_eff: None,
            state: String::new(),
            explanation: Explanation::default(),
        });
        let allocation = Allocation {
            shares: shares.collect(),
            ..Allocation::default()
        };
        let snapshot = Snapshot {
            tick: 1,
            now_ns: 0,
            trigger: Trigger::Interval,
            topology: &self.topology,
            usable: &self.usable,
            machine: &MachineProfile::default(),
            apps: &views,
        };
        let policy = (find(self.policy).unwrap().build)(&PlacementConfig::default());
        self.placement = policy.place(&snapshot, &allocation);
        self.held = self.placement.apps.iter().map(|a| a.cpus.clone()).collect();
        self
    }

    fn cpus(&self, app: usize) -> &CpuSet {
        &self.placement.apps[app].cpus
    }

    /// CPUs of an application by socket.
    fn by_socket(&self, app: usize) -> Vec<u32> {
        let sockets = self.topology.sockets().iter();
        sockets.map(|s| s.overlap(self.cpus(app))).collect()
    }

    fn sockets_used(&self, app: usize) -> usize {
        self.by_socket(app).iter().filter(|c| **c > 0).count()
    }

    /// The number of cores on which an application has more than one thread.
    fn self_shared_cores(&self, app: usize) -> usize {
        let cores = self.topology.cores().iter();
        cores.filter(|c| c.overlap(self.cpus(app)) > 1).count()
    }

    /// The number of cores that two applications use.
    fn cores_in_common(&self, a: usize, b: usize) -> usize {
        let cores = self.topology.cores().iter();
        cores
            .filter(|c| c.overlap(self.cpus(a)) > 0 && c.overlap(self.cpus(b)) > 0)
            .count()
    }
}

fn placed(topology: Topology, mix: &[(u32, App)]) -> Bench {
    let mut bench = Bench::new(topology);
    bench.place(mix);
    bench
}

#[test]
fn two_sharing_applications_get_a_socket_each() {
    for other in [BSGD, LSGD, SVD] {
        for n in [6, 8, 10, 20] {
            let b = placed(ivy_bridge(), &[(n, SGD), (n, other)]);
            assert_eq!((b.sockets_used(0), b.sockets_used(1)), (1, 1), "{n}");
            assert_eq!(
                b.by_socket(0).iter().position(|c| *c > 0),
                b.by_socket(1).iter().position(|c| *c == 0),
                "{n} {}: on the same socket",
                other.0
            );
            let doubled = if n == 20 { 10 } else { 0 };
            assert_eq!(b.self_shared_cores(0), doubled);
        }
    }
}

#[test]
fn busy_applications_fill_the_siblings_of_sharing_ones() {
    // Workloads 1 to 11: the two that share have a socket each, the busy one is spread over both,
    // each of its threads beside a thread of another application.
    for busy in [ALS, PMF] {
        for (a, b) in [(SGD, LSGD), (SGD, BSGD), (BSGD, LSGD), (SVD, RBM)] {
            let p = placed(ivy_bridge(), &[(12, busy), (14, a), (14, b)]);
            assert_eq!((p.sockets_used(1), p.sockets_used(2)), (1, 1));
            assert_eq!(p.self_shared_cores(0), 0, "{} {} {}", busy.0, a.0, b.0);
        }
    }
}

#[test]
fn a_busy_application_goes_to_more_sockets_rather_than_share_cores() {
    let b = placed(ivy_bridge(), &[(20, LU)]);
    assert_eq!((b.by_socket(0), b.self_shared_cores(0)), (vec![10, 10], 0));
    // But stays in one while there are cores.
    let b = placed(ivy_bridge(), &[(10, LU)]);
    assert_eq!((b.sockets_used(0), b.self_shared_cores(0)), (1, 0));
}

#[test]
fn a_busy_application_leaves_others_alone_while_there_are_idle_cores() {
    let b = placed(haswell(), &[(30, LU), (10, SGD)]);
    assert_eq!(b.cores_in_common(0, 1), 0, "{:?}", b.placement);
}

#[test]
fn much_sharing_with_little_to_hide_it_goes_onto_siblings() {
    let b = placed(ivy_bridge(), &[(10, HU)]);
    assert_eq!((b.sockets_used(0), b.self_shared_cores(0)), (1, 5));
    assert_eq!(b.placement.apps[0].strategy, Strategy::SameCore);
}

#[test]
fn memory_bound_threads_are_spread_over_sockets() {
    let b = placed(haswell(), &[(8, MEM)]);
    assert_eq!((b.by_socket(0), b.self_shared_cores(0)), (vec![2; 4], 0));
    // Workloads 19 to 21: nobody shares a core.
    let b = placed(ivy_bridge(), &[(6, SGD), (6, BSGD), (4, MEM), (4, CPU)]);
    assert_eq!(b.by_socket(2), [2, 2]);
    assert!(ivy_bridge().cores().iter().all(|core| {
        b.placement
            .apps
            .iter()
            .map(|a| a.cpus.overlap(core))
            .sum::<u32>()
            == 1
    }));
}

#[test]
fn four_sharing_applications_fill_four_sockets() {
    for mix in [[SGD, BSGD, SVD, ALS], [SGD, BSGD, RBM, LSGD]] {
        let b = placed(haswell(), &mix.map(|app| (20, app)));
        assert!(
            (0..4).all(|app| b.sockets_used(app) == 1),
            "{:?}",
            b.placement
        );
    }
    // Table 3, workloads 7 and 8: the busy one takes what the four sockets leave.
    let b = placed(
        haswell(),
        &[(16, SGD), (16, SVD), (16, ALS), (16, LSGD), (16, BSGD)],
    );
    assert!([0, 1, 3, 4].iter().all(|&app| b.sockets_used(app) == 1));
    assert_eq!((b.by_socket(2), b.self_shared_cores(2)), (vec![4; 4], 0));
}

#[test]
fn unknown_applications_share_no_core_and_few_sockets() {
    let b = placed(haswell(), &[(20, ANY), (20, ANY), (24, ANY), (16, ANY)]);
    for (a, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        assert_eq!(b.cores_in_common(a, other), 0, "{:?}", b.placement);
    }
    assert_eq!((b.sockets_used(0), b.sockets_used(1)), (1, 1));
    // With idle cores nobody doubles up.
    let b = placed(haswell(), &[(15, ANY), (9, ANY)]);
    assert_eq!((b.self_shared_cores(0), b.self_shared_cores(1)), (0, 0));
}

#[test]
fn who_starts_to_share_is_gathered_and_who_does_not_care_makes_room() {
    let mut b = Bench::new(ivy_bridge());
    let halves = ["0-4,20-24,10-14,30-34", "5-9,25-29,15-19,35-39"];
    b.held = halves.map(|list| list.parse().unwrap()).to_vec();
    b.place(&[(20, SGD), (20, ANY)]);
    assert_eq!((b.sockets_used(0), b.sockets_used(1)), (1, 1));
}

#[test]
fn who_neither_shares_nor_disturbs_is_left_where_it_is() {
    let mut b = Bench::new(ivy_bridge());
    let halves = ["0-4,20-24,10-14,30-34", "5-9,25-29,15-19,35-39"];
    b.held = halves.map(|list| list.parse().unwrap()).to_vec();
    b.place(&[(20, ANY), (20, ANY)]);
    assert_eq!(b.cpus(0).to_string(), "0-4,10-14,20-24,30-34");
}

#[test]
fn growth_keeps_what_is_held_and_gifts_come_from_the_smaller_part() {
    let mut b = placed(haswell(), &[(20, SGD), (20, ANY), (20, ANY), (20, ANY)]);
    let before = b.held.clone();
    b.place(&[(24, SGD), (16, ANY), (20, ANY), (20, ANY)]);
    assert!(before[0].is_subset(b.cpus(0)) && b.cpus(1).is_subset(&before[1]));
    assert_eq!((&before[2], &before[3]), (b.cpus(2), b.cpus(3)));
    // Back again: what came last goes first, so all are where they were.
    b.place(&[(20, SGD), (20, ANY), (20, ANY), (20, ANY)]);
    assert_eq!(before, b.held);
}

#[test]
fn offline_cpus_are_made_up_for_and_the_rest_stays() {
    let mut b = placed(ivy_bridge(), &[(10, SGD), (10, ANY)]);
    let before = b.held.clone();
    let gone = before[0].first_cpu().unwrap();
    b.usable.remove(gone);
    b.held[0].remove(gone);
    b.place(&[(10, SGD), (10, ANY)]);
    assert_eq!(b.cpus(0).overlap(&before[0]), 9);
    assert_eq!(b.cpus(1), &before[1]);
    assert_eq!(b.sockets_used(0), 1);
}

#[test]
fn a_sharing_application_fits_into_one_cache_of_a_chiplet_machine() {
    use mapper_model::testing::{Machine, Numbering};
    // Two sockets of four caches with four cores of two threads each.
    let topology = Machine {
        sockets: 2,
        caches_per_socket: 4,
        cores_per_cache: 4,
        threads_per_core: 2,
        nodes_per_socket: 1,
        memory_nodes: 1,
        uneven: false,
        hybrid: false,
        numbering: Numbering::ThreadsLast,
        seed: 0,
    }
    .topology();
    let b = placed(topology.clone(), &[(8, SGD), (12, LSGD), (4, ANY)]);
    let caches = |app: usize| {
        let all = topology.caches().iter();
        all.filter(|c| !c.is_disjoint(b.cpus(app))).count()
    };
    assert_eq!((caches(0), caches(1), caches(2)), (1, 2, 1));
    assert_eq!((b.sockets_used(0), b.sockets_used(1)), (1, 1));
}

#[test]
fn memory_bound_applications_leave_the_fast_cores_to_others() {
    use mapper_model::testing::{Machine, Numbering};
    // Eight fast cores with two threads, eight slow ones with one.
    let topology = Machine {
        sockets: 1,
        caches_per_socket: 1,
        cores_per_cache: 16,
        threads_per_core: 2,
        nodes_per_socket: 1,
        memory_nodes: 0,
        uneven: false,
        hybrid: true,
        numbering: Numbering::ThreadsFirst,
        seed: 0,
    }
    .topology();
    let b = placed(topology.clone(), &[(8, MEM), (8, CPU)]);
    let rank = |app: usize| {
        let cpus = b.cpus(app).iter();
        cpus.map(|c| u32::from(topology.thread(c).unwrap().rank.0))
            .sum::<u32>()
    };
    assert_eq!((rank(0), rank(1)), (0, 8));
}

/// Holds `counts[s]` CPUs of each socket `s`.
fn resident(topology: &Topology, counts: &[u32]) -> CpuSet {
    let sockets = topology.sockets().iter().zip(counts);
    sockets
        .flat_map(|(socket, count)| socket.iter().take(*count as usize))
        .collect()
}

proptest::proptest! {
    #[test]
    fn a_sharing_application_gathers_as_the_residency_rule_says(
        residency in proptest::collection::vec(0u32..=20, 4),
        target in 1u32..=20,
    ) {
        let mut b = Bench::new(haswell());
        b.held = vec![resident(&b.topology, &residency)];
        b.place(&[(target, SGD)]);
        let free: Vec<u32> = residency.iter().map(|r| 20 - r).collect();
        proptest::prop_assert_eq!(
            b.by_socket(0),
            mapper_placement::residency::colocate(&residency, &free, target)
        );
    }

    #[test]
    fn the_spread_policy_grows_and_gives_as_the_residency_rule_says(
        residency in proptest::collection::vec(0u32..=20, 4),
        target in 1u32..=80,
    ) {
        let mut b = Bench::new(haswell());
        b.policy = "spread";
        b.held = vec![resident(&b.topology, &residency)];
        b.place(&[(target, ANY)]);
        let free: Vec<u32> = residency.iter().map(|r| 20 - r).collect();
        // Which of equal sockets comes first depends on idle cores, which the rule does not know.
        let sorted = |mut counts: Vec<u32>| {
            counts.sort_unstable();
            counts
        };
        proptest::prop_assert_eq!(
            sorted(b.by_socket(0)),
            sorted(mapper_placement::residency::spread(&residency, &free, target))
        );
    }
}
