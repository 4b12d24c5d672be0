//! What members of virtual teams set of what the kernel keeps for each thread.

use mapper_abi::TeamsOff;

use crate::harness::{Compiler, Program, turn};

#[test]
fn each_member_has_what_it_has_set_over_barriers_and_regions() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "kernel_settings.c");
    for (what, off) in [
        ("masks", Some(TeamsOff::KernelState)),
        ("names", None),
        ("handlers", None),
        ("priorities", Some(TeamsOff::KernelState)),
        ("policies", Some(TeamsOff::KernelState)),
        ("slack", Some(TeamsOff::KernelState)),
    ] {
        let plain = program.run_plainly(&[what], &[("OMP_NUM_THREADS", "4")]);
        assert_eq!(plain.output(), "right\n", "{what}");
        for (threads, cpus) in [(4, 1), (4, 2), (7, 3), (2, 1)] {
            let managed = program.managed().threads(threads).virtually(cpus);
            let mut managed = managed.args(&[what]);
            let outcome = managed.run();
            assert_eq!(outcome.output(), "right\n", "{what}: {threads} on {cpus}");
            let report = managed.page.report();
            assert_eq!(report.teams_off, off, "{what}: {threads} on {cpus}");
        }
    }
}
