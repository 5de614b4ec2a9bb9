//! A program that computes in two functions and sleeps, on a cpu of its own, on that of the thread that looks, or on
//! a busy one, played against the very policy: shares of samples are those of time.

use super::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const RATES: [u64; 5] = [49, 99, 249, 999, 4000];

/// Any number below this.
fn below(random: &mut Random, end: u64) -> u64 {
    (random.share() * end as f64) as u64
}

/// Where the program is, as its registers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    First,
    Second,
    Call,
}

/// The machine that the program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// A cpu of its own.
    OwnCpu,
    /// The cpu of the thread that looks, which displaces it.
    CpuOfLooks,
    /// That cpu too, for which others compete: turns of at most 3 ms, and waits of up to 12 ms for the next.
    BusyCpu,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Running { turn_ends: u64 },
    Waiting { since: u64, until: u64 },
    Sleeping { until: u64 },
}

/// A program at a moment.
struct Program {
    on: On,
    work_ns: u64,
    sleep_ns: u64,
    now: u64,
    state: State,
    /// How much of its cycle's work is done.
    done_ns: u64,
    clocks: Clocks,
    /// Of its time in the first of the two.
    first_ns: u64,
    chance: Random,
}

impl Program {
    fn new(on: On, work_ns: u64, sleep_ns: u64) -> Self {
        let state = State::Running { turn_ends: 3 * MS };
        let (clocks, chance) = (Clocks::default(), Random::new(work_ns ^ sleep_ns << 32));
        Program { on, work_ns, sleep_ns, now: 0, state, done_ns: 0, clocks, first_ns: 0, chance }
    }

    /// 70 % of its work are in the first function.
    fn first_part(&self) -> u64 {
        self.work_ns / 10 * 7
    }

    fn place(&self) -> Place {
        match self.done_ns {
            done if done == self.work_ns => Place::Call,
            done if done < self.first_part() => Place::First,
            _ => Place::Second,
        }
    }

    fn wait(&mut self, least: u64) {
        let others = if self.on == On::BusyCpu { below(&mut self.chance, 12 * MS) } else { 0 };
        self.state = State::Waiting { since: self.now, until: self.now + least + others };
    }

    /// Goes on to this time, or as far as to the moment at which it comes to a cpu.
    fn advance(&mut self, to: u64, stops_on_arrival: bool) {
        while self.now < to {
            match self.state {
                State::Running { turn_ends } => {
                    let ran = (self.work_ns - self.done_ns).min(to.min(turn_ends) - self.now);
                    self.first_ns += ran.min(self.first_part().saturating_sub(self.done_ns));
                    self.done_ns += ran;
                    self.clocks.ran_ns += ran;
                    self.now += ran;
                    if self.done_ns == self.work_ns {
                        self.state = State::Sleeping { until: self.now + self.sleep_ns };
                    } else if self.now == turn_ends {
                        if self.on == On::BusyCpu {
                            self.wait(0);
                        } else {
                            self.state = State::Running { turn_ends: self.now + 3 * MS };
                        }
                    }
                }
                State::Sleeping { until } if until > to => self.now = to,
                State::Sleeping { until } => {
                    self.now = until;
                    self.wait(0);
                }
                State::Waiting { until, .. } if until > to => self.now = to,
                State::Waiting { since, until } => {
                    self.now = until;
                    self.clocks.waited_ns += until - since;
                    self.state = State::Running { turn_ends: until + 3 * MS };
                    if stops_on_arrival {
                        return;
                    }
                    if self.done_ns == self.work_ns {
                        self.done_ns = 0;
                    }
                }
            }
        }
    }

    /// It is stopped where it is. If it was in its call that is over.
    fn stop(&mut self) -> Place {
        let place = self.place();
        if place == Place::Call {
            (self.done_ns, self.state) = (0, State::Running { turn_ends: self.now + 3 * MS });
        }
        place
    }

    /// The supervisor, when it looks, takes its cpu for a while.
    fn displaced(&mut self) {
        if let (State::Running { .. }, On::CpuOfLooks | On::BusyCpu) = (self.state, self.on) {
            self.wait(20 * US);
        }
    }
}

/// The shares that the samples of a program tell.
#[derive(Debug, Default)]
struct Tally {
    samples: u64,
    sum: u64,
    squares: f64,
    places: [u64; 3],
}

impl Tally {
    /// The program is stopped, which is heard of a little later.
    fn stopped(&mut self, program: &mut Program, sampler: &mut TaskSampler, later: u64) {
        let place = program.stop();
        let weight = sampler.stopped(program.now + later, program.clocks, place == Place::Call);
        let Some(weight) = weight else { return };
        self.samples += 1;
        self.sum += weight;
        self.squares += (weight as f64).powi(2);
        self.places[place as usize] += weight;
    }
}

/// Samples a program until there are so many samples.
fn play(rate: u64, program: &mut Program, samples: u64) -> Tally {
    let mut ticks = Ticks::new(Random::new(rate));
    let mut random = Random::new(rate + 1);
    ticks.set(Some(SECOND / rate), 0);
    let (mut sampler, mut tally) = (TaskSampler::begin(0), Tally::default());
    // Its clock when it was found without a cpu; whether it is to stop.
    let (mut off, mut interrupted) = (None, false);
    while tally.samples < samples {
        let (next, _) = ticks.next().expect("there are ticks");
        // The supervisor wakes up a little late, and now and then very late where others compete.
        let late = program.on == On::BusyCpu && below(&mut random, 50 * MS) < SECOND / rate;
        let wakes = next + below(&mut random, if late { 4 * MS } else { 10 * US });
        while program.now < wakes {
            // In which case the program may have lost its cpu to them when it was to wake up.
            let until = if program.now < next { next } else { wakes };
            program.advance(until, interrupted);
            if interrupted && matches!(program.state, State::Running { .. }) {
                (interrupted, off) = (false, None);
                tally.stopped(program, &mut sampler, below(&mut random, 10 * US));
            }
            if late && program.now == next && next % 2 == 0 {
                program.displaced();
            }
        }
        program.displaced();
        program.advance(wakes + below(&mut random, 20 * US), false);
        let tick = ticks.take_due(program.now).expect("it is due");
        let weight = sampler.take_part(tick, SECOND / rate, &mut random).expect("each tick is one to look");
        let found = match program.state {
            State::Running { .. } => RunState::Running,
            State::Waiting { .. } if off != Some(program.clocks.ran_ns) => RunState::Preempted,
            _ => {
                off = Some(program.clocks.ran_ns);
                continue;
            }
        };
        sampler.found(tick, weight, found, program.clocks);
        if found == RunState::Preempted {
            (interrupted, off) = (true, Some(program.clocks.ran_ns));
            continue;
        }
        program.advance(program.now + 3 * US, false);
        tally.stopped(program, &mut sampler, below(&mut random, 10 * US));
    }
    tally
}

/// Whether the shares are those of its time, within what chance can be.
fn check(rate: u64, on: On, work_ns: u64, sleep_ns: u64) {
    let mut program = Program::new(on, work_ns, sleep_ns);
    let tally = play(rate, &mut program, 1500);
    let what = format!("{rate} Hz, {work_ns} ns of work, {sleep_ns} ns of sleep, {on:?}: {tally:?}");
    let truth = program.first_ns as f64 / program.clocks.ran_ns as f64;
    let sum = tally.sum as f64;
    let [first, second, call] = tally.places.map(|place| place as f64);
    // As many samples of equal weight would tell as much.
    let sigma = (truth * (1.0 - truth) * tally.squares).sqrt() / sum;
    assert!((first / (first + second) - truth).abs() < 4.0 * sigma, "{what}");
    // Where a sleep ends within the few us of a look it is taken for work.
    assert!(call / sum < if on == On::BusyCpu { 0.08 } else { 0.02 }, "{what}");
    assert!((sum / program.clocks.ran_ns as f64 - 1.0).abs() < 0.05, "{what}");
}

#[test]
fn shares_are_those_of_time_whatever_the_cycle() {
    for rate in RATES {
        for on in [On::OwnCpu, On::CpuOfLooks, On::BusyCpu] {
            for cycle in [1, 3, 8, 18, 50] {
                for sleep in [50 * US, cycle * MS / 3] {
                    check(rate, on, cycle * MS - sleep, sleep);
                }
            }
        }
    }
}

#[test]
fn those_who_live_for_less_than_a_period_are_seen_in_proportion() {
    for life in [MS, 3 * MS, 10 * MS] {
        let mut random = Random::new(life);
        let mut ticks = Ticks::new(Random::new(1));
        ticks.set(Some(10 * MS), 0);
        let (mut born, mut tally) = (0, 0);
        const COUNT: u64 = 10_000;
        for _ in 0..COUNT {
            let mut sampler = TaskSampler::begin(0);
            while let Some((at, _)) = ticks.next().filter(|&(next, _)| next < born + life) {
                let tick = ticks.take_due(at).expect("it is due");
                let weight = sampler.take_part(tick, 10 * MS, &mut random).expect("each is one to look");
                if at >= born {
                    let clocks = Clocks { ran_ns: at - born, waited_ns: 0 };
                    sampler.found(tick, weight, RunState::Running, clocks);
                    tally += sampler.stopped(at, clocks, false).unwrap_or(0);
                }
            }
            born += life + 7 * MS;
        }
        let share = tally as f64 / (COUNT * life) as f64;
        assert!((share - 1.0).abs() < 0.1, "{share} of {life} ns each");
    }
}

#[test]
fn a_slower_clock_beside_a_faster_one_tells_as_much() {
    let mut ticks = Ticks::new(Random::new(1));
    let mut random = Random::new(2);
    ticks.set(Some(MS), 0);
    let (mut sampler, mut tally, mut samples, mut now) = (TaskSampler::begin(0), 0, 0, 0);
    while now < 100 * SECOND {
        (now, _) = ticks.next().expect("there are ticks");
        let tick = ticks.take_due(now).expect("it is due");
        let Some(weight) = sampler.take_part(tick, 10 * MS, &mut random) else { continue };
        let clocks = Clocks { ran_ns: now, waited_ns: 0 };
        sampler.found(tick, weight, RunState::Running, clocks);
        tally += sampler.stopped(now, clocks, false).expect("it runs");
        samples += 1;
    }
    assert!((9_500..10_500).contains(&samples), "{samples}");
    assert!(tally.abs_diff(now) < SECOND, "{tally} of {now} ns");
}

#[test]
fn looks_that_go_round_see_each_cpu_as_often_as_is_asked_for() {
    let mut ticks = Ticks::new(Random::new(3));
    ticks.go_round(4);
    ticks.set(Some(MS), 0);
    let (mut sampler, mut random) = (TaskSampler::begin(0), Random::new(4));
    let (mut tally, mut samples, mut now) = (0, 0, 0);
    while now < 10 * SECOND {
        now = ticks.next().expect("there are ticks").0;
        let tick = ticks.take_due(now).expect("it is due");
        let weight = sampler.take_part(tick, MS, &mut random).expect("each tick");
        // It runs on one of the four.
        if random.below(4) == 0 {
            let clocks = Clocks { ran_ns: now, waited_ns: 0 };
            sampler.found(tick, weight, RunState::Running, clocks);
            tally += sampler.stopped(now, clocks, false).expect("it runs");
            samples += 1;
        }
    }
    assert!((9_500..10_500).contains(&samples), "{samples}");
    assert!(tally.abs_diff(now) < 100 * MS, "{tally} of {now}");
    // More than can be are not made.
    ticks.go_round(64);
    let (count, end) = (ticks.count, now + SECOND);
    while now < end {
        now = ticks.next().expect("there are ticks").0;
        let tick = ticks.take_due(now).expect("it is due");
        assert!(tick.number < count + 12_000, "a tenth of a ms each");
    }
}

/// Of all ticks, one of as many as there are cpus is at a thread, wherever it goes when the thread that looks comes.
#[test]
fn who_flees_from_looks_is_seen_as_often_as_who_stays() {
    let mut ticks = Ticks::new(Random::new(5));
    let mut random = Random::new(6);
    for cpus in [2, 4] {
        ticks.go_round(cpus);
        ticks.set(Some(MS), 0);
        let cpus = cpus as u32;
        // Where it is when that cpu has its turn, and how many looks it lives for.
        let stays: fn(u32) -> u32 = |_| 1;
        let flees: fn(u32) -> u32 = |turn| turn ^ 1;
        for (place, life) in [(stays, 1), (stays, 1000), (flees, 1), (flees, 3), (flees, 1000)] {
            let (mut seen, mut turns, mut now) = (0, Turns::default(), 0);
            const LOOKS: u32 = 60_000;
            for look in 0..LOOKS {
                if look % life == 0 {
                    turns = Turns::default();
                }
                now = ticks.next().map_or(now, |(next, _)| next.max(now));
                let tick = ticks.take_due(now).expect("it is due");
                let turn = random.below(cpus as usize) as u32;
                let cpu = place(turn);
                seen += u32::from(turns.found(cpu, cpu == turn, tick, &mut random));
            }
            let share = f64::from(seen) * f64::from(cpus) / f64::from(LOOKS);
            let told = format!("{share} of its share, for {life} looks on {cpus} cpus");
            assert!((share - 1.0).abs() < 0.05, "{told}");
        }
    }
}

#[test]
fn a_look_makes_up_for_those_that_there_was_no_time_for() {
    let (mut sampler, mut random) = (TaskSampler::begin(0), Random::new(1));
    let tick = |number| Tick { due: 0, at: 0, period: 100, cpus: 1, number };
    assert_eq!(sampler.take_part(tick(7), 100, &mut random), Some(100));
    assert_eq!(sampler.take_part(tick(8), 100, &mut random), Some(100));
    assert_eq!(sampler.take_part(tick(11), 100, &mut random), Some(300));
}
