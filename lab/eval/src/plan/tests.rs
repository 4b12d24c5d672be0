//! Which runs a suite comes to, and under which keys.

use super::super::examples::suite;
use super::*;
use mapper_report::workspace;
use std::collections::BTreeSet;

fn catalogue() -> Catalogue {
    Catalogue::presets().unwrap()
}

fn protocol() -> Protocol {
    let path = workspace::root().join(super::super::PROTOCOL);
    Protocol::read(&path).unwrap().0
}

fn planned_under(protocol: &Protocol, suite: &Suite, changes: &Changes) -> Plan {
    let mut plan = Plan::default();
    plan.add(suite, protocol, &catalogue(), changes).unwrap();
    plan
}

fn planned(suite: &Suite, changes: &Changes) -> Plan {
    planned_under(&protocol(), suite, changes)
}

fn one_seed() -> Changes {
    Changes {
        seeds: Some(1),
        ..Changes::default()
    }
}

/// Keys of the runs of a policy.
fn keys(plan: &Plan, policy: &str) -> BTreeSet<String> {
    let of = plan.runs.iter().filter(|(_, spec)| spec.policy == policy);
    of.map(|(key, _)| key.clone()).collect()
}

fn small() -> Suite {
    suite("s", &["20 SGD, 20 ALS"], &["mapper", "linux"])
}

#[test]
fn the_key_of_a_run_changes_with_whatever_its_result_depends_on() {
    let usual = keys(&planned(&small(), &one_seed()), "mapper");
    assert_eq!(usual.len(), 1);
    let changed = |what: &str, suite: &Suite, changes: &Changes, protocol: &Protocol| {
        let other = keys(&planned_under(protocol, suite, changes), "mapper");
        assert!(
            usual.is_disjoint(&other),
            "the same key with another {what}"
        );
    };
    let (protocol, one) = (protocol(), one_seed());
    changed(
        "mix",
        &suite("s", &["20 SGD, 21 ALS"], &["mapper"]),
        &one,
        &protocol,
    );
    changed(
        "arrival",
        &suite("s", &["20 SGD, 20 ALS@1"], &["mapper"]),
        &one,
        &protocol,
    );
    changed(
        "machine",
        &Suite {
            machine: "ivb40".into(),
            ..small()
        },
        &one,
        &protocol,
    );
    changed(
        "team",
        &Suite {
            teams: TeamsName::Follow,
            ..small()
        },
        &one,
        &protocol,
    );
    for (what, changes) in [
        (
            "--set of the model",
            Changes {
                settings: vec!["decision_s=0".parse().unwrap()],
                ..one_seed()
            },
        ),
        (
            "--set of a program",
            Changes {
                settings: vec!["SGD.mpki*=2".parse().unwrap()],
                ..one_seed()
            },
        ),
        (
            "--qos",
            Changes {
                qos: Some(0.8),
                ..one_seed()
            },
        ),
        (
            "--interval",
            Changes {
                interval_s: Some(0.5),
                ..one_seed()
            },
        ),
    ] {
        changed(what, &small(), &changes, &protocol);
    }
    let mut other = protocol.clone();
    other.constants.spin_wait *= 1.5;
    changed("constant of the protocol", &small(), &one, &other);
    let mut other = protocol.clone();
    other.longest_times += 1;
    changed("length of runs in the protocol", &small(), &one, &other);
    let mut other = protocol;
    other.overhead_budget = None;
    changed("budget in the protocol", &small(), &one, &other);
}

#[test]
fn the_key_of_a_run_does_not_change_with_what_its_result_does_not_depend_on() {
    let usual = planned(&small(), &one_seed());
    let renamed = Suite {
        title: "another".into(),
        policies: vec!["linux".into(), "mapper".into()],
        ..suite("t", &["20 SGD, 20 ALS"], &[])
    };
    let protocol = Protocol {
        version: 99,
        sha256: "other".into(),
        ..protocol()
    };
    let other = planned_under(&protocol, &renamed, &one_seed());
    for policy in ["mapper", "linux"] {
        assert_eq!(keys(&usual, policy), keys(&other, policy), "{policy}");
    }
    // Plain Linux knows no promise and no interval.
    let other = planned(
        &small(),
        &Changes {
            qos: Some(0.5),
            interval_s: Some(0.1),
            ..one_seed()
        },
    );
    assert_eq!(keys(&usual, "linux"), keys(&other, "linux"));
}

#[test]
fn what_two_suites_have_in_common_is_run_once() {
    let mut plan = planned(&small(), &one_seed());
    let runs = plan.runs.len();
    plan.add(&small(), &protocol(), &catalogue(), &one_seed())
        .unwrap();
    assert_eq!((plan.runs.len(), plan.suites.len()), (runs, 2));
}

#[test]
fn a_policy_that_measures_runs_with_every_seed_and_one_that_does_not_once() {
    let plan = planned(
        &small(),
        &Changes {
            seeds: Some(4),
            ..Changes::default()
        },
    );
    assert_eq!(keys(&plan, "mapper").len(), 4);
    assert_eq!(keys(&plan, "linux").len(), 1);
    for (policy, keys) in &plan.suites[0].mixes[0].policies {
        // Nor does the one run count four times.
        assert_eq!(keys.len(), if policy == "linux" { 1 } else { 4 });
    }
    let protocol = protocol();
    let plan = planned(&small(), &Changes::default());
    assert_eq!(keys(&plan, "mapper").len(), protocol.seeds.len());
}

#[test]
fn a_promise_on_the_command_line_wins_over_the_suites_and_that_over_the_protocols() {
    let promised = |of_suite, of_command_line| {
        let suite = Suite {
            qos: of_suite,
            ..small()
        };
        let plan = planned(
            &suite,
            &Changes {
                qos: of_command_line,
                ..one_seed()
            },
        );
        let mapper = plan.runs.values().find(|spec| spec.policy == "mapper");
        // What is judged is what was promised in the run.
        assert_eq!(mapper.unwrap().qos, plan.suites[0].promised);
        plan.suites[0].promised
    };
    assert_eq!(promised(None, None), protocol().qos);
    assert_eq!(promised(Some(0.75), None), 0.75);
    assert_eq!(promised(Some(0.75), Some(0.95)), 0.95);
}

#[test]
fn an_interval_on_the_command_line_wins_over_the_suites_and_that_over_the_policys() {
    let interval = |of_suite, of_command_line, policy: &str| {
        let suite = Suite {
            interval_s: of_suite,
            ..suite("s", &["20 SGD, 20 ALS"], &[policy])
        };
        let plan = planned(
            &suite,
            &Changes {
                interval_s: of_command_line,
                ..one_seed()
            },
        );
        let spec = plan.runs.values().find(|spec| spec.policy == policy);
        spec.unwrap().interval_s
    };
    let protocol = protocol();
    assert_eq!(interval(None, None, "mapper"), protocol.interval_s);
    assert_eq!(interval(None, None, "sam"), protocol.placement_interval_s);
    assert_eq!(interval(Some(0.5), None, "mapper"), 0.5);
    assert_eq!(interval(Some(0.5), Some(0.02), "mapper"), 0.02);
}

#[test]
fn the_fair_share_is_run_where_promises_are_judged_or_speeds_related_to_it() {
    let fair = |suite: &Suite| {
        planned(suite, &one_seed()).suites[0].mixes[0]
            .fair
            .is_some()
    };
    assert!(fair(&suite("s", &["SGD"], &["mapper-next"])));
    assert!(!fair(&suite("s", &["SGD"], &["linux", "sam"])));
    assert!(fair(&Suite {
        relative: Relative::Fair,
        ..suite("s", &["SGD"], &["linux"])
    }));
}

#[test]
fn what_speeds_are_related_to_alone_is_one_run_of_each_program_from_the_beginning() {
    let suite = Suite {
        relative: Relative::BestStatic,
        ..suite("s", &["20 SGD, 10 ALS@30"], &["linux"])
    };
    let plan = planned(&suite, &one_seed());
    let alone = &plan.suites[0].mixes[0].alone;
    let names = alone.iter().map(|key| {
        let members = &plan.runs[key].members;
        assert_eq!((members.len(), members[0].arrives_s), (1, 0.0));
        members[0].name.clone()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["SGD", "ALS"]);
}

#[test]
fn a_suite_that_cannot_be_run_is_refused_with_what_is_wrong() {
    let told = |suite: &Suite| {
        let mut plan = Plan::default();
        let done = plan.add(suite, &protocol(), &catalogue(), &one_seed());
        format!("{:#}", done.unwrap_err())
    };
    let many = vec!["SGD"; 81].join(", ");
    let many = told(&suite("s", &[&many], &["linux"]));
    assert!(
        many.contains("81 programs, but hsw80 only 80 CPUs"),
        "{many}"
    );
    let unknown = told(&suite("s", &["SGD"], &["linus"]));
    assert!(
        unknown.contains("\"linus\"") && unknown.contains("mapper-next"),
        "{unknown}"
    );
    let twice = told(&suite("s", &["SGD"], &["linux", "fair", "linux"]));
    assert!(
        twice.contains("suite s names policy linux twice"),
        "{twice}"
    );
    let machine = told(&Suite {
        machine: "cray".into(),
        ..small()
    });
    assert!(
        machine.contains("\"cray\"") && machine.contains("suite s"),
        "{machine}"
    );
}

#[test]
fn a_mix_that_fits_no_more_on_what_is_made_of_the_machine_is_refused_with_the_setting() {
    let with = |set: &[&str]| Changes {
        settings: set.iter().map(|set| set.parse().unwrap()).collect(),
        ..one_seed()
    };
    let told = |suite: &Suite, changes: &Changes| {
        let mut plan = Plan::default();
        let done = plan.add(suite, &protocol(), &catalogue(), changes);
        format!("{:#}", done.unwrap_err())
    };
    let one_cpu = with(&[
        "machine.sockets=1",
        "machine.cores_per_socket=1",
        "machine.threads_per_core=1",
    ]);
    let three = suite("s", &["SGD, canneal, ALS"], &["linux"]);
    let many = told(&three, &one_cpu);
    assert!(
        many.contains("has 3 programs, but hsw80 only 1 CPU: leave some out")
            && many.contains("--set machine.sockets=1"),
        "{many}"
    );
    let threads = told(
        &suite("s", &["80 SGD"], &["sam"]),
        &with(&["machine.sockets=1"]),
    );
    assert!(
        threads.contains("80 threads, but hsw80 only 20 CPUs"),
        "{threads}"
    );
    // Nor is one refused that a larger machine has room for, and its report has all CPUs.
    let wide = planned(
        &suite("s", &["160 SGD"], &["sam"]),
        &with(&["machine.sockets=8"]),
    );
    assert_eq!(wide.suites[0].cpus, 160);
}

#[test]
fn programs_at_home_have_their_memory_on_the_first_node_and_others_do_not() {
    let suite = Suite {
        home: vec!["ALS".into()],
        ..small()
    };
    let plan = planned(&suite, &one_seed());
    for spec in plan.runs.values() {
        let homes: Vec<_> = spec.members.iter().map(|m| m.app.home_node).collect();
        assert_eq!(homes, [None, Some(0)]);
    }
}
