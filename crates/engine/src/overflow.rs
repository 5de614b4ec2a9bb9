//! Occurrences, overflows, throttling, the frequency mode, ticks and timers (section I).

use crate::cpu_state::CpuState;
use crate::effect::{Effect, Notice, Trap};
use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::pmu::{Overflow, PmuId, THROTTLED};
use crate::sample::SampleData;
use alloc::boxed::Box;
use alloc::vec::Vec;
use perfuse_abi::{AttrFlags, EventType, SampleType, Software};

/// An interrupt that comes in the middle of a record.
pub(crate) struct Nested {
    pmu: PmuId,
    pub(crate) cpu: u32,
    cpu_state: Box<dyn CpuState + Send>,
}

impl core::fmt::Debug for Nested {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Nested").field("pmu", &self.pmu).field("cpu", &self.cpu).finish_non_exhaustive()
    }
}

impl Engine {
    /// A software event happened `count` times at once on a cpu: it counts for the running task and for
    /// the cpu (rules J1 to J3). `addr`: the address of a page fault.
    ///
    /// Clocks are not told this way; they have timers.
    pub fn software(
        &mut self,
        cpu: u32,
        now: u64,
        which: Software,
        count: u64,
        addr: u64,
        cpu_state: &dyn CpuState,
    ) {
        let data = SampleData { addr: Some(addr), ..SampleData::new(cpu_state) };
        self.occur(cpu, now, EventType::SOFTWARE, which.0, count, &data);
    }

    /// Whether an event on a cpu counts this; otherwise a host need not tell of it.
    pub fn listens(&self, cpu: u32, type_: EventType, config: u64) -> bool {
        self.cpus[cpu as usize].listeners.hears(type_, config)
    }

    /// Whether BPF programs run at the hits of a tracepoint, on whichever cpu and whether or not their event is on (rule K4).
    pub fn runs_programs_at(&self, tracepoint: u64) -> bool {
        self.programs.get(&(EventType::TRACEPOINT, tracepoint)).is_some_and(|all| !all.is_empty())
    }

    /// Something happened `count` times: all that listen on the cpu hear of it, the newest first (rule
    /// H4).
    pub(crate) fn occur(
        &mut self,
        cpu: u32,
        now: u64,
        type_: EventType,
        config: u64,
        count: u64,
        data: &SampleData<'_>,
    ) {
        let mut heard = core::mem::take(&mut self.heard);
        heard.extend(self.cpus[cpu as usize].listeners.of(type_, config));
        heard.iter().for_each(|&event| self.occurrence(event, cpu, now, count, data));
        heard.clear();
        self.heard = heard;
        self.settle(now);
    }

    /// One event hears of an occurrence in a mode that it may leave out (rule J2).
    pub(crate) fn occurrence(
        &mut self,
        event: EventKey,
        cpu: u32,
        now: u64,
        count: u64,
        data: &SampleData<'_>,
    ) {
        let own = &self.events[event];
        let user = data.cpu_state.is_user();
        let left_out = if user { AttrFlags::EXCLUDE_USER } else { AttrFlags::EXCLUDE_KERNEL };
        if !own.hw.stopped && !own.has(left_out) {
            self.count_occurrence(event, cpu, now, count, data);
        }
    }

    /// One event counts (rules I3, I4).
    pub(crate) fn count_occurrence(
        &mut self,
        event: EventKey,
        cpu: u32,
        now: u64,
        count: u64,
        data: &SampleData<'_>,
    ) {
        let own = &mut self.events[event];
        own.hw.count = own.hw.count.wrapping_add(count);
        if !own.is_sampling() {
            return;
        }
        let freq = own.is_freq();
        if own.attr().sample_type.contains(SampleType::PERIOD) && !freq {
            self.overflow(event, cpu, now, data, Some(count), false);
        } else if count == 1 && own.hw.sample_period == 1 && !freq {
            self.overflow(event, cpu, now, data, None, false);
        } else {
            own.hw.period_left = own.hw.period_left.wrapping_add(count as i64);
            if own.hw.period_left < 0 {
                return;
            }
            let period = own.hw.last_period;
            let overflows = own.hw.next_period();
            for number in 0..overflows {
                if self.overflow(event, cpu, now, data, Some(period), number > 0) {
                    break;
                }
            }
        }
    }

    /// An event overflowed (rule I1). `throttle`: it may be throttled for it. Returns whether it is to
    /// stop.
    pub(crate) fn overflow(
        &mut self,
        event: EventKey,
        cpu: u32,
        now: u64,
        data: &SampleData<'_>,
        period: Option<u64>,
        throttle: bool,
    ) -> bool {
        let own = &self.events[event];
        if own.state != State::Active {
            return true;
        }
        // A counter that only counts has come round (rule N3).
        if !own.is_sampling() {
            return false;
        }
        let period = period.unwrap_or(own.hw.last_period);
        let mut stop = self.account_interrupt(event, cpu, now, throttle);
        self.pause_aux(event, cpu, now, true);
        if !self.program_wants(event, cpu, now, data, period) {
            self.pause_aux(event, cpu, now, false);
            return stop;
        }
        let mut notice = Notice::In;
        let mut over = false;
        let own = &mut self.events[event];
        if own.limit != 0 {
            own.limit = own.limit.wrapping_sub(1);
            if own.limit == 0 {
                (stop, over, notice) = (true, true, Notice::Hup);
            }
        }
        if own.has(AttrFlags::SIGTRAP) && !own.pending_trap {
            if let Some(task) = self.cpus[cpu as usize].current {
                own.pending_trap = true;
                // Rule I31: an access of the kernel for a user who may not look at it has no address.
                let hidden = own.has(AttrFlags::EXCLUDE_KERNEL) && !data.cpu_state.is_user();
                let addr = if hidden { 0 } else { data.addr.unwrap_or(0) };
                let (data, type_) = (own.attr().sig_data, own.asked_type);
                self.effects.push(Effect::Trap(Trap { task, event, addr, data, type_ }));
            }
        }
        if over {
            self.drive(event, cpu, now, |pmu, cx, hw| pmu.stop(cx, hw));
        }
        self.write_sample(event, cpu, now, data, period);
        let original = self.events[event].original();
        self.signal(original, notice);
        self.pause_aux(event, cpu, now, false);
        if over {
            // When all have heard of the occurrence, members of its group too (rule I2).
            self.stop_soon(event);
        }
        stop
    }

    /// The thread has got its SIGTRAP; the next overflow sends another (rule I30).
    pub fn trap_delivered(&mut self, event: EventKey) {
        if let Some(event) = self.events.get_mut(event) {
            event.pending_trap = false;
        }
    }

    /// Counts an interrupt in this tick (rules I10 to I12, I16). Returns whether the event was throttled.
    fn account_interrupt(&mut self, event: EventKey, cpu: u32, now: u64, throttle: bool) -> bool {
        let ticks = self.cpus[cpu as usize].ticks;
        let most = self.sysctls.max_samples_per_tick;
        let tick_ns = self.config.tick_ns();
        let own = &mut self.events[event];
        if own.hw.tick == ticks {
            own.hw.interrupts = own.hw.interrupts.saturating_add(1);
        } else {
            (own.hw.tick, own.hw.interrupts) = (ticks, 1);
        }
        let throttled = throttle && own.hw.interrupts >= most;
        if throttled {
            self.throttle_group(event, cpu, now);
        }
        let own = &mut self.events[event];
        if own.is_freq() {
            let delta = now.saturating_sub(own.hw.freq_stamp);
            own.hw.freq_stamp = now;
            let count = own.hw.last_period;
            if delta > 0 && delta < 2 * tick_ns {
                self.adjust_period(event, delta, count);
            }
        }
        throttled
    }

    fn throttle_group(&mut self, event: EventKey, cpu: u32, now: u64) {
        self.cpus[cpu as usize].throttled = true;
        for member in self.group_of(event) {
            if self.events[member].state == State::Active {
                self.drive(member, cpu, now, |pmu, cx, hw| pmu.stop(cx, hw));
                self.events[member].hw.interrupts = THROTTLED;
                if self.events[member].is_leader() {
                    self.log_throttle(member, true, cpu, now);
                }
            }
        }
    }

    /// Rule I13. `skip` is started by the caller.
    pub(crate) fn unthrottle_group(&mut self, event: EventKey, skip: Option<EventKey>, cpu: u32, now: u64) {
        for member in self.group_of(event) {
            if self.events[member].state == State::Active {
                self.events[member].hw.interrupts = 0;
                if skip != Some(member) {
                    self.drive(member, cpu, now, |pmu, cx, hw| pmu.start(cx, hw, false));
                }
                if self.events[member].is_leader() {
                    self.log_throttle(member, false, cpu, now);
                }
            }
        }
    }

    /// Brings the period nearer to the frequency that is wanted (rule I18).
    fn adjust_period(&mut self, event: EventKey, nsec: u64, count: u64) {
        let hw = &mut self.events[event].hw;
        let target = target_period(nsec, hw.attr.sample_period, count);
        let difference = target.wrapping_sub(hw.sample_period) as i64;
        let step =
            if difference >= 0 { difference.saturating_add(7) } else { difference.saturating_sub(7) } / 8;
        hw.sample_period = hw.sample_period.wrapping_add(step as u64).max(1);
        if hw.period_left > (hw.sample_period as i64).saturating_mul(8) {
            hw.period_left = 0;
        }
    }

    /// The cpu's tick: throttled events go on (rule I13), frequencies are adjusted (I17).
    pub fn tick(&mut self, cpu: u32, now: u64) {
        let place = &mut self.cpus[cpu as usize];
        place.ticks += 1;
        place.throttled = false;
        let contexts = [Some(place.context), place.task_context];
        for context in contexts.into_iter().flatten() {
            // The leaders of the groups that are on the cpu.
            let turns = self.contexts[context].pmus.values();
            let active =
                turns.flat_map(|turn| turn.pinned_active.values().chain(turn.flexible_active.values()));
            for event in active.copied().collect::<Vec<_>>() {
                self.tick_event(event, cpu, now);
            }
        }
        self.settle(now);
    }

    fn tick_event(&mut self, event: EventKey, cpu: u32, now: u64) {
        let own = &self.events[event];
        if own.state != State::Active || own.on != Some(cpu) {
            return;
        }
        let freq = own.is_freq();
        if own.hw.interrupts == THROTTLED {
            self.unthrottle_group(event, freq.then_some(event), cpu, now);
        }
        if !freq {
            return;
        }
        self.drive(event, cpu, now, |pmu, cx, hw| pmu.stop(cx, hw));
        let hw = &mut self.events[event].hw;
        let delta = hw.count.wrapping_sub(hw.freq_count);
        hw.freq_count = hw.count;
        if delta as i64 > 0 {
            let tick = self.config.tick_ns();
            self.adjust_period(event, tick, delta);
        }
        self.drive(event, cpu, now, |pmu, cx, hw| pmu.start(cx, hw, delta as i64 > 0));
    }

    /// When the engine wants to be called next for a cpu: [`expire`](Self::expire).
    pub fn deadline(&self, cpu: u32) -> Option<u64> {
        let place = &self.cpus[cpu as usize];
        let rotations = place.pmus.values().filter_map(|pmu| pmu.rotate_at);
        rotations.chain(place.timers.next()).min()
    }

    /// Does what is due on a cpu: rotation, and the timers of clock events. `cpu_state`: what the cpu was
    /// doing.
    pub fn expire(&mut self, cpu: u32, now: u64, cpu_state: &dyn CpuState) {
        let due = |pmu: &(PmuId, u64)| pmu.1 <= now;
        let place = &self.cpus[cpu as usize];
        let rotations = place.pmus.iter().filter_map(|(id, pmu)| Some((*id, pmu.rotate_at?)));
        for (pmu, _) in rotations.filter(due).collect::<Vec<_>>() {
            self.rotate(cpu, pmu, now);
        }
        // A timer that is set again for now or earlier waits for the next call.
        let mut left = self.cpus[cpu as usize].timers.len();
        while let Some((_, event)) = self.cpus[cpu as usize].timers.due(now) {
            self.timer(event, cpu, now, cpu_state);
            left = left.saturating_sub(1);
            if left == 0 {
                break;
            }
        }
        self.settle(now);
    }

    fn timer(&mut self, event: EventKey, cpu: u32, now: u64, cpu_state: &dyn CpuState) {
        if self.events.get(event).is_none_or(|event| event.state != State::Active) {
            return;
        }
        let overflowed = self.drive(event, cpu, now, |pmu, cx, hw| pmu.timer(cx, hw)).unwrap_or(false);
        let pmu = self.events[event].pmu;
        let hw = &self.events[event].hw;
        let driver = self.pmus.get(pmu).driver.as_deref();
        let skips = driver.is_none_or(|pmu| pmu.skips(hw, cpu_state.is_user(), cpu_state.is_idle()));
        if !overflowed || skips {
            return;
        }
        let data = SampleData::new(cpu_state);
        if self.overflow(event, cpu, now, &data, None, true) {
            self.drive(event, cpu, now, |pmu, cx, hw| pmu.stop(cx, hw));
        }
        self.settle(now);
    }

    /// A PMU interrupts a cpu. `took_ns`: how long the handling of the last one took, if the host knows
    /// (rule I24).
    pub fn interrupt(
        &mut self,
        pmu: PmuId,
        cpu: u32,
        now: u64,
        took_ns: Option<u64>,
        cpu_state: &dyn CpuState,
    ) {
        self.overflows_of(pmu, cpu, now, cpu_state);
        if let Some(took) = took_ns {
            self.sample_took(cpu, took);
        }
        self.settle(now);
    }

    /// A PMU interrupts a cpu in the middle of the next record that is written there, as interrupts can that nothing
    /// holds back (rule G4). Their records come behind that record, and shows with it. Whether it
    /// came is for [`interrupt_came`](Self::interrupt_came) to tell.
    pub fn interrupt_within(&mut self, pmu: PmuId, cpu: u32, cpu_state: Box<dyn CpuState + Send>) {
        self.nested = Some(Nested { pmu, cpu, cpu_state });
    }

    /// Nothing is written any longer: whether the interrupt of
    /// [`interrupt_within`](Self::interrupt_within) came. If not it comes no more. Events that used up their
    /// overflows in it go off now, as nothing can be switched from within it.
    pub fn interrupt_came(&mut self, now: u64) -> bool {
        self.settle(now);
        self.nested.take().is_none()
    }

    /// A record is being written on its cpu.
    pub(crate) fn nested_interrupt(&mut self, now: u64) {
        if let Some(Nested { pmu, cpu, cpu_state }) = self.nested.take() {
            self.overflows_of(pmu, cpu, now, &*cpu_state);
        }
    }

    fn overflows_of(&mut self, pmu: PmuId, cpu: u32, now: u64, cpu_state: &dyn CpuState) {
        let mut over: Vec<Overflow> = Vec::new();
        if let Some(driver) = self.pmus.driver(pmu) {
            driver.interrupt(cpu, now, &mut over);
        }
        for Overflow { event, addr, exact_ip } in over {
            let data = SampleData { addr: Some(addr), exact_ip, ..SampleData::new(cpu_state) };
            // Their effects come when all have been told of (rule I2).
            self.one_overflowed(event, cpu, now, &data);
        }
    }

    /// One event's counter overflowed, of a PMU whose hardware tells more than
    /// [`interrupt`](Self::interrupt) can pass on: branches, weights, sources of data.
    pub fn counter_overflowed(&mut self, event: EventKey, cpu: u32, now: u64, data: &SampleData<'_>) {
        self.one_overflowed(event, cpu, now, data);
        self.settle(now);
    }

    fn one_overflowed(&mut self, event: EventKey, cpu: u32, now: u64, data: &SampleData<'_>) {
        // One before it in this interrupt may have throttled its group.
        let Some(own) = self.events.get(event).filter(|event| !event.hw.stopped) else { return };
        // Rule I5: the period that is over, not the one that begins.
        let period = own.hw.last_period;
        if self.drive(event, cpu, now, |pmu, cx, hw| pmu.overflowed(cx, hw)) != Some(true) {
            return;
        }
        if self.overflow(event, cpu, now, data, Some(period), true) {
            self.drive(event, cpu, now, |pmu, cx, hw| pmu.stop(cx, hw));
        }
    }

    /// Fewer samples are allowed where they take too long (rule I24).
    fn sample_took(&mut self, cpu: u32, took_ns: u64) {
        let place = &mut self.cpus[cpu as usize];
        place.sample_ns = place.sample_ns - place.sample_ns / 128 + took_ns;
        let average = place.sample_ns / 128;
        let tick = self.config.tick_ns();
        if let Some(rate) = self.sysctls.limit_rate(average, tick, self.config.hz) {
            self.effects.push(Effect::RateLowered { max_sample_rate: rate });
        }
    }
}

/// `count · 10⁹ / (nsec · frequency)` in 64 bits, as exact as the kernel has it (rule I18).
fn target_period(nsec: u64, frequency: u64, count: u64) -> u64 {
    let bits = |value: u64| 64 - value.leading_zeros();
    let (mut nsec, mut frequency, mut count, mut second) = (nsec, frequency, count, 1_000_000_000u64);
    // Halves the larger of two, and says so to the lengths.
    let halve = |a: &mut u64, b: &mut u64| {
        if bits(*a) > bits(*b) {
            *a >>= 1;
        } else {
            *b >>= 1;
        }
    };
    while bits(count) + bits(second) > 64 && bits(nsec) + bits(frequency) > 64 {
        halve(&mut nsec, &mut frequency);
        halve(&mut second, &mut count);
    }
    let (dividend, divisor);
    if bits(count) + bits(second) > 64 {
        let mut under = nsec * frequency;
        while bits(count) + bits(second) > 64 {
            halve(&mut second, &mut count);
            under >>= 1;
        }
        (dividend, divisor) = (count * second, under);
    } else {
        let mut over = count * second;
        while bits(nsec) + bits(frequency) > 64 {
            halve(&mut nsec, &mut frequency);
            over >>= 1;
        }
        (dividend, divisor) = (over, nsec * frequency);
    }
    dividend.checked_div(divisor).unwrap_or(dividend)
}

#[cfg(test)]
mod tests {
    use super::target_period;

    #[test]
    fn the_target_is_the_rate_over_the_frequency() {
        assert_eq!(target_period(1_000_000, 1000, 1_000_000), 1_000_000);
        assert_eq!(target_period(4_000_000, 1000, 4_000_000), 1_000_000);
        assert_eq!(target_period(0, 1000, 5), 5_000_000_000);
        let large = target_period(4_000_000, 1000, 1 << 50);
        let exact = (1u128 << 50) * 1_000_000_000 / 4_000_000_000;
        // Halving what is too large for 64 bits costs some precision, as it does the kernel.
        assert!(u128::from(large).abs_diff(exact) < exact / 10_000, "{large} {exact}");
    }
}
