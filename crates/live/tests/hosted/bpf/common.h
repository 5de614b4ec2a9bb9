/* Programs that use bpf(2) by hand: what the parts have in common. Each line that is written must be the same whoever answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

#define U(p) ((u64)(unsigned long)(p))
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static long sys_bpf(int command, void *attr, unsigned size)
{
	return syscall(SYS_bpf, command, attr, size);
}

#define BPF(command, ...) ({ union bpf_attr attr__ = { __VA_ARGS__ }; sys_bpf(command, &attr__, sizeof(attr__)); })

/* The answer: "ok", or the errno. A descriptor is "ok", too. */
static const char *said(long answer)
{
	static char text[4][32];
	static int at;
	char *own = text[at++ & 3];
	if (answer >= 0)
		return "ok";
	snprintf(own, 32, "errno %d", errno);
	return own;
}

#define SAY(what, call) printf("%s: %s\n", what, said(call))

#define CODE(c, d, s, o, i) ((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define MOV(d, i) CODE(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define MOV32(d, i) CODE(BPF_ALU | BPF_MOV | BPF_K, d, 0, 0, i)
#define COPY(d, s) CODE(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define ADD(d, i) CODE(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define ALU(op, d, i) CODE(BPF_ALU64 | (op) | BPF_K, d, 0, 0, i)
#define ALUX(op, d, s) CODE(BPF_ALU64 | (op) | BPF_X, d, s, 0, 0)
#define LOAD(size, d, s, o) CODE(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define STORE(size, d, s, o) CODE(BPF_STX | BPF_MEM | (size), d, s, o, 0)
#define PUT(size, d, o, i) CODE(BPF_ST | BPF_MEM | (size), d, 0, o, i)
#define MAP(d, fd) CODE(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, fd), CODE(0, 0, 0, 0, 0)
#define VALUE(d, fd, at) CODE(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_VALUE, 0, fd), CODE(0, 0, 0, 0, at)
#define CONST(d, v) CODE(BPF_LD | BPF_DW | BPF_IMM, d, 0, 0, (u32)(v)), CODE(0, 0, 0, 0, (u32)((u64)(v) >> 32))
#define CALL(n) CODE(BPF_JMP | BPF_CALL, 0, 0, 0, n)
#define IF(op, d, i, o) CODE(BPF_JMP | (op) | BPF_K, d, 0, o, i)
#define GOTO(o) CODE(BPF_JMP | BPF_JA, 0, 0, o, 0)
#define XADD(d, s, o) CODE(BPF_STX | BPF_ATOMIC | BPF_DW, d, s, o, BPF_ADD)
#define EXIT CODE(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

static char verdict[1 << 23];

__attribute__((unused)) static int load_as(int type, const struct bpf_insn *insns, unsigned count, const char *license)
{
	verdict[0] = 0;
	return BPF(BPF_PROG_LOAD, .prog_type = type, .insns = U(insns), .insn_cnt = count, .license = U(license), .log_level = 1,
		   .log_size = sizeof(verdict), .log_buf = U(verdict));
}

/* Types of functions: 3 is that of the main one, 5 of one that a helper calls. */
__attribute__((unused)) static int load_types(void)
{
	struct {
		struct { unsigned short magic; u8 version, flags; u32 header, types, types_len, names, names_len; } header;
		u32 types[4 + 5 + 3 + 7 + 3];
		char names[32];
	} types = {
		{ 0xeb9f, 1, 0, 24, 0, 88, 88, 32 },
		/* int; the main function's prototype and the function; those of the other. */
		{ 1, 1 << 24, 4, 1 << 24 | 32, 0, 13 << 24 | 1, 1, 0, 1, 5, 12 << 24, 2, 0, 13 << 24 | 2, 1, 10, 1, 12, 1, 0, 0, 0 },
		"\0int\0main\0a\0b\0turn",
	};
	types.types[19] = 14, types.types[20] = 12 << 24, types.types[21] = 4;
	types.header.names_len = sizeof(types.names);
	types.types[8] = 1, types.types[7] = 10;
	return sys_bpf(BPF_BTF_LOAD, &(union bpf_attr){ .btf = U(&types), .btf_size = sizeof(types) }, sizeof(union bpf_attr));
}

__attribute__((unused)) static int load_typed(const struct bpf_insn *insns, unsigned count, int types, const struct bpf_func_info *functions, unsigned infos)
{
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_PERF_EVENT, .insns = U(insns), .insn_cnt = count, .license = U("GPL"), .log_level = 1,
				.log_size = sizeof(verdict), .log_buf = U(verdict), .prog_btf_fd = types, .func_info = U(functions), .func_info_rec_size = 8,
				.func_info_cnt = infos };
	return sys_bpf(BPF_PROG_LOAD, &load, sizeof(load));
}

#define LOAD_PROGRAM(type, ...) ({ \
	struct bpf_insn insns__[] = { __VA_ARGS__ }; \
	load_as(type, insns__, COUNT(insns__), "GPL"); \
})

__attribute__((unused)) static int map_of(int type, u32 key, u32 value, u32 entries, u32 flags)
{
	return BPF(BPF_MAP_CREATE, .map_type = type, .key_size = key, .value_size = value, .max_entries = entries, .map_flags = flags);
}

__attribute__((unused)) static int look(int fd, const void *key, void *value)
{
	return BPF(BPF_MAP_LOOKUP_ELEM, .map_fd = fd, .key = U(key), .value = U(value));
}

__attribute__((unused)) static int set(int fd, const void *key, const void *value, u64 flags)
{
	return BPF(BPF_MAP_UPDATE_ELEM, .map_fd = fd, .key = U(key), .value = U(value), .flags = flags);
}

__attribute__((unused)) static int unset(int fd, const void *key)
{
	return BPF(BPF_MAP_DELETE_ELEM, .map_fd = fd, .key = U(key));
}

__attribute__((unused)) static int after(int fd, const void *key, void *next)
{
	return BPF(BPF_MAP_GET_NEXT_KEY, .map_fd = fd, .key = U(key), .next_key = U(next));
}

/* Writes what the log has of a text. */
__attribute__((unused)) static const char *logged(const char *text)
{
	return strstr(verdict, text) ? "yes" : "no";
}

static u64 counted(int fd)
{
	u64 value = ~0ull;
	if (read(fd, &value, sizeof(value)) != 8)
		return ~0ull;
	return value;
}

static u64 at_index(int map, u32 index)
{
	u64 value = ~0ull;
	look(map, &index, &value);
	return value;
}

/* r6 = context; counts a run at index 0 of a map. */
#define COUNT_RUN(map) \
	COPY(6, 1), PUT(BPF_W, 10, -4, 0), MAP(1, map), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem), IF(BPF_JEQ, 0, 0, 2), \
	MOV(1, 1), XADD(0, 1, 0)

/* Stores r7 at an index of an array of u64. */
#define KEEP(map, index) \
	STORE(BPF_DW, 10, 7, -16), PUT(BPF_W, 10, -4, index), MAP(1, map), COPY(2, 10), ADD(2, -4), COPY(3, 10), ADD(3, -16), MOV(4, 0), \
	CALL(BPF_FUNC_map_update_elem)
