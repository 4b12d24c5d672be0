//! Tests of mapper as an installed service: systemd, control groups, users, signals.
//!
//! The development host usually has none of what these need, so they run in the virtual machine of
//! `cargo xtask vm test`, as root, all in one boot. Each test is a function; its name is the rule
//! that it checks. A line `ok NAME` or `not ok NAME: WHY` is printed for each, and at the end the
//! plan `1..N`, without which the run does not count.
//!
//! The tests see mapper from outside only: its unit files, its command lines and what the kernel
//! says about processes and groups. They share one daemon; a test that ends or alters it leaves it
//! running as it was. What a test starts ends with it.

use std::process::ExitCode;
use std::time::Instant;

mod adopt_rules;
mod adopting;
mod application;
mod checkpoint;
mod confinement;
mod containers;
mod daemon;
mod daemons_tests;
mod drop_in;
mod idle_time;
mod kernel;
mod launching;
mod lifecycle;
mod own_word;
mod package;
mod partitions;
mod permissions;
mod service;
mod slurm;
mod soak;
mod stress;
mod surroundings;
mod users;

/// A rule and the function that checks it.
struct Test {
    name: &'static str,
    check: fn() -> anyhow::Result<()>,
}

/// Lists functions as tests under their own names.
macro_rules! tests {
    ($($module:ident :: $function:ident),+ $(,)?) => {
        &[$(Test { name: stringify!($function), check: $module::$function }),+]
    };
}

/// In an order in which what the later ones rest on has been checked before.
const TESTS: &[Test] = tests![
    service::the_service_starts_and_says_so,
    service::the_service_is_confined_to_what_it_needs,
    service::the_service_has_the_kernel_move_processes_at_once_and_keeps_the_mounts_options,
    service::the_journal_has_structured_fields,
    service::a_launch_is_one_entry_in_the_span_of_its_interval,
    service::the_groups_place_is_delegated_and_the_daemon_is_elsewhere,
    launching::the_exit_status_is_the_programs,
    launching::a_programs_death_by_signal_is_reported_as_a_shell_does,
    launching::signals_are_passed_on,
    launching::a_missing_program_is_127_and_one_that_cannot_run_is_126,
    launching::the_launchers_own_failures_are_125,
    launching::scripts_run,
    launching::standard_streams_are_left_alone,
    launching::a_program_that_forks_stays_in_its_group,
    launching::a_program_may_close_all_descriptors,
    launching::a_set_uid_program_runs_without_the_shim,
    launching::a_program_is_confined_before_its_first_instruction,
    launching::an_empty_group_is_removed,
    confinement::two_programs_get_disjoint_cpus_and_every_thread_obeys,
    confinement::an_arrival_and_a_departure_change_the_allocation,
    confinement::no_cpu_is_ever_promised_twice,
    confinement::bounds_on_cpus_are_kept,
    idle_time::what_a_service_leaves_idle_is_used_and_it_has_as_much_as_without,
    own_word::who_says_that_more_cpus_bring_no_work_gives_them_to_who_says_that_they_do,
    own_word::who_says_that_more_cpus_bring_no_speed_gives_them_to_who_says_that_they_do,
    own_word::who_says_that_it_can_use_two_cpus_has_two_and_the_other_has_the_rest,
    own_word::who_says_that_it_is_serial_lends_its_cpus_and_has_them_back_after_that,
    surroundings::cpus_that_go_offline_are_left_and_taken_again,
    surroundings::a_limit_on_the_groups_place_is_kept,
    surroundings::programs_that_share_a_cpu_have_it_by_their_weights_whatever_processes_they_have,
    surroundings::cpus_set_by_somebody_else_are_respected_until_given_back,
    confinement::an_idle_program_lends_its_cpus_and_has_them_back_once_it_runs,
    confinement::memory_follows_the_cpus_of_those_who_asked_and_of_nobody_else,
    surroundings::a_mask_that_a_program_inherits_counts,
    permissions::an_unprivileged_user_launches,
    permissions::a_user_cannot_launch_for_anothers_process,
    permissions::a_user_cannot_end_anothers_application,
    permissions::a_user_cannot_write_to_a_group,
    adopting::without_the_drop_in_adopting_is_refused_and_names_it,
    adopting::an_adopted_process_is_moved_with_its_child_and_goes_back,
    adopting::hundreds_of_adopted_processes_go_back_in_pieces_also_by_the_next_daemon,
    adopting::an_adopted_unit_is_confined_through_systemd_and_restored,
    adopting::an_adopted_group_stays_in_its_place_and_gets_its_cpus_back,
    adopting::an_adopted_unit_is_kept_within_a_limit_that_is_set_later,
    adopting::memory_of_an_adopted_unit_follows_its_cpus_through_systemd,
    adopting::what_lost_its_state_is_roots_to_release_and_stays_released,
    adopt_rules::what_a_rule_names_is_adopted_at_every_start_until_it_is_released,
    slurm::jobs_of_slurm_that_share_a_node_have_cpus_of_their_own,
    containers::containers_have_cpus_of_their_own_until_they_end,
    containers::a_container_is_given_its_promise_as_a_device,
    partitions::without_the_drop_in_isolation_is_refused_and_names_it,
    partitions::an_isolated_application_has_its_cpus_to_itself_until_it_ends,
    partitions::isolation_outlives_a_crash_and_ends_with_a_stop,
    partitions::a_partition_that_the_kernel_dissolves_is_reported_and_the_program_runs_on,
    lifecycle::daemon_reload_changes_nothing,
    lifecycle::a_stop_gives_all_cpus_back,
    lifecycle::applications_outlive_a_killed_daemon_and_it_comes_back,
    lifecycle::applications_outlive_a_restart,
    lifecycle::the_next_daemon_takes_running_applications_over,
    lifecycle::a_reload_takes_the_configuration_over_and_an_error_is_reported,
    lifecycle::applications_survive_a_damaged_state,
    lifecycle::a_daemon_that_hangs_is_restarted,
    stress::programs_that_fork_and_thread_without_end_are_followed,
    stress::a_program_that_is_stopped_and_continued_is_none_the_worse,
    stress::nothing_is_lost_or_left_over_when_the_daemon_is_killed_among_launches,
    daemons_tests::whatever_users_do_root_is_answered_others_launch_and_every_interval_is_decided,
    daemons_tests::a_program_whose_memory_cannot_be_moved_holds_up_no_answer_and_no_decision,
    daemons_tests::memory_that_others_bind_and_that_cannot_be_moved_holds_up_no_decision,
    daemons_tests::a_process_whose_address_space_is_locked_is_moved_without_stopping_the_machine,
    daemons_tests::a_process_whose_address_space_is_locked_is_launched_within_an_application_without_stopping_the_machine,
    daemons_tests::whichever_operation_on_a_group_fails_the_next_daemon_takes_over,
    daemons_tests::programs_in_groups_are_taken_over_after_kills_at_random_moments,
    daemons_tests::launches_ends_and_passes_cost_in_proportion_to_the_groups,
    daemons_tests::the_deciding_thread_opens_no_file_that_a_program_can_make_it_wait_for,
    daemons_tests::a_process_that_has_the_number_of_an_earlier_one_is_not_taken_for_it,
    checkpoint::a_program_that_criu_saves_and_restores_ends_with_its_result,
    soak::nothing_grows_while_programs_are_launched_adopted_and_the_daemon_restarted,
    lifecycle::stopping_the_groups_place_ends_everything,
    package::an_upgrade_ends_no_application_and_keeps_the_configuration,
    // The last: after it there is nothing left to test.
    package::removed_it_ends_no_application_and_purged_it_leaves_nothing,
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        // The test program itself, started as another user: see `permissions`.
        Some("call") => permissions::call_as_this_user(arguments),
        filter => run(filter.unwrap_or_default()),
    }
}

fn run(filter: &str) -> ExitCode {
    let chosen: Vec<&Test> = TESTS
        .iter()
        .filter(|test| filter.split(',').any(|part| test.name.contains(part)))
        .collect();
    let mut failed = 0;
    for test in &chosen {
        let started = Instant::now();
        let outcome = daemon::ensure_running().and_then(|()| (test.check)());
        match outcome {
            Ok(()) => println!(
                "ok {} ({:.1} s)",
                test.name,
                started.elapsed().as_secs_f64()
            ),
            Err(error) => {
                failed += 1;
                println!("not ok {}: {error:#}", test.name);
                for line in daemon::journal_tail() {
                    println!("# {line}");
                }
            }
        }
    }
    println!("1..{}", chosen.len());
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
