//! MAPPER in a closed loop: synthetic applications, the real monitor, decisions that take effect.

mod support;

use support::{World, flat, linear, machine};

/// 80 CPUs as in the paper.
fn paper_machine() -> mapper_model::Topology {
    machine(4, 10, 2)
}

#[test]
fn a_linear_application_ends_with_what_a_flat_one_gives_up_within_twenty_intervals() {
    for (sockets, cores) in [
        (4, 20),
        (1, 4),
        (1, 16),
        (1, 32),
        (1, 39),
        (2, 20),
        (8, 128),
    ] {
        let mut world = World::new("mapper", machine(sockets, cores, 1));
        world.arrive(linear());
        world.arrive(flat(30.0));
        let mut log = Vec::new();
        for _ in 0..20 {
            world.interval();
            log.push((world.counts(), world.sentences()));
        }
        let total = sockets * cores;
        assert_eq!(world.counts(), [total - 1, 1], "{log:#?}");
        assert_eq!(world.intervals(100), 0, "and stays there");
    }
}

#[test]
fn two_linear_applications_stay_at_their_fair_shares() {
    let mut world = World::new("mapper", paper_machine());
    world.arrive(linear());
    world.arrive(linear());
    world.intervals(20);
    assert_eq!(world.counts(), [40, 40]);
    assert_eq!(world.intervals(200), 0);
}

#[test]
fn on_two_cpus_two_applications_have_one_each_and_who_remains_has_both() {
    let mut world = World::new("mapper", machine(1, 2, 1));
    let first = world.arrive(linear());
    assert_eq!(world.counts(), [2]);
    world.arrive(linear());
    assert_eq!(world.counts(), [1, 1], "at once");
    assert_eq!(world.intervals(50), 0);
    world.leave(first);
    assert_eq!(world.counts(), [2], "at once");
    assert_eq!(world.intervals(50), 0);
}
