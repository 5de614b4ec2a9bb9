/* A program that wants to stop whoever answers bpf(2): it is played hosted alone, as Linux would be busy for hours with some of it. */
#include "common.h"
#include <linux/hw_breakpoint.h>

static volatile u64 watched;

static int breakpoint(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT, .size = sizeof(attr), .bp_type = HW_BREAKPOINT_W, .bp_addr = U(&watched), .bp_len = 8,
					.sample_period = 1, .sample_type = PERF_SAMPLE_IP, .exclude_kernel = 1 };
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void wild(void)
{
	SAY("an endless loop", LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(0, 0), GOTO(-1), EXIT));
	SAY("a number as a pointer", LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, CONST(1, 0xffff888000000000ull), LOAD(BPF_DW, 0, 1, 0), EXIT));
	SAY("above the stack", LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, PUT(BPF_DW, 10, 8, 1), MOV(0, 0), EXIT));
	SAY("far below it", LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, PUT(BPF_DW, 10, -8192, 1), MOV(0, 0), EXIT));
	struct bpf_insn *many = calloc(1100000, sizeof(*many));
	for (int i = 0; i < 1100000; i++)
		many[i] = MOV(0, 0);
	many[1099999] = EXIT;
	SAY("too long", load_as(BPF_PROG_TYPE_PERF_EVENT, many, 1100000, "GPL"));
	/* Each step asks which way: more ways than anybody goes. */
	for (int i = 0; i + 3 < 30000; i += 3) {
		many[i] = CALL(BPF_FUNC_get_prandom_u32);
		many[i + 1] = IF(BPF_JEQ, 0, 5, 0);
		many[i + 2] = ALUX(BPF_ADD, 6, 0);
	}
	SAY("a jungle", load_as(BPF_PROG_TYPE_PERF_EVENT, many, 30000, "GPL") < 0 ? -1 : 0);
	free(many);
}

/* Loops in loops: 8 million turns of 8 million turns. */
static void endless(void)
{
	struct bpf_insn insns[] = {
		MOV(1, 1 << 23), CODE(BPF_LD | BPF_DW | BPF_IMM, 2, BPF_PSEUDO_FUNC, 0, 6), CODE(0, 0, 0, 0, 0), MOV(3, 0), MOV(4, 0), CALL(BPF_FUNC_loop), MOV(0, 1), EXIT,
		MOV(1, 1 << 23), CODE(BPF_LD | BPF_DW | BPF_IMM, 2, BPF_PSEUDO_FUNC, 0, 6), CODE(0, 0, 0, 0, 0), MOV(3, 0), MOV(4, 0), CALL(BPF_FUNC_loop), MOV(0, 0), EXIT,
		MOV(0, 0), EXIT,
	};
	struct bpf_func_info functions[] = { { 0, 3 }, { 8, 5 }, { 16, 5 } };
	int program = load_typed(insns, COUNT(insns), load_types(), functions, 3);
	printf("loops in loops: %s\n", said(program));
	int event = breakpoint();
	SAY("attached", ioctl(event, PERF_EVENT_IOC_SET_BPF, program));
	watched = 1, watched = 2;
	u64 count = 0;
	read(event, &count, 8);
	printf("it goes on: %llu\n", count);
	close(event), close(program);
}

/* A clock that goes off all the time, with a program that takes long, leaves others theirs: many calls are answered between two runs. */
static void ticking(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0);
	struct bpf_insn insns[] = {
		COUNT_RUN(map), MOV(1, 1 << 16), CODE(BPF_LD | BPF_DW | BPF_IMM, 2, BPF_PSEUDO_FUNC, 0, 6), CODE(0, 0, 0, 0, 0), MOV(3, 0), MOV(4, 0),
		CALL(BPF_FUNC_loop), MOV(0, 0), EXIT, MOV(0, 0), EXIT,
	};
	struct bpf_func_info functions[] = { { 0, 3 }, { COUNT(insns) - 2, 5 } };
	int program = load_typed(insns, COUNT(insns), load_types(), functions, 2);
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = 10000 };
	int clock = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	printf("at a clock: %s", said(program));
	printf(" %s\n", said(ioctl(clock, PERF_EVENT_IOC_SET_BPF, program)));
	u64 calls = 0, runs = 0;
	while (runs < 5)
		runs = at_index(map, 0), calls++;
	printf("beside it: %d\n", calls > 10 * runs);
	close(clock), close(map), close(program);
}

static void greedy(void)
{
	u64 bytes = 0;
	int count = 0, fds[4096], got;
	while (count < 4096 && (got = map_of(BPF_MAP_TYPE_ARRAY, 4, 1 << 20, 16, 0)) >= 0) {
		fds[count++] = got;
		bytes += 16ull << 20;
	}
	printf("maps: %d, %s\n", bytes <= 512ull << 20, said(-1));
	while (count)
		close(fds[--count]);
	SAY("one of 4 GB", map_of(BPF_MAP_TYPE_ARRAY, 4, 1 << 30, 4, 0));
	SAY("again", (got = map_of(BPF_MAP_TYPE_ARRAY, 4, 1 << 20, 16, 0)));
	close(got);
}

static void patient(void)
{
	u8 packet[64] = { 0 };
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(7, 0), ADD(7, 1), IF(BPF_JLT, 7, 10000, -2), MOV(0, 0), EXIT);
	SAY("for ever", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = program, .data_size_in = 64, .data_in = U(packet), .repeat = ~0u }));
	close(program);
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 1, 1, 0);
	u64 room = 20ull << 30;
	char *keys = mmap(0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (keys == MAP_FAILED)
		printf("in one go: errno 4\n");
	else
		SAY("in one go", BPF(BPF_MAP_UPDATE_BATCH, .batch = { .keys = U(keys), .values = U(keys), .count = ~0u, .map_fd = map }));
	munmap(keys, room);
	close(map);
}

static void crowd(void)
{
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(0, 1), EXIT), events[300], links[300], attached = 0;
	for (int i = 0; i < 300; i++) {
		struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_TASK_CLOCK, .sample_period = 1000000,
						.exclude_kernel = 1 };
		events[i] = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
		links[i] = BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = program, .target_fd = events[i], .attach_type = BPF_PERF_EVENT });
		attached += links[i] >= 0;
	}
	for (volatile int i = 0; i < 30000000; i++)
		;
	printf("attached: %d\n", attached);
	for (int i = 0; i < 300; i++)
		close(i % 2 ? events[i] : links[i]);
	for (int i = 0; i < 300; i++)
		close(i % 2 ? links[i] : events[i]);
	close(program);
}

static u64 state = 88172645463325252ull;

static u64 drawn(void)
{
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return state;
}

/* Calls by chance, with some pointers and descriptors among the arguments. */
static void chance(void)
{
	static u8 memory[65536];
	int some[8];
	for (int i = 0; i < 8; i++)
		some[i] = map_of((int[]){ 1, 2, 3, 4, 7, 22, 27, 6 }[i], i == 5 || i == 6 ? 0 : 4, i == 6 ? 0 : i == 2 || i == 3 ? 4 : 8, i == 6 ? 4096 : 16, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(0, 1), EXIT), event = breakpoint();
	for (int turn = 0; turn < 6000; turn++) {
		u32 words[44];
		for (int i = 0; i < 44; i++) {
			u64 pointer = U(memory) + drawn() % 32768;
			switch (drawn() % 8) {
			case 0: words[i] = drawn(); break;
			case 1: words[i] = drawn() % 64; break;
			case 2: words[i] = some[drawn() % 8]; break;
			case 3: words[i] = drawn() % 2 ? program : event; break;
			case 4:
				if (i < 43 && i % 2 == 0) {
					memcpy(&words[i], &pointer, 8);
					i++;
					break;
				}
			default: words[i] = 0;
			}
		}
		u64 command = drawn() % 40, fields = drawn() % 6;
		if (fields < 5)
			memset(words + 2 + fields * 4, 0, sizeof(words) - 8 - fields * 16);
		long got = sys_bpf(command, words, drawn() % 8 ? 168 : drawn() % 200);
		if (got > 2 && command != BPF_PROG_TEST_RUN)
			close(got);
	}
	printf("calls by chance are over\n");
	int map = map_of(BPF_MAP_TYPE_HASH, 4, 8, 4, 0);
	u32 key = 1;
	u64 value = 2, found = 0;
	set(map, &key, &value, 0);
	look(map, &key, &found);
	printf("a map still works: %llu\n", found);
}

int main(void)
{
	setvbuf(stdout, 0, _IOFBF, 1 << 20);
	wild();
	endless();
	ticking();
	greedy();
	patient();
	crowd();
	chance();
	return 0;
}
