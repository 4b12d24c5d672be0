//! What runs together, as a user writes it: `20 SGD, 20 BSGD`. A number is the threads that the
//! program starts; without one it starts what its description says, else one for each CPU. `SGD@10`
//! arrives 10 s after the beginning.

use super::catalogue::Catalogue;
use anyhow::{Context as _, bail};
use mapper_report::output::counted;
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

/// Policies that place one program on an otherwise idle machine.
const ALONE: [&str; 5] = [
    "varuna",
    "crust",
    "nucore-static",
    "nucore-adjacent",
    "best-static",
];

/// A program of a mix.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Member {
    /// Unique in the mix.
    pub(super) name: String,
    /// Which program it is: `SGD` of the second `SGD` of a mix, which is named `SGD.2`.
    pub(super) program: String,
    /// Threads it starts, where told.
    pub(super) threads: Option<u32>,
    /// What it does.
    pub(super) app: AppModel,
    /// When it starts, in seconds.
    #[serde(default)]
    pub(super) arrives_s: f64,
}

/// Reads a mix.
pub(super) fn parse(text: &str, catalogue: &Catalogue) -> anyhow::Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    for (place, part) in text.split(',').enumerate() {
        let part = part.trim();
        let at = || format!("mix {text:?}, program {}", place + 1);
        if part.is_empty() {
            bail!(
                "{}: nothing there; write programs like \"20 SGD, 20 BSGD\"",
                at()
            );
        }
        let (part, arrives_s) = match part.split_once('@') {
            Some((part, seconds)) => (part.trim(), arrival_s(seconds).with_context(at)?),
            None => (part, 0.0),
        };
        let (threads, name) = match part.split_once(char::is_whitespace) {
            Some((count, name)) => (Some(threads(count).with_context(at)?), name.trim()),
            None if part.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                bail!(
                    "{}: {part:?} names no program; write a number and a name, like \"20 SGD\"",
                    at()
                )
            }
            None => (None, part),
        };
        let (program, app) = find(name, catalogue).with_context(at)?;
        let same = members.iter().filter(|m| m.program == program);
        let name = match same.count() {
            0 => program.clone(),
            others => format!("{program}.{}", others + 1),
        };
        members.push(Member {
            name,
            program,
            threads,
            app,
            arrives_s,
        });
    }
    Ok(members)
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
    let own = |(name, app): (&String, &AppModel)| (name.clone(), app.clone());
    if let Some(exact) = catalogue.apps.get_key_value(name) {
        return Ok(own(exact));
    }
    let alike: Vec<_> = catalogue
        .apps
        .iter()
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .collect();
    if let [one, other, ..] = alike[..] {
        bail!(
            "{name:?} may be {} or {}: write it in one of these ways",
            one.0,
            other.0
        );
    }
    let spelled = || {
        let spelled = SPELLINGS
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        catalogue.apps.get_key_value(spelled?.1)
    };
    match alike.first().copied().or_else(spelled) {
        Some(found) => Ok(own(found)),
        None => {
            let known: Vec<&str> = catalogue.apps.keys().map(String::as_str).collect();
            bail!(
                "unknown application {name:?}: give one of {}",
                known.join(", ")
            )
        }
    }
}

/// Checks that a mix can run on a machine under a policy.
pub(super) fn check(
    members: &[Member],
    machine: &Machine,
    policy: &str,
    text: &str,
) -> anyhow::Result<()> {
    let contexts = machine.contexts();
    if members.len() > contexts as usize {
        bail!(
            "mix {text:?} has {} programs, but {} only {}: leave some out",
            members.len(),
            machine.name,
            counted(contexts as usize, "CPU")
        );
    }
    let sockets = machine.spec.sockets;
    for member in members {
        mapper_sim::service::check_served(&member.app, &member.name, machine)
            .with_context(|| format!("mix {text:?}"))?;
        if let Some(node) = member.app.home_node.filter(|node| *node >= sockets) {
            bail!(
                "mix {text:?}: {} has its memory on node {node}, but {} has {sockets} nodes: give home_node \
                 below {sockets}, or leave it out",
                member.name,
                machine.name
            );
        }
        if let Elsewhere::Node(node) = member.app.elsewhere
            && node >= sockets
        {
            bail!(
                "mix {text:?}: {} shares memory on node {node}, but {} has {sockets} nodes: give a node \
                 below {sockets} in elsewhere, or leave it out",
                member.name,
                machine.name
            );
        }
        if policy == "batch" && member.app.service.is_some() {
            bail!(
                "mix {text:?}: under batch each program waits for the one before to end, and {}, a \
                 service, never does: leave it out, or choose another policy",
                member.name
            );
        }
    }
    if ALONE.contains(&policy) && members.len() > 1 {
        bail!(
            "mix {text:?} has {} programs, and {policy} is for one alone: leave the others out, or choose \
             another policy",
            members.len()
        );
    }
    if policy.starts_with("sam") || policy == "best-static" {
        let threads: u32 = members
            .iter()
            .map(|m| m.threads.or(m.app.threads).unwrap_or(contexts))
            .sum();
        if threads > contexts {
            bail!(
                "mix {text:?} has {threads} threads, but {} only {}, and {policy} gives each thread \
                 its own: write fewer, like \"{} {}\"",
                machine.name,
                counted(contexts as usize, "CPU"),
                contexts / members.len().max(1) as u32,
                members.first().map_or("SGD", |m| m.program.as_str())
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::presets().unwrap()
    }

    fn told(text: &str) -> String {
        format!("{:#}", parse(text, &catalogue()).unwrap_err())
    }

    #[test]
    fn programs_have_a_name_and_may_have_threads() {
        let mix = parse("20 SGD, canneal,82 x264 , svdpp", &catalogue()).unwrap();
        let short: Vec<_> = mix.iter().map(|m| (m.name.as_str(), m.threads)).collect();
        assert_eq!(
            short,
            [
                ("SGD", Some(20)),
                ("canneal", None),
                ("x264", Some(82)),
                ("SVD", None)
            ]
        );
    }

    #[test]
    fn a_program_may_arrive_later() {
        let mix = parse("SGD, 20 ALS@10, canneal @ 2.5", &catalogue()).unwrap();
        let times: Vec<f64> = mix.iter().map(|m| m.arrives_s).collect();
        assert_eq!(times, [0.0, 10.0, 2.5]);
        assert!(told("SGD@soon").contains("\"soon\" is no time of arrival"));
        assert!(told("SGD@-1").contains("program 1"));
    }

    #[test]
    fn the_same_program_twice_gets_two_names() {
        let mix = parse("SGD, SGD, SGD", &catalogue()).unwrap();
        let names: Vec<_> = mix.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["SGD", "SGD.2", "SGD.3"]);
        assert!(mix.iter().all(|member| member.program == "SGD"));
    }

    #[test]
    fn a_program_of_the_users_is_not_taken_for_what_papers_call_so() {
        let mut catalogue = catalogue();
        let named = |catalogue: &Catalogue, name: &str| {
            let mix = parse(&format!("20 {name}"), catalogue).unwrap();
            mix[0].name.clone()
        };
        assert_eq!(named(&catalogue, "mem"), "MemBench");
        let own = catalogue.apps["SGD"].clone();
        for (_, papers_name) in SPELLINGS {
            assert!(catalogue.apps.contains_key(papers_name), "{papers_name}");
        }
        for (spelling, _) in SPELLINGS {
            catalogue.apps.insert(spelling.to_owned(), own.clone());
            assert_eq!(named(&catalogue, spelling), spelling);
            assert_eq!(named(&catalogue, &spelling.to_uppercase()), spelling);
        }
    }

    #[test]
    fn a_name_that_two_programs_have_but_for_capitals_is_refused_unless_it_is_one_of_theirs() {
        let mut catalogue = catalogue();
        let own = catalogue.apps["ALS"].clone();
        catalogue.apps.insert("sgd".into(), own);
        assert_eq!(parse("sgd", &catalogue).unwrap()[0].program, "sgd");
        assert_eq!(parse("SGD", &catalogue).unwrap()[0].program, "SGD");
        let told = format!("{:#}", parse("Sgd", &catalogue).unwrap_err());
        assert!(told.contains("\"Sgd\" may be SGD or sgd"), "{told}");
    }

    #[test]
    fn an_error_in_a_mix_is_reported_with_place_and_fix() {
        assert!(told("20 SGD,").contains("program 2: nothing there"));
        assert!(told("0 SGD").contains("\"0\" is no number of threads"));
        assert!(told("many SGD").contains("\"many\" is no number"));
        assert!(told("SGD; ALS").contains("between commas"));
        assert!(told("20").contains("names no program"));
        assert!(told("20 SDG").contains("unknown application \"SDG\": give one of ALS"));
    }

    #[test]
    fn a_mix_that_a_policy_or_machine_cannot_have_is_refused_with_the_fix() {
        let machine = mapper_sim::presets::machine("ivb40").unwrap();
        let told = |text: &str, policy: &str, home: Option<u32>| {
            let mut mix = parse(text, &catalogue()).unwrap();
            mix[0].app.home_node = home;
            format!("{:#}", check(&mix, &machine, policy, "m").unwrap_err())
        };
        for (told, part) in [
            (told("SGD, ALS", "varuna", None), "varuna is for one alone"),
            (
                told("SGD, memcached", "batch", None),
                "memcached, a service, never does",
            ),
            (told("SGD", "linux", Some(2)), "give home_node below 2"),
        ] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn shared_memory_is_on_a_node_that_the_machine_has() {
        let machine = mapper_sim::presets::machine("ivb40").unwrap();
        let mut mix = parse("sp-solve", &catalogue()).unwrap();
        check(&mix, &machine, "linux", "m").unwrap();
        mix[0].app.elsewhere = Elsewhere::Node(2);
        let told = check(&mix, &machine, "linux", "m").unwrap_err().to_string();
        assert!(
            told.contains("on node 2, but ivb40 has 2 nodes: give a node below 2"),
            "{told}"
        );
    }

    #[test]
    fn more_threads_than_cpus_cannot_each_have_their_own() {
        let machine = mapper_sim::presets::machine("ivb40").unwrap();
        let mix = parse("40 SGD, 20 ALS", &catalogue()).unwrap();
        check(&mix, &machine, "linux", "m").unwrap();
        let told = check(&mix, &machine, "sam_mph", "m")
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("60 threads") && told.contains("20 SGD"),
            "{told}"
        );
    }
}
