//! Which runs a suite comes to, and under which keys.

use super::super::examples::{self, catalogue, protocol, suite};
use super::*;
use std::collections::BTreeSet;

const MIX: &str = "--mix=20 SGD, 20 ALS";

/// What a suite comes to with one seed.
fn planned_under(protocol: &Protocol, suite: &Suite) -> anyhow::Result<Plan> {
    let (mut plan, mut changes) = (Plan::default(), Changes::default());
    changes.seeds = Some(1);
    plan.add(suite, protocol, catalogue(), &changes)?;
    Ok(plan)
}

fn planned(suite: &Suite) -> Plan {
    planned_under(protocol(), suite).unwrap()
}

/// What a command line comes to.
fn given(flags: &[&str]) -> Plan {
    examples::plan(flags).unwrap()
}

fn keys(plan: &Plan, policy: &str) -> BTreeSet<String> {
    let of = plan.runs.iter().filter(|(_, spec)| spec.policy == policy);
    of.map(|(key, _)| key.clone()).collect()
}

fn small() -> Suite {
    suite("s", &["20 SGD, 20 ALS"], &["mapper", "linux"])
}

#[test]
fn the_key_of_a_run_changes_with_whatever_its_result_depends_on() {
    let usual = keys(&given(&[MIX, "--policy=mapper", "--seeds=1"]), "mapper");
    assert_eq!(usual, keys(&planned(&small()), "mapper"));
    assert_eq!(usual.len(), 1);
    for (mix, flag) in [
        ("--mix=20 SGD, 21 ALS", None),
        ("--mix=20 SGD, 20 ALS@1", None),
        (MIX, Some("--machine=ivb40")),
        (MIX, Some("--follow")),
        (MIX, Some("--set=decision_s=0")),
        (MIX, Some("--set=SGD.mpki*=2")),
        (MIX, Some("--qos=0.8")),
        (MIX, Some("--interval=0.5")),
    ] {
        let flags: Vec<&str> = [mix, "--policy=mapper", "--seeds=1"]
            .into_iter()
            .chain(flag)
            .collect();
        assert!(
            usual.is_disjoint(&keys(&given(&flags), "mapper")),
            "{flags:?}"
        );
    }
    let mut others = [protocol(), protocol(), protocol()].map(Protocol::clone);
    others[0].constants.spin_wait *= 1.5;
    others[1].longest_times += 1;
    others[2].overhead_budget = None;
    for (what, other) in ["constant", "length of runs", "budget"].iter().zip(&others) {
        let other = planned_under(other, &small()).unwrap();
        assert!(usual.is_disjoint(&keys(&other, "mapper")), "{what}");
    }
}

#[test]
fn the_key_of_a_run_does_not_change_with_what_its_result_does_not_depend_on() {
    let usual = planned(&small());
    let renamed = suite("t", &["20 SGD, 20 ALS"], &["linux", "mapper"]);
    let mut protocol = protocol().clone();
    (protocol.version, protocol.sha256) = (99, "other".into());
    let other = planned_under(&protocol, &renamed).unwrap();
    for policy in ["mapper", "linux"] {
        assert_eq!(keys(&usual, policy), keys(&other, policy), "{policy}");
    }
    // Plain Linux knows no promise and no interval.
    let other = given(&[MIX, "--policy=linux", "--qos=0.5", "--interval=0.1"]);
    assert_eq!(keys(&usual, "linux"), keys(&other, "linux"));
}

#[test]
fn what_two_suites_have_in_common_is_run_once_and_what_decides_once_for_all_seeds() {
    let mut plan = planned(&small());
    let runs = plan.runs.len();
    let one = Changes {
        seeds: Some(1),
        ..Changes::default()
    };
    plan.add(&small(), protocol(), catalogue(), &one).unwrap();
    assert_eq!((plan.runs.len(), plan.suites.len()), (runs, 2));

    let plan = given(&[MIX, "--policy=mapper,linux", "--seeds=4"]);
    assert_eq!(keys(&plan, "mapper").len(), 4);
    assert_eq!(keys(&plan, "linux").len(), 1);
    for (policy, keys) in &plan.suites[0].mixes[0].policies {
        // Nor does the one run count four times.
        assert_eq!(keys.len(), if policy == "linux" { 1 } else { 4 });
    }
    let plan = given(&[MIX, "--policy=mapper"]);
    assert_eq!(keys(&plan, "mapper").len(), protocol().seeds.len());
}

#[test]
fn the_command_line_wins_over_the_suite_and_that_over_the_protocol() {
    let run = |policy: &str, qos: [Option<f64>; 2], interval_s: [Option<f64>; 2]| {
        let mut suite = suite("s", &["20 SGD, 20 ALS"], &[policy]);
        (suite.qos, suite.interval_s) = (qos[0], interval_s[0]);
        let mut changes = Changes::default();
        (changes.qos, changes.interval_s) = (qos[1], interval_s[1]);
        let mut plan = Plan::default();
        plan.add(&suite, protocol(), catalogue(), &changes).unwrap();
        let spec = plan
            .runs
            .values()
            .find(|spec| spec.policy == policy)
            .unwrap();
        (plan.suites[0].promised, spec.qos, spec.interval_s)
    };
    let usual = [None; 2];
    let protocol = protocol();
    for (qos, expected) in [
        (usual, protocol.qos),
        ([Some(0.75), None], 0.75),
        ([Some(0.75), Some(0.95)], 0.95),
    ] {
        let (promised, of_run, _) = run("mapper", qos, usual);
        assert_eq!([promised, of_run], [expected; 2]);
    }
    for (policy, interval_s, expected) in [
        ("mapper", usual, protocol.interval_s),
        ("sam", usual, protocol.placement_interval_s),
        ("mapper", [Some(0.5), None], 0.5),
        ("mapper", [Some(0.5), Some(0.02)], 0.02),
    ] {
        assert_eq!(run(policy, usual, interval_s).2, expected);
    }
}

#[test]
fn what_speeds_and_promises_are_related_to_is_run_once_for_each_program_alone_or_the_mix() {
    let related = |relative, mix, policy| {
        let mut suite = suite("s", &[mix], &[policy]);
        suite.relative = relative;
        planned(&suite)
    };
    for (relative, policy, expected) in [
        (Relative::Alone, "mapper-next", true),
        (Relative::Alone, "linux", false),
        (Relative::Alone, "sam", false),
        (Relative::Fair, "linux", true),
    ] {
        let plan = related(relative, "SGD", policy);
        assert_eq!(plan.suites[0].mixes[0].fair.is_some(), expected, "{policy}");
    }
    let plan = related(Relative::BestStatic, "20 SGD, 10 ALS@30", "linux");
    let alone = plan.suites[0].mixes[0].alone.iter().map(|key| {
        let members = &plan.runs[key].members;
        // From the beginning.
        assert_eq!((members.len(), members[0].arrives_s), (1, 0.0));
        members[0].name.as_str()
    });
    assert_eq!(alone.collect::<Vec<_>>(), ["SGD", "ALS"]);
}

#[test]
fn a_suite_that_cannot_be_run_is_refused_with_what_is_wrong() {
    let many = vec!["SGD"; 81].join(", ");
    let machine = "cray".into();
    let of = |mix, policies| suite("s", &[mix], policies);
    for (suite, parts) in [
        (
            of(&many, &["linux"]),
            ["81 programs, but", "hsw80 only 80 CPUs"],
        ),
        (
            of("SGD, ALS", &["varuna"]),
            ["mix \"SGD, ALS\"", "is for one alone"],
        ),
        (of("SGD", &["linus"]), ["\"linus\"", "mapper-next"]),
        (
            of("SGD", &["linux", "fair", "linux"]),
            ["suite s", "linux twice"],
        ),
        (Suite { machine, ..small() }, ["\"cray\"", "suite s"]),
    ] {
        let text = format!("{:#}", planned_under(protocol(), &suite).err().unwrap());
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn a_mix_that_fits_no_more_on_what_is_made_of_the_machine_is_refused_with_the_setting() {
    let less = ["--mix=80 SGD", "--policy=sam", "--set=machine.sockets=1"];
    let threads = format!("{:#}", examples::plan(&less).err().unwrap());
    for part in [
        "80 threads, but hsw80 only 20 CPUs",
        "--set machine.sockets=1",
    ] {
        assert!(threads.contains(part), "{threads}");
    }
    // Nor is one refused that a larger machine has room for, and its report has all CPUs.
    let wide = given(&["--mix=160 SGD", "--policy=sam", "--set=machine.sockets=8"]);
    assert_eq!(wide.suites[0].cpus, 160);
}

#[test]
fn programs_at_home_have_their_memory_on_the_first_node_and_others_do_not() {
    let mut suite = small();
    suite.home = vec!["ALS".into()];
    for spec in planned(&suite).runs.values() {
        let homes: Vec<_> = spec.members.iter().map(|m| m.app.home_node).collect();
        assert_eq!(homes, [None, Some(0)]);
    }
}
