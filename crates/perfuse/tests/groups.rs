//! Groups against the running kernel: members come and go, and each keeps its own count. Rules are those
//! of `docs/semantics`.

use perfuse::abi::{Attr, AttrFlags, EventType, Hardware, ReadFormat, Software};
use perfuse::{Builder, Command, Count, Counter, Counts, Errno, Group, Inherit, Member, Scaled, Target};
use perfuse_testkit::work::{Child, Pages, burn};
use perfuse_testkit::{Outcome, Skip, need, suite};
use std::sync::mpsc;
use std::time::Duration;

/// Page faults of user space: what every user may count.
fn faults() -> Builder {
    Counter::builder(Software::PAGE_FAULTS).user_only()
}

fn event(event: Software) -> Builder {
    Counter::builder(event).user_only()
}

/// Skips where users may not count at all.
fn allowed() -> Outcome {
    faults().open().map(drop).map_err(|error| Skip::needs("to count one's own page faults", error))
}

/// Fifty faults, as often as it is called.
fn fifty_faults() -> impl Fn() {
    let pages = Pages::map(50);
    move || {
        pages.forget();
        pages.touch();
    }
}

/// The counts of the group for `work`, which is done once before, so that its code has been fetched.
fn counted(group: &mut Group, work: impl Fn()) -> Counts {
    work();
    group.reset().expect("reset");
    group.enable().expect("enable");
    work();
    group.disable().expect("disable");
    work();
    group.read().expect("read")
}

fn members_are_read_by_their_names() -> Outcome {
    allowed()?;
    let mut group = Group::new();
    let faults = group.add_built(faults()).expect("page faults");
    let clock = group.add_built(event(Software::TASK_CLOCK)).expect("the task clock");
    let minor = group.add_built(event(Software::PAGE_FAULTS_MIN)).expect("minor faults");
    let major = group.add_built(event(Software::PAGE_FAULTS_MAJ)).expect("major faults");
    let counts = counted(&mut group, fifty_faults());
    assert_eq!([faults, minor, major].map(|member| counts[member].value), [50, 50, 0]);
    assert!(counts[clock].value > 0);
    let times = |count: &Count| (count.enabled_ns, count.running_ns);
    assert!(counts.iter().all(|(_, count)| times(count) == times(&counts[faults]) && count.enabled_ns > 0));
    assert_eq!(counts[faults].scaled(), Scaled::Exact(50));
    let order: Vec<Member> = counts.iter().map(|(member, _)| member).collect();
    assert_eq!(order, [faults, clock, minor, major]);
    assert_eq!(group.members().map(|(member, _)| member).collect::<Vec<_>>(), order);
    for (member, counter) in group.members() {
        assert_eq!(counts[member].id, counter.id().expect("an id"));
    }
    Ok(())
}

fn a_leader_of_another_pmu_takes_its_siblings_along() -> Outcome {
    // Siblings that were opened off would stay off here: with a leader of another software PMU the
    // kernel does not start them (see docs/architecture).
    allowed()?;
    for leader in [Software::TASK_CLOCK, Software::CPU_CLOCK, Software::DUMMY, Software::PAGE_FAULTS] {
        let mut group = Group::new();
        group.add_built(event(leader)).expect("a leader");
        let faults = group.add_built(faults()).expect("page faults");
        assert_eq!(counted(&mut group, fifty_faults())[faults].value, 50, "led by {leader:?}");
        assert_eq!(counted(&mut group, fifty_faults())[faults].value, 50, "a second time");
    }
    Ok(())
}

fn a_removed_member_leaves_the_others_as_they_were() -> Outcome {
    allowed()?;
    let mut group = Group::new();
    let members = [(); 4].map(|()| group.add_built(faults()).expect("page faults"));
    let work = fifty_faults();
    counted(&mut group, &work);
    group.remove(members[1]);
    let counts = group.read().expect("read");
    assert_eq!([0, 2, 3].map(|index| counts[members[index]].value), [50; 3], "the counts stay");
    assert_eq!((counts.get(members[1]), counts.iter().len(), group.len()), (None, 3, 3));
    assert!(group.counter(members[1]).is_none());
    group.remove(members[1]);
    let new = group.add_built(event(Software::PAGE_FAULTS_MIN)).expect("minor faults");
    let counts = counted(&mut group, &work);
    assert_eq!([members[0], members[2], members[3], new].map(|member| counts[member].value), [50; 4]);
    assert!(!members.contains(&new), "a name is never given twice");
    Ok(())
}

fn a_removed_leader_leaves_the_others_as_they_were() -> Outcome {
    allowed()?;
    let mut group = Group::new();
    let [leader, second, third] = [(); 3].map(|()| group.add_built(faults()).expect("page faults"));
    let work = fifty_faults();
    work();
    group.enable().expect("enable");
    work();
    group.remove(leader);
    work();
    group.disable().expect("disable");
    let counts = group.read().expect("read");
    assert_eq!((counts.get(leader), counts.iter().len(), group.len()), (None, 2, 2));
    assert!(counts[second].value == counts[third].value && counts[second].value >= 100);
    let counts = counted(&mut group, &work);
    assert_eq!([second, third].map(|member| counts[member].value), [50, 50]);
    group.remove(second);
    group.remove(third);
    assert!(group.is_empty() && group.read().expect("read").iter().len() == 0);
    let again = group.add_built(faults()).expect("page faults");
    assert_eq!(counted(&mut group, &work)[again].value, 50);
    Ok(())
}

fn a_refused_member_changes_nothing() -> Outcome {
    allowed()?;
    let mut group = Group::new();
    // While it is empty,
    let unknown = Attr::new(EventType(0x7fff_fff0));
    assert_eq!(group.add(unknown).expect_err("no such PMU").errno(), Errno::ENOENT);
    assert!(group.is_empty() && group.read().expect("nothing").iter().len() == 0);
    let first = group.add_built(faults()).expect("page faults");
    let work = fifty_faults();
    work();
    group.enable().expect("enable");
    // and while it counts.
    assert_eq!(group.add(unknown).expect_err("no such PMU").errno(), Errno::ENOENT);
    let pinned = group.add_built(faults().pinned(true)).expect_err("only a leader may (rule B28)");
    assert_eq!(pinned.errno(), Errno::EINVAL);
    let inherited = group.add_built(faults().inherit(Inherit::All)).expect_err("unlike its leader (B13)");
    assert_eq!(inherited.errno(), Errno::EINVAL);
    let second = group.add_built(faults()).expect("page faults");
    let before = group.read().expect("read");
    work();
    group.disable().expect("disable");
    let after = group.read().expect("read");
    assert_eq!(group.len(), 2);
    assert_eq!([first, second].map(|member| (after[member] - before[member]).value), [50, 50]);
    Ok(())
}

fn a_member_that_joins_a_counting_group_counts() -> Outcome {
    allowed()?;
    let mut group = Group::new();
    let first = group.add_built(event(Software::TASK_CLOCK)).expect("the task clock");
    let work = fifty_faults();
    work();
    group.enable().expect("enable");
    let late = group.add_built(faults()).expect("page faults");
    let before = group.read().expect("read");
    work();
    group.disable().expect("disable");
    let counts = group.read().expect("read");
    assert_eq!((counts[late] - before[late]).value, 50);
    assert!(counts[first].value > before[first].value);
    Ok(())
}

fn a_large_group_is_read_whole() -> Outcome {
    // 3 words and 3 for each member.
    allowed()?;
    let mut group = Group::new();
    let members: Vec<Member> = (0..100).map(|_| group.add_built(faults()).expect("page faults")).collect();
    let mut counts = counted(&mut group, fifty_faults());
    assert!(members.iter().all(|&member| counts[member].value == 50));
    for &member in &members[..97] {
        group.remove(member);
    }
    group.read_into(&mut counts).expect("into a reading that was larger");
    assert_eq!(
        counts.iter().map(|(member, count)| (member, count.value)).collect::<Vec<_>>(),
        [(members[97], 50), (members[98], 50), (members[99], 50)]
    );
    Ok(())
}

fn a_group_that_cannot_be_read_is_refused_in_time() -> Outcome {
    // Rule B31: what one read(2) returns ends at 16 KiB.
    let test = "a_group_that_cannot_be_read_is_refused_in_time";
    perfuse_testkit::Sandbox::new().open_files(1000).within(test, || {
        allowed()?;
        let mut group = Group::new();
        let refused = (0..900).find_map(|_| group.add_built(faults()).err()).expect("an end");
        assert_eq!(refused.errno(), Errno::E2BIG, "{refused:#}");
        assert!(group.len() > 600, "{}", group.len());
        assert_eq!(group.read().expect("read").iter().len(), group.len());
        Ok(())
    })
}

fn a_member_can_be_read_alone() -> Outcome {
    // Rule E4: such a read returns the whole group, in which it finds its own.
    allowed()?;
    let mut group = Group::new();
    let [first, second] = [Software::PAGE_FAULTS, Software::PAGE_FAULTS_MAJ]
        .map(|software| group.add_built(event(software)).expect("a member"));
    let counts = counted(&mut group, fifty_faults());
    let alone = |member| group.counter(member).expect("a counter").read().expect("read");
    assert_eq!([first, second].map(|member| alone(member).value), [50, 0]);
    assert_eq!([first, second].map(alone), [first, second].map(|member| counts[member]));
    Ok(())
}

fn formats_with_less_are_understood() -> Outcome {
    allowed()?;
    for format in (0..32).map(ReadFormat::from_bits_retain) {
        let builder = || faults().with(|attr| attr.read_format = format);
        let mut group = Group::new();
        let Ok(first) = group.add_built(builder()) else {
            assert!(format.contains(ReadFormat::LOST), "{format:?}");
            continue;
        };
        let second = group.add_built(builder()).expect("page faults");
        let counts = counted(&mut group, fifty_faults());
        assert_eq!([first, second].map(|member| counts[member].value), [50, 50], "{format:?}");
        assert_eq!(counts[first].enabled_ns > 0, format.contains(ReadFormat::TOTAL_TIME_ENABLED));
    }
    Ok(())
}

fn a_group_on_another_thread() -> Outcome {
    allowed()?;
    let (tell, told) = mpsc::channel();
    let (start, started) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let work = fifty_faults();
        work();
        // SAFETY: gettid has no preconditions.
        tell.send(unsafe { libc::syscall(libc::SYS_gettid) } as u32).expect("the test waits");
        while started.recv().is_ok() {
            work();
            tell.send(0).expect("the test waits");
        }
    });
    let tid = told.recv().expect("an id");
    let mut group = Group::on(Target::thread(tid));
    let members = [(); 2].map(|()| group.add_built(faults()).expect("page faults"));
    group.enable().expect("enable");
    for _ in 0..2 {
        start.send(()).expect("the thread waits");
        told.recv().expect("an answer");
    }
    group.disable().expect("disable");
    drop(start);
    other.join().expect("a thread");
    let counts = group.read().expect("read");
    // Channels may need a page of their own now and then.
    assert!((100..110).contains(&counts[members[0]].value), "{counts:?}");
    assert_eq!(counts[members[0]].value, counts[members[1]].value);
    Ok(())
}

fn a_change_while_children_live_is_told() -> Outcome {
    // Rule D12: ECHILD until the children that were made before are gone.
    allowed()?;
    // An event that is not inherited keeps the contexts of parent and child apart (rule D20).
    let _apart = event(Software::DUMMY).open().expect("a dummy");
    let mut group = Group::new();
    let [first, second] = [(); 2].map(|()| {
        let inherited = faults().inherit(Inherit::All);
        group.add_built(inherited).expect("page faults")
    });
    group.enable().expect("enable");
    let sleeper = Command::new("sleep").arg("1000").hold().expect("a child").release().expect("sleep");
    let counts = group.read().expect("the counts of a living child");
    assert!(counts[first].value > 0 && counts[first].value == counts[second].value, "{counts:?}");
    group.remove(second);
    let fewer = group.read().expect("the child's copy lost its member too");
    assert!(fewer[first].value >= counts[first].value, "{fewer:?}");
    let third = group.add_built(faults().inherit(Inherit::All)).expect("page faults");
    let refused = group.read();
    sleeper.signal(libc::SIGKILL).expect("a signal");
    sleeper.wait().expect("its end");
    assert_eq!(refused.expect_err("the child's group is another").errno(), Errno::ECHILD);
    let after = group.read().expect("the child is gone");
    assert!(after[first].value >= counts[first].value && after.get(third).is_some(), "{after:?}");
    Ok(())
}

fn a_removed_member_that_a_fork_still_has_is_not_shown() -> Outcome {
    // Rule C38: the kernel goes on with the member as long as anyone has its descriptor, such as a child
    // that is held before its exec.
    allowed()?;
    let mut group = Group::new();
    let [first, second, third] = [(); 3].map(|()| group.add_built(faults()).expect("page faults"));
    let held = Command::new("true").hold().expect("a child");
    group.remove(second);
    let counts = counted(&mut group, fifty_faults());
    assert_eq!((counts[first].value, counts.get(second), counts[third].value), (50, None, 50));
    drop(held);
    assert_eq!(group.read().expect("read").iter().len(), 2);
    Ok(())
}

fn an_inherited_group_adds_its_children_up() -> Outcome {
    // Rules D10 and D13.
    allowed()?;
    let mut group = Group::new();
    let members = [(); 2].map(|()| group.add_built(faults().inherit(Inherit::All)).expect("page faults"));
    let pages = Pages::map(500);
    group.enable().expect("enable");
    Child::fork(|| pages.touch()).join();
    Child::fork(|| pages.touch()).join();
    group.disable().expect("disable");
    let counts = group.read().expect("read");
    assert!(counts[members[0]].value >= 1000 && counts[members[0]].value == counts[members[1]].value);
    Ok(())
}

fn a_hardware_event_joins_a_counting_group_of_software_events() -> Outcome {
    // Rule C36: the kernel then sets every state back to that of the opening.
    need::hardware_pmu()?;
    let mut group = Group::new();
    let clock = group.add(Software::TASK_CLOCK).expect("the task clock");
    let faults = group.add(Software::PAGE_FAULTS).expect("page faults");
    let work = fifty_faults();
    work();
    group.enable().expect("enable");
    let cycles = match group.add(Hardware::CPU_CYCLES) {
        Ok(member) => member,
        Err(error) => return Err(Skip::needs("cycles", error)),
    };
    let before = group.read().expect("read");
    work();
    burn(Duration::from_millis(5));
    group.disable().expect("disable");
    let counts = group.read().expect("read");
    let since = |member| (counts[member] - before[member]).value;
    assert!(since(cycles) > 0 && since(clock) > 0 && since(faults) >= 50, "{before:?} {counts:?}");
    assert_eq!(counts[cycles].running_ns, counts[clock].running_ns, "they are on together (rule C37)");
    Ok(())
}

fn a_group_that_was_switched_off_stays_off_when_hardware_joins() -> Outcome {
    // Rule C36 again: the siblings were opened on.
    need::hardware_pmu()?;
    let mut group = Group::new();
    let faults = group.add(Software::PAGE_FAULTS).expect("page faults");
    let second = group.add(Software::PAGE_FAULTS).expect("page faults");
    let work = fifty_faults();
    counted(&mut group, &work);
    let before = group.read().expect("read");
    group.add(Hardware::CPU_CYCLES).map_err(|error| Skip::needs("cycles", error))?;
    work();
    let counts = group.read().expect("read");
    assert_eq!([faults, second].map(|m| counts[m].value), [faults, second].map(|m| before[m].value));
    Ok(())
}

fn siblings_are_opened_on_and_the_leader_off() -> Outcome {
    allowed()?;
    let mut group = Group::new();
    (0..3).for_each(|_| _ = group.add_built(faults()).expect("page faults"));
    let off = group.members().map(|(_, counter)| counter.attr().flags.contains(AttrFlags::DISABLED));
    assert_eq!(off.collect::<Vec<_>>(), [true, false, false]);
    let work = fifty_faults();
    work();
    assert!(group.read().expect("read").iter().all(|(_, count)| count.scaled() == Scaled::NotEnabled));
    Ok(())
}

suite! {
    smoke:
        members_are_read_by_their_names;
    measurements:
        a_leader_of_another_pmu_takes_its_siblings_along,
        a_removed_member_leaves_the_others_as_they_were,
        a_removed_leader_leaves_the_others_as_they_were,
        a_refused_member_changes_nothing,
        a_member_that_joins_a_counting_group_counts,
        a_large_group_is_read_whole,
        a_group_that_cannot_be_read_is_refused_in_time,
        a_member_can_be_read_alone,
        formats_with_less_are_understood,
        a_group_on_another_thread,
        a_change_while_children_live_is_told,
        a_removed_member_that_a_fork_still_has_is_not_shown,
        an_inherited_group_adds_its_children_up,
        a_hardware_event_joins_a_counting_group_of_software_events,
        a_group_that_was_switched_off_stays_off_when_hardware_joins,
        siblings_are_opened_on_and_the_leader_off;
}
