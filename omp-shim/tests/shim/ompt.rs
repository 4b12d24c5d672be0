//! Copies of libomp that call no function of the shim's are heard by OMPT, and no others.

use std::path::{Path, PathBuf};

use mapper_abi::{ReportFlags, Runtimes, TeamMode, TeamsOff};

use crate::harness::{Compiler, Dialogue, Managed, Program, shim, turn};
use crate::progress::once_undisturbed;

/// A program whose libomp is its own: nothing that is preloaded comes before it.
struct Hidden {
    host: Program,
    guest: PathBuf,
}

impl Hidden {
    fn new(source: &str) -> Self {
        Self::with_flags(source, &[])
    }

    /// `teams.c` without what might refuse teams that follow.
    fn teams() -> Self {
        Self::with_flags("teams.c", &["-DONLY_REGIONS"])
    }

    fn with_flags(source: &str, flags: &[&str]) -> Self {
        let host = Program::with_flags(Compiler::Clang, "hidden.c", &[]);
        let guest = host.dir.path().join("libguest.so");
        let mut to_library = vec!["-fopenmp", "-fPIC", "-shared", "-Dmain=guest_main"];
        to_library.extend(flags);
        Compiler::Clang.compile(source, &guest, &to_library);
        Self { host, guest }
    }

    fn managed(&self) -> Managed {
        self.host.managed().args(&[text(&self.guest)])
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// With these libraries for libomp to look for a tool in.
fn with_tool(managed: Managed, libraries: &[&Path]) -> Managed {
    let list: Vec<_> = libraries.iter().map(|path| text(path)).collect();
    managed.env("OMP_TOOL_LIBRARIES", &list.join(":"))
}

/// What `observed.c` prints with so many threads.
fn observed(threads: u32) -> String {
    format!("{}\n", 10 * (103 * 51 + 25 * 49 + threads))
}

#[test]
fn a_hidden_copy_has_its_regions_iterations_and_waits_counted() {
    turn::alone();
    let hidden = Hidden::new("observed.c");
    let run = || {
        let mut managed = hidden.managed().threads(3);
        managed.page.publish(2, TeamMode::Fixed);
        assert_eq!(managed.run().output(), observed(3));
        managed.page
    };
    let page = run();
    let progress = page.progress();
    assert_eq!(progress.regions, 30);
    assert_eq!(progress.iterations, 10 * (103 + 50));
    // Two threads wait for 5 ms each, ten times.
    let waited_ms = || run().progress().wait_ns as f64 * 1e-6;
    once_undisturbed(waited_ms, 80.0..10_000.0, "waiting");
    let report = page.report();
    assert_eq!(report.runtimes, Runtimes::LIBOMP);
    let flags = ReportFlags::OBSERVED | ReportFlags::WAIT_MEASURED;
    assert!(report.flags.contains(flags), "{:?}", report.flags);
    assert_eq!((report.team_size, report.max_threads), (3, 3));
    assert_eq!(report.teams_off, None);
}

#[test]
fn a_hidden_copy_computes_the_same_as_plainly() {
    for source in [
        "constructs.c",
        "clauses_in_turn.c",
        "tasks.c",
        "static_loops.c",
    ] {
        let hidden = Hidden::new(source);
        let plain = hidden
            .host
            .run_plainly(&[text(&hidden.guest)], &[("OMP_NUM_THREADS", "4")]);
        for cpus in [1, 2, 3] {
            let mut managed = hidden.managed().threads(4);
            managed.page.publish(cpus, TeamMode::Fixed);
            assert_eq!(managed.run().output(), plain.output(), "{source} {cpus}");
        }
    }
}

#[test]
fn a_hidden_copy_computes_the_same_while_the_allocation_flaps() {
    for source in ["constructs.c", "fork.c", "two_levels.c"] {
        let hidden = Hidden::new(source);
        let plain = hidden
            .host
            .run_plainly(&[text(&hidden.guest)], &[("OMP_NUM_THREADS", "4")]);
        let mut cpus = 0;
        let mut managed = hidden.managed().threads(4).following(4);
        let outcome = managed.run_while(|page| {
            cpus = cpus % 4 + 1;
            page.allocate(cpus);
        });
        assert_eq!(outcome.output(), plain.output(), "{source}");
    }
}

#[test]
fn a_hidden_copy_beside_and_within_regions_of_another_runtime_computes_the_same_in_every_mode() {
    let host = Program::with_flags(Compiler::Gcc, "host.c", &["-fopenmp", "-ldl"]);
    let guest = host.dir.path().join("libguest.so");
    Compiler::Clang.compile("guest.c", &guest, &["-fopenmp", "-fPIC", "-shared"]);
    for when in ["EARLY", "LATE"] {
        let environment = [
            ("OMP_NUM_THREADS", "3"),
            ("GUEST", text(&guest)),
            ("DEEP", "1"),
            (when, "1"),
        ];
        let plain = host.run_plainly(&[], &environment);
        let managed = || {
            let with = |managed: Managed, (name, value): &(&str, &str)| managed.env(name, value);
            environment.iter().fold(host.managed(), with)
        };
        let mut fixed = managed();
        fixed.page.publish(2, TeamMode::Fixed);
        for (mut managed, mode) in [
            (fixed, "fixed"),
            (managed().following(3), "follow"),
            (managed().virtually(1), "virtual"),
            (managed().virtually(2), "virtual"),
        ] {
            assert_eq!(managed.run().output(), plain.output(), "{mode} {when}");
            let report = managed.page.report();
            assert_eq!(report.runtimes, Runtimes::all(), "{mode} {when}");
            assert!(
                report.flags.contains(ReportFlags::OBSERVED),
                "{mode} {when}"
            );
        }
    }
}

#[test]
fn two_regions_of_a_hidden_copy_have_two_identities() {
    let hidden = Hidden::teams();
    let mut program = hidden.managed().threads(2).start();
    let mut region = |line: &str| {
        assert_eq!(program.team(line), 2);
        program.page.progress().region
    };
    let (plain, looped, again) = (region(""), region("loop"), region(""));
    assert!(plain != 0 && looped != 0);
    assert_ne!(plain, looped);
    assert_eq!(plain, again);
    program.finish();
}

/// The program under `--teams follow` with four threads by default, its first region done.
fn following(hidden: &Hidden, cpus: u32) -> Dialogue {
    let mut dialogue = hidden.managed().threads(4).following(cpus).start();
    assert_eq!(dialogue.team(""), 4, "the first region has the full team");
    dialogue
}

#[test]
fn the_teams_of_a_hidden_copy_follow_down_to_two_threads() {
    let hidden = Hidden::teams();
    let mut program = following(&hidden, 2);
    assert_eq!(program.team(""), 2);
    for cpus in [3, 1, 4, 2, 3] {
        program.page.allocate(cpus);
        let team = cpus.max(2);
        for line in ["", "loop", "sections"] {
            assert_eq!(program.team(line), team, "{cpus} {line}");
            assert_eq!(program.team("max"), 4, "the setting is the program's");
        }
        let report = program.page.report();
        assert_eq!((report.team_size, report.max_threads), (team, 4));
        assert_eq!(report.applied, program.page.writer.generation());
    }
    let page = program.finish();
    assert_eq!(page.report().teams_off, None);
}

#[test]
fn within_a_lowered_region_of_a_hidden_copy_the_setting_is_the_programs() {
    let hidden = Hidden::new("settings.c");
    let arguments = [text(&hidden.guest)];
    let plain = hidden
        .host
        .run_plainly(&arguments, &[("OMP_NUM_THREADS", "4")]);
    let mut managed = hidden.managed().threads(4).following(2);
    let (plain, managed) = (plain.output().to_owned(), managed.run().output().to_owned());
    assert_eq!(plain, "4 of 4; 4 of 4; 4 of 4; after 4\n");
    assert_eq!(managed, "4 of 4; 2 of 4; 2 of 4; after 4\n");
}

#[test]
fn sizes_that_the_program_of_a_hidden_copy_asks_for_are_exact() {
    let hidden = Hidden::teams();
    let mut program = following(&hidden, 2);
    assert_eq!(program.team("clause 3"), 3);
    assert_eq!(program.page.report().teams_off, Some(TeamsOff::Clause));
    assert_eq!(program.team(""), 2);
    assert_eq!(program.team("if 0"), 1);
    assert_eq!(program.ask("nested"), "4 in 2");
    program.ask("set 3");
    assert_eq!(program.team(""), 3);
    let off = program.page.report().teams_off;
    assert_eq!(off, Some(TeamsOff::SetNumThreads));
    assert_eq!(program.team("max"), 3);
    program.finish();
    // Before its first region, too.
    let mut program = hidden.managed().threads(4).following(2).start();
    program.ask("set 3");
    assert_eq!((program.team(""), program.team("")), (3, 3));
    program.finish();
}

#[test]
fn a_hidden_copy_whose_user_may_insist_on_sizes_has_exact_teams() {
    let hidden = Hidden::new("teams.c");
    let mut program = following(&hidden, 2);
    assert_eq!((program.team(""), program.team("loop")), (4, 4));
    let off = program.page.report().teams_off;
    assert_eq!(off, Some(TeamsOff::SetDynamic));
    program.finish();
}

#[test]
fn a_hidden_copy_that_may_be_set_by_handle_has_exact_teams() {
    let hidden = Hidden::teams();
    for (name, reason) in [
        ("omp_get_max_threads", None),
        ("omp_set_num_threads", Some(TeamsOff::SetNumThreads)),
        ("omp_set_dynamic", Some(TeamsOff::SetDynamic)),
    ] {
        let managed = hidden.managed().threads(4).following(2);
        let mut program = managed.env("LOOKS_UP", name).start();
        let later = if reason.is_some() { 4 } else { 2 };
        assert_eq!((program.team(""), program.team("")), (4, later), "{name}");
        assert_eq!(program.finish().report().teams_off, reason, "{name}");
    }
}

#[test]
fn what_libomp_or_the_program_would_not_bear_from_a_tool_is_not_done() {
    // libomp stops where a tool left something beside tasks; the others insist on their sizes.
    for source in [
        "taskwait_depend.c",
        "../conformance/set_num_threads.c",
        "../conformance/stored_team.c",
    ] {
        let hidden = Hidden::new(source);
        let mut cpus = 0;
        let mut managed = hidden.managed().threads(4).following(4);
        let outcome = managed.run_while(|page| {
            cpus = cpus % 4 + 1;
            page.allocate(cpus);
        });
        outcome.output();
    }
}

#[test]
fn a_region_made_serial_by_a_limit_does_not_alter_later_answers_to_the_program() {
    let hidden = Hidden::new("settings.c");
    let mut managed = hidden
        .managed()
        .threads(4)
        .following(2)
        .env("OMP_MAX_ACTIVE_LEVELS", "0");
    // The setting stays where it was put: no larger team comes after it has been reported.
    let shown = managed.run().output().to_owned();
    assert_eq!(shown, "1 of 4; 1 of 2; 1 of 2; after 2\n");
    let off = managed.page.report().teams_off;
    assert_eq!(off, Some(TeamsOff::Observed));
}

/// `tool.c` as a library.
fn users_tool(dir: &Path) -> PathBuf {
    let to_library = ["-fopenmp", "-w", "-fPIC", "-shared"];
    Compiler::Clang.compile("tool.c", &dir.join("libtool.so"), &to_library)
}

#[test]
fn a_tool_of_the_users_goes_before_the_shim() {
    let hidden = Hidden::new("observed.c");
    let tool = users_tool(hidden.host.dir.path());
    let expected = format!("{}tool: 30 regions\n", observed(3));
    // Named before the shim, and alone.
    for list in [vec![tool.as_path(), &shim()], vec![&tool]] {
        let mut managed = with_tool(hidden.managed(), &list).threads(3);
        assert_eq!(managed.run().output(), expected, "{list:?}");
        assert_eq!(managed.page.progress().regions, 0);
    }
    // Nobody's: the program runs as without a tool.
    let mut disabled = hidden.managed().threads(3).env("OMP_TOOL", "disabled");
    assert_eq!(disabled.run().output(), observed(3));
    assert_eq!(disabled.page.progress().regions, 0);
}

#[test]
fn a_tool_of_the_users_is_found_behind_the_shim_by_ordinary_programs() {
    let program = Program::with_flags(Compiler::Clang, "observed.c", &["-fopenmp"]);
    let tool = users_tool(program.dir.path());
    let expected = format!("{}tool: 30 regions\n", observed(3));
    let preloaded = format!("{}:{}", text(&shim()), text(&tool));
    let mut managed = program.managed().threads(3).env("LD_PRELOAD", &preloaded);
    assert_eq!(managed.run().output(), expected);
    assert_eq!(managed.page.progress().regions, 30);
    let mut managed = with_tool(program.managed(), &[&tool]).threads(3);
    assert_eq!(managed.run().output(), expected);
    assert_eq!(managed.page.progress().regions, 30);
}

#[test]
fn an_ordinary_libomp_has_no_tool() {
    let program = Program::with_flags(Compiler::Clang, "observed.c", &["-fopenmp"]);
    let log = program.dir.path().join("log");
    let mut managed = program
        .managed()
        .threads(3)
        .env("OMP_TOOL_VERBOSE_INIT", text(&log));
    assert_eq!(managed.run().output(), observed(3));
    let progress = managed.page.progress();
    assert_eq!((progress.regions, progress.iterations), (30, 10 * 103));
    let flags = managed.page.report().flags;
    assert!(!flags.contains(ReportFlags::OBSERVED), "{flags:?}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("No OMP tool loaded"), "{log}");
}

#[test]
fn where_the_shim_is_not_preloaded_libomp_loads_it_as_a_tool_and_is_heard() {
    for source in ["observed.c", "constructs.c"] {
        let program = Program::with_flags(Compiler::Clang, source, &["-fopenmp"]);
        let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "3")]);
        let log = program.dir.path().join("log");
        for cpus in [1, 2, 3] {
            let managed = program.managed().threads(3);
            let mut managed = managed.env("OMP_TOOL_VERBOSE_INIT", text(&log));
            managed.page.publish(cpus, TeamMode::Fixed);
            managed.command.env_remove("LD_PRELOAD");
            let outcome = managed.run();
            let log = std::fs::read_to_string(&log).unwrap();
            assert!(log.contains("Tool was started"), "{log}");
            assert_eq!(outcome.output(), plain.output(), "{source} {cpus}");
            assert!(managed.page.progress().regions > 0, "{source} {cpus}");
            let flags = managed.page.report().flags;
            assert!(flags.contains(ReportFlags::OBSERVED), "{flags:?}");
        }
    }
}

#[test]
fn without_a_page_a_hidden_copy_has_no_tool() {
    let hidden = Hidden::new("observed.c");
    let log = hidden.host.dir.path().join("log");
    let mut managed = hidden
        .managed()
        .threads(3)
        .env("OMP_TOOL_VERBOSE_INIT", text(&log));
    managed
        .command
        .env_remove("MAPPER_PAGE")
        .env_remove("MAPPER_DEBUG");
    assert_eq!(managed.run().output(), observed(3));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("No OMP tool loaded"), "{log}");
}

#[test]
fn a_module_that_shares_a_hidden_copy_is_counted_once() {
    let host = Program::with_flags(Compiler::Clang, "loader.c", &[]);
    let dir = host.dir.path();
    let library = |name: &str| {
        let define = format!("-DNAME={name}");
        let to_library = ["-fopenmp", "-fPIC", "-shared", define.as_str()];
        let path = dir.join(format!("lib{name}.so"));
        Compiler::Clang.compile("library.c", &path, &to_library)
    };
    let (deep, plain) = (library("deep"), library("plain"));
    let load = [
        format!("deep:{}:deep", text(&deep)),
        format!("local:{}:plain", text(&plain)),
    ];
    for calls in [["call:0", "call:1"], ["call:0", "call:0"]] {
        let arguments = [load[0].as_str(), calls[0], &load[1], calls[1]];
        let mut managed = host.managed().args(&arguments);
        assert_eq!(managed.run().output(), "24500\n24500\n");
        let progress = managed.page.progress();
        assert_eq!(
            (progress.regions, progress.iterations),
            (20, 20 * 50),
            "{calls:?}"
        );
    }
}
