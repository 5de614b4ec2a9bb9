//! `perfuse record` as its users run it: the real program on the running kernel. perfuse's own reader
//! reads its files, and Linux's perf too where it is installed; both must see the same.

mod agree;
mod attrs;
mod errors;
mod faults;
mod fold;
mod groups;
mod habits;
mod off_cpu;
mod perf;
mod session;
mod together;
mod user;
mod whom;

use agree::*;
use attrs::*;
use errors::*;
use faults::*;
use fold::*;
use groups::*;
use habits::*;
use off_cpu::*;
use perf::*;
use perfuse_data::feature::FeatureId;
use perfuse_data::tool::kind;
use perfuse_data::{PerfData, ReadOptions};
use perfuse_events::abi::AttrFlags;
use perfuse_events::abi::record::{Record, RecordType};
use perfuse_testkit::{Outcome, OwnCgroup, Sandbox, Skip, need, perf as linux, side_by_side, suite, wait};
use session::*;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;
use together::*;
use user::*;
use whom::*;

suite! {
    all need need::events;
    smoke:
        the_commands_status_is_passed_on;
    witnesses:
        perf_sees_the_same_records,
        perf_sees_the_header,
        attrs_are_perfs,
        attrs_of_tracepoints_are_perfs,
        attrs_of_groups_are_perfs,
        both_readers_agree,
        both_readers_agree_about_groups,
        both_readers_agree_about_call_chains,
        both_readers_agree_about_reports,
        both_readers_agree_about_large_samples,
        both_readers_agree_about_the_system,
        both_readers_agree_about_tracepoints,
        both_readers_agree_about_pipes,
        perf_finds_all_of_its_header,
        both_recorders_find_the_same_shares,
        filters_mean_the_same_in_the_kernel_and_on_records;
    measurements:
        folded_samples_are_those_that_were_taken,
        sleep_is_told_by_stack_as_the_program_measures_it,
        sleep_is_told_by_records_where_programs_cannot,
        sleep_of_a_process_that_runs_already_is_told,
        the_embedded_kernel_tells_of_sleep,
        a_command_that_cannot_run_leaves_no_file,
        wrong_command_lines_are_told_apart,
        what_was_there_before_is_told_in_part,
        the_recorders_own_hits_are_left_out,
        a_dry_run_records_nothing,
        events_are_recorded_as_one_group,
        a_recorder_goes_first_and_its_command_does_not,
        what_is_not_done_says_so,
        samples_are_as_many_as_frequency_and_time_say,
        forks_and_execs_are_told,
        hundreds_of_threads_are_recorded,
        a_running_process_is_recorded_with_its_threads,
        files_of_containers_are_found_as_their_processes_see_them,
        the_whole_system_is_recorded,
        a_flame_graph_records_first_what_it_is_told,
        call_chains_and_copies_of_the_stack,
        compressed_recordings_hold_the_same,
        a_pipe_is_a_recording_of_its_own,
        tracepoints_are_filtered_and_formatted,
        periods_and_several_events,
        a_file_follows_a_file,
        an_overwritten_ring_keeps_the_newest,
        one_event_is_overwritten_and_another_is_not,
        samples_of_one_event_tell_no_time,
        an_old_recording_is_kept,
        ctrl_c_completes_the_file,
        a_killed_recorder_leaves_a_readable_file,
        a_full_disk_is_told_and_leaves_a_readable_file,
        a_disk_that_is_full_at_the_end_or_between_files,
        a_killed_target_ends_the_recording,
        a_reader_that_goes_away_ends_the_recording,
        outputs_that_cannot_be_written_are_told,
        orders_switch_sampling_on_and_end_it,
        a_recording_has_at_most_its_size,
        only_so_many_files_are_kept,
        a_signal_writes_what_overwritten_rings_hold,
        a_line_is_shown_on_a_terminal,
        a_recording_is_its_owners,
        what_is_never_sampled_is_said,
        loaded_bpf_programs_are_told,
        cgroups_are_told,
        processes_of_a_moment_are_followed,
        who_wants_own_clocks_has_them,
        thousands_of_threads_need_few_descriptors,
        what_runs_already_has_build_ids,
        an_unprivileged_user_records_the_user_side,
        samples_of_a_leader_have_the_values_of_its_group,
        values_of_groups_are_inherited_where_the_kernel_can,
        members_sample_by_themselves_without_s,
        weak_groups_stay_together_where_they_can,
        each_event_has_its_cgroup,
        threads_have_rings_of_their_own,
        what_is_wrong_is_said,
        what_needs_a_pmu_says_so,
        rings_are_as_large_as_the_user_may_lock,
        a_recording_is_its_owners_alone,
        groups_are_inherited_without_their_kernel_side,
        a_user_hears_what_is_never_sampled,
        threads_take_one_descriptor_for_each_cpu,
        who_may_sample_cpus_records_any_number_of_threads,
        threads_share_rings_where_memory_is_short,
        copies_of_stacks_are_unwound,
        cpus_that_are_not_there_are_told;
}

/// Compiles a program whose stacks are whole by frame pointers, into this folder.
fn compiled(folder: &Folder, name: &str, text: &str) -> Result<PathBuf, Skip> {
    let compiler = need::program("cc")?;
    let (source, program) = (folder.file(&format!("{name}.c")), folder.file(name));
    fs::write(&source, text).expect("a source");
    let mut cc = Command::new(compiler);
    cc.args(["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-o"]);
    match cc.arg(&program).arg(&source).status() {
        Ok(status) if status.success() => Ok(program),
        other => Err(Skip::needs("a C compiler that works", format!("{other:?}"))),
    }
}

/// A shell loop of some 100 ms.
const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-record-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(file: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("record").arg("-o").arg(file).args(arguments);
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records successfully; what was said.
fn recorded(file: &Path, arguments: &[&str]) -> String {
    let output = record(file, arguments).output().expect("the program starts");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?} {said}", output.status);
    assert_eq!(lost(&said), Some(0), "{arguments:?}: {said}");
    said
}

/// How many records were lost, as the last line says.
fn lost(said: &str) -> Option<u64> {
    let (before, _) = said.split_once(" lost")?;
    before.rsplit(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// How many records of each type a recording has.
fn counts(file: &Path) -> BTreeMap<u32, u64> {
    counts_of(PerfData::open(file).expect("a recording"))
}

fn counts_of(mut data: PerfData<'_>) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    while let Some(entry) = data.next().expect("whole records") {
        if entry.is_kernel() {
            entry.decode().expect("its event is known");
        }
        *counts.entry(entry.kind().0).or_insert(0) += 1;
    }
    counts
}

fn samples(file: &Path) -> u64 {
    counts(file).get(&RecordType::SAMPLE.0).copied().unwrap_or(0)
}

/// The number of records of a type in all of the recording, by perf.
fn perf_counts(file: &Path, name: &str) -> Result<u64, Skip> {
    let output = perf(&["report", "--stats"], file)?;
    let stats = text(&output.stdout);
    let line = stats.lines().find(|line| line.trim().starts_with(&format!("{name} events:")));
    let number = line.and_then(|line| line.split(':').nth(1)?.split_whitespace().next()?.parse().ok());
    // A type without records has no line.
    let none = || stats.contains("TOTAL events:").then_some(0);
    Ok(number.or_else(none).unwrap_or_else(|| panic!("no {name} in {stats}{}", text(&output.stderr))))
}

/// Runs perf on a recording.
fn perf(arguments: &[&str], file: &Path) -> Result<Output, Skip> {
    linux::output(linux::command(arguments)?.arg("-i").arg(file))
}

/// Records with perf. It waits for a second at the end, unless it need not watch out for BPF programs.
fn perf_records(file: &Path, how: &str, arguments: &[&str]) -> Outcome {
    linux::succeeds(linux::command(&["record", how, "-o"])?.arg(file).args(arguments)).map(drop)
}

const QUICKLY: &str = "--no-bpf-event";
