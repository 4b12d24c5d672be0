//! The command line of an evaluation: what may be given, which of it makes sense together, the runs that it
//! means, and how it departs from the protocol.

use super::catalogue::Catalogue;
use super::plan::{self, Changes, Plan};
use super::policies;
use super::protocol::{Protocol, Suite};
use super::setting::{self, Setting};
use anyhow::{Context as _, bail};
use mapper_report::table::texts;
use mapper_sim::Teams;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The machine of a mix for which none was named.
const USUAL_MACHINE: &str = "hsw80";

/// Repeats the papers' evaluations in a model of their machines
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask eval --suite all --out report
  cargo xtask eval --mix \"20 SGD, 20 BSGD\" --machine ivb40 --policy linux,sam_mph
  cargo xtask eval --suite sam --set app.st=0

Ctrl-C waits up to ten seconds for the runs under way, reports what there is and ends with status 130; results
are kept, and the same command continues from there. docs/book/src/papers/README.md says what the numbers mean.")]
pub(crate) struct Args {
    /// Suites to run: all, validity (checks of the model itself), or how a name begins, such as mapper or
    /// sam-fig5; repeatable
    #[arg(long, value_name = "NAME")]
    pub(super) suite: Vec<String>,
    /// Programs that run together, such as "20 SGD, 20 BSGD", with --live such as md+cg; repeatable
    #[arg(long, value_name = "PROGRAMS", allow_hyphen_values = true, value_parser = no_flag)]
    pub(super) mix: Vec<String>,
    /// The machine for --mix [default: hsw80]
    #[arg(long, value_name = "NAME")]
    pub(super) machine: Option<String>,
    /// Policies to compare, in place of the suite's, with --live beside mapper's own; repeatable or
    /// separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) policy: Vec<String>,
    /// Whether OpenMP programs of --mix follow their allocation
    #[arg(long)]
    pub(super) follow: bool,
    /// What programs are promised, in place of the protocol's
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(super) qos: Option<f64>,
    /// Time between decisions in seconds, in place of the protocol's
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(super) interval: Option<f64>,
    /// How many seeds, in place of the protocol's
    #[arg(
        long,
        value_name = "COUNT",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub(super) seeds: Option<u32>,
    /// A file of applications of your own, written like lab/sim/presets/apps.toml
    #[arg(long, value_name = "FILE")]
    pub(super) apps: Option<PathBuf>,
    /// A file of machines of your own, written like lab/sim/presets/machines.toml
    #[arg(long, value_name = "FILE")]
    pub(super) machines: Option<PathBuf>,
    /// The protocol, in place of the current one in lab/eval/data
    #[arg(long, value_name = "FILE")]
    pub(super) protocol: Option<PathBuf>,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Also write the means and the published numbers to this file, as lab/eval/data keeps them
    #[arg(long, value_name = "FILE")]
    pub(super) summary: Option<PathBuf>,
    /// Folder for the report
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// A number of the model to change, such as decision_s=0, app.E*=0.75, SGD.st=0 or
    /// machine.llc_mb*=2; repeatable. Shows what a result rests on
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting::parse)]
    pub(super) set: Vec<Setting>,
    /// Compute everything anew
    #[arg(long)]
    pub(super) fresh: bool,
    /// Run real programs on this machine instead (--help says more)
    ///
    /// Runs mixes of the programs of benches/workloads under plain Linux, on a static fair share, with
    /// mapper moving CPUs only and with mapper, interleaved. About ten minutes on an otherwise idle
    /// machine: 10 repetitions of 8 mixes under 5 settings, each some 1 to 2 seconds; --seconds,
    /// --reps, --mix and --setting make it shorter. Ctrl-C keeps what is finished.
    #[arg(long, conflicts_with_all = [
        "suite", "machine", "follow", "seeds", "apps", "machines", "protocol", "fresh", "set", "summary",
    ])]
    live: bool,
    /// With --live: repetitions of every run [default: 10]
    #[arg(long, value_name = "N")]
    reps: Option<u32>,
    /// With --live: settings to compare, separated by commas [default: plain, static, cpus, mapper,
    /// virtual, and dlb where it is installed]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    setting: Vec<String>,
    /// With --live: how long each program works alone on half of the machine [default: 0.7]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// With --live: also write the tables to this file, as Markdown, in place of what stands between
    /// its comments "measured: begin" and "measured: end"; a file with text and without them is refused
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Args {
    /// Whether the model itself is to be checked.
    pub(super) fn wants_validity(&self) -> bool {
        let names = ["validity", "all"];
        self.suite.iter().any(|name| names.contains(&name.as_str()))
    }

    /// The runs of the suites and mixes that were named, without those of the checks of the model.
    pub(super) fn planned(
        &self,
        protocol: &Protocol,
        catalogue: &Catalogue,
    ) -> anyhow::Result<Plan> {
        let changes = self.changes()?;
        let mut plan = Plan::default();
        let suites = self.suite.iter().filter(|name| *name != "validity");
        for suite in protocol.suites(&texts(suites))? {
            let mut suite = suite.clone();
            if !self.policy.is_empty() {
                suite.policies = once_each(&self.policy);
            }
            plan.add(&suite, protocol, catalogue, &changes)?;
        }
        if !self.mix.is_empty() {
            let policies = match &*self.policy {
                [] => texts(["linux", "fair", "mapper"]),
                given => once_each(given),
            };
            let machine = self.machine.as_deref().unwrap_or(USUAL_MACHINE);
            catalogue.machine(machine).context("--machine")?;
            let mut suite = plan::ad_hoc(once_each(&self.mix), machine, policies);
            if self.follow {
                suite.teams = Teams::Follow;
            }
            plan.add(&suite, protocol, catalogue, &changes)?;
        }
        // The checks run programs of their own.
        let checked = self.wants_validity().then_some(&catalogue.apps);
        for setting in &self.set {
            setting.check_meant(plan.runs.values().map(|run| &**run), checked)?;
        }
        Ok(plan)
    }

    /// Refuses what would be left out of account without a word.
    pub(super) fn check_together(&self) -> anyhow::Result<()> {
        if self.live {
            bail!(
                "--live: real programs are run by `mapper-corun live`; `cargo xtask eval --live` starts it"
            );
        }
        // (clap's `requires` is silent where `--live` conflicts with another argument.)
        let only_live = [
            ("--reps", self.reps.is_some()),
            ("--setting", !self.setting.is_empty()),
            ("--seconds", self.seconds.is_some()),
            ("--markdown", self.markdown.is_some()),
        ];
        if let Some(flag) = first_given(only_live) {
            bail!("{flag}: only with --live; the model does not know it");
        }
        if self.suite.is_empty() && self.mix.is_empty() {
            bail!("nothing to evaluate: give --suite all, or --mix \"20 SGD, 20 BSGD\"");
        }
        if !self.mix.is_empty() {
            return Ok(());
        }
        let own = [
            ("--policy", !self.policy.is_empty()),
            ("--qos", self.qos.is_some()),
            ("--interval", self.interval.is_some()),
            ("--seeds", self.seeds.is_some()),
        ];
        let only_validity = self.suite.iter().all(|name| name == "validity");
        if let Some(flag) = first_given(own).filter(|_| only_validity) {
            bail!(
                "{flag}: --suite validity has its own; leave it out, or name a suite or mix as well"
            );
        }
        if let Some(machine) = &self.machine {
            bail!("--machine {machine}: only with --mix; each suite has its own machine");
        }
        if self.follow {
            bail!("--follow: only with --mix; each suite says itself whether programs follow");
        }
        Ok(())
    }

    /// Everything on the command line that makes results others than a released protocol's; what says the same
    /// as the protocol does not.
    pub(super) fn departures(
        &self,
        path: &Path,
        protocol: &Protocol,
        plan: &Plan,
    ) -> anyhow::Result<Vec<String>> {
        let mut shown = texts(Setting::departing(&self.set, &protocol.constants)?);
        let suites = || plan.suites.iter().map(|planned| &planned.suite);
        // A mix of the command line is in no protocol, so nothing departs from one by its policies and teams.
        let others = |suite: &Suite| {
            let mut of = protocol.suites.iter();
            of.any(|own| own.name == suite.name && own.policies != suite.policies)
        };
        let promises = |qos: &f64| suites().any(|suite| suite.qos.unwrap_or(protocol.qos) != *qos);
        let interval_of = |name: &String| protocol.interval_of_s(policies::find(name).ok()?.pace);
        let decides = |seconds: &f64| {
            suites().any(|suite| {
                let mut usual = suite.policies.iter().filter_map(interval_of);
                match suite.interval_s {
                    Some(own_s) => own_s != *seconds,
                    None => usual.any(|usual_s| usual_s != *seconds),
                }
            })
        };
        let seeds = |count: &u32| !(1..=u64::from(*count)).eq(protocol.seeds.iter().copied());
        let departs = protocol.departs();
        let departs = departs.map(|how| format!("{} ({how})", path.display()));
        let flags = [
            flag("--protocol", departs),
            flag(
                "--policy",
                suites().any(others).then(|| self.policy.join(",")),
            ),
            flag("--qos", self.qos.filter(promises)),
            flag("--interval", self.interval.filter(decides)),
            flag("--seeds", self.seeds.filter(seeds)),
            flag("--apps", self.apps.as_ref().map(|path| path.display())),
            flag(
                "--machines",
                self.machines.as_ref().map(|path| path.display()),
            ),
        ];
        shown.extend(flags.into_iter().flatten());
        Ok(shown)
    }

    pub(super) fn changes(&self) -> anyhow::Result<Changes<'_>> {
        if let Some(qos) = self.qos {
            mapper_model::Qos::new(qos).context("--qos")?;
        }
        let wrong = |seconds: &f64| !(0.01..=60.0).contains(seconds);
        if let Some(seconds) = self.interval.filter(wrong) {
            bail!("--interval {seconds}: give seconds from 0.01 to 60");
        }
        Ok(Changes {
            seeds: self.seeds,
            qos: self.qos,
            interval_s: self.interval,
            settings: &self.set,
            vary: None,
        })
    }
}

fn first_given(flags: [(&str, bool); 4]) -> Option<&str> {
    let mut given = flags.into_iter().filter(|(_, given)| *given);
    given.next().map(|(flag, _)| flag)
}

/// A flag as it is given, if it is.
fn flag(name: &str, value: Option<impl Display>) -> Option<String> {
    value.map(|value| format!("{name} {value}"))
}

/// A mix, unless it is the next flag: then the mix itself was forgotten.
fn no_flag(text: &str) -> Result<String, String> {
    if text.starts_with("--") {
        return Err(format!(
            "{text} is another flag: write programs like \"20 SGD, 20 BSGD\""
        ));
    }
    Ok(text.to_owned())
}

/// What was given twice counts once, where it stood first.
fn once_each(given: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let once = given.iter().filter(|name| seen.insert(*name));
    once.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::examples::{args, plan, protocol};
    use super::super::protocol::newest;
    use super::*;
    use clap::error::ErrorKind;

    #[test]
    fn what_would_have_no_effect_is_refused_by_its_name() {
        let refusals = "\
            : nothing to evaluate
            --suite=validity --seeds=2: --seeds: --suite validity has its own
            --suite=validity --policy=linux: --policy: --suite validity
            --suite=validity --set=SDG.st=0: no mix has a program \"SDG\"
            --mix=SGD --interval -1: --interval -1: give seconds
            --suite=all --reps=3: --reps: only with --live
            --suite=all --seconds=1: --seconds: only with --live
            --suite=all --setting=plain: --setting: only with --live
            --suite=all --markdown=x: --markdown: only with --live";
        for (given, part) in refusals.lines().filter_map(|line| line.split_once(": ")) {
            let given: Vec<&str> = given.split_whitespace().collect();
            let shown = format!("{:#}", plan(&given).err().expect("a refusal"));
            assert!(shown.contains(part), "{given:?}: {shown}");
        }
        for given in [
            "--suite=validity --set=SGD.st=0",
            "--suite=validity --mix=SGD --seeds=2",
            "--suite=nucore --suite=validity --policy=linux",
            "--suite=nucore --mix=SGD --machine=ivb40 --follow",
        ] {
            let words: Vec<&str> = given.split(' ').collect();
            if let Err(error) = plan(&words) {
                panic!("{given} has an effect: {error:#}");
            }
        }
    }

    #[test]
    fn a_mix_is_run_on_the_usual_machine_under_the_usual_policies_unless_others_are_named() {
        let usual = plan(&["--mix=SGD"]).unwrap();
        assert_eq!(usual.suites[0].suite.machine, USUAL_MACHINE);
        assert_eq!(usual.suites[0].suite.policies, ["linux", "fair", "mapper"]);
        let other = plan(&["--mix=SGD", "--machine=ivb40", "--policy=sam,linux,sam"]).unwrap();
        assert_eq!(other.suites[0].suite.machine, "ivb40");
        assert_eq!(other.suites[0].suite.policies, ["sam", "linux"]);
    }

    #[test]
    fn every_departure_from_the_protocol_is_reported_and_nothing_else() {
        let protocol = protocol();
        let (qos, seconds) = (protocol.qos, protocol.interval_s);
        let seeds = protocol.seeds.len();
        // What the protocol says itself; a suite with a promise of its own departs by the protocol's; a mix of the
        // command line is in no protocol.
        let cases = format!(
            "--suite=mapper-fig2 --seeds={seeds} --qos={qos} --set=decision_s=0.005: \n\
             --mix=SGD --policy=mapper --interval={seconds}: \n\
             --suite=mapper-qos --qos={qos}: --qos {qos}\n\
             --suite=sam: \n\
             --suite=sam --fresh --out=x: \n\
             --mix=SGD --policy=linux: \n\
             --suite=sam --set=decision_s=0 --policy=linux,mapper --qos=0.9 --interval=0.5: \
             decision_s=0, --policy linux,mapper, --qos 0.9, --interval 0.5\n\
             --suite=sam --seeds=2 --apps=a.toml --machines=m.toml: \
             --seeds 2, --apps a.toml, --machines m.toml"
        );
        for (given, expected) in cases.lines().filter_map(|line| line.split_once(": ")) {
            let words: Vec<&str> = given.split(' ').collect();
            let (plan, args) = (plan(&words).unwrap(), args(&words).unwrap());
            let shown = args.departures(&newest(), protocol, &plan).unwrap();
            assert_eq!(shown.join(", "), expected, "{given}");
        }
    }

    #[test]
    fn a_count_below_zero_and_a_forgotten_mix_are_refused_and_what_only_the_model_has_with_live() {
        for (given, part) in [
            (["--seeds", "-1"], "--seeds <COUNT>"),
            (
                ["--mix", "--policy=linux"],
                "--policy=linux is another flag",
            ),
        ] {
            let shown = args(&given).err().unwrap().to_string();
            assert!(shown.contains(part), "{shown}");
        }
        let only = "--suite=sam --machine=ivb40 --follow --seeds=2 --apps=a --machines=m --protocol=p --fresh \
                    --set=decision_s=0 --summary=s";
        for only in only.split_whitespace() {
            let error = args(&["--live", only]).err().expect(only);
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{only}");
        }
    }
}
