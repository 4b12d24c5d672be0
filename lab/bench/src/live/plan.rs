//! What the arguments of `--live` ask for, checked before anything takes time.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use super::dlb::{self, Dlb};
use super::mixes::{self, Mix};
use super::programs::{PROGRAMS, Program};
use super::publish::read_document;
use super::settings::{self, Choice, Setting};
use super::tables;
use mapper_report::output::{OutputFile, check_writable};

/// The promise unless `--qos` says otherwise.
const QOS: f64 = 0.85;

/// Time between decisions unless `--interval` says otherwise, seconds. A tenth of the daemon's own,
/// as these programs run for a second or two where others run for minutes.
const INTERVAL_S: f64 = 0.1;

/// Runs real programs on this machine
///
/// Runs mixes of the programs of benches/workloads under plain Linux, on a static fair share, with
/// mapper moving CPUs only and with mapper, interleaved. About ten minutes on an otherwise idle
/// machine: 10 repetitions of 8 mixes under 5 settings, each some 1 to 2 seconds; --seconds,
/// --reps, --mix and --setting make it shorter. Ctrl-C keeps what is finished.
#[derive(clap::Args)]
#[command(
    bin_name = "cargo xtask eval --live",
    display_name = "cargo xtask eval --live"
)]
pub(crate) struct LiveArgs {
    /// Programs that run together, such as md+cg; repeatable
    #[arg(long, value_name = "PROGRAMS")]
    mix: Vec<String>,
    /// Policies to compare beside mapper's own; repeatable or separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// What programs are promised
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    qos: Option<f64>,
    /// Time between decisions in seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    interval: Option<f64>,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for the report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Repetitions of every run [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    reps: Option<u32>,
    /// Settings to compare, separated by commas [default: plain, static, cpus, mapper,
    /// virtual, and dlb where it is installed]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    setting: Vec<Choice>,
    /// How long each program works alone on half of the machine [default: 0.7]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Also write the tables to this file, as Markdown, in place of what stands between
    /// its comments "measured: begin" and "measured: end"; a file with text and without them is refused
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// What the arguments ask for, checked.
pub(super) struct Plan {
    pub(super) mixes: Vec<Mix>,
    pub(super) settings: Vec<Setting>,
    pub(super) dlb: Option<Dlb>,
    pub(super) repetitions: usize,
    pub(super) calibrated_s: f64,
    pub(super) qos: f64,
    pub(super) interval_s: f64,
    pub(super) json: Option<OutputFile>,
    pub(super) markdown: Option<OutputFile>,
    pub(super) out: Option<PathBuf>,
}

impl Plan {
    /// How many runs it makes.
    pub(super) fn runs(&self) -> usize {
        self.repetitions * self.mixes.len() * self.settings.len()
    }

    /// Checks the arguments and claims the output files, before anything takes time.
    pub(super) fn new(args: &LiveArgs) -> anyhow::Result<Self> {
        if let Some(qos) = args.qos {
            mapper_model::Qos::new(qos).context("--qos")?;
        }
        let dlb = Dlb::find();
        let settings = settings::select(&args.setting, &args.policy, dlb::is(dlb.as_ref()))?;
        let mixes = mixes::select(&args.mix)?;
        let calibrated_s = args.seconds.unwrap_or(0.7);
        if !(0.05..=60.0).contains(&calibrated_s) {
            bail!("--seconds {calibrated_s}: give seconds from 0.05 to 60");
        }
        let interval_s = args.interval.unwrap_or(INTERVAL_S);
        if !(0.02..=10.0).contains(&interval_s) {
            bail!("--interval {interval_s}: with --live give seconds from 0.02 to 10");
        }
        if let Some(file) = &args.markdown
            && file.exists()
        {
            let before = read_document(file)?;
            tables::check_document(&before)
                .with_context(|| format!("--markdown {}", file.display()))?;
        }
        if let Some(folder) = &args.out {
            check_writable(folder)?;
        }
        let claim = |path: Option<&PathBuf>| path.map(|path| OutputFile::claim(path)).transpose();
        Ok(Self {
            mixes,
            settings,
            dlb,
            repetitions: usize::try_from(args.reps.unwrap_or(10))?,
            calibrated_s,
            qos: args.qos.unwrap_or(QOS),
            interval_s,
            json: claim(args.json.as_ref())?,
            markdown: claim(args.markdown.as_ref())?,
            out: args.out.as_ref().cloned(),
        })
    }

    /// The programs that are needed, each once.
    pub(super) fn programs(&self) -> Vec<&'static Program> {
        let wanted = |program: &&Program| {
            let mut all = self.mixes.iter().flat_map(|mix| &mix.programs);
            all.any(|other| other.name == program.name)
        };
        PROGRAMS.iter().filter(wanted).collect()
    }

    /// The policies of the daemons that are needed, each once.
    pub(super) fn policies(&self) -> Vec<Option<String>> {
        let managed = self.settings.iter().filter(|setting| setting.is_managed());
        let mut policies: Vec<Option<String>> = managed
            .map(|setting| setting.policy().map(String::from))
            .collect();
        policies.sort_unstable();
        policies.dedup();
        policies
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Eval {
        #[command(flatten)]
        args: LiveArgs,
    }

    pub(in super::super) fn plan(arguments: &[&str]) -> anyhow::Result<Plan> {
        let words = ["live"].iter().chain(arguments);
        let args = Eval::try_parse_from(words)?.args;
        Plan::new(&args)
    }

    fn refusal(arguments: &[&str]) -> String {
        match plan(arguments) {
            Ok(_) => panic!("{arguments:?} was accepted"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn bad_arguments_are_refused_by_name_before_anything_runs() {
        for (arguments, named) in [
            (&["--mix", "md+nobody"][..], "nobody"),
            (&["--reps", "0"], "--reps"),
            (&["--setting", "elastic"], "elastic"),
            (&["--policy", "genius"], "genius"),
            (&["--seconds", "0"], "--seconds 0"),
            (&["--seconds", "many"], "many"),
            (&["--interval", "11"], "--interval 11"),
            (&["--qos", "1.5"], "--qos"),
            (&["--suite", "all"], "--suite"),
            (&["--json", "/nonexistent/a/b"], "/nonexistent/a/b"),
            (&["--markdown", "/nonexistent/a/b"], "/nonexistent/a/b"),
            (&["--out", "/proc/nonexistent"], "/proc/nonexistent"),
        ] {
            let error = refusal(arguments);
            assert!(error.contains(named), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn the_default_is_ten_repetitions_of_all_default_mixes_and_settings() {
        let plan = plan(&[]).unwrap();
        assert_eq!(plan.repetitions, 10);
        assert_eq!(plan.mixes, mixes::select(&[]).unwrap());
        assert_eq!(plan.policies(), [None]);
        assert_eq!(plan.qos, 0.85);
    }

    #[test]
    fn a_daemon_runs_for_each_policy_that_is_compared() {
        let policies = |arguments: &[&str]| plan(arguments).unwrap().policies();
        assert_eq!(policies(&["--setting", "plain,static"]), []);
        let found = policies(&["--setting", "cpus,mapper", "--policy", "hill_climb,equal"]);
        let names = [
            None,
            Some("equal".to_owned()),
            Some("hill_climb".to_owned()),
        ];
        assert_eq!(found, names);
    }

    #[test]
    fn a_document_that_would_lose_its_text_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.md");
        std::fs::write(&path, "my notes\n").unwrap();
        let error = refusal(&["--markdown", path.to_str().unwrap()]);
        assert!(
            error.contains("notes.md") && error.contains("measured: begin"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
    }
}
