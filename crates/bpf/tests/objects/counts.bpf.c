// Programs with maps, variables, functions and settings. `make` says how it is compiled.
#include "bpf.h"

struct sums {
    u64 count, sum;
};

struct {
    __uint(type, HASH);
    __uint(max_entries, 64);
    __type(key, u32);
    __type(value, struct sums);
} counts SEC(".maps");

struct {
    __uint(type, PERF_EVENT_ARRAY);
    __uint(key_size, 4);
    __uint(value_size, 4);
} events SEC(".maps");

const volatile u32 step = 1;
const volatile char word[8] = "abc";
u64 hits;
u64 last = 7;
static u64 hidden = 3;

extern u32 LINUX_KERNEL_VERSION __kconfig;
extern u32 CONFIG_NOTHING __kconfig __weak;

static __noinline u64 add(u64 *sum, u64 more) {
    *sum += more;
    return *sum;
}

__noinline u64 twice(u64 number) {
    return 2 * number + hidden;
}

struct counting {
    u64 sum;
    u32 key;
};

static long each(u32 index, struct counting *counting) {
    counting->sum += index;
    return 0;
}

SEC("perf_event")
int on_event(void *context) {
    u32 key = step;
    struct sums first = {0, 0}, *found;
    __sync_fetch_and_add(&hits, 1);
    found = lookup(&counts, &key);
    if (!found) {
        update(&counts, &key, &first, 0);
        found = lookup(&counts, &key);
        if (!found) return 1;
    }
    found->count += 1;
    last = add(&found->sum, twice(key));
    hidden += 1;
    return 0;
}

SEC("tracepoint/syscalls/sys_enter_getppid")
int on_call(void *context) {
    struct counting counting = {0, step};
    bpf_loop(step, each, &counting, 0);
    last = counting.sum;
    return word[1];
}

// Two in a section, and the version is what was said.
SEC("raw_tp/sys_enter")
int on_enter(void *context) {
    return LINUX_KERNEL_VERSION >> 8;
}

SEC("raw_tp/sys_enter")
int on_enter_too(void *context) {
    return twice(CONFIG_NOTHING);
}

SEC("fentry/do_exit")
int on_exit(void *context) {
    return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
