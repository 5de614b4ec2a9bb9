//! Events of machines that are not at hand: folders laid out as sysfs shows the PMUs of an Intel hybrid, an
//! AMD, an Arm and a Power machine, and of one without a PMU.

mod fixture;

use fixture::Fixture;
use perfuse_events::EventSet;

#[test]
fn terms_go_where_the_format_says() {
    let amd = Fixture::new("amd");
    for (text, expected) in [
        ("cpu/event=0x3c,umask=1/", "4:0x13c"),
        ("cpu/event=0xfc1/u", "4:0xf000000c1"),
        ("cpu/event=16/", "4:0x10"),
        ("cpu/event=0x16,inv,cmask=2/", "4:0x2800016"),
        ("cpu/config=0xff,umask=2/", "4:0x2ff"),
        ("cpu/r1a8/", "4:0x1a8"),
        ("cpu/r0x1a8/", "4:0x1a8"),
        ("ibs_op/cnt_ctl=1,swfilt=1/", "9:0x80000,0x0,0x1"),
        ("amd_l3/event=0x04,umask=0xff,threadmask=3,sliceid=7/", "11:0x30700000000ff04"),
        ("amd_df/event=0x1ff,umask=0xfff/", "12:0x10f00ffff"),
        ("cpu/config4=7,config3=0x10/", "4:0x0,0x0,0x0,0x10,0x7"),
        ("msr/tsc/", "15:0x0"),
    ] {
        assert_eq!(amd.attrs(text), [format!("{text} {expected}")], "{text}");
    }
    assert_eq!(amd.attrs("cpu/event=1,name='x,y'/"), ["x,y 4:0x1"]);
}

#[test]
fn an_event_of_a_pmu_is_found_by_its_name() {
    let amd = Fixture::new("amd");
    assert_eq!(amd.attrs("cpu/branch-misses/"), ["cpu/branch-misses/ 4:0xc3"]);
    assert_eq!(amd.attrs("cpu/branch-misses,cmask=1/k"), ["cpu/branch-misses,cmask=1/k 4:0x10000c3"]);
    assert_eq!(amd.attrs("energy-pkg"), ["energy-pkg 14:0x2"]);
    assert_eq!(amd.attrs("ENERGY-PKG/period=7/"), ["ENERGY-PKG/period=7/ 14:0x2"]);
    assert_eq!(amd.attrs("tsc:u"), ["tsc:u 15:0x0"]);
    // The common name wins, as in perf.
    assert_eq!(amd.attrs("branch-misses"), ["branch-misses 0:0x5"]);
    assert_eq!(amd.attrs("cpu/cycles/"), ["cpu/cycles/ 0:0x400000000"]);
    assert_eq!(amd.attrs("cpu/L1-dcache-misses/"), ["cpu/L1-dcache-misses/ 3:0x400010000"]);
}

#[test]
fn what_a_pmu_says_about_an_event_comes_along() {
    let amd = Fixture::new("amd");
    let spec = amd.specs("power/energy-pkg/").remove(0);
    let scale = spec.scale().unwrap();
    assert_eq!((scale.unit.as_str(), scale.factor), ("Joules", 2.0f64.powi(-32)));
    assert_eq!(spec.cpus(), Some(vec![0]));
    let thermal = amd.specs("msr/cpu_thermal_margin/").remove(0);
    assert!(thermal.pmu.as_ref().unwrap().snapshot);
    assert_eq!(amd.specs("amd_l3/event=1/")[0].cpus(), Some(vec![0, 8]));
    assert_eq!(amd.specs("amd_l3/event=1,cpu=8,cpu=3/")[0].cpus(), Some(vec![8]));
    assert_eq!(amd.specs("cycles/cpu=3/")[0].cpus(), Some(vec![3]));
    let imc = Fixture::new("intel-hybrid").specs("uncore_imc_0/cas_count_read/").remove(0);
    assert!(imc.pmu.unwrap().per_package);
}

#[test]
fn every_kind_of_cores_has_its_own_event() {
    let intel = Fixture::new("intel-hybrid");
    assert_eq!(intel.attrs("cycles"), ["cpu_atom/cycles/ 0:0xa00000000", "cpu_core/cycles/ 0:0x400000000"]);
    assert_eq!(
        intel.attrs("LLC-loads:u"),
        ["cpu_atom/LLC-loads/u 3:0xa00000002", "cpu_core/LLC-loads/u 3:0x400000002"]
    );
    assert_eq!(intel.attrs("r3c/name=x/"), ["x 10:0x3c", "x 4:0x3c"]);
    assert_eq!(intel.attrs("cs"), ["cs 1:0x3"]);
    assert_eq!(intel.attrs("cpu_core/cycles/"), ["cpu_core/cycles/ 0:0x400000000"]);
    assert_eq!(intel.attrs("cpu_core/cpu-cycles/"), ["cpu_core/cpu-cycles/ 4:0x3c"]);
    assert_eq!(
        intel.attrs("cpu/event=0x3c/"),
        ["cpu_atom/event=0x3c/ 10:0x3c", "cpu_core/event=0x3c/ 4:0x3c"]
    );
    // Only one of them has the event.
    assert_eq!(intel.attrs("cpu/topdown-retiring/"), ["cpu_core/topdown-retiring/ 4:0x8000"]);
    assert_eq!(intel.attrs("mem-loads:P"), ["mem-loads:P 4:0x1cd,0x3"]);
    assert_eq!(intel.attrs("cpu_core/mem-loads,ldlat=30/"), ["cpu_core/mem-loads,ldlat=30/ 4:0x1cd,0x1e"]);
    assert_eq!(intel.specs("cycles")[1].cpus(), Some((0..16).collect()));
    let arm = Fixture::new("arm");
    assert_eq!(
        arm.attrs("instructions"),
        ["armv8_cortex_a53/instructions/ 0:0x800000001", "armv8_cortex_a72/instructions/ 0:0x900000001"]
    );
    assert_eq!(
        arm.attrs("l2d_cache"),
        ["armv8_cortex_a53/l2d_cache/ 8:0x16", "armv8_cortex_a72/l2d_cache/ 9:0x16"]
    );
    assert_eq!(arm.attrs("br_pred,L2D_CACHE")[0], "br_pred 9:0x12");
    assert_eq!(
        arm.attrs("arm_spe_0/ts_enable,min_latency=0x20,event_filter=2/"),
        ["arm_spe_0/ts_enable,min_latency=0x20,event_filter=2/ 10:0x1,0x2,0x20"]
    );
}

#[test]
fn a_group_is_one_for_each_kind_of_cores() {
    let intel = Fixture::new("intel-hybrid");
    let sets = intel.resolve("{task-clock,cycles,instructions}:u").unwrap();
    let names = |set: &EventSet| set.events.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
    let names: Vec<_> = sets.iter().map(names).collect();
    let [atom, core] =
        ["cpu_atom", "cpu_core"].map(|pmu| [format!("{pmu}/cycles/"), format!("{pmu}/instructions/")]);
    assert_eq!(names, [[&["task-clock".to_owned()], &atom[..]].concat(), core.to_vec()]);
    assert!(sets.iter().all(|set| set.grouped && set.events.iter().all(|spec| spec.exclude.kernel)));
}

#[test]
fn pmus_of_a_kind_are_named_together() {
    let intel = Fixture::new("intel-hybrid");
    let groups = intel.resolve("{imc/event=1/,imc/event=2/}").unwrap();
    let names = |set: &EventSet| set.events.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
    let of = |n: u8| vec![format!("uncore_imc_{n}/event=1/"), format!("uncore_imc_{n}/event=2/")];
    assert_eq!(groups.iter().map(names).collect::<Vec<_>>(), [of(0), of(1)]);
    let both = ["uncore_imc_0/cas_count_read/ 20:0x304", "uncore_imc_1/cas_count_read/ 21:0x304"];
    for text in [
        "uncore_imc/cas_count_read/",
        "imc/cas_count_read/",
        "uncore_imc_[01]/cas_count_read/",
        "cas_count_read",
    ] {
        assert_eq!(intel.attrs(text), both, "{text}");
    }
    assert_eq!(intel.attrs("cbox/event=0x22/").len(), 2);
    let common = |text: &str| -> Vec<Option<String>> {
        intel.specs(text).into_iter().map(|spec| spec.pmu.unwrap().common_name).collect()
    };
    assert_eq!(common("imc/cas_count_read/"), vec![Some("imc/cas_count_read/".to_owned()); 2]);
    assert_eq!(common("cas_count_read"), vec![Some("cas_count_read".to_owned()); 2]);
    assert_eq!(common("uncore_imc_0/cas_count_read/"), [None]);
    assert_eq!(common("cycles"), [None, None]);
    assert_eq!(intel.attrs("*imc_*/event=0xff/").len(), 3);
}

#[test]
fn an_event_may_want_to_be_told_more() {
    let power = Fixture::new("power");
    assert_eq!(power.attrs("hv_24x7/PM_TLBIE,core=2/"), ["hv_24x7/PM_TLBIE,core=2/ 16:0x800020001"]);
    assert_eq!(power.attrs("PM_TLBIE/core=0x10/"), ["PM_TLBIE/core=0x10/ 16:0x800100001"]);
    assert!(power.complaint("hv_24x7/PM_TLBIE/").contains("add the term core=..."));
}

#[test]
fn mistakes_are_answered_with_what_the_machine_has() {
    let amd = Fixture::new("amd");
    let last = |text: &str| amd.complaint(text).lines().last().unwrap().to_owned();
    assert_eq!(
        amd.complaint("cs,cpu/evnt=1/"),
        "column 8: the PMU cpu has no term or event 'evnt'\n  cs,cpu/evnt=1/\n         ^^^^^^ did you mean event?"
    );
    assert!(
        amd.complaint("cpu/event=0x1000/")
            .contains("no room for this value of the term 'event'; the largest is 0xfff")
    );
    assert!(amd.complaint("cpu/event=xyz/").contains("wants a number"));
    assert_eq!(last("cqu/event=1/"), "  ^^^ did you mean cpu?");
    assert!(amd.complaint("nopmu/event=1/").contains("the PMUs are amd_df, amd_l3, cpu, ibs_op, msr, power"));
    assert_eq!(last("energy-pkgs"), "  ^^^^^^^^^^^ did you mean energy-pkg?");
    assert_eq!(last("cpu/brnch-misses/"), "      ^^^^^^^^^^^^ did you mean branch-misses?");
    let none = Fixture::new("none");
    assert!(none.complaint("cpu/event=1/").contains("there is no PMU or event 'cpu'"));
    assert_eq!(none.attrs("cycles"), ["cycles 0:0x0"]);
    assert_eq!(none.attrs("software/config=2/"), ["software/config=2/ 1:0x2"]);
}
