//! How the programs of a mix are made to share the machine.

use anyhow::Context as _;
use serde::{Serialize, Serializer};

/// A setting that can be chosen on the command line.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, clap::ValueEnum)]
pub(crate) enum Choice {
    /// Plain Linux: every program as many threads as CPUs
    Plain,
    /// Each program pinned to its fair share of the CPUs, with as many threads
    Static,
    /// mapper moves CPUs and leaves threads alone
    Cpus,
    /// mapper as it is by default
    Mapper,
    /// mapper with OpenMP teams that follow the CPUs
    Follow,
    /// mapper with virtual teams
    Virtual,
    /// The static fair share, and the DLB library lends idle CPUs
    Dlb,
}

/// The settings that are compared unless others are asked for.
const DEFAULT: [Choice; 5] = [
    Choice::Plain,
    Choice::Static,
    Choice::Cpus,
    Choice::Mapper,
    Choice::Virtual,
];

/// One way for the programs to run.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Setting {
    Plain,
    Static,
    Managed {
        /// The allocation policy, if it is not the default one.
        policy: Option<String>,
        levers: Levers,
    },
    Dlb,
}

/// What mapper may do besides moving CPUs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Levers {
    /// Nothing: no runtime interface, and the program hears nothing of its CPUs.
    CpusOnly,
    /// What it does by default.
    Default,
    Follow,
    Virtual,
}

impl Levers {
    /// The arguments of `mapper-launch` for it.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::CpusOnly => &["--no-runtime"],
            Self::Default => &[],
            Self::Follow => &["--teams", "follow"],
            Self::Virtual => &["--teams", "virtual"],
        }
    }
}

impl Setting {
    /// Name in files and for `--setting`.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Plain => "plain".to_owned(),
            Self::Static => "static".to_owned(),
            Self::Dlb => "dlb".to_owned(),
            Self::Managed { policy, levers } => match (policy, levers) {
                (Some(policy), _) => format!("mapper:{policy}"),
                (None, Levers::CpusOnly) => "cpus".to_owned(),
                (None, Levers::Default) => "mapper".to_owned(),
                (None, Levers::Follow) => "follow".to_owned(),
                (None, Levers::Virtual) => "virtual".to_owned(),
            },
        }
    }

    /// Name for people.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Plain => "plain Linux".to_owned(),
            Self::Static => "static fair share".to_owned(),
            Self::Dlb => "DLB".to_owned(),
            Self::Managed { policy, levers } => match (policy, levers) {
                (Some(policy), _) => format!("mapper, {policy}"),
                (None, Levers::CpusOnly) => "mapper, CPUs only".to_owned(),
                (None, Levers::Default) => "mapper".to_owned(),
                (None, Levers::Follow) => "mapper, follow".to_owned(),
                (None, Levers::Virtual) => "mapper, virtual".to_owned(),
            },
        }
    }

    /// The number of its colour in the style sheet: mapper as it is has the first, plain Linux the
    /// grey one, and all other policies one together.
    pub(super) fn colour(&self) -> usize {
        match self {
            Self::Plain => 3,
            Self::Static => 1,
            Self::Dlb => 6,
            Self::Managed { policy, levers } => match (policy, levers) {
                (Some(_), _) => 5,
                (None, Levers::CpusOnly) => 2,
                (None, Levers::Default) => 0,
                (None, Levers::Virtual) => 4,
                (None, Levers::Follow) => 6,
            },
        }
    }

    /// What it is, for the report.
    pub(super) fn meaning(&self) -> String {
        match self {
            Self::Plain => {
                "every program starts as many threads as the machine has CPUs".to_owned()
            }
            Self::Static => "each program is pinned to its fair share of the CPUs and has as many \
                             threads; with fewer CPUs than programs one thread each"
                .to_owned(),
            Self::Dlb => "the static fair share, and DLB lends the CPUs of who waits".to_owned(),
            Self::Managed { policy, levers } => {
                let what = match levers {
                    Levers::CpusOnly => {
                        "mapper moves CPUs; programs and their runtimes are not told"
                    }
                    Levers::Default => "mapper-launch without options but for the promise",
                    Levers::Follow => "OpenMP teams follow the CPUs (--teams follow)",
                    Levers::Virtual => "virtual teams (--teams virtual)",
                };
                match policy {
                    Some(policy) => format!("{what}; CPUs are divided by the policy {policy}"),
                    None => what.to_owned(),
                }
            }
        }
    }

    /// Whether mapper promised something.
    pub(super) fn is_managed(&self) -> bool {
        matches!(self, Self::Managed { .. })
    }

    /// The allocation policy of the daemon that it needs: a name, or nothing for the default one.
    pub(super) fn policy(&self) -> Option<&str> {
        match self {
            Self::Managed { policy, .. } => policy.as_deref(),
            Self::Plain | Self::Static | Self::Dlb => None,
        }
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

/// Whether the DLB library is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DlbIs {
    Installed,
    Missing,
}

/// The settings of the command line, in the order of the report: those chosen, the default ones and
/// DLB's if none are, and mapper by each of `policies`.
///
/// # Errors
/// A policy that is not there, and DLB when it was asked for by name and is missing.
pub(super) fn select(
    chosen: &[Choice],
    policies: &[String],
    dlb: DlbIs,
) -> anyhow::Result<Vec<Setting>> {
    let mut wanted = chosen.to_vec();
    if wanted.is_empty() {
        wanted = DEFAULT.to_vec();
        if dlb == DlbIs::Installed {
            wanted.push(Choice::Dlb);
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    if dlb == DlbIs::Missing && wanted.contains(&Choice::Dlb) {
        anyhow::bail!(
            "--setting dlb: neither pkg-config nor the dynamic loader knows the DLB library; \
             install it from https://pm.bsc.es/dlb, or leave the setting out"
        );
    }
    let managed = |levers| Setting::Managed {
        policy: None,
        levers,
    };
    let mut settings: Vec<Setting> = wanted
        .into_iter()
        .map(|choice| match choice {
            Choice::Plain => Setting::Plain,
            Choice::Static => Setting::Static,
            Choice::Cpus => managed(Levers::CpusOnly),
            Choice::Mapper => managed(Levers::Default),
            Choice::Follow => managed(Levers::Follow),
            Choice::Virtual => managed(Levers::Virtual),
            Choice::Dlb => Setting::Dlb,
        })
        .collect();
    for name in policies {
        mapper_allocate::find(name).context("--policy with --live")?;
        let setting = Setting::Managed {
            policy: Some(name.clone()),
            levers: Levers::Default,
        };
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    Ok(settings)
}

/// The order in which a repetition of a mix goes through `count` settings: the rows of a Williams
/// square in turn. Over `count` repetitions (twice as many for an odd count, whose rows also run
/// backwards) every setting stands at every place, and follows every other one, equally often. Source:
/// Williams, *Experimental designs balanced for the estimation of residual effects of treatments*,
/// Australian Journal of Scientific Research A 2, 1949.
pub(super) fn order(count: usize, mix: usize, repetition: usize) -> impl Iterator<Item = usize> {
    let row = mix + repetition;
    let (shift, is_backwards) = match count % 2 {
        0 => (row, false),
        _ => (row / 2, row % 2 == 1),
    };
    (0..count).map(move |place| {
        let place = if is_backwards {
            count - 1 - place
        } else {
            place
        };
        // 0, 1, -1, 2, -2 and so on: all differences of neighbours are different.
        let zigzag = match place % 2 {
            0 => count - place / 2,
            _ => place.div_ceil(2),
        };
        (zigzag + shift) % count
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn keys(chosen: &[Choice], policies: &[&str], dlb: DlbIs) -> Vec<String> {
        let policies: Vec<String> = policies.iter().map(|&p| p.to_owned()).collect();
        let settings = select(chosen, &policies, dlb).unwrap();
        settings.iter().map(Setting::key).collect()
    }

    #[test]
    fn dlb_is_compared_where_it_is_installed() {
        let usual = ["plain", "static", "cpus", "mapper", "virtual"];
        assert_eq!(keys(&[], &[], DlbIs::Missing), usual);
        assert_eq!(keys(&[], &[], DlbIs::Installed).last().unwrap(), "dlb");
        let error = select(&[Choice::Dlb], &[], DlbIs::Missing).unwrap_err();
        assert!(error.to_string().contains("--setting dlb"), "{error}");
    }

    #[test]
    fn policies_are_compared_beside_the_settings_and_each_thing_once() {
        let found = keys(
            &[Choice::Mapper, Choice::Plain, Choice::Mapper],
            &["hill_climb", "hill_climb"],
            DlbIs::Missing,
        );
        assert_eq!(found, ["plain", "mapper", "mapper:hill_climb"]);
    }

    #[test]
    fn an_unknown_policy_is_refused_with_the_valid_ones() {
        let error = select(&[], &["genius".to_owned()], DlbIs::Missing).unwrap_err();
        let said = format!("{error:#}");
        assert!(
            said.contains("genius") && said.contains("hill_climb"),
            "{said}"
        );
    }

    #[test]
    fn no_setting_follows_another_much_more_often_than_any_other_does() {
        for count in 2..=8_usize {
            let mut followed = vec![vec![0_u32; count]; count];
            let mut first = vec![0_u32; count];
            for (mix, repetition) in (0..8).flat_map(|mix| (0..10).map(move |r| (mix, r))) {
                let order: Vec<usize> = order(count, mix, repetition).collect();
                first[order[0]] += 1;
                for pair in order.windows(2) {
                    followed[pair[0]][pair[1]] += 1;
                }
            }
            let pairs = (0..count).flat_map(|one| (0..count).map(move |other| (one, other)));
            let counts: Vec<u32> = pairs
                .filter(|(one, other)| one != other)
                .map(|(one, other)| followed[one][other])
                .collect();
            let spread =
                |counts: &[u32]| counts.iter().max().unwrap() - counts.iter().min().unwrap();
            assert!(spread(&counts) <= 2, "{count} settings: {followed:?}");
            assert!(spread(&first) <= 2, "{count} settings: {first:?}");
        }
    }

    #[test]
    fn every_repetition_runs_every_setting_in_another_order() {
        let orders: BTreeSet<Vec<usize>> = (0..4).map(|r| order(4, 1, r).collect()).collect();
        assert_eq!(orders.len(), 4);
        for order in orders {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 4);
        }
    }
}
