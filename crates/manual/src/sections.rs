//! What a page says beyond the command line: exit status, environment, files, examples.

use clap_mangen::roff::{Roff, bold, roman};

/// A term and what it means.
#[derive(Clone, Copy, Debug)]
struct Entry {
    term: &'static str,
    meaning: &'static str,
}

const fn entry(term: &'static str, meaning: &'static str) -> Entry {
    Entry { term, meaning }
}

const ASKED: &[Entry] = &[
    entry("0", "What was asked for was done or printed."),
    entry(
        "1",
        "It failed, or `doctor --check` found something missing; standard error says what.",
    ),
    entry("2", "The command line is wrong."),
];

const LAUNCHED: &[Entry] = &[
    entry("N", "The program's own exit status."),
    entry("128 + N", "Signal N ended the program."),
    entry(
        "125",
        "The program was not started: no daemon, a refusal, or a wrong command line.",
    ),
    entry("126", "The program could not be executed."),
    entry("127", "The program was not found."),
];

const SERVED: &[Entry] = &[
    entry("0", "An orderly stop, or a check without error."),
    entry(
        "1",
        "Something failed; the log or standard error says what.",
    ),
    entry("2", "The command line is wrong."),
    entry("3", "A daemon already listens on the socket."),
];

const SOCKET: Entry = entry(
    "MAPPER_SOCKET",
    "The daemon's socket; --socket comes before it.",
);
const RUNTIME_DIR: Entry = entry(
    "XDG_RUNTIME_DIR",
    "Below it, in mapper, are the socket and the state of a user's own daemon. Without it that is \
     /run/user/UID, else /tmp/mapper-UID.",
);

const ASKING: &[Entry] = &[
    SOCKET,
    RUNTIME_DIR,
    entry("COLUMNS", "The width of what is printed."),
    entry("NO_COLOR", "Print without colours."),
];

const LAUNCHING: &[Entry] = &[
    SOCKET,
    entry(
        "MAPPER_NO_START",
        "1: start no daemon where none runs, as --no-start.",
    ),
    entry("MAPPER_SHIM", "The OpenMP shim; --shim comes before it."),
    entry(
        "MAPPER_SCHEDULE",
        "Dynamic loops: as-written or adaptive; --schedule comes before it.",
    ),
    entry(
        "OMP_NUM_THREADS",
        "Threads to start with; --threads comes before it. Where neither is given it is set for the program.",
    ),
    RUNTIME_DIR,
];

const SERVING: &[Entry] = &[
    entry(
        "MAPPER_LOG",
        "What is logged, such as debug or mapperd=debug,warn. Default: info.",
    ),
    entry(
        "STATE_DIRECTORY",
        "Where is kept what outlives a restart; systemd sets it.",
    ),
    RUNTIME_DIR,
    entry(
        "XDG_CONFIG_HOME, XDG_STATE_HOME",
        "Where a user's daemon finds its configuration and the machine profile.",
    ),
];

const SYSTEM_SOCKET: Entry = entry(
    "/run/mapper/mapper.sock",
    "The socket of the system's daemon.",
);
const OWN_SOCKET: Entry = entry(
    "$XDG_RUNTIME_DIR/mapper/mapper.sock",
    "The socket of a user's own daemon.",
);
const OWN_LOG: Entry = entry(
    "~/.local/state/mapper/mapperd.log",
    "The log of a daemon that a launch has started.",
);
const CONFIGURATION: Entry = entry(
    "/etc/mapper/mapper.toml",
    "The configuration of the system's daemon; see mapper.toml(5).",
);

const ASKED_FILES: &[Entry] = &[SYSTEM_SOCKET, OWN_SOCKET];

const LAUNCHED_FILES: &[Entry] = &[
    SYSTEM_SOCKET,
    OWN_SOCKET,
    OWN_LOG,
    entry(
        "~/.local/state/mapper/teams",
        "What --check-teams found out.",
    ),
];

const SERVED_FILES: &[Entry] = &[
    CONFIGURATION,
    entry(
        "~/.config/mapper/mapper.toml",
        "The configuration of a user's own daemon.",
    ),
    entry(
        "/var/lib/mapper/state.json",
        "What outlives a restart, with the last hundred applications.",
    ),
    entry(
        "/var/lib/mapper/machine.toml",
        "What `mapperd calibrate` measured.",
    ),
    SYSTEM_SOCKET,
    OWN_SOCKET,
];

/// What is said of a program or a task.
struct Sections {
    status: &'static [Entry],
    environment: &'static [Entry],
    files: &'static [Entry],
}

/// The examples of each page, by the name of the program or the task.
fn examples(name: &str) -> Vec<Entry> {
    match name {
        "mapper" => vec![
            entry(
                "mapper run -- ./program &",
                "Starts a program beside others.",
            ),
            entry(
                "mapper status",
                "Which programs have which CPUs, and whether they keep their promise.",
            ),
        ],
        "run" | "mapper-launch" => vec![
            entry(
                "mapper run -- python fit.py",
                "Starts a program that is promised 85 % of its speed on its fair share.",
            ),
            entry(
                "mapper run --qos 95% --min-cpus 2 -- ./server",
                "The same with a stronger promise, on 2 CPUs at least.",
            ),
            entry(
                "mapper run --teams follow --report -- ./solver",
                "An OpenMP program whose teams are as large as the CPUs that it has at each region, with a report at the end.",
            ),
        ],
        "mapperctl" => vec![
            entry("mapperctl status", "Which programs have which CPUs."),
            entry(
                "mapperctl explain fit",
                "Why the program `fit` has its CPUs.",
            ),
        ],
        "compare" => vec![entry(
            "mapper compare -- ./a --steps 9 :: ./b",
            "Runs both at once under plain Linux, with passive waiting and under mapper, three times each.",
        )],
        "status" => vec![
            entry("mapper status", "A sentence, and a line for each program."),
            entry(
                "mapper status -v",
                "All that is measured, with the reason of each allocation.",
            ),
            entry(
                "mapper status --json | jq '.apps[].cpus'",
                "The same for programs.",
            ),
        ],
        "top" => vec![entry(
            "mapper top --interval 500ms",
            "Looks twice a second; ? shows the keys.",
        )],
        "explain" => vec![
            entry(
                "mapper explain fit",
                "Why the program `fit` has its CPUs, or what it was if it has ended.",
            ),
            entry("mapper explain 12", "The same, by its number."),
        ],
        "advise" => vec![entry(
            "mapper advise",
            "Which of the known programs go well together, and what one CPU more would bring.",
        )],
        "history" => vec![entry("mapper history", "What has ended, the latest first.")],
        "report" => vec![entry(
            "mapper report fit",
            "What `fit` got so far, or until it ended.",
        )],
        "policies" => vec![entry(
            "mapper policies",
            "The policies, with the paper that each is from.",
        )],
        "doctor" => vec![
            entry(
                "mapper doctor",
                "What is there, what is missing, and what to do next.",
            ),
            entry(
                "mapper doctor --check >/dev/null || exit 1",
                "In a script that needs everything.",
            ),
        ],
        "gather" => vec![entry(
            "mapper gather",
            "Writes mapper-report-TIME.tar.gz into the current folder and says what is in it.",
        )],
        "page" => vec![entry(
            "mapper page",
            "Prints the address of a local page that shows the machine.",
        )],
        "adopt" => vec![
            entry(
                "mapper adopt --pid 4711 --qos 90%",
                "Has a process that runs already managed, with its descendants.",
            ),
            entry(
                "mapper adopt --unit postgresql.service",
                "The same for a service.",
            ),
        ],
        "release" => vec![entry(
            "mapper release postgresql.service",
            "Gives it back the CPUs that it had before.",
        )],
        "promise" => vec![entry(
            "mapper promise fit 95%",
            "Gives the running program `fit` another promise.",
        )],
        "reload" => vec![entry(
            "mapper reload",
            "Applies a changed configuration, without touching applications.",
        )],
        "start" => vec![entry(
            "mapper start",
            "Starts a daemon of your own, where none runs.",
        )],
        "stop" => vec![entry(
            "mapper stop",
            "Stops it; programs continue, with all CPUs.",
        )],
        "mapperd" => vec![
            entry(
                "mapperd --check-config --config FILE",
                "Checks a configuration, and does nothing else.",
            ),
            entry(
                "mapperd --user",
                "Manages one's own programs, without root.",
            ),
            entry(
                "mapperd --record FILE",
                "Writes every observation and plan, for a replay.",
            ),
        ],
        "calibrate" => vec![entry(
            "systemctl stop mapperd; mapperd calibrate; systemctl start mapperd",
            "Measures an idle machine once.",
        )],
        _ => vec![],
    }
}

fn sections(program: &str, task: &str) -> Sections {
    match (program, task) {
        (_, "run") | ("mapper-launch", _) => Sections {
            status: LAUNCHED,
            environment: LAUNCHING,
            files: LAUNCHED_FILES,
        },
        ("mapperd", _) => Sections {
            status: SERVED,
            environment: SERVING,
            files: SERVED_FILES,
        },
        _ => Sections {
            status: ASKED,
            environment: ASKING,
            files: ASKED_FILES,
        },
    }
}

/// The sections of the page of `task` (the program's own name on its own page) of `program`, in roff.
pub(crate) fn written(program: &str, task: &str) -> Roff {
    let Sections {
        status,
        environment,
        files,
    } = sections(program, task);
    let mut roff = Roff::new();
    for (title, entries) in [
        ("EXIT STATUS", status),
        ("ENVIRONMENT", environment),
        ("FILES", files),
        ("EXAMPLES", &*examples(task)),
    ] {
        // Quoted, as a title of two words is one argument.
        roff.control("SH", [title]);
        for entry in entries {
            roff.control("TP", []);
            // What is typed names the program whose page this is.
            let term = match program {
                "mapperctl" => entry.term.replace("mapper ", "mapperctl "),
                "mapper-launch" => entry.term.replace("mapper run", "mapper-launch"),
                _ => entry.term.to_owned(),
            };
            roff.text([bold(term)]);
            roff.text([roman(entry.meaning)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    for (page, section) in [
        ("mapper", "(1), "),
        ("mapper", "(7), "),
        ("mapper.toml", "(5), "),
        ("mapperd", "(8)"),
    ] {
        roff.text([bold(page), roman(section)]);
    }
    roff
}
