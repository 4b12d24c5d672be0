//! The arguments of `cargo xtask eval --live`, which starts `mapper-corun` in place of this program: they are
//! listed in the help, and refused where they mean nothing.

use anyhow::bail;
use std::path::PathBuf;

/// The arguments that only `--live` takes.
#[derive(clap::Args)]
pub(crate) struct OnlyLive {
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

impl OnlyLive {
    /// Refuses them. (clap's `requires` is silent where `--live` conflicts with another argument.)
    pub(crate) fn check_unused(&self) -> anyhow::Result<()> {
        if self.live {
            bail!(
                "--live: real programs are run by `mapper-corun live`; `cargo xtask eval --live` starts it"
            );
        }
        let given = [
            ("--reps", self.reps.is_some()),
            ("--setting", !self.setting.is_empty()),
            ("--seconds", self.seconds.is_some()),
            ("--markdown", self.markdown.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => bail!("{flag}: only with --live; the model does not know it"),
            None => Ok(()),
        }
    }
}
