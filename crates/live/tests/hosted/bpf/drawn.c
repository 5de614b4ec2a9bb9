/* Calls of bpf(2) by chance, with maps of all kinds, a program, an event and a file among their descriptors: each answer is written. Not drawn
 * is what may differ: the order of a hash, and numbers of descriptors as values. */
#include "common.h"
#include <linux/hw_breakpoint.h>

enum { SEEDS = 150, TURNS = 60, KINDS = 9 };

static const int kinds[KINDS] = { BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PROG_ARRAY, BPF_MAP_TYPE_PERF_EVENT_ARRAY, BPF_MAP_TYPE_STACK_TRACE,
				  BPF_MAP_TYPE_QUEUE, BPF_MAP_TYPE_RINGBUF, BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_LPM_TRIE };
static volatile u64 watched;
static u8 memory[65536];
static u64 state;
static int maps[KINDS], program, event, plain;
static u32 words[42];

static u64 drawn(u64 below)
{
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return state % below;
}

#define ONE_OF(...) ({ u64 all__[] = { __VA_ARGS__ }; all__[drawn(COUNT(all__))]; })

static void put(int word, u64 value)
{
	memcpy(&words[word], &value, 8);
}

static int make(int kind)
{
	switch (kind) {
	case BPF_MAP_TYPE_RINGBUF: return map_of(kind, 0, 0, 4096, 0);
	case BPF_MAP_TYPE_QUEUE: return map_of(kind, 0, 8, 4, 0);
	case BPF_MAP_TYPE_LPM_TRIE: return map_of(kind, 8, 8, 4, BPF_F_NO_PREALLOC);
	case BPF_MAP_TYPE_STACK_TRACE: return map_of(kind, 4, 16, 4, 0);
	case BPF_MAP_TYPE_PROG_ARRAY:
	case BPF_MAP_TYPE_PERF_EVENT_ARRAY: return map_of(kind, 4, 4, 4, 0);
	default: return map_of(kind, 4, 8, 4, 0);
	}
}

/* A key and a value, or places where there are none. */
static void element(int command, int which, int fd)
{
	u64 key = U(memory) + drawn(64) * 8, value = U(memory) + 4096 + drawn(64) * 8;
	if (which == 2 || which == 3)
		*(u32 *)value = ONE_OF(program, event, plain, 999, maps[0]);
	if (drawn(16) == 0)
		key = 16;
	if (drawn(16) == 0)
		value = 16;
	/* What comes first in a hash is its own affair. */
	if (drawn(10) == 0 || command == BPF_MAP_GET_NEXT_KEY && which == 0)
		key = 0;
	words[0] = fd;
	put(2, key), put(4, value);
	if (command != BPF_MAP_DELETE_ELEM && command != BPF_MAP_GET_NEXT_KEY)
		put(6, ONE_OF(0, 0, 0, 0, 1, 2, 3, 4, 8, 1ull << 40));
}

static void creation(void)
{
	words[0] = ONE_OF(0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 22, 23, 27, 1000);
	words[1] = ONE_OF(0, 4, 8, 5), words[2] = ONE_OF(0, 4, 8, 16), words[3] = ONE_OF(0, 1, 4, 4096);
	words[4] = drawn(3) ? 0 : ONE_OF(1, 2, 4, 8, 16, 64, 128, 256, 1024, 2048, 8192);
	if (drawn(9) == 0)
		words[7] = ONE_OF(0x61, 0x2d, 0x20);
}

static void loading(void)
{
	struct bpf_insn *insns = (void *)memory;
	words[0] = ONE_OF(1, 2, 5, 7, 17), words[1] = 1 + drawn(4);
	for (int i = 0; i < 4; i++)
		insns[i] = (struct bpf_insn[]){ MOV(0, 1), EXIT, ADD(0, 1), LOAD(BPF_W, 0, 1, 0), COPY(0, 1), GOTO(1), IF(BPF_JEQ, 0, 1, 1), CALL(5) }[drawn(8)];
	put(2, drawn(12) ? U(memory) : 16), put(4, drawn(12) ? U("GPL") : 16);
}

static void run(int fd)
{
	words[0] = drawn(3) ? program : fd, words[2] = ONE_OF(0, 14, 64, 5000), words[8] = drawn(3);
	put(4, drawn(8) ? U(memory) : 16);
	if (drawn(2))
		words[3] = 64, put(6, U(memory) + 4096);
	if (drawn(5) == 0)
		words[16 + drawn(3)] = 1;
}

static void batch(int which, int fd)
{
	for (int i = 0; i < 64; i++)
		memory[24000 + i] = drawn(3) ? 0 : drawn(5);
	memset(memory + 28000, 0, 4096);
	put(2, U(memory) + 20000), put(4, U(memory) + 24000), put(6, U(memory) + 28000);
	/* How many of a hash fit is its own affair, too, and a value of an array of programs would be a descriptor. */
	words[8] = which == 0 ? 8 : drawn(4), words[9] = fd;
	words[10] = drawn(6) ? 0 : 4, words[12] = drawn(9) == 0;
}

static void turn(int number)
{
	static const int commands[] = { BPF_MAP_CREATE, BPF_MAP_LOOKUP_ELEM, BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_UPDATE_ELEM,
					BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY, BPF_MAP_GET_NEXT_KEY, BPF_PROG_LOAD, BPF_PROG_TEST_RUN, BPF_OBJ_GET_INFO_BY_FD,
					BPF_MAP_LOOKUP_AND_DELETE_ELEM, BPF_MAP_FREEZE, BPF_MAP_LOOKUP_BATCH, BPF_MAP_LOOKUP_AND_DELETE_BATCH, BPF_MAP_UPDATE_BATCH,
					BPF_MAP_DELETE_BATCH, BPF_LINK_CREATE, BPF_PROG_BIND_MAP };
	int command = commands[drawn(COUNT(commands))], which = drawn(KINDS), fd = maps[which], is_batch = command >= BPF_MAP_LOOKUP_BATCH && command <= BPF_MAP_DELETE_BATCH;
	if (drawn(12) == 0)
		fd = ONE_OF(program, event, plain, 999, -1), which = KINDS;
	memset(words, 0, sizeof(words));
	for (int i = 0; i < 8192; i++)
		memory[i] = drawn(3) ? 0 : drawn(6);
	switch (command) {
	case BPF_MAP_CREATE: creation(); break;
	case BPF_PROG_LOAD: loading(); break;
	case BPF_PROG_TEST_RUN: run(fd); break;
	case BPF_MAP_FREEZE: words[0] = drawn(6) ? 999 : fd; break;
	case BPF_OBJ_GET_INFO_BY_FD:
		memset(memory + 16384, 0, 8192);
		words[0] = drawn(2) ? program : fd, words[1] = ONE_OF(0, 8, 80, 300, 5000);
		put(2, drawn(8) ? U(memory) + 16384 : 16);
		break;
	case BPF_LINK_CREATE:
		words[0] = drawn(2) ? program : fd, words[1] = drawn(2) ? event : fd, words[2] = drawn(3) ? BPF_PERF_EVENT : drawn(50), words[3] = drawn(4) == 0;
		break;
	case BPF_PROG_BIND_MAP: words[0] = drawn(2) ? program : fd, words[1] = fd, words[2] = drawn(5) == 0; break;
	default:
		if (is_batch)
			batch(which, fd);
		else
			element(command, which, fd);
	}
	/* Fields behind those that are known: not all of loading. */
	if (drawn(20) == 0)
		words[41 - drawn(command == BPF_PROG_LOAD ? 1 : 6)] = 1;
	errno = 0;
	long got = sys_bpf(command, words, sizeof(words));
	printf("%d: command %d, map %d: %d", number, command, which, got < 0 ? errno : 0);
	if (is_batch)
		printf(", %u", words[8]);
	if (command == BPF_PROG_TEST_RUN && got == 0)
		printf(", %u", words[1]);
	printf("\n");
	if (got > 2)
		close(got);
}

int main(void)
{
	setvbuf(stdout, 0, _IOFBF, 1 << 20);
	plain = open("/dev/null", O_RDONLY);
	for (int seed = 1; seed <= SEEDS; seed++) {
		state = 88172645463325252ull + seed * 7919ull;
		for (int i = 0; i < 20; i++)
			drawn(2);
		for (int i = 0; i < KINDS; i++)
			maps[i] = make(kinds[i]);
		program = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, LOAD(BPF_W, 0, 1, 0), EXIT);
		struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT, .size = sizeof(attr), .bp_type = HW_BREAKPOINT_W, .bp_addr = U(&watched), .bp_len = 8,
						.sample_period = 1, .exclude_kernel = 1 };
		event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		for (int number = 0; number < TURNS; number++)
			turn(seed * 1000 + number);
		for (int i = 0; i < KINDS; i++)
			close(maps[i]);
		close(program), close(event);
	}
	return 0;
}
