//! The same program on Linux and hosted. A scenario is a function that uses perf events as any program
//! would, and writes down what it saw; that must be the same under both kernels.
//!
//! The program runs itself for it: `hosted tool SCENARIO` is the program, `hosted host SCENARIO` serves it.

mod bpf;
mod breakpoints;
#[path = "../../../engine/tests/shared/draw.rs"]
mod draw;
#[path = "../../../engine/tests/shared/image.rs"]
mod image;
mod memory;
mod narrow;
mod probes;
#[path = "../../../engine/tests/shared/random.rs"]
mod random;
mod refusals;
mod rows;
mod scenarios;
mod short;
mod strangers;
mod sweep;
mod tracers;
mod wakeups;

use perfuse_live::intercept::{Note, Untraceable};
use perfuse_testkit::{Container, Outcome, Sandbox, Skip};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, exit};

/// Runs a scenario in a role.
fn play(sandbox: Sandbox, role: &str, scenario: &str) -> Output {
    play_with(sandbox, &[role, scenario])
}

/// This program, though a user may not go along its path.
const OWN: &str = "/proc/self/exe";

/// The same with arguments of the scenario's own behind those two.
fn play_with(sandbox: Sandbox, arguments: &[&str]) -> Output {
    sandbox.command(OWN).args(arguments).output().expect("the test program runs again")
}

/// Calls are intercepted in other ways where some are refused.
fn compare(scenario: &str) -> Outcome {
    compare_in(scenario, &[Sandbox::new(), Sandbox::new().refusing_perf_event_open(libc::EPERM)])
}

/// All that a run of a scenario wrote.
fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn compare_in(scenario: &str, sandboxes: &[Sandbox]) -> Outcome {
    perfuse_sys::perf_event_open_is_reachable().map_err(|error| Skip::needs("perf_event_open(2)", error))?;
    let linux = play(Sandbox::new(), "tool", scenario);
    if linux.status.code() == Some(2) {
        return Err(Skip::needs("a machine that allows it", text(&linux)));
    }
    assert!(linux.status.success() && !linux.stdout.is_empty(), "on Linux: {}", text(&linux));
    for &sandbox in sandboxes {
        let ours = play(sandbox, "host", scenario);
        assert_eq!(text(&linux), text(&ours), "on Linux (left) and hosted, {sandbox:?}");
        assert_eq!(linux.status, ours.status);
    }
    Ok(())
}

/// A sandbox that refuses what it takes to get there is one of no such namespaces, mostly.
fn namespaces_of_every_kind() -> Outcome {
    compare_in("namespaces_of_every_kind", &[Sandbox::new()])
}

/// A scenario served in a container.
fn contained(container: Container, scenario: &str) -> Result<Output, Skip> {
    let program = std::env::current_exe().expect("the running program has a path");
    container.show(program, "/hosted").run(&["/hosted", "host", scenario])
}

fn as_on_linux(container: Container, scenario: &str) -> Outcome {
    let linux = play(Sandbox::new(), "tool", scenario);
    if linux.status.code() == Some(2) {
        return Err(Skip::needs("such events on Linux", String::from_utf8_lossy(&linux.stdout)));
    }
    let ours = contained(container, scenario)?;
    assert_eq!(String::from_utf8_lossy(&linux.stdout), String::from_utf8_lossy(&ours.stdout), "{ours:?}");
    Ok(())
}

fn breakpoints_in_a_docker_container() -> Outcome {
    as_on_linux(Container::docker()?.user(1000), "breakpoints_are_counted")
}

fn probes_in_a_docker_container() -> Outcome {
    as_on_linux(Container::docker()?.user(1000), "probes_are_counted")
}

fn probes_under_gvisor() -> Outcome {
    as_on_linux(Container::gvisor()?, "probes_are_counted")
}

fn another_user_in_a_docker_container() -> Outcome {
    as_on_linux(Container::docker()?, "another_user_opens_events_for_itself")
}

/// Writes to debug registers have no effect there.
fn no_breakpoints_under_gvisor() -> Outcome {
    let ours = contained(Container::gvisor()?, "breakpoints_are_counted")?;
    assert_eq!(ours.status.code(), Some(2), "{ours:?}");
    assert!(String::from_utf8_lossy(&ours.stdout).contains("ENOENT"), "{ours:?}");
    Ok(())
}

/// Where a function has no frame yet, and where it has none any more.
fn callers_are_seen_without_frames() -> Outcome {
    let ours = play(Sandbox::new(), "host", "frameless");
    assert_eq!(String::from_utf8_lossy(&ours.stdout), "[true, true, true, true]\n", "{ours:?}");
    Ok(())
}

/// Serves the rest of the command line.
fn host(arguments: &[String]) -> ! {
    let mut tool = vec![OWN.into(), "tool".into()];
    tool.extend(arguments.iter().map(Into::into));
    serve(&tool)
}

/// Serves a program.
fn serve(tool: &[OsString]) -> ! {
    let options = perfuse_live::intercept::Options::default();
    // Linux tells by the answer alone that a process may not be measured.
    let tell = |note: &Note| match note {
        Note::Untraceable { why: Untraceable::NotIts, .. } | Note::Detached { .. } => {}
        note => eprintln!("{note}"),
    };
    match perfuse_live::intercept::run(&tool[0], tool, options, tell) {
        Ok(status) => exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        Err(error) => {
            eprintln!("{error}");
            exit(125)
        }
    }
}

macro_rules! scenarios {
    (alike: $($name:ident)+; differ: $($row:ident)+;) => {
        mod tests {
            $(pub(super) fn $name() -> perfuse_testkit::Outcome { super::compare(stringify!($name)) })+
        }

        mod differences {
            $(pub(super) fn $row() -> perfuse_testkit::Outcome { super::rows::compare(stringify!($row)) })+
        }

        fn each_row_has_a_scenario() -> Outcome {
            rows::each_row_has_a_scenario(&[$(stringify!($row)),+])
        }

        fn main() {
            let arguments: Vec<String> = std::env::args().skip(1).collect();
            match arguments.first().map(String::as_str) {
                Some("host") => host(&arguments[1..]),
                Some("short") => short::of_descriptors(),
                Some("serve") => serve(&arguments[1..].iter().map(OsString::from).collect::<Vec<_>>()),
                Some("tool") => match arguments[1].as_str() {
                    $(stringify!($name) => scenarios::$name(),)+
                    $(stringify!($row) => rows::$row(),)+
                    "frameless" => probes::frameless(),
                    "sweep" => sweep::sweep(),
                    "reader" => scenarios::reader(),
                    "values" => probes::values(),
                    "namespaces_of_every_kind" => scenarios::namespaces_of_every_kind(),
                    other => panic!("no scenario {other}"),
                },
                _ => perfuse_testkit::run(
                    perfuse_testkit::need::ptrace,
                    &perfuse_testkit::tests! {
                        deterministic:
                            each_row_has_a_scenario;
                        smoke:
                            short::counts_without_descriptors_are_refused,
                            callers_are_seen_without_frames;
                        witnesses:
                            $(tests::$name),+,
                            $(differences::$row),+,
                            sweep::calls_of_root_are_answered_alike,
                            sweep::calls_that_a_filter_refuses_are_answered_alike,
                            sweep::calls_of_users_are_answered_alike,
                            bpf::calls_of_bpf_are_answered_alike,
                            bpf::programs_on_overflows_do_the_same,
                            bpf::programs_on_probes_and_their_memory_do_the_same,
                            bpf::programs_are_loaded_and_run_alike,
                            bpf::cgroups_are_known_alike,
                            bpf::programs_at_clocks_of_cpus_do_the_same,
                            bpf::programs_run_though_their_tracepoint_is_off,
                            bpf::programs_of_a_user_see_no_calls_of_others,
                            bpf::drawn_calls_of_bpf_are_answered_alike,
                            bpf::hostile_programs_are_stopped,
                            narrow::a_narrow_program,
                            narrow::narrow_calls_of_a_wide_program,
                            breakpoints_in_a_docker_container,
                            probes_in_a_docker_container,
                            namespaces_of_every_kind,
                            another_user_in_a_docker_container,
                            probes_under_gvisor,
                            no_breakpoints_under_gvisor;
                    },
                ),
            }
        }
    };
}

scenarios! {
    alike:
    attrs_of_all_sizes
    wrong_calls
    counts_and_groups
    ioctls
    descriptors_are_duplicated_and_inherited
    a_program_that_is_executed_keeps_what_it_should
    rings_are_mapped_and_unmapped
    readiness
    calls_of_files
    rings_are_not_other_memory
    rings_are_not_cut
    data_of_rings_are_not_written
    a_ring_outlives_its_descriptor
    mapped_code_is_told
    mapped_code_has_its_build_id
    waiting_for_samples
    signals_of_samples
    signals_by_an_ioctl
    an_end_sends_no_signal
    calls_are_no_switches
    switched_by_prctl
    threads_open_events
    children_are_counted
    threads_have_their_names
    vfork_and_exec
    descriptors_run_out
    sigsys_is_left_alone
    a_filter_that_wants_a_tracer
    breakpoints_are_counted
    breakpoints_that_cannot_be
    breakpoints_are_sampled
    breakpoints_of_children
    a_period_that_is_set_holds_at_once
    breakpoints_send_signals
    probes_are_counted
    probes_of_threads_miss_nothing
    probes_are_sampled
    probes_that_cannot_be
    probes_in_files_of_all_kinds
    probes_on_instructions_of_all_kinds
    probes_at_returns
    probes_that_are_come_to_again
    returns_of_threads_and_children
    returns_are_sampled
    libraries_are_loaded_later
    programs_are_probed_from_the_first_instruction
    signals_reach_whom_the_owner_may_signal
    the_last_of_queued_signals_says_so
    another_user_opens_events
    another_user_opens_events_for_itself
    a_user_that_answers_for_itself
    a_user_namespace_of_ones_own
    numbers_of_a_pid_namespace
    probes_where_one_may_not_look
    a_program_that_cannot_be_read
    memory_that_nobody_fills
    answers_into_memory_that_is_read_only
    each_overflow_is_told_once
    epoll_tells_each_overflow_once
    a_sleeping_reader_is_woken_each_time
    signals_are_no_readiness
    the_end_of_a_thread_sends_no_signal
    software_events_of_all_kinds
    arguments_of_ioctls
    a_user_asks_for_programs
    refusals_have_their_order
    one_that_has_ended_is_gone
    root_looks_at_the_kernel
    a_child_asks_to_be_traced
    others_are_attached_to
    threads_are_attached_to
    nobody_traces_whom_he_may_not
    a_tracer_is_killed
    tracing_without_end
    what_is_traced_is_counted
    one_that_nobody_is_to_trace_traces
    stopped_and_sent_on;
    differ:
    whole_cpus
    cgroups
    other_pmus
    tracepoints
    switch_records
    single_faults_and_switches
    kernel_breakpoints
    counts_of_the_kernel
    bpf_of_users
    commands_of_bpf
    untold_events
    modes_of_faults
    kernel_hits
    counts_from_exec_on
    locked_memory
    numbers_of_descriptors
    hardware_events
    single_steps
    probes_of_users
    kernel_threads
    places_in_the_kernel
    kernel_time_outside_of_calls
    samples_a_second
    periods_of_samples
    returns_after_vfork
    paths_of_inherited_probes
    clock_of_records
    times_of_control_pages
    registers_in_the_kernel
    mapped_data
    code_that_others_map
    names_of_threads
    changes_of_namespaces
    symbols_of_the_kernel
    new_cgroups
    build_ids_for_others
    fields_of_memory
    names_of_files
    calls_of_pipes
    descriptors_that_are_passed
    no_ring_but_signals
    blocked_signals_of_ends
    epoll_with_little_room
    memory_that_is_not_filled
    events_of_the_traced
    traced_twice
    tracing_of_measurers
    tracing_of_the_tool
    rights_by_exec
    ignored_sigsys
    ignored_sigtrap
    signs_of_perfuse;
}
