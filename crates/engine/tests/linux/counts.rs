//! Counts and records, on both: breakpoints on a variable that this program writes so many times,
//! and its children too. Values, lost records, heads of rings and readiness must be the same after every call.

use crate::call::{Call, Fd};
use crate::draw;
use crate::image::{AttrBytes, image};
use crate::machine::{PAGE, Reader};
use crate::pair::{Disturbed, Open, Pair, WATCHED, head};
use crate::random::{Random, seeds};
use perfuse_engine::MapRequest;
use perfuse_engine::abi::AttrFlags;
use perfuse_testkit::Outcome;
use std::os::fd::AsFd;

const SEQUENCES: u64 = 500;
const CALLS: usize = 40;

pub(crate) fn compare(privileged: bool) -> Outcome {
    let mut samples = 0;
    let mut again = 0;
    for seed in seeds(SEQUENCES) {
        let (recorded, before) = Disturbed::until_not(|| sequence(seed, privileged));
        (samples, again) = (samples + recorded, again + before);
    }
    // Rings in which nothing ever is would prove little.
    assert!(samples > 0, "nothing was recorded");
    eprintln!("{samples} bytes were recorded by both; {again} sequences were disturbed and played again");
    Ok(())
}

fn sequence(seed: u64, privileged: bool) -> Result<u64, Disturbed> {
    let mut random = Random::new(seed);
    let mut pair = Pair::new(1, privileged);
    let mut done = Vec::new();
    for _ in 0..CALLS {
        let call = call(&mut random, &pair);
        done.push(call.clone());
        let answers = pair.make(&call)?;
        let history = || done.iter().map(|call| format!("{call:?}\n")).collect::<String>();
        assert_eq!(
            answers.engine,
            answers.linux,
            "the engine, and Linux; PERFUSE_SEED={seed}; {}",
            history()
        );
        for at in 0..pair.open.len() {
            let (linux, engine) = values(&mut pair, at);
            assert_eq!(
                engine,
                linux,
                "the engine's event {at}, and Linux'; PERFUSE_SEED={seed}; {}",
                history()
            );
        }
    }
    let heads = pair.open.iter().filter_map(Open::ring).map(|area| head(&area.linux));
    Ok(heads.filter(|&head| head < 1 << 63).sum())
}

/// The values that are read, or the errno; and the head of the ring.
type Values = (Result<Vec<u64>, String>, Option<u64>);

/// Linux', and the engine's.
fn values(pair: &mut Pair, at: usize) -> (Values, Values) {
    let event = &pair.open[at];
    let mut words = vec![0; 64];
    let linux = perfuse_sys::read(event.linux.as_fd(), &mut words);
    let linux = linux.map(|len| words[..len].to_vec()).map_err(|errno| format!("{errno:?}"));
    let engine = pair.machine.words(event.engine).map_err(|errno| format!("{errno:?}"));
    let ring = event.ring();
    ((linux, ring.map(|area| head(&area.linux))), (engine, ring.map(|area| Reader::head(&area.engine))))
}

fn call(random: &mut Random, pair: &Pair) -> Call {
    let open = &pair.open;
    let target =
        if !open.is_empty() && random.one_in(2) { Fd::Event(random.below(open.len())) } else { Fd::None };
    if open.is_empty() || open.len() < 5 && random.one_in(5) {
        let flags = if random.one_in(5) { random.bits(2, 2) } else { 0 };
        let attr = AttrBytes(image(&draw::breakpoint(random, WATCHED.as_ptr() as u64)));
        return Call::Open { attr, pid: 0, cpu: -1, group: target, flags };
    }
    let (at, flag) = (random.below(open.len()), random.one_in(2));
    let kid = (!pair.kids.is_empty()).then(|| random.below(pair.kids.len()));
    let living = kid.filter(|&kid| !pair.kids[kid].ended);
    match (random.below(26), kid, living) {
        (0, ..) => Call::Close(at),
        (1..=5, ..) => Call::Write(random.of(&[1, 2, 3, 10, 50])),
        (6 | 7, _, Some(kid)) => Call::ChildWrites(kid, random.of(&[1, 2, 10, 50])),
        (8, _, Some(kid)) => Call::ChildEnds(kid),
        (8, Some(kid), None) => Call::Reap(kid),
        (8, None, _) => Call::Fork,
        (9 | 10, ..) => Call::Enable(at, flag),
        (11, ..) => Call::Disable(at, flag),
        (12, ..) => Call::Reset(at, flag),
        (13, ..) => Call::Refresh(at, random.of(&[0, 1, 5, 100, -1])),
        (14, ..) => Call::Period(at, random.of(&[0, 1, 4, 20, 1 << 63])),
        (15, ..) => Call::Pause(at, flag),
        (16, ..) => Call::SetOutput(at, target),
        (17, ..) => {
            let mut attr = open[at].attr.expect("it is whole");
            attr.config2 = random.of(&[1, 2, 3, 8]);
            attr.flags.set(AttrFlags::DISABLED, flag);
            attr.sample_period += u64::from(random.one_in(6));
            Call::Modify(at, Box::new(attr))
        }
        (18 | 19, ..) if open[at].areas.is_empty() => {
            let writable = !random.one_in(8);
            let pages = random.of(&[1, 2, 2, 3, 4]);
            Call::Map(at, MapRequest { pages, offset: 0, shared: true, writable })
        }
        (20, ..) if !open[at].areas.is_empty() && flag => Call::Unmap(at, 0),
        (21, ..) if !pair.left.is_empty() => Call::UnmapClosed(random.below(pair.left.len())),
        (21, ..) => Call::Tell(at, 1032, random.of(&[0, 8, PAGE as u64, !7])),
        (22, ..) => Call::Consume(at),
        (23, ..) => Call::Prctl(flag),
        (24, ..) => Call::Sleep,
        _ => Call::Poll(at),
    }
}
