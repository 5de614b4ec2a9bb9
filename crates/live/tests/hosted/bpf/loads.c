/* Loading of programs: arguments, verdicts with their logs, and what programs do with maps of all kinds. */
#include "common.h"
#include <linux/bpf_perf_event.h>
#include <pthread.h>
#include <sys/prctl.h>

static u8 packet[64];

static int load_with(const struct bpf_insn *insns, unsigned count, const char *license, int level, char *log, unsigned size)
{
	return BPF(BPF_PROG_LOAD, .prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insns = U(insns), .insn_cnt = count, .license = U(license), .log_level = level,
		   .log_size = size, .log_buf = U(log));
}

static void arguments(void)
{
	struct bpf_insn good[] = { MOV(0, 1), EXIT }, bad[] = { COPY(0, 2), EXIT };
	char log[4096];
	SAY("plain", load_with(good, 2, "GPL", 0, 0, 0));
	SAY("no licence", load_with(good, 2, 0, 0, 0, 0));
	SAY("nowhere", load_with((void *)16, 2, "GPL", 0, 0, 0));
	SAY("none", load_with(good, 0, "GPL", 0, 0, 0));
	SAY("a million and one", load_with(good, 1000001, "GPL", 0, 0, 0));
	SAY("a log without a level", load_with(good, 2, "GPL", 0, log, sizeof(log)));
	SAY("a level without a log", load_with(good, 2, "GPL", 1, 0, 0));
	SAY("a log without a size", load_with(good, 2, "GPL", 1, log, 0));
	SAY("a size without a log", load_with(good, 2, "GPL", 1, 0, 64));
	SAY("an unknown level", load_with(good, 2, "GPL", 64, log, sizeof(log)));
	SAY("a huge log", load_with(good, 2, "GPL", 1, log, 0xffffffff));
	SAY("a tiny log", load_with(good, 2, "GPL", 1, log, 8));
	SAY("a log nowhere", load_with(good, 2, "GPL", 1, (void *)16, 64));
	memset(log, 'x', sizeof(log));
	SAY("a log", load_with(good, 2, "GPL", 1, log, sizeof(log)));
	printf("something in it: %d, an end: %d\n", log[0] != 0 && log[0] != 'x', memchr(log, 0, sizeof(log)) != 0);
	memset(log, 'x', sizeof(log));
	SAY("a refusal", load_with(bad, 2, "GPL", 1, log, sizeof(log)));
	printf("why: %d\n", strstr(log, "R2 !read_ok") != 0);
	SAY("a refusal without a log", load_with(bad, 2, "GPL", 0, 0, 0));
	SAY("a refusal with a tiny log", load_with(bad, 2, "GPL", 1, log, 8));
	printf("%zu bytes of it\n", strlen(log));
	memset(log, 'x', sizeof(log));
	SAY("a refusal with statistics", load_with(bad, 2, "GPL", 4, log, sizeof(log)));
	printf("something in it: %d\n", log[0] != 0 && log[0] != 'x');
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insns = U(bad), .insn_cnt = 2, .license = U("GPL"), .log_level = 1, .log_size = sizeof(log),
				.log_buf = U(log) };
	u32 whole[64] = { 0 };
	memcpy(whole, &attr, sizeof(attr));
	sys_bpf(BPF_PROG_LOAD, whole, 168);
	printf("true size: %d\n", whole[35] == strlen(log) + 1);
	SAY("flags", BPF(BPF_PROG_LOAD, .prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insns = U(good), .insn_cnt = 2, .license = U("GPL"), .prog_flags = 1 << 30));
	SAY("strict alignment", BPF(BPF_PROG_LOAD, .prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insns = U(good), .insn_cnt = 2, .license = U("GPL"), .prog_flags = BPF_F_STRICT_ALIGNMENT));
	SAY("type 0", BPF(BPF_PROG_LOAD, .prog_type = 0, .insns = U(good), .insn_cnt = 2, .license = U("GPL")));
	SAY("no such type", BPF(BPF_PROG_LOAD, .prog_type = 999, .insns = U(good), .insn_cnt = 2, .license = U("GPL")));
	SAY("a name", BPF(BPF_PROG_LOAD, .prog_type = 1, .insns = U(good), .insn_cnt = 2, .license = U("GPL"), .prog_name = "a_name"));
	SAY("a wrong name", BPF(BPF_PROG_LOAD, .prog_type = 1, .insns = U(good), .insn_cnt = 2, .license = U("GPL"), .prog_name = "a name"));
	SAY("a name without an end", BPF(BPF_PROG_LOAD, .prog_type = 1, .insns = U(good), .insn_cnt = 2, .license = U("GPL"), .prog_name = "0123456789abcdef"));
	SAY("kernel version", BPF(BPF_PROG_LOAD, .prog_type = 2, .insns = U(good), .insn_cnt = 2, .license = U("GPL"), .kern_version = 7));
	int program = BPF(BPF_PROG_LOAD, .prog_type = 1, .insns = U(good), .insn_cnt = 2, .license = U("Proprietary"), .prog_name = "named");
	struct bpf_insn seen[4] = { 0 };
	struct bpf_prog_info info = { .xlated_prog_len = sizeof(seen), .xlated_prog_insns = U(seen) };
	union bpf_attr ask = { .info = { .bpf_fd = program, .info_len = sizeof(info), .info = U(&info) } };
	sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &ask, sizeof(ask));
	printf("info: %s, gpl %u, uid %d, xlated %u: %x %x, run %llu\n", info.name, info.gpl_compatible, info.created_by_uid == getuid(), info.xlated_prog_len,
	       seen[0].code, seen[1].code, info.run_cnt);
	u8 little[20] = { 0 };
	SAY("a short info", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = program, .info_len = 20, .info = U(little) }));
	printf("type %u\n", *(u32 *)little);
	u8 large[400] = { 0 };
	SAY("a long info", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = program, .info_len = 400, .info = U(large) }));
	memset(large, 0, sizeof(large)), large[399] = 1;
	SAY("a long info with something", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = program, .info_len = 400, .info = U(large) }));
	SAY("a huge info", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = program, .info_len = 40000, .info = U(large) }));
	close(program);
	for (unsigned i = 0; i < 4; i++) {
		const char *licences[] = { "GPL", "Dual BSD/GPL", "MIT", "" };
		struct bpf_insn gpl[] = { MOV(1, 0), COPY(1, 10), ADD(1, -8), PUT(BPF_DW, 10, -8, 0), MOV(2, 8), MOV(3, 0), CALL(BPF_FUNC_probe_read_kernel), MOV(0, 0), EXIT };
		printf("licence '%s': %s", licences[i], said(load_as(BPF_PROG_TYPE_KPROBE, gpl, COUNT(gpl), licences[i])));
		printf(", logged %s\n", logged("cannot call GPL-restricted function"));
	}
}

#define VERDICT(type, text, ...) do { \
	int fd__ = LOAD_PROGRAM(type, __VA_ARGS__); \
	printf("verdict %d: %s", __LINE__, said(fd__)); \
	printf(", logged %s\n", logged(text)); \
	if (fd__ >= 0) \
		close(fd__); \
} while (0)

static void verdicts(void)
{
	int array = map_of(BPF_MAP_TYPE_ARRAY, 4, 16, 4, 0), one = map_of(BPF_MAP_TYPE_ARRAY, 4, 16, 1, 0), hash = map_of(BPF_MAP_TYPE_HASH, 8, 8, 16, 0);
	int ring = map_of(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0), events = map_of(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 2, 0), plain = open("/dev/null", O_RDONLY);
	int e = BPF_PROG_TYPE_PERF_EVENT, k = BPF_PROG_TYPE_KPROBE, s = BPF_PROG_TYPE_SOCKET_FILTER, t = BPF_PROG_TYPE_TRACEPOINT;
	VERDICT(e, "R0 !read_ok", EXIT);
	VERDICT(e, "unreachable insn", MOV(0, 0), EXIT, MOV(0, 1), EXIT);
	VERDICT(e, "jump out of range", MOV(0, 0), GOTO(7), EXIT);
	VERDICT(e, "not an exit", MOV(0, 0));
	VERDICT(e, "infinite loop", MOV(0, 0), GOTO(-1), EXIT);
	VERDICT(e, "invalid stack", MOV(0, 0), STORE(BPF_DW, 10, 0, 0), EXIT);
	VERDICT(e, "invalid write to stack", MOV(0, 0), STORE(BPF_DW, 10, 0, -520), EXIT);
	VERDICT(e, "misaligned stack", MOV(0, 0), STORE(BPF_DW, 10, 0, -12), EXIT);
	VERDICT(e, "frame pointer is read only", MOV(10, 0), MOV(0, 0), EXIT);
	VERDICT(e, "invalid mem access 'scalar'", MOV(1, 5), LOAD(BPF_DW, 0, 1, 0), EXIT);
	VERDICT(e, "invalid bpf_context access", LOAD(BPF_DW, 0, 1, 4096), EXIT);
	VERDICT(e, "invalid bpf_context access", LOAD(BPF_W, 0, 1, 0), EXIT);
	VERDICT(e, "processed", LOAD(BPF_W, 0, 1, offsetof(struct bpf_perf_event_data, sample_period)), EXIT);
	VERDICT(e, "invalid bpf_context access", PUT(BPF_DW, 1, 0, 1), MOV(0, 0), EXIT);
	VERDICT(k, "invalid bpf_context access", LOAD(BPF_DW, 0, 1, sizeof(struct pt_regs)), EXIT);
	VERDICT(k, "processed", LOAD(BPF_DW, 0, 1, sizeof(struct pt_regs) - 8), EXIT);
	VERDICT(t, "invalid bpf_context access", LOAD(BPF_DW, 0, 1, 0), EXIT);
	VERDICT(s, "invalid bpf_context access", LOAD(BPF_W, 0, 1, 76), EXIT);
	VERDICT(s, "cannot use helper", CALL(BPF_FUNC_probe_read_user), EXIT);
	VERDICT(k, "cannot use helper", CALL(BPF_FUNC_skb_load_bytes), EXIT);
	VERDICT(e, "invalid func unknown", CALL(9999), EXIT);
	VERDICT(e, "map_value_or_null", PUT(BPF_W, 10, -4, 9), MAP(1, array), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), LOAD(BPF_DW, 0, 0, 0), EXIT);
	VERDICT(e, "invalid access to map value", PUT(BPF_W, 10, -4, 0), MAP(1, array), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), IF(BPF_JEQ, 0, 0, 1),
		LOAD(BPF_DW, 0, 0, 16), MOV(0, 0), EXIT);
	VERDICT(e, "invalid read from stack", MAP(1, hash), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), MOV(0, 0), EXIT);
	VERDICT(e, "expected=map_ptr", MOV(1, 0), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), MOV(0, 0), EXIT);
	VERDICT(e, "cannot pass map_type", PUT(BPF_W, 10, -4, 0), MAP(1, events), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), MOV(0, 0), EXIT);
	VERDICT(e, "invalid zero-sized read", PUT(BPF_W, 10, -4, 0), MAP(1, ring), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), MOV(0, 0), EXIT);
	VERDICT(e, "not pointing to valid bpf_map", MAP(1, 999), MOV(0, 0), EXIT);
	VERDICT(e, "not pointing to valid bpf_map", MAP(1, plain), MOV(0, 0), EXIT);
	VERDICT(e, "Unreleased reference", MAP(1, ring), MOV(2, 8), MOV(3, 0), CALL(BPF_FUNC_ringbuf_reserve), MOV(0, 0), EXIT);
	VERDICT(e, "processed", VALUE(1, one, 8), LOAD(BPF_DW, 0, 1, 0), EXIT);
	VERDICT(e, "invalid access to map value", VALUE(1, one, 9), LOAD(BPF_DW, 0, 1, 0), EXIT);
	VERDICT(e, "value_size=16 off=16", VALUE(1, one, 16), MOV(0, 0), EXIT);
	VERDICT(e, "direct value", VALUE(1, hash, 0), MOV(0, 0), EXIT);
	VERDICT(e, "pointer arithmetic", ALU(BPF_MUL, 1, 2), MOV(0, 0), EXIT);
	VERDICT(e, "pointer += pointer", ALUX(BPF_ADD, 1, 10), MOV(0, 0), EXIT);
	VERDICT(e, "div by zero", MOV(0, 1), ALU(BPF_DIV, 0, 0), EXIT);
	VERDICT(e, "invalid shift", MOV(0, 1), ALU(BPF_LSH, 0, 64), EXIT);
	VERDICT(e, "unknown opcode", CODE(0xff, 0, 0, 0, 0), EXIT);
	VERDICT(e, "reserved fields", CODE(BPF_ALU64 | BPF_MOV | BPF_K, 0, 3, 0, 1), EXIT);
	VERDICT(e, "invalid BPF_LD_IMM insn", CODE(BPF_LD | BPF_DW | BPF_IMM, 0, 0, 0, 1), EXIT);
	VERDICT(e, "", CODE(BPF_ALU64 | BPF_MOV | BPF_K, 12, 0, 0, 1), EXIT);
	VERDICT(e, "unbounded min value", LOAD(BPF_DW, 2, 1, 0), COPY(3, 10), ALUX(BPF_ADD, 3, 2), PUT(BPF_B, 3, -8, 0), MOV(0, 0), EXIT);
	VERDICT(e, "R2 invalid zero-sized read", COPY(1, 10), ADD(1, -16), MOV(2, 0), CALL(BPF_FUNC_get_current_comm), EXIT);
	VERDICT(e, "invalid write to stack", COPY(1, 10), ADD(1, -8), MOV(2, 16), CALL(BPF_FUNC_get_current_comm), EXIT);
	VERDICT(e, "modified ctx", ADD(1, 8), MAP(2, events), MOV(3, 0), COPY(4, 10), ADD(4, -8), MOV(5, 8), CALL(BPF_FUNC_perf_event_output), EXIT);
	VERDICT(e, "cannot return stack pointer", CODE(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 1), EXIT, COPY(0, 10), EXIT);
	VERDICT(e, "too deep", CODE(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 1), EXIT, CODE(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, -1), EXIT);
	VERDICT(s, "", CODE(BPF_LD | BPF_ABS | BPF_B, 0, 0, 0, 5), EXIT);
	VERDICT(e, "not allowed", COPY(6, 1), CODE(BPF_LD | BPF_ABS | BPF_B, 0, 0, 0, 5), EXIT);
	VERDICT(s, "processed", COPY(6, 1), CODE(BPF_LD | BPF_ABS | BPF_W, 0, 0, 0, 5), EXIT);
	VERDICT(e, "leaks addr", COPY(0, 10), EXIT);
	VERDICT(e, "", MOV(7, 0), ADD(7, 1), IF(BPF_JLT, 7, 100, -2), COPY(0, 7), EXIT);
	VERDICT(e, "value_size=16 off=0", VALUE(1, array, 0), MOV(0, 0), EXIT);
	VERDICT(e, "BPF_ALU uses reserved fields", CODE(BPF_ALU64 | BPF_ADD | BPF_K, 0, 3, 0, 1), EXIT);
	VERDICT(e, "R12 is invalid", CODE(BPF_ALU64 | BPF_MOV | BPF_K, 12, 0, 0, 1), EXIT);
}

static u32 result(int program)
{
	union bpf_attr run = { .test = { .prog_fd = program, .data_size_in = 64, .data_in = U(packet) } };
	return sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run)) ? 0xdead : run.test.retval;
}

#define RUN(what, ...) do { \
	int fd__ = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, __VA_ARGS__); \
	printf("%s: %s", what, said(fd__)); \
	printf(", %d\n", fd__ < 0 ? -1 : (int)result(fd__)); \
	if (fd__ < 0 && getenv("SHOW")) \
		printf("%s\n", verdict); \
	if (fd__ >= 0) \
		close(fd__); \
} while (0)

static void runs(void)
{
	int hash = map_of(BPF_MAP_TYPE_HASH, 4, 8, 2, 0), lru = map_of(BPF_MAP_TYPE_LRU_HASH, 4, 8, 64, 0), percpu = map_of(BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 2, 0);
	int queue = map_of(BPF_MAP_TYPE_QUEUE, 0, 8, 2, 0), stack = map_of(BPF_MAP_TYPE_STACK, 0, 8, 2, 0), array = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0);
	int percpu_hash = map_of(BPF_MAP_TYPE_PERCPU_HASH, 4, 8, 2, 0);
	RUN("update a hash", PUT(BPF_W, 10, -4, 7), PUT(BPF_DW, 10, -16, 77), MAP(1, hash), COPY(2, 10), ADD(2, -4), COPY(3, 10), ADD(3, -16), MOV(4, 0),
	    CALL(BPF_FUNC_map_update_elem), EXIT);
	RUN("only new", PUT(BPF_W, 10, -4, 7), PUT(BPF_DW, 10, -16, 77), MAP(1, hash), COPY(2, 10), ADD(2, -4), COPY(3, 10), ADD(3, -16), MOV(4, BPF_NOEXIST),
	    CALL(BPF_FUNC_map_update_elem), EXIT);
	RUN("only old", PUT(BPF_W, 10, -4, 8), PUT(BPF_DW, 10, -16, 77), MAP(1, hash), COPY(2, 10), ADD(2, -4), COPY(3, 10), ADD(3, -16), MOV(4, BPF_EXIST),
	    CALL(BPF_FUNC_map_update_elem), EXIT);
	RUN("look", PUT(BPF_W, 10, -4, 7), MAP(1, hash), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), IF(BPF_JEQ, 0, 0, 2), LOAD(BPF_DW, 0, 0, 0), EXIT,
	    MOV(0, 1), EXIT);
	RUN("delete", PUT(BPF_W, 10, -4, 7), MAP(1, hash), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_delete_elem), EXIT);
	RUN("delete again", PUT(BPF_W, 10, -4, 7), MAP(1, hash), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_delete_elem), EXIT);
	RUN("push", PUT(BPF_DW, 10, -8, 5), MAP(1, queue), COPY(2, 10), ADD(2, -8), MOV(3, 0), CALL(BPF_FUNC_map_push_elem), EXIT);
	RUN("push", PUT(BPF_DW, 10, -8, 6), MAP(1, queue), COPY(2, 10), ADD(2, -8), MOV(3, 0), CALL(BPF_FUNC_map_push_elem), EXIT);
	RUN("push, full", PUT(BPF_DW, 10, -8, 7), MAP(1, queue), COPY(2, 10), ADD(2, -8), MOV(3, 0), CALL(BPF_FUNC_map_push_elem), EXIT);
	RUN("push out", PUT(BPF_DW, 10, -8, 8), MAP(1, queue), COPY(2, 10), ADD(2, -8), MOV(3, BPF_EXIST), CALL(BPF_FUNC_map_push_elem), EXIT);
	RUN("peek", PUT(BPF_DW, 10, -8, 0), MAP(1, queue), COPY(2, 10), ADD(2, -8), CALL(BPF_FUNC_map_peek_elem), LOAD(BPF_DW, 0, 10, -8), EXIT);
	RUN("pop", PUT(BPF_DW, 10, -8, 0), MAP(1, queue), COPY(2, 10), ADD(2, -8), CALL(BPF_FUNC_map_pop_elem), LOAD(BPF_DW, 0, 10, -8), EXIT);
	RUN("pop a stack", PUT(BPF_DW, 10, -8, 9), MAP(1, stack), COPY(2, 10), ADD(2, -8), CALL(BPF_FUNC_map_pop_elem), EXIT);
	u64 value = 0;
	SAY("take by a call", BPF(BPF_MAP_LOOKUP_AND_DELETE_ELEM, .map_fd = queue, .value = U(&value)));
	printf("%llu\n", value);
	SAY("push by a call", set(stack, 0, &value, 0));
	SAY("look by a call", look(stack, 0, &value));
	for (int i = 0; i < 3; i++)
		RUN("percpu", PUT(BPF_W, 10, -4, 1), MAP(1, percpu), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), IF(BPF_JEQ, 0, 0, 4), MOV(1, 1), XADD(0, 1, 0),
		    MOV(0, 3), EXIT, MOV(0, 4), EXIT);
	u64 values[128] = { 0 }, sum = 0;
	u32 one = 1;
	look(percpu, &one, values);
	for (int i = 0; i < 128; i++)
		sum += values[i];
	printf("in all %llu\n", sum);
	RUN("percpu hash", PUT(BPF_W, 10, -4, 7), PUT(BPF_DW, 10, -16, 77), MAP(1, percpu_hash), COPY(2, 10), ADD(2, -4), COPY(3, 10), ADD(3, -16), MOV(4, 0),
	    CALL(BPF_FUNC_map_update_elem), EXIT);
	memset(values, 0xff, sizeof(values));
	u32 seven = 7;
	SAY("look at it", look(percpu_hash, &seven, values));
	sum = 0;
	for (int i = 0; i < 2; i++)
		sum += values[i];
	printf("in all %llu\n", sum);
	for (u32 i = 0; i < 200; i++)
		set(lru, &i, &value, 0);
	u32 last = 199, count = 0, key;
	void *before = 0;
	while (count < 1000 && !after(lru, before, &key))
		count++, before = &key;
	printf("LRU: the last is there %d, not more than fit %d\n", !look(lru, &last, &value), count <= 64);
	int trie = map_of(BPF_MAP_TYPE_LPM_TRIE, 8, 8, 4, BPF_F_NO_PREALLOC);
	struct { u32 bits; u8 bytes[4]; } prefixes[] = { { 16, { 192, 168 } }, { 24, { 192, 168, 1 } }, { 8, { 10 } }, { 33, { 1 } }, { 0, { 0 } }, { 32, { 1, 2, 3, 4 } } };
	for (unsigned i = 0; i < COUNT(prefixes); i++) {
		value = 100 + i;
		printf("prefix %u: %s\n", i, said(set(trie, &prefixes[i], &value, 0)));
	}
	for (int i = 0; i < 3; i++)
		RUN("longest prefix", PUT(BPF_W, 10, -8, 32), PUT(BPF_W, 10, -4, i == 0 ? 0x0501a8c0 : i == 1 ? 0x0502a8c0 : 0x05050505), MAP(1, trie), COPY(2, 10), ADD(2, -8),
		    CALL(BPF_FUNC_map_lookup_elem), IF(BPF_JEQ, 0, 0, 1), LOAD(BPF_DW, 0, 0, 0), EXIT);
	before = 0, count = 0;
	u64 found;
	while (count++ < 10 && !after(trie, before, &found))
		printf("prefix of %u bits: %x\n", (u32)found, (u32)(found >> 32)), before = &found;
	SAY("delete a prefix", unset(trie, &prefixes[1]));
	SAY("again", unset(trie, &prefixes[1]));
	RUN("arithmetic", MOV(0, 7), ALU(BPF_LSH, 0, 3), ALU(BPF_SUB, 0, 6), ALU(BPF_MUL, 0, 3), ALU(BPF_MOD, 0, 100), ALU(BPF_XOR, 0, 5), EXIT);
	RUN("a function", MOV(1, 20), CODE(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 1), EXIT, COPY(0, 1), ADD(0, 22), EXIT);
	RUN("by zero", MOV(0, 7), MOV(1, 0), ALUX(BPF_DIV, 0, 1), EXIT);
	RUN("modulo zero", MOV(0, 7), MOV(1, 0), ALUX(BPF_MOD, 0, 1), EXIT);
	RUN("bytes turned", MOV(0, 0x1234), CODE(BPF_ALU | BPF_END | BPF_TO_BE, 0, 0, 0, 16), EXIT);
	RUN("compare and exchange", PUT(BPF_DW, 10, -8, 3), MOV(0, 3), MOV(1, 9), CODE(BPF_STX | BPF_ATOMIC | BPF_DW, 10, 1, -8, BPF_CMPXCHG), LOAD(BPF_DW, 0, 10, -8), EXIT);
	RUN("fetch and add", PUT(BPF_DW, 10, -8, 3), MOV(1, 9), CODE(BPF_STX | BPF_ATOMIC | BPF_DW, 10, 1, -8, BPF_ADD | BPF_FETCH), COPY(0, 1), EXIT);
	RUN("a 32-bit jump", CONST(1, 0x100000005ull), MOV(0, 1), CODE(BPF_JMP32 | BPF_JEQ | BPF_K, 1, 0, 1, 5), MOV(0, 2), EXIT);
	RUN("sign extension", MOV(0, 0x80), CODE(BPF_ALU64 | BPF_MOV | BPF_X, 0, 0, 8, 0), EXIT);
	RUN("strtol", CONST(1, 0x3839322d20ull), STORE(BPF_DW, 10, 1, -8), PUT(BPF_DW, 10, -16, 0), COPY(1, 10), ADD(1, -8), MOV(2, 5), MOV(3, 10), COPY(4, 10), ADD(4, -16),
	    CALL(BPF_FUNC_strtol), LOAD(BPF_DW, 0, 10, -16), EXIT);
	RUN("beyond the packet", COPY(6, 1), CODE(BPF_LD | BPF_ABS | BPF_W, 0, 0, 0, 60), EXIT);
	RUN("bytes beyond", MOV(2, 60), COPY(3, 10), ADD(3, -8), MOV(4, 8), CALL(BPF_FUNC_skb_load_bytes), EXIT);
	RUN("a time", CALL(BPF_FUNC_ktime_get_ns), IF(BPF_JNE, 0, 0, 1), EXIT, MOV(0, 6), EXIT);
	RUN("a cpu", CALL(BPF_FUNC_get_smp_processor_id), IF(BPF_JLT, 0, 1024, 1), EXIT, MOV(0, 6), EXIT);
}

static u32 raw_result(int program)
{
	u64 arguments[2] = { 0 };
	union bpf_attr run = { .test = { .prog_fd = program, .ctx_in = U(arguments), .ctx_size_in = sizeof(arguments) } };
	return sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run)) ? 0xdead : run.test.retval;
}

static void *waits(void *epoll)
{
	struct epoll_event event = { 0 };
	int got = epoll_wait(*(int *)epoll, &event, 1, 5000);
	return (void *)(long)(got == 1 ? event.data.u32 : -1);
}

/* What a program finds that runs for its caller. */
static void surroundings(void)
{
	static u64 own = 4711;
	int raw = BPF_PROG_TYPE_RAW_TRACEPOINT;
	int pid = LOAD_PROGRAM(raw, CALL(BPF_FUNC_get_current_pid_tgid), ALU(BPF_RSH, 0, 32), EXIT);
	printf("its process: %d\n", raw_result(pid) == (u32)getpid());
	int uid = LOAD_PROGRAM(raw, CALL(BPF_FUNC_get_current_uid_gid), EXIT);
	printf("its user: %d\n", raw_result(uid) == getuid());
	int name = LOAD_PROGRAM(raw, COPY(1, 10), ADD(1, -16), MOV(2, 16), CALL(BPF_FUNC_get_current_comm), LOAD(BPF_W, 0, 10, -16), EXIT);
	char comm[16] = { 0 };
	prctl(PR_GET_NAME, comm);
	printf("its name: %d\n", raw_result(name) == *(u32 *)comm);
	int memory = LOAD_PROGRAM(raw, COPY(1, 10), ADD(1, -8), MOV(2, 8), CONST(3, U(&own)), CALL(BPF_FUNC_probe_read_user), LOAD(BPF_DW, 0, 10, -8), EXIT);
	printf("its memory: %u\n", raw_result(memory));
	int array = map_of(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 1, 0), zero = 0;
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_BPF_OUTPUT, .sample_type = PERF_SAMPLE_RAW,
					.sample_period = 1, .wakeup_events = 1 };
	int event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	struct perf_event_mmap_page *page = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
	set(array, &zero, &event, 0);
	int output = LOAD_PROGRAM(raw, COPY(6, 1), PUT(BPF_DW, 10, -8, 99), COPY(1, 6), MAP(2, array), MOV(3, 0), COPY(4, 10), ADD(4, -8), MOV(5, 8),
				  CALL(BPF_FUNC_perf_event_output), EXIT);
	printf("its events: %d, head %llu\n", (int)raw_result(output), page->data_head);
	struct pollfd ready = { .fd = event, .events = POLLIN };
	printf("ready: %d %x\n", poll(&ready, 1, 0), ready.revents);
	int ring = map_of(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0);
	int filter = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, PUT(BPF_DW, 10, -8, 99), MAP(1, ring), COPY(2, 10), ADD(2, -8), MOV(3, 8), MOV(4, 0),
				  CALL(BPF_FUNC_ringbuf_output), EXIT);
	int epoll = epoll_create1(0);
	struct epoll_event wanted = { .events = EPOLLIN, .data = { .u32 = 7 } };
	epoll_ctl(epoll, EPOLL_CTL_ADD, ring, &wanted);
	pthread_t thread;
	void *got;
	pthread_create(&thread, 0, waits, &epoll);
	usleep(200000);
	printf("a ring: %d\n", (int)result(filter));
	pthread_join(thread, &got);
	printf("woken: %ld\n", (long)got);
}

static void execed(char *self)
{
	int kept = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0), closed = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	u32 zero = 0;
	u64 value = 321;
	set(kept, &zero, &value, 0);
	fcntl(kept, F_SETFD, 0);
	char numbers[2][16];
	snprintf(numbers[0], 16, "%d", kept), snprintf(numbers[1], 16, "%d", closed);
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		execl("/proc/self/exe", self, numbers[0], numbers[1], (char *)0);
		_exit(1);
	}
	waitpid(child, 0, 0);
}

/* Types of one's own, and of the kernel. */
static void told_types(const char *whose, int types)
{
	char name[16] = "?", little[4] = "?";
	u8 bytes[24];
	struct bpf_btf_info info = { .btf = U(bytes), .btf_size = sizeof(bytes), .name = U(name), .name_len = sizeof(name) };
	SAY(whose, BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = types, .info_len = sizeof(info), .info = U(&info) }));
	struct stat about = {};
	stat("/sys/kernel/btf/vmlinux", &about);
	printf("'%s' %u, the kernel's %u, as long as the file %d, begins %x %x\n", name, info.name_len, info.kernel_btf, info.btf_size == about.st_size,
	       bytes[0], bytes[1]);
	info = (struct bpf_btf_info){ .name = U(little), .name_len = sizeof(little) };
	SAY("a short name", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = types, .info_len = sizeof(info), .info = U(&info) }));
	printf("'%s' %u\n", little, info.name_len);
	info = (struct bpf_btf_info){ .name_len = 4 };
	SAY("a name into nowhere", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = types, .info_len = sizeof(info), .info = U(&info) }));
	info = (struct bpf_btf_info){ .btf_size = 4 };
	SAY("types into nowhere", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = types, .info_len = sizeof(info), .info = U(&info) }));
	SAY("a map of them", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1, .btf_fd = types,
				 .btf_key_type_id = 1, .btf_value_type_id = 1));
	struct bpf_insn insns[] = { MOV(0, 0), EXIT };
	struct bpf_func_info functions[] = { { 0, 3 } };
	SAY("a program of them", load_typed(insns, COUNT(insns), types, functions, 1));
}

static void types(void)
{
	union bpf_attr next = { .start_id = 0 };
	SAY("the first types", sys_bpf(BPF_BTF_GET_NEXT_ID, &next, sizeof(next)));
	printf("%u\n", next.next_id);
	int kernel = BPF(BPF_BTF_GET_FD_BY_ID, .btf_id = next.next_id);
	SAY("opened", kernel);
	told_types("the kernel's", kernel);
	told_types("its own", load_types());
}

int main(int argc, char **argv)
{
	setvbuf(stdout, 0, _IOFBF, 1 << 20);
	if (argc == 3) {
		u32 zero = 0;
		u64 value = 0;
		SAY("kept over exec", look(atoi(argv[1]), &zero, &value));
		printf("%llu\n", value);
		SAY("closed by exec", look(atoi(argv[2]), &zero, &value));
		return 0;
	}
	arguments();
	verdicts();
	runs();
	surroundings();
	types();
	execed(argv[0]);
	return 0;
}
