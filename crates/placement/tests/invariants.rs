//! The invariants of [`mapper_placement::policy`], for every policy on machines and histories of all
//! kinds.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use mapper_model::random::SplitMix64;
use mapper_model::testing::{Machine, machines, usable};
use mapper_model::{
    Allocation, AppId, AppName, AppSpec, AppView, Bottleneck, CpuId, CpuSet, Explanation,
    MachineProfile, NodeShare, Placement, Placing, Profile, Rates, Share, Sharing, SharingClass,
    Snapshot, Topology, Trigger,
};
use mapper_placement::{POLICIES, PlacementConfig};
use proptest::prelude::*;

/// One moment in the life of a machine: who is there, how they behave, how many CPUs each gets.
struct Moment {
    usable: CpuSet,
    profiles: Vec<Profile>,
    allocation: Allocation,
    /// What each application may use, if not everything.
    allowed: Vec<Option<CpuSet>>,
}

fn pick<T: Copy>(numbers: &mut SplitMix64, from: &[T]) -> T {
    from[numbers.below(from.len() as u32) as usize]
}

fn profile(app: AppId, numbers: &mut SplitMix64) -> Profile {
    let odd = [0.0, 0.5, 1.7, f64::NAN, f64::INFINITY, 1e300];
    let maybe = |numbers: &mut SplitMix64, v: f64| (numbers.below(3) > 0).then_some(v);
    let spc = pick(numbers, &[300.0, 600.0, f64::NAN]);
    let ipc = pick(numbers, &odd);
    let misses = pick(numbers, &[0.0, 1e6, 5e8, f64::NAN, -1.0]);
    Profile {
        bottleneck: pick(
            numbers,
            &[
                Bottleneck::Sharing,
                Bottleneck::Memory,
                Bottleneck::Compute,
                Bottleneck::None,
            ],
        ),
        severity: pick(numbers, &odd),
        class: pick(
            numbers,
            &[SharingClass::Low, SharingClass::Medium, SharingClass::High],
        ),
        ipc_high: numbers.below(3) == 0,
        spc: maybe(numbers, spc),
        ipc: maybe(numbers, ipc),
        rates: (numbers.below(4) > 0).then(|| Rates {
            active_threads: 4,
            llc_misses_per_s: maybe(numbers, misses),
            sharing_per_cycle: maybe(numbers, 0.001),
            ..Rates::default()
        }),
        ..Profile::unknown(app)
    }
}

fn share(app: AppId, cpus: u32, sharing: Sharing) -> Share {
    Share {
        app,
        cpus,
        sharing,
        by_node: None,
        fair: cpus,
        floor: None,
        spare: 0,
        norm_eff: None,
        state: String::new(),
        explanation: Explanation::default(),
    }
}

/// A valid allocation of `usable` to `apps`, with CPUs per node for some of them.
fn allocation(
    topology: &Topology,
    usable: &CpuSet,
    apps: u32,
    numbers: &mut SplitMix64,
) -> Allocation {
    let cpus = usable.len();
    let ids = (1..=u64::from(apps)).map(AppId);
    if apps > cpus {
        let shares = ids.map(|app| share(app, 1, Sharing::Slot((app.0 as u32 - 1) % cpus)));
        return Allocation {
            shares: shares.collect(),
            ..Allocation::default()
        };
    }
    let mut left = cpus - apps;
    let mut room: Vec<NodeShare> = topology
        .nodes()
        .iter()
        .map(|n| NodeShare {
            node: n.id,
            cpus: n.cpus.overlap(usable),
        })
        .collect();
    let decides_nodes = numbers.below(3) == 0;
    let mut shares = Vec::new();
    for app in ids {
        let more = match numbers.below(4) {
            0 => 0,
            1 => left.min(cpus / apps),
            _ => numbers.below(left + 1),
        };
        left -= more;
        let mut share = share(app, 1 + more, Sharing::Exclusive);
        if decides_nodes {
            let mut missing = share.cpus;
            let nodes = room.iter_mut().filter_map(|r| {
                let part = missing.min(r.cpus);
                r.cpus -= part;
                missing -= part;
                (part > 0).then_some(NodeShare {
                    node: r.node,
                    cpus: part,
                })
            });
            share.by_node = Some(nodes.collect());
        }
        shares.push(share);
    }
    Allocation {
        shares,
        transfers: Vec::new(),
        free: left,
        placing: Placing::default(),
    }
}

fn moment(topology: &Topology, apps: u32, numbers: &mut SplitMix64) -> Moment {
    let usable = usable(topology, numbers);
    let allocation = allocation(topology, &usable, apps, numbers);
    Moment {
        profiles: (1..=u64::from(apps))
            .map(|app| profile(AppId(app), numbers))
            .collect(),
        allowed: allowed(&usable, &allocation, numbers),
        allocation,
        usable,
    }
}

/// Sets that overlap, within which the counts of an allocation fit.
fn allowed(
    usable: &CpuSet,
    allocation: &Allocation,
    numbers: &mut SplitMix64,
) -> Vec<Option<CpuSet>> {
    let shared = |share: &Share| share.sharing != Sharing::Exclusive;
    if numbers.below(2) == 0 || allocation.shares.iter().any(shared) {
        return vec![None; allocation.shares.len()];
    }
    let mut cpus: Vec<CpuId> = usable.iter().collect();
    for i in (1..cpus.len()).rev() {
        cpus.swap(i, numbers.below(i as u32 + 1) as usize);
    }
    let mut left = cpus.into_iter();
    let shares = allocation.shares.iter();
    let sets = shares.map(|share| {
        let mut set: CpuSet = left.by_ref().take(share.cpus as usize).collect();
        let more = numbers.below(4);
        set.extend(usable.iter().filter(|_| numbers.below(8) < more));
        (numbers.below(2) == 0 && set != *usable).then_some(set)
    });
    sets.collect()
}

struct World {
    topology: Topology,
    machine: MachineProfile,
    spec: AppSpec,
}

impl World {
    fn new(machine: &Machine) -> Self {
        Self {
            topology: machine.topology(),
            machine: MachineProfile::default(),
            spec: AppSpec::named(AppName::new("any").unwrap()),
        }
    }

    fn place(&self, policy: &str, moment: &Moment, held: &[CpuSet]) -> Placement {
        let none = CpuSet::new();
        let held: Vec<CpuSet> = (0..moment.profiles.len())
            .map(|i| {
                let may = moment.allowed[i].as_ref().unwrap_or(&moment.usable);
                held.get(i).unwrap_or(&none).intersection(may)
            })
            .collect();
        let views: Vec<AppView<'_>> = moment
            .profiles
            .iter()
            .zip(&held)
            .zip(&moment.allowed)
            .map(|((profile, held), allowed)| AppView {
                app: profile.app,
                spec: &self.spec,
                profile,
                held,
                allowed: allowed.as_ref(),
            })
            .collect();
        let snapshot = Snapshot {
            tick: 1,
            now_ns: 0,
            trigger: Trigger::Interval,
            topology: &self.topology,
            usable: &moment.usable,
            machine: &self.machine,
            apps: &views,
        };
        let entry = mapper_placement::find(policy).unwrap();
        let policy = (entry.build)(&PlacementConfig::default());
        let placement = mapper_placement::place(policy.as_ref(), &snapshot, &moment.allocation);
        assert_eq!(
            placement,
            mapper_placement::place(policy.as_ref(), &snapshot, &moment.allocation),
            "the same input, another output"
        );
        placement
    }
}

fn sets(placement: &Placement) -> Vec<CpuSet> {
    placement.apps.iter().map(|a| a.cpus.clone()).collect()
}

fn assert_valid(policy: &str, moment: &Moment, placement: &Placement) -> Result<(), TestCaseError> {
    let shares = &moment.allocation.shares;
    prop_assert_eq!(placement.apps.len(), shares.len());
    let mut owned = CpuSet::new();
    let mut slots: Vec<(u32, CpuSet)> = Vec::new();
    for (place, share) in placement.apps.iter().zip(shares) {
        prop_assert_eq!(place.app, share.app);
        prop_assert_eq!(place.cpus.len(), share.cpus, "{}: {:?}", policy, place);
        prop_assert!(place.cpus.is_subset(&moment.usable), "{}", policy);
        let confined = moment.allowed.get(place.app.0 as usize - 1);
        if let Some(Some(allowed)) = confined {
            prop_assert!(
                place.cpus.is_subset(allowed),
                "{}: {:?} outside {}",
                policy,
                place,
                allowed
            );
        }
        if let Sharing::Slot(slot) = share.sharing {
            if let Some((_, cpus)) = slots.iter().find(|(s, _)| *s == slot) {
                prop_assert_eq!(cpus, &place.cpus, "{}: one slot, two CPUs", policy);
                continue;
            }
            slots.push((slot, place.cpus.clone()));
        }
        prop_assert!(place.cpus.is_disjoint(&owned), "{}: a CPU twice", policy);
        owned.insert_all(&place.cpus);
    }
    Ok(())
}

/// CPUs per node that were decided hold wherever they can.
fn assert_nodes(
    world: &World,
    moment: &Moment,
    placement: &Placement,
) -> Result<(), TestCaseError> {
    if moment.allowed.iter().any(Option::is_some) {
        return Ok(());
    }
    for (place, share) in placement.apps.iter().zip(&moment.allocation.shares) {
        for part in share.by_node.iter().flatten() {
            let here = world.topology.node_cpus(part.node).overlap(&place.cpus);
            prop_assert_eq!(here, part.cpus, "app {} on node {}", place.app, part.node);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_policy_keeps_the_invariants_through_any_history(
        machine in machines(),
        apps in 1u32..24,
        crowded in proptest::bool::weighted(0.15),
        seed in any::<u64>(),
    ) {
        let world = World::new(&machine);
        let apps = if crowded { apps + world.topology.cpus().len().min(40) } else { apps };
        for entry in POLICIES {
            let policy = entry.name;
            let numbers = &mut SplitMix64::new(seed);
            // The first held sets are rubbish: overlapping, too large, outside the machine.
            let mut held: Vec<CpuSet> = (0..numbers.below(apps + 1))
                .map(|_| (0..numbers.below(9)).map(|_| CpuId(numbers.below(2100))).collect())
                .collect();
            for _ in 0..4 {
                let moment = moment(&world.topology, 1 + numbers.below(apps), numbers);
                let first = world.place(policy, &moment, &held);
                assert_valid(policy, &moment, &first)?;
                // What is measured per CPU changes with the count, which `nupoco_swap` looks at;
                // from the second decision on nothing changes.
                let second = world.place(policy, &moment, &sets(&first));
                assert_valid(policy, &moment, &second)?;
                if policy == "nupoco_swap" {
                    let third = world.place(policy, &moment, &sets(&second));
                    prop_assert_eq!(&second, &third, "{} moves though nothing changed", policy);
                } else {
                    prop_assert_eq!(&first, &second, "{} moves though nothing changed", policy);
                    assert_nodes(&world, &moment, &second)?;
                }
                held = sets(&second);
            }
        }
    }

    #[test]
    fn with_nothing_but_counts_changed_baselines_keep_what_they_can(
        machine in machines(),
        apps in 1u32..12,
        seed in any::<u64>(),
    ) {
        let world = World::new(&machine);
        let everything = world.topology.cpus().clone();
        for policy in ["spread", "linear"] {
            let numbers = &mut SplitMix64::new(seed);
            let apps = apps.min(everything.len());
            let mut held: Vec<CpuSet> = Vec::new();
            for _ in 0..4 {
                let mut moment = moment(&world.topology, apps, numbers);
                moment.usable = everything.clone();
                moment.allowed.fill(None);
                moment.allocation = allocation(&world.topology, &everything, apps, numbers);
                moment.allocation.shares.iter_mut().for_each(|s| s.by_node = None);
                let placement = world.place(policy, &moment, &held);
                for (before, after) in held.iter().zip(&placement.apps) {
                    prop_assert!(
                        before.is_subset(&after.cpus) || after.cpus.is_subset(before),
                        "{}: from {} to {}", policy, before, after.cpus
                    );
                }
                held = sets(&placement);
            }
        }
    }

    #[test]
    fn no_core_is_shared_by_applications_while_whole_cores_are_enough(
        sockets in 1u32..=4,
        cores in 2u32..=16,
        apps in 1u32..10,
        seed in any::<u64>(),
    ) {
        let topology = Topology::regular(mapper_model::topology::Shape {
            sockets,
            cores_per_socket: cores,
            threads_per_core: 2,
        });
        let world = World {
            topology,
            machine: MachineProfile::default(),
            spec: AppSpec::named(AppName::new("any").unwrap()),
        };
        let numbers = &mut SplitMix64::new(seed);
        let all = sockets * cores;
        let apps = apps.min(all);
        let mut left = all - apps;
        let shares = (1..=u64::from(apps)).map(|app| {
            let more = numbers.below(left + 1);
            left -= more;
            // Whole cores, sometimes with one CPU less.
            share(AppId(app), 2 * (1 + more) - numbers.below(2), Sharing::Exclusive)
        });
        let moment = Moment {
            usable: world.topology.cpus().clone(),
            allocation: Allocation { shares: shares.collect(), ..Allocation::default() },
            allowed: vec![None; apps as usize],
            profiles: (1..=u64::from(apps)).map(|app| Profile::unknown(AppId(app))).collect(),
        };
        let placement = world.place("sam_mph", &moment, &[]);
        for core in world.topology.cores() {
            let owners = placement.apps.iter().filter(|a| !a.cpus.is_disjoint(core)).count();
            prop_assert!(owners <= 1, "core {} has {} owners: {:?}", core, owners, placement);
        }
    }
}
