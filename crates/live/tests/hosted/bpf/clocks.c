/* A program at the clock of a cpu runs whoever is there, and for a thread that is. */
#define _GNU_SOURCE
#include "common.h"
#include <sched.h>

static int clock_of(int cpu, u64 period, int is_frequency)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = period,
					.freq = is_frequency, .disabled = 1 };
	return syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static u64 now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

static void spin(u64 ms)
{
	u64 end = now_ms() + ms;
	while (now_ms() < end)
		;
}

/* Whether runs are as many as the time has periods, with what a busy machine takes away. */
static int about(u64 runs, u64 ms, u64 period_ms)
{
	return runs * period_ms * 3 >= ms && runs * period_ms <= ms + 2 * period_ms;
}

int main(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0);
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	/* Index 0 counts all runs, index 1 those for this process. */
#define COUNT_OWN \
	PUT(BPF_W, 10, -4, 1), MAP(1, map), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), IF(BPF_JEQ, 0, 0, 2), MOV(1, 1), XADD(0, 1, 0)
	struct bpf_insn own[] = { COUNT_OWN };
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COUNT_RUN(map), CALL(BPF_FUNC_get_current_pid_tgid), ALU(BPF_RSH, 0, 32),
				   IF(BPF_JNE, 0, getpid(), COUNT(own)), COUNT_OWN, MOV(0, 0), EXIT);
	SAY("the program", program);
	int clock = clock_of(0, 20000000, 0);
	SAY("a clock", clock);
	SAY("attached", ioctl(clock, PERF_EVENT_IOC_SET_BPF, program));
	usleep(100000);
	printf("off: %llu\n", at_index(map, 0));
	SAY("on", ioctl(clock, PERF_EVENT_IOC_ENABLE, 0));
	usleep(600000);
	u64 asleep = at_index(map, 0), for_own = at_index(map, 1);
	printf("while all sleep: %d, for this process %d\n", about(asleep, 600, 20), for_own > asleep / 2);
	spin(600);
	u64 busy = at_index(map, 0) - asleep, of_busy = at_index(map, 1) - for_own;
	printf("while it runs: %d, for this process %d\n", about(busy, 600, 20), of_busy * 2 > busy);
	ioctl(clock, PERF_EVENT_IOC_DISABLE, 0);
	u64 before = at_index(map, 0);
	usleep(100000);
	printf("off again: %llu more\n", at_index(map, 0) - before);
	close(clock);
	clock = clock_of(0, 99, 1);
	SAY("by frequency", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = program, .target_fd = clock, .attach_type = BPF_PERF_EVENT }));
	ioctl(clock, PERF_EVENT_IOC_ENABLE, 0);
	before = at_index(map, 0);
	spin(600);
	printf("by frequency: %d\n", about(at_index(map, 0) - before, 600, 10));
	SAY("too fast", clock_of(0, 10000000, 1));
	return 0;
}
