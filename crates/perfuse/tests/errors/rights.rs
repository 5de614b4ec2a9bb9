//! Refusals for want of rights: users, sandboxes, and limits of descriptors and memory.

use super::*;

pub(super) fn a_user_and_the_kernel() -> Outcome {
    needs_paranoid(1)?;
    Sandbox::new().unprivileged().within("a_user_and_the_kernel", || {
        let error = Builder::new(Software::PAGE_FAULTS).user_and_kernel().open().expect_err("paranoid");
        expect(&error, Errno::EACCES, or_closed(Cause::ParanoidKernel));
        assert!(error.is_permission());
        let remedies = &error.diagnosis().remedies;
        assert!(remedies.iter().any(|r| r.ends_with("sysctl kernel.perf_event_paranoid=1")), "{error:#}");
        open_to_users()?;
        // The first remedy works.
        assert!(remedies[0].contains(":u"), "{error:#}");
        Builder::new(Software::PAGE_FAULTS).user_only().open().expect("user space of one's own");
        Ok(())
    })
}

pub(super) fn a_user_and_a_whole_cpu() -> Outcome {
    needs_paranoid(0)?;
    Sandbox::new().unprivileged().within("a_user_and_a_whole_cpu", || {
        let builder = Builder::new(Software::PAGE_FAULTS).user_only().target(Target::cpu(0));
        let error = builder.open().expect_err("paranoid");
        expect(&error, Errno::EACCES, or_closed(Cause::ParanoidCpuWide));
        let remedies = &error.diagnosis().remedies;
        assert!(remedies.iter().any(|r| r.ends_with("sysctl kernel.perf_event_paranoid=0")), "{error:#}");
        Ok(())
    })
}

pub(super) fn a_user_and_somebody_elses_process() -> Outcome {
    Sandbox::new().unprivileged().within("a_user_and_somebody_elses_process", || {
        use std::os::unix::fs::MetadataExt;
        if std::fs::metadata("/proc/1").map_or(1, |init| init.uid()) != 0 {
            return Err(Skip::needs("a process of root", "process 1 is none"));
        }
        let builder = Builder::new(Software::PAGE_FAULTS).user_only().target(Target::thread(1));
        let error = builder.open().expect_err("root's process");
        expect(&error, Errno::EACCES, or_closed(Cause::ForeignTask));
        if error.cause() == Cause::ForeignTask {
            assert!(error.to_string().contains("belongs to uid 0"), "{error:#}");
        }
        Ok(())
    })
}

pub(super) fn a_user_and_probes() -> Outcome {
    Sandbox::new().unprivileged().within("a_user_and_probes", || {
        let facts = Facts::gather();
        let pmu = facts.pmu_named("uprobe").ok_or_else(|| Skip::needs("uprobes", "no such PMU"))?;
        let mut attr = Attr::new(pmu.event_type());
        attr.flags = AttrFlags::EXCLUDE_KERNEL;
        let error = refusal(attr);
        expect(&error, Errno::EACCES, or_closed(Cause::PrivilegedFeature));
        if open_to_users().is_ok() {
            assert!(!format!("{error:#}").contains("sysctl kernel"), "no level allows probes: {error:#}");
        }
        Ok(())
    })
}

pub(super) fn a_user_and_raw_tracepoint_data() -> Outcome {
    needs_paranoid(-1)?;
    Sandbox::new().unprivileged().within("a_user_and_raw_tracepoint_data", || {
        open_to_users()?;
        // Users cannot look ids up, but they can count tracepoints.
        let attr = |id| Attr { type_: EventType::TRACEPOINT, config: id, ..faults() };
        let known = |id: &u64| open_raw(attr(*id), (0, -1), None, OpenFlags::empty()).is_ok();
        let id =
            (1..5000).find(known).ok_or_else(|| Skip::needs("tracepoints", "no id below 5000 is one"))?;
        let mut raw = attr(id);
        raw.sample_type = SampleType::RAW;
        raw.set_period(1);
        expect(&refusal(raw), Errno::EPERM, Cause::ParanoidTracepoint);
        Ok(())
    })
}

pub(super) fn a_user_and_the_tracing_file_system() -> Outcome {
    need::root()?;
    need::tracefs()?;
    let unknown = Event::tracepoint("sched:sched_swich").expect_err("misspelt");
    expect(&unknown, Errno::ENOENT, Cause::UnknownTracepoint);
    Sandbox::new().unprivileged().within("a_user_and_the_tracing_file_system", || {
        let error = Event::tracepoint("sched:sched_switch");
        let error = needs_kernel_refusal(error, "users to read the tracing file system")?;
        expect(&error, Errno::EACCES, Cause::FilePermission);
        Ok(())
    })
}

fn refused_by_a_filter(test: &str, errno: Errno) -> Outcome {
    Sandbox::new().refusing_perf_event_open(errno.0).within(test, || {
        for error in [
            Counter::new(Software::PAGE_FAULTS).expect_err("refused"),
            Counter::new(Hardware::CPU_CYCLES).expect_err("refused"),
            Builder::new(Software::TASK_CLOCK).target(Target::cpu(0)).open().expect_err("refused"),
        ] {
            expect(&error, errno, Cause::Seccomp);
            assert!(error.is_permission());
            assert!(!format!("{error:#}").contains("sysctl kernel"), "no sysctl helps: {error:#}");
        }
        Ok(())
    })
}

pub(super) fn a_seccomp_filter_with_eperm() -> Outcome {
    refused_by_a_filter("a_seccomp_filter_with_eperm", Errno::EPERM)
}

pub(super) fn a_seccomp_filter_with_enosys() -> Outcome {
    refused_by_a_filter("a_seccomp_filter_with_enosys", Errno::ENOSYS)
}

pub(super) fn too_many_descriptors() -> Outcome {
    Sandbox::new().open_files(32).within("too_many_descriptors", || {
        let mut counters = Vec::new();
        let error = loop {
            match Builder::new(Software::DUMMY).user_only().open() {
                Ok(counter) => counters.push(counter),
                Err(error) => break error,
            }
            assert!(counters.len() < 32, "the limit does not hold");
        };
        if error.errno() == Errno::EACCES {
            return open_to_users();
        }
        expect(&error, Errno::EMFILE, Cause::OpenFiles);
        assert!(error.to_string().contains("limit 32"), "{error:#}");
        assert_eq!(error.cause().kind(), Kind::Limit);
        Ok(())
    })
}

pub(super) fn rings_beyond_the_locked_memory() -> Outcome {
    needs_paranoid(-1)?;
    Sandbox::new().as_own_user().locked_bytes(64 << 10).within("rings_beyond_the_locked_memory", || {
        open_to_users()?;
        let facts = Facts::gather();
        let share = facts.ring_share_bytes().ok_or_else(|| Skip::needs("perf_event_mlock_kb", "unknown"))?;
        let pages = (share as usize / facts.page_bytes * 2).next_power_of_two();
        let event = Builder::new(Software::CPU_CLOCK).user_only().period(1_000_000);
        let error =
            Sampler::builder().event(event).exactly_pages(pages).open().expect_err("beyond the limit");
        expect(&error, Errno::EPERM, Cause::LockedMemory);
        let text = error.to_string();
        let asked = format!("{} KiB of locked memory", (pages + 1) * facts.page_bytes / 1024);
        for number in [asked, format!("{} KiB per user", share / 1024), "64 KiB per process".to_owned()] {
            assert!(text.contains(&number), "{number}: {text}");
        }
        Ok(())
    })
}
