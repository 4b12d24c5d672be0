//! Which runs a suite comes to, and under which keys.

use super::super::examples::{catalogue, protocol, suite};
use super::*;
use std::collections::BTreeSet;

fn planned_under(protocol: &Protocol, suite: &Suite, changes: &Changes) -> Plan {
    let mut plan = Plan::default();
    plan.add(suite, protocol, catalogue(), changes).unwrap();
    plan
}

fn planned(suite: &Suite, changes: &Changes) -> Plan {
    planned_under(protocol(), suite, changes)
}

fn refused(suite: &Suite, changes: &Changes) -> String {
    let done = Plan::default().add(suite, protocol(), catalogue(), changes);
    format!("{:#}", done.unwrap_err())
}

fn set(settings: &[&str]) -> Changes {
    Changes {
        settings: settings.iter().map(|set| set.parse().unwrap()).collect(),
        ..one_seed()
    }
}

fn one_seed() -> Changes {
    Changes {
        seeds: Some(1),
        ..Changes::default()
    }
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
    let usual = keys(&planned(&small(), &one_seed()), "mapper");
    assert_eq!(usual.len(), 1);
    let changed = |what: &str, other: &Plan| {
        let same = usual.is_disjoint(&keys(other, "mapper"));
        assert!(same, "the same key with another {what}");
    };
    let mix = |mix| suite("s", &[mix], &["mapper"]);
    let machine = "ivb40".into();
    let teams = TeamsName::Follow;
    for (what, suite) in [
        ("mix", mix("20 SGD, 21 ALS")),
        ("arrival", mix("20 SGD, 20 ALS@1")),
        ("machine", Suite { machine, ..small() }),
        ("team", Suite { teams, ..small() }),
    ] {
        changed(what, &planned(&suite, &one_seed()));
    }
    let (qos, interval_s) = (Some(0.8), Some(0.5));
    for (what, changes) in [
        ("--set of the model", set(&["decision_s=0"])),
        ("--set of a program", set(&["SGD.mpki*=2"])),
        ("--qos", Changes { qos, ..one_seed() }),
        (
            "--interval",
            Changes {
                interval_s,
                ..one_seed()
            },
        ),
    ] {
        changed(what, &planned(&small(), &changes));
    }
    let mut others = [protocol(), protocol(), protocol()].map(Protocol::clone);
    others[0].constants.spin_wait *= 1.5;
    others[1].longest_times += 1;
    others[2].overhead_budget = None;
    for (what, other) in ["constant", "length of runs", "budget"].iter().zip(&others) {
        changed(what, &planned_under(other, &small(), &one_seed()));
    }
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
        ..protocol().clone()
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
    plan.add(&small(), protocol(), catalogue(), &one_seed())
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
    let plan = planned(&small(), &Changes::default());
    assert_eq!(keys(&plan, "mapper").len(), protocol().seeds.len());
}

#[test]
fn the_command_line_wins_over_the_suite_and_that_over_the_protocol() {
    let run = |suite: Suite, changes: Changes| {
        let plan = planned(&suite, &changes);
        let mut specs = plan.runs.values();
        let spec = specs.find(|spec| spec.policy == suite.policies[0]).unwrap();
        (spec.qos, plan.suites[0].promised, spec.interval_s)
    };
    let promised = |of_suite, of_command_line| {
        let suite = Suite {
            qos: of_suite,
            ..small()
        };
        let changes = Changes {
            qos: of_command_line,
            ..one_seed()
        };
        let (promised, judged, _) = run(suite, changes);
        assert_eq!(promised, judged);
        judged
    };
    assert_eq!(promised(None, None), protocol().qos);
    assert_eq!(promised(Some(0.75), None), 0.75);
    assert_eq!(promised(Some(0.75), Some(0.95)), 0.95);
    let interval = |of_suite, of_command_line, policy: &str| {
        let suite = suite("s", &["20 SGD, 20 ALS"], &[policy]);
        let suite = Suite {
            interval_s: of_suite,
            ..suite
        };
        run(
            suite,
            Changes {
                interval_s: of_command_line,
                ..one_seed()
            },
        )
        .2
    };
    assert_eq!(interval(None, None, "mapper"), protocol().interval_s);
    assert_eq!(interval(None, None, "sam"), protocol().placement_interval_s);
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
    let many = vec!["SGD"; 81].join(", ");
    let machine = "cray".into();
    for (suite, parts) in [
        (
            suite("s", &[&many], &["linux"]),
            ["81 programs, but", "hsw80 only 80 CPUs"],
        ),
        (
            suite("s", &["SGD"], &["linus"]),
            ["\"linus\"", "mapper-next"],
        ),
        (
            suite("s", &["SGD"], &["linux", "fair", "linux"]),
            ["suite s", "linux twice"],
        ),
        (Suite { machine, ..small() }, ["\"cray\"", "suite s"]),
    ] {
        let text = refused(&suite, &one_seed());
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn a_mix_that_fits_no_more_on_what_is_made_of_the_machine_is_refused_with_the_setting() {
    let less = set(&["machine.sockets=1"]);
    let threads = refused(&suite("s", &["80 SGD"], &["sam"]), &less);
    for part in [
        "80 threads, but hsw80 only 20 CPUs",
        "--set machine.sockets=1",
    ] {
        assert!(threads.contains(part), "{threads}");
    }
    // Nor is one refused that a larger machine has room for, and its report has all CPUs.
    let more = set(&["machine.sockets=8"]);
    let wide = planned(&suite("s", &["160 SGD"], &["sam"]), &more);
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
