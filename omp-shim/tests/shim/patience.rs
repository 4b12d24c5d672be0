//! How long libgomp's threads spin follows the CPUs that the program has.
//!
//! Seen by the CPU time of a thread that waits: it depends little on what else the machine does.

use std::time::{Duration, Instant};

use mapper_abi::{TeamMode, TeamsOff};

use crate::harness::{Compiler, Dialogue, Managed, Program, on_one_cpu, turn};

/// The launcher's count, so large that it is distinct from sleeping and a hundredth of what is patient.
const TURNS: &str = "400";
/// CPU time of a hundred waits of a tenth of a millisecond and what a sleep takes longer. A thread that spins all the
/// time takes some 16,000 µs.
const SPINNING_US: u64 = 8_000;

fn managed(program: &Program, cpus: u32) -> Managed {
    let mut managed = program
        .managed()
        .env("GOMP_SPINCOUNT", TURNS)
        .env("MAPPER_SPIN_TURNS", TURNS);
    managed.page.publish(cpus, TeamMode::Fixed);
    managed
}

fn cpu_us(dialogue: &mut Dialogue) -> u64 {
    dialogue.ask("go").parse().unwrap()
}

/// Whether threads come to spin that long. While other programs want the CPUs they do not: some moment of a minute has to
/// be undisturbed.
fn comes_to_spin(dialogue: &mut Dialogue) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    std::iter::from_fn(|| Some(cpu_us(dialogue)))
        .take_while(|_| Instant::now() < deadline)
        .any(|cpu_us| cpu_us > SPINNING_US)
}

/// Whether threads do not spin that long, once they have had time to learn of a change. On a busy machine waking a thread
/// may take a while, too: more than half of the times have to be undisturbed.
fn does_not_spin(dialogue: &mut Dialogue) -> bool {
    const TIMES: usize = 21;
    cpu_us(dialogue);
    let spinning = (0..TIMES).filter(|_| cpu_us(dialogue) > SPINNING_US);
    spinning.count() <= TIMES / 2
}

#[test]
fn threads_spin_for_long_only_while_each_has_a_cpu() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "patience.c");
    let mut dialogue = managed(&program, 2).start();
    for _ in 0..3 {
        dialogue.page.publish(2, TeamMode::Fixed);
        assert!(comes_to_spin(&mut dialogue));
        dialogue.page.publish(1, TeamMode::Fixed);
        assert!(does_not_spin(&mut dialogue));
    }
    dialogue.finish();
}

#[test]
fn threads_of_a_program_that_can_not_have_virtual_teams_spin_as_those_of_fixed_teams() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "patience.c");
    // A list of sizes refuses them.
    let managed = managed(&program, 2)
        .virtually(2)
        .env("OMP_NUM_THREADS", "2,1");
    let mut dialogue = managed.start();
    assert!(comes_to_spin(&mut dialogue));
    assert_eq!(
        dialogue.page.report().teams_off,
        Some(TeamsOff::NestedSizes)
    );
    dialogue.page.publish(1, TeamMode::Virtual);
    assert!(does_not_spin(&mut dialogue));
    dialogue.finish();
}

#[test]
fn a_program_that_began_on_one_cpu_spins_as_long_when_it_has_more() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "patience.c");
    // libgomp believes for good that it has one.
    let mut dialogue = on_one_cpu(|| managed(&program, 1).start());
    assert!(does_not_spin(&mut dialogue));
    dialogue.move_to_cpus_of_the_test();
    dialogue.page.publish(2, TeamMode::Fixed);
    assert!(comes_to_spin(&mut dialogue));
    dialogue.finish();
}

#[test]
fn threads_that_wait_for_one_which_has_their_cpu_do_not_spin() {
    turn::alone();
    // Two threads on one CPU, whatever the page says.
    let program = Program::new(Compiler::Gcc, "patience.c");
    let mut dialogue = on_one_cpu(|| managed(&program, 2).args(&["compute"]).start());
    cpu_us(&mut dialogue);
    assert!((0..5).any(|_| cpu_us(&mut dialogue) < SPINNING_US));
    dialogue.finish();
}

#[test]
fn threads_of_all_processes_count() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "patience.c");
    let mut one = managed(&program, 3).start();
    assert!(comes_to_spin(&mut one));
    let mut command = program.plain_command();
    command
        .env("LD_PRELOAD", crate::harness::shim())
        .env("MAPPER_PAGE", one.page.path())
        .env("MAPPER_TOKEN", one.page.writer.token().to_string())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut other = command.spawn().unwrap();
    let mut words = other.stdin.take().unwrap();
    let mut answers = std::io::BufReader::new(other.stdout.take().unwrap());
    std::io::Write::write_all(&mut words, b"go\n").unwrap();
    std::io::BufRead::read_line(&mut answers, &mut String::new()).unwrap();
    assert_eq!(one.page.progress().threads, 4);
    assert!(does_not_spin(&mut one));
    drop(words);
    assert!(other.wait().unwrap().success());
    assert!(comes_to_spin(&mut one));
    one.finish();
}

#[test]
fn what_the_user_chose_stays() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "patience.c");
    let mut own_count = managed(&program, 2);
    own_count.command.env_remove("MAPPER_SPIN_TURNS");
    let policy = managed(&program, 2).env("OMP_WAIT_POLICY", "passive");
    // A script between launcher and program has set another one.
    let script = managed(&program, 2).env("GOMP_SPINCOUNT", "300");
    for managed in [own_count, policy, script] {
        let mut dialogue = managed.start();
        assert!(does_not_spin(&mut dialogue));
        dialogue.finish();
    }
}

#[test]
fn a_libgomp_that_a_wheel_brings_along_is_found_as_well() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "patience.c");
    // What the tools that make wheels do: another name, and another place.
    let found = std::process::Command::new("gcc")
        .arg("-print-file-name=libgomp.so.1")
        .output()
        .unwrap();
    let libgomp = String::from_utf8(found.stdout).unwrap();
    let copied = program.dir.path().join("libgomp.so.1");
    std::fs::copy(libgomp.trim(), copied).unwrap();
    let managed = managed(&program, 2).env("LD_LIBRARY_PATH", program.dir.path().to_str().unwrap());
    let mut dialogue = managed.start();
    assert!(comes_to_spin(&mut dialogue));
    dialogue.finish();
}
