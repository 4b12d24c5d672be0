//! What parking in dynamic loops brings: two programs with two threads each on two CPUs.
//!
//! Under plain Linux their four threads share both CPUs, and a thread that waits at the end of a loop
//! spins while the one it waits for has no CPU. Under `fixed` each program has a CPU of its own, and the
//! thread without one leaves the chunks to the other. There are no virtual teams here, and none that
//! follow. Beside plain Linux as users run it, passive waiting and passive waiting confined to one CPU
//! each (which is `fixed` without parking) tell what is whose.
//!
//! Each round lets the pairs of all settings run one after the other, both programs of a pair at the same
//! time, and compares how many loops they have done.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mapper_abi::TeamMode;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::harness::{Compiler, Page, Program};
use crate::report::{Verdict, median};

const ROUNDS: usize = 9;
/// How long a pair runs in a round.
const ROUND_MS: u32 = 400;
/// Iterations of a loop, and how much work there is in them: loops of some 200 us on one CPU, as two
/// different programs.
const PAIR: [[&str; 2]; 2] = [["64", "150"], ["48", "300"]];
/// How many times as fast as under plain Linux the two are to be.
const WANTED: f64 = 2.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Setting {
    /// Linux, and nothing said about waiting.
    Plain,
    /// Linux, `OMP_WAIT_POLICY=passive`.
    Passive,
    /// The same, each program on a CPU of its own.
    Confined,
    /// With the shim, each program on a CPU of its own, as its page says.
    Fixed,
}

const SETTINGS: [Setting; 4] = [
    Setting::Plain,
    Setting::Passive,
    Setting::Confined,
    Setting::Fixed,
];

struct Runner {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    _page: Option<Page>,
}

impl Runner {
    fn start(program: &Program, setting: Setting, number: usize) -> Self {
        let (mut command, page) = match setting {
            Setting::Fixed => {
                let mut managed = program.managed();
                managed.page.publish(1, TeamMode::Fixed);
                // As the launcher has them.
                let managed = managed
                    .env("GOMP_SPINCOUNT", "3000")
                    .env("KMP_BLOCKTIME", "1");
                (managed.command, Some(managed.page))
            }
            _ => (program.plain_command(), None),
        };
        match setting {
            Setting::Plain => {
                command
                    .env_remove("GOMP_SPINCOUNT")
                    .env_remove("KMP_BLOCKTIME");
            }
            Setting::Passive | Setting::Confined => {
                command
                    .env_remove("GOMP_SPINCOUNT")
                    .env_remove("KMP_BLOCKTIME");
                command.env("OMP_WAIT_POLICY", "passive");
            }
            Setting::Fixed => {}
        }
        command.env("OMP_NUM_THREADS", "2").args(PAIR[number]);
        Self::spawn(command, page, (setting, number))
    }

    fn spawn(
        mut command: Command,
        page: Option<Page>,
        (setting, number): (Setting, usize),
    ) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut set = CpuSet::new();
        match setting {
            Setting::Plain | Setting::Passive => {
                set.set(0);
                set.set(1);
            }
            Setting::Confined | Setting::Fixed => set.set(number),
        }
        // The runtime has counted the CPUs, or will, as at a launch: `fixed` knows of one from the start.
        sched_setaffinity(Pid::from_raw(child.id().cast_signed()), &set).unwrap();
        Self {
            child,
            orders,
            answers,
            _page: page,
        }
    }

    fn order(&mut self, ms: u32) {
        writeln!(self.orders, "{ms}").unwrap();
    }

    fn answer(&mut self) -> f64 {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints how many times as fast as under plain Linux a pair of programs is.
pub(crate) fn compare(compiler: Compiler, label: &str) {
    let program = Program::new(compiler, "../../benches/cost/loops.c");
    let mut speeds = SETTINGS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (setting, speeds) in SETTINGS.into_iter().zip(&mut speeds) {
            let mut pair = [0, 1].map(|number| Runner::start(&program, setting, number));
            // Once for warming up, to start threads and claim slots.
            for ms in [ROUND_MS / 8, ROUND_MS] {
                pair.iter_mut().for_each(|runner| runner.order(ms));
                let loops = pair.each_mut().map(Runner::answer);
                if ms == ROUND_MS {
                    speeds.push((loops[0] * loops[1]).sqrt());
                }
            }
        }
    }
    let plain = speeds[0].clone();
    let over_plain = |speeds: &Vec<f64>| {
        let ratios = speeds
            .iter()
            .zip(&plain)
            .map(|(speed, plain)| speed / plain);
        median(&ratios.collect::<Vec<f64>>())
    };
    let [_, passive, confined, fixed] = speeds.each_ref().map(over_plain);
    let verdict = match fixed >= WANTED {
        true => Verdict::Met,
        false => Verdict::Missed(String::new()),
    };
    println!(
        "{label}, two programs of two threads, times plain Linux: passive {passive:.2}, confined and \
         passive {confined:.2}, fixed {fixed:.2}, wanted >= {WANTED:.1}  {verdict}"
    );
}
