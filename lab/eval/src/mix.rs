//! What runs together, as a user writes it: `20 SGD, 20 BSGD`. A number is the threads that the
//! program starts; without one it starts what its description says, else one for each CPU. `SGD@10`
//! arrives 10 s after the beginning.

use super::catalogue::Catalogue;
use super::policies::{Kind, Policy};
use anyhow::{Context as _, bail};
use mapper_report::output::counted;
use mapper_report::table::texts;
use mapper_sim::application::Elsewhere;
use mapper_sim::{AppModel, Machine};
use serde::{Deserialize, Serialize};

/// Other spellings that papers use.
const SPELLINGS: [(&str, &str); 9] = [
    ("svdpp", "SVD"),
    ("bgsd", "BSGD"),
    ("3dfft", "fft3d"),
    ("mem", "MemBench"),
    ("mc", "memcached"),
    ("ia", "InMemAnalytics"),
    ("ms", "Mediastreaming"),
    ("kmeans", "KM"),
    ("in-memory-analytics", "InMemAnalytics"),
];

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Member {
    /// Unique in the mix.
    pub(super) name: String,
    /// Which program it is: `SGD` of the second `SGD` of a mix, which is named `SGD.2`.
    pub(super) program: String,
    pub(super) threads: Option<u32>,
    pub(super) app: AppModel,
    #[serde(default)]
    pub(super) arrives_s: f64,
}

pub(super) fn parse(text: &str, catalogue: &Catalogue) -> anyhow::Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    for (place, part) in text.split(',').enumerate() {
        let at = || format!("mix {text:?}, program {}", place + 1);
        let mut member = member(part.trim(), catalogue).with_context(at)?;
        let program = &member.program;
        let same = members.iter().filter(|other| other.program == *program);
        match same.count() {
            0 => {}
            before => member.name = format!("{program}.{}", before + 1),
        }
        members.push(member);
    }
    Ok(members)
}

fn member(part: &str, catalogue: &Catalogue) -> anyhow::Result<Member> {
    if part.is_empty() {
        bail!("nothing there; write programs like \"20 SGD, 20 BSGD\"");
    }
    let (part, arrives_s) = match part.split_once('@') {
        Some((part, seconds)) => (part.trim(), arrival_s(seconds)?),
        None => (part, 0.0),
    };
    let (threads, name) = match part.split_once(char::is_whitespace) {
        Some((count, name)) => (Some(threads(count)?), name.trim()),
        None if part.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            bail!("{part:?} names no program; write a number and a name, like \"20 SGD\"")
        }
        None => (None, part),
    };
    let (program, app) = find(name, catalogue)?;
    Ok(Member {
        name: program.clone(),
        program,
        threads,
        app,
        arrives_s,
    })
}

fn arrival_s(text: &str) -> anyhow::Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(seconds) if (0.0..=1e5).contains(&seconds) => Ok(seconds),
        _ => bail!("{text:?} is no time of arrival; give seconds from 0 to 100000, like SGD@10"),
    }
}

fn threads(text: &str) -> anyhow::Result<u32> {
    match text.parse::<u32>() {
        Ok(count @ 1..=4096) => Ok(count),
        _ => bail!(
            "{text:?} is no number of threads; give 1 to 4096, and write programs between commas, like \
             \"20 SGD, 20 BSGD\""
        ),
    }
}

/// The application that a name means: the one of just this name; else one whose name differs in capitals
/// only; else what papers call so. A program of the user's is never taken for another that papers call so.
fn find(name: &str, catalogue: &Catalogue) -> anyhow::Result<(String, AppModel)> {
    let apps = &catalogue.apps;
    let same = |known: &str| known.eq_ignore_ascii_case(name);
    let mut alike = apps.iter().filter(|(known, _)| same(known));
    let found = match (apps.get_key_value(name), alike.next(), alike.next()) {
        (None, Some((one, _)), Some((other, _))) => {
            bail!("{name:?} may be {one} or {other}: write it in one of these ways")
        }
        (exact, alike, _) => exact.or(alike),
    };
    let mut spelled = SPELLINGS.iter().filter(|(spelling, _)| same(spelling));
    match found.or_else(|| apps.get_key_value(spelled.next()?.1)) {
        Some((name, app)) => Ok((name.clone(), app.clone())),
        None => {
            let known = texts(apps.keys()).join(", ");
            bail!("unknown application {name:?}: give one of {known}")
        }
    }
}

/// Refuses a mix that a machine has no room for, or that a policy does not fit.
pub(super) fn check(members: &[Member], machine: &Machine, policy: &Policy) -> anyhow::Result<()> {
    let (contexts, sockets, count) = (machine.contexts(), machine.spec.sockets, members.len());
    let (machine_name, policy_name) = (&machine.name, &policy.name);
    let on = format!(
        "but {machine_name} only {}",
        counted(contexts as usize, "CPU")
    );
    if count > contexts as usize {
        bail!("has {count} programs, {on}: leave some out");
    }
    let nodes = format!("but {machine_name} has {sockets} nodes");
    for Member { name, app, .. } in members {
        mapper_sim::service::check_served(app, name, machine)?;
        if let Some(node) = app.home_node.filter(|node| *node >= sockets) {
            bail!(
                "{name} has its memory on node {node}, {nodes}: give home_node below {sockets}, or leave it out"
            );
        }
        if let Elsewhere::Node(node) = app.elsewhere
            && node >= sockets
        {
            bail!(
                "{name} shares memory on node {node}, {nodes}: give a node below {sockets} in elsewhere, or leave \
                 it out"
            );
        }
        if policy.kind == Kind::Batch && app.service.is_some() {
            bail!(
                "under batch each program waits for the one before to end, and {name}, a service, never does: \
                 leave it out, or choose another policy"
            );
        }
    }
    if policy.alone && count > 1 {
        bail!(
            "has {count} programs, and {policy_name} is for one alone: leave the others out, or choose another policy"
        );
    }
    let started = |m: &Member| m.threads.or(m.app.threads).unwrap_or(contexts);
    let threads: u32 = members.iter().map(started).sum();
    if policy.cpu_for_each_thread && threads > contexts {
        bail!(
            "has {threads} threads, {on}, and {policy_name} gives each thread its own: write fewer, like \"{} {}\"",
            contexts / count.max(1) as u32,
            members.first().map_or("SGD", |m| m.program.as_str())
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::policies;
    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::presets().unwrap()
    }

    #[test]
    fn programs_have_a_name_and_may_have_threads_and_arrive_later() {
        let text = "20 SGD, canneal @ 2.5,82 x264 , svdpp, SGD@10, SGD";
        let mix = parse(text, &catalogue()).unwrap();
        let short = mix.iter();
        let short = short.map(|m| (m.name.as_str(), m.threads, m.arrives_s));
        let expected = [
            ("SGD", Some(20), 0.0),
            ("canneal", None, 2.5),
            ("x264", Some(82), 0.0),
            ("SVD", None, 0.0),
            ("SGD.2", None, 10.0),
            ("SGD.3", None, 0.0),
        ];
        assert_eq!(short.collect::<Vec<_>>(), expected);
        assert_eq!(mix[5].program, "SGD");
    }

    #[test]
    fn a_program_of_the_users_is_not_taken_for_what_papers_or_others_but_for_capitals_call_so() {
        let mut catalogue = catalogue();
        let named = |catalogue: &Catalogue, name: &str| {
            let mix = parse(&format!("20 {name}"), catalogue);
            mix.map(|mix| mix[0].name.clone())
                .map_err(|error| format!("{error:#}"))
        };
        assert_eq!(named(&catalogue, "mem").unwrap(), "MemBench");
        let own = catalogue.apps["SGD"].clone();
        for (_, papers_name) in SPELLINGS {
            assert!(catalogue.apps.contains_key(papers_name), "{papers_name}");
        }
        for (spelling, _) in SPELLINGS {
            catalogue.apps.insert(spelling.to_owned(), own.clone());
            assert_eq!(named(&catalogue, spelling).unwrap(), spelling);
            assert_eq!(
                named(&catalogue, &spelling.to_uppercase()).unwrap(),
                spelling
            );
        }
        catalogue.apps.insert("sgd".into(), own);
        assert_eq!(named(&catalogue, "sgd").unwrap(), "sgd");
        assert_eq!(named(&catalogue, "SGD").unwrap(), "SGD");
        let shown = named(&catalogue, "Sgd").unwrap_err();
        assert!(shown.contains("\"Sgd\" may be SGD or sgd"), "{shown}");
    }

    #[test]
    fn an_error_in_a_mix_is_reported_with_place_and_fix() {
        for (mix, part) in [
            ("0 SGD", "\"0\" is no number of threads"),
            ("many SGD", "\"many\" is no number"),
            ("SGD; ALS", "between commas"),
            ("20", "names no program"),
            ("20 SDG", "unknown application \"SDG\": give one of"),
            ("SGD@soon", "\"soon\" is no time of arrival"),
            ("SGD@-1", "program 1"),
        ] {
            let shown = format!("{:#}", parse(mix, &catalogue()).unwrap_err());
            assert!(shown.contains(part), "{mix}: {shown}");
        }
    }

    #[test]
    fn a_mix_that_a_policy_or_machine_cannot_have_is_refused_with_the_fix() {
        let machine = mapper_sim::presets::machine("ivb40").unwrap();
        for case in [
            "sp-solve | linux",
            "40 SGD, 20 ALS | linux",
            "SGD, ALS | varuna | varuna is for one alone",
            "SGD, memcached | batch | memcached, a service, never does",
            "SGD on node 2 | linux | memory on node 2, but ivb40 has 2 nodes: give home_node below 2",
            "sp-solve and node 2 | linux | on node 2, but ivb40 has 2 nodes: give a node below 2",
            "40 SGD, 20 ALS | sam_mph | 60 threads",
            "40 SGD, 20 ALS | sam_mph | like \"20 SGD\"",
        ] {
            let mut parts = case.split(" | ");
            let (text, policy) = (parts.next().unwrap(), parts.next().unwrap());
            let plain = text.replace(" on node 2", "").replace(" and node 2", "");
            let mut mix = parse(&plain, &catalogue()).unwrap();
            if text.ends_with(" on node 2") {
                mix[0].app.home_node = Some(2);
            } else if text.ends_with(" and node 2") {
                mix[0].app.elsewhere = Elsewhere::Node(2);
            }
            let done = check(&mix, &machine, policies::find(policy).unwrap());
            let shown = done.err().map(|error| error.to_string());
            let Some(part) = parts.next() else {
                assert_eq!(shown, None, "{case}");
                continue;
            };
            let shown = shown.expect(case);
            assert!(shown.contains(part), "{shown}");
        }
    }
}
