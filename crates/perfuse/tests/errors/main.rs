//! Every refusal this machine can be brought to give, and whether the named cause is the true one: the
//! test arranges the cause, so it knows.

mod machine;
mod requests;
mod rights;

use perfuse::abi::{
    Attr, AttrFlags, BranchSampleType, Breakpoint, EventType, Hardware, OpenFlags, ReadFormat, SampleType,
    Software,
};
use perfuse::diagnosis::{Cause, Kind};
use perfuse::facts::Facts;
use perfuse::{
    Builder, Call, Cgroup, Command, Counter, CounterSet, Errno, Error, Event, Group, Inherit, Sampler, Scope,
    Subject, Target,
};
use perfuse_testkit::{Outcome, Sandbox, Skip, need};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use machine::*;
use requests::*;
use rights::*;

perfuse_testkit::suite! {
    measurements:
        no_pmu,
        a_user_and_the_kernel,
        a_user_and_a_whole_cpu,
        a_user_and_somebody_elses_process,
        a_user_and_probes,
        a_user_and_raw_tracepoint_data,
        a_user_and_the_tracing_file_system,
        a_seccomp_filter_with_eperm,
        a_seccomp_filter_with_enosys,
        too_many_descriptors,
        rings_beyond_the_locked_memory,
        arguments_that_contradict_each_other,
        bits_without_a_meaning,
        a_frequency_above_the_limit,
        targets_that_do_not_exist,
        members_that_do_not_go_with_their_leader,
        breakpoints_of_the_wrong_shape,
        more_breakpoints_than_registers,
        fields_newer_than_the_kernel,
        threads_that_are_gone,
        descriptors_of_something_else,
        a_leader_whose_task_has_ended,
        an_offline_cpu,
        pmus_and_tracepoints_that_do_not_exist,
        a_pmu_that_cannot_exclude,
        a_pmu_that_does_not_count_threads,
        branches_of_a_software_event,
        callchains_deeper_than_allowed,
        a_member_added_after_a_fork,
        calls_for_sampling_events_only,
        rings_that_cannot_be,
        programs_that_do_not_run,
        an_error_in_words;
}

/// Opens without any of the library's adaptation; a leader measures the same.
fn open_raw(
    mut attr: Attr,
    (pid, cpu): (i32, i32),
    leader: Option<(BorrowedFd<'_>, Attr)>,
    flags: OpenFlags,
) -> Result<OwnedFd, Error> {
    let subject = leader.map(|(_, attr)| Box::new(Subject::new(attr, pid, cpu)));
    let call = Call::Open { attr, pid, cpu, leader: subject, flags };
    let flags = flags | OpenFlags::FD_CLOEXEC;
    let group = leader.map(|(fd, _)| fd);
    perfuse_sys::perf_event_open(&mut attr, pid, cpu, group, flags).map_err(|errno| Error::new(call, errno))
}

/// The error of opening `attr` for the calling thread.
#[track_caller]
fn refusal(attr: Attr) -> Error {
    open_raw(attr, (0, -1), None, OpenFlags::empty()).expect_err("this cannot be opened")
}

fn faults() -> Attr {
    let mut attr = Attr { config: Software::PAGE_FAULTS.0, ..Attr::new(EventType::SOFTWARE) };
    attr.flags = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

/// [`faults`], changed.
fn faults_with(change: impl FnOnce(&mut Attr)) -> Attr {
    let mut attr = faults();
    change(&mut attr);
    attr
}

#[track_caller]
fn expect(error: &Error, errno: Errno, cause: Cause) {
    assert_eq!((error.errno(), error.cause()), (errno, cause), "{error:#}");
}

/// Skips where a distribution closes perf_events to users altogether.
fn open_to_users() -> Outcome {
    let facts = Facts::gather();
    match (facts.paranoid, facts.closed_level()) {
        (Some(level), Some(closed)) if level >= closed => {
            Err(Skip::needs("perf_events for users", format_args!("kernel.perf_event_paranoid is {level}")))
        }
        _ => Ok(()),
    }
}

/// The cause that a user is told: `cause`, or that the distribution closes the door before it.
fn or_closed(cause: Cause) -> Cause {
    if open_to_users().is_ok() { cause } else { Cause::ParanoidClosed }
}

fn needs_paranoid(above: i64) -> Outcome {
    match need::sysctl("kernel/perf_event_paranoid")? {
        level if level > above => Ok(()),
        level => Err(Skip::needs("a stricter kernel.perf_event_paranoid", format_args!("it is {level}"))),
    }
}

fn needs_kernel_refusal<T>(result: Result<T, Error>, what: &str) -> Result<Error, Skip> {
    result.err().ok_or_else(|| Skip::needs("a kernel that refuses", format_args!("this one allows {what}")))
}

/// Skips where not even one's own page faults may be counted.
fn usable() -> Outcome {
    match open_raw(faults(), (0, -1), None, OpenFlags::empty()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Skip::needs("perf_events", error)),
    }
}
