/* Programs on overflows of events: breakpoints, whose hits are known, and clocks. */
#include "common.h"
#include <linux/bpf_perf_event.h>
#include <linux/hw_breakpoint.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>

static volatile u64 watched, other_watched;
static char message[] = "a text of the program's";

static int open_event(struct perf_event_attr *attr, int pid, int cpu)
{
	attr->size = sizeof(*attr);
	return syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int breakpoint(volatile u64 *at, u64 period, u64 type)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT, .bp_type = HW_BREAKPOINT_W, .bp_addr = U(at), .bp_len = 8,
					.sample_period = period, .sample_type = type, .wakeup_events = 1, .exclude_kernel = 1, .exclude_hv = 1 };
	return open_event(&attr, 0, -1);
}

static int clock_of(u64 config, u64 period, int freq)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .config = config, .sample_period = period, .freq = freq,
					.sample_type = PERF_SAMPLE_IP, .exclude_kernel = 1, .exclude_hv = 1 };
	return open_event(&attr, 0, -1);
}

static int output_event(int pid, int cpu)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_BPF_OUTPUT, .sample_type = PERF_SAMPLE_RAW,
					.sample_period = 1, .wakeup_events = 1 };
	return open_event(&attr, pid, cpu);
}

static void *ring_of(int fd)
{
	void *ring = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return ring == MAP_FAILED ? 0 : ring;
}

static int records(struct perf_event_mmap_page *page, void (*each)(struct perf_event_header *))
{
	if (!page)
		return -1;
	int count = 0;
	u64 head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail;
	while (tail < head) {
		static u8 copy[1 << 16];
		struct perf_event_header *header = (void *)((char *)page + 4096 + tail % (4 * 4096));
		unsigned size = header->size;
		for (unsigned i = 0; i < size; i++)
			copy[i] = ((u8 *)page)[4096 + (tail + i) % (4 * 4096)];
		if (each)
			each((void *)copy);
		tail += size;
		count++;
	}
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
	return count;
}

static long set_bpf(int event, int program)
{
	return ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
}

static void attaching(void)
{
	int plain = open("/dev/null", O_RDONLY), map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	int one = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(0, 1), EXIT), two = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(0, 1), EXIT);
	int probe = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, MOV(0, 1), EXIT), filter = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(0, 1), EXIT);
	int event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	SAY("event", event);
	SAY("nothing", set_bpf(event, -1));
	SAY("closed", set_bpf(event, 999));
	SAY("a file", set_bpf(event, plain));
	SAY("a map", set_bpf(event, map));
	SAY("itself", set_bpf(event, event));
	SAY("a probe's", set_bpf(event, probe));
	SAY("a filter", set_bpf(event, filter));
	SAY("a file's ioctl", set_bpf(plain, one));
	SAY("one", set_bpf(event, one));
	SAY("one again", set_bpf(event, one));
	SAY("two", set_bpf(event, two));
	SAY("a probe's, late", set_bpf(event, probe));
	SAY("a link, late", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = two, .target_fd = event, .attach_type = BPF_PERF_EVENT }));
	close(event);
	event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	SAY("no program", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = 999, .target_fd = event, .attach_type = BPF_PERF_EVENT }));
	SAY("a map for a program", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = map, .target_fd = event, .attach_type = BPF_PERF_EVENT }));
	SAY("no event", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = one, .target_fd = 999, .attach_type = BPF_PERF_EVENT }));
	SAY("a file for an event", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = one, .target_fd = plain, .attach_type = BPF_PERF_EVENT }));
	SAY("another type", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = one, .target_fd = event, .attach_type = BPF_XDP }));
	SAY("flags", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = one, .target_fd = event, .attach_type = BPF_PERF_EVENT, .flags = 1 }));
	SAY("a probe's", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = probe, .target_fd = event, .attach_type = BPF_PERF_EVENT }));
	SAY("a filter", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = filter, .target_fd = event, .attach_type = BPF_PERF_EVENT }));
	int link = BPF(BPF_LINK_CREATE,
		       .link_create = { .prog_fd = one, .target_fd = event, .attach_type = BPF_PERF_EVENT, .perf_event = { .bpf_cookie = 5 } });
	SAY("a link", link);
	SAY("another link", BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = two, .target_fd = event, .attach_type = BPF_PERF_EVENT }));
	SAY("set beside a link", set_bpf(event, two));
	struct bpf_link_info info = { 0 };
	SAY("info", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = link, .info_len = sizeof(info), .info = U(&info) }));
	struct bpf_prog_info about = { 0 };
	BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = one, .info_len = sizeof(about), .info = U(&about) });
	printf("link: type %u id %d program %d\n", info.type, info.id != 0, info.prog_id == about.id);
	SAY("update", BPF(BPF_LINK_UPDATE, .link_update = { .link_fd = link, .new_prog_fd = two }));
	SAY("detach", BPF(BPF_LINK_DETACH, .link_detach = { .link_fd = link }));
	int again = BPF(BPF_LINK_GET_FD_BY_ID, .link_id = info.id);
	SAY("by id", again);
	char path[64], text[64] = { 0 };
	snprintf(path, sizeof(path), "/proc/self/fd/%d", link);
	readlink(path, text, 63);
	printf("link: %s\n", text);
	close(link);
	SAY("set beside its copy", set_bpf(event, two));
	close(again);
	SAY("set after it", set_bpf(event, two));
	SAY("query", ioctl(event, PERF_EVENT_IOC_QUERY_BPF, (u32[]){ 4, 0, 0, 0, 0, 0 }));
	close(event), close(one), close(two), close(probe), close(filter), close(map), close(plain);
}

static void decisions(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0);
	for (int result = 0; result < 4; result++) {
		u32 zero = 0;
		u64 none = 0;
		set(map, &zero, &none, 0);
		int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COUNT_RUN(map), MOV(0, result == 3 ? -1 : result), EXIT);
		int event = breakpoint(&watched, 1, PERF_SAMPLE_IP | PERF_SAMPLE_ADDR);
		void *ring = ring_of(event);
		printf("result %d: %s", result, said(set_bpf(event, program)));
		close(program);
		for (int i = 0; i < 7; i++)
			watched = i;
		ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
		watched = 1;
		printf(", %llu runs, %llu counted, %d records\n", at_index(map, 0), counted(event), records(ring, 0));
		munmap(ring, 5 * 4096);
		close(event);
	}
	/* A period of three. */
	u32 zero = 0;
	u64 none = 0;
	set(map, &zero, &none, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COUNT_RUN(map), MOV(0, 1), EXIT);
	int event = breakpoint(&watched, 3, PERF_SAMPLE_IP);
	set_bpf(event, program);
	for (int i = 0; i < 10; i++)
		watched = i;
	printf("every third: %llu runs, %llu counted\n", at_index(map, 0), counted(event));
	close(event);
	/* One that only counts runs nothing. */
	set(map, &zero, &none, 0);
	event = breakpoint(&watched, 0, 0);
	printf("counting: %s", said(set_bpf(event, program)));
	for (int i = 0; i < 10; i++)
		watched = i;
	printf(", %llu runs, %llu counted\n", at_index(map, 0), counted(event));
	close(event);
	/* Two events, one program. */
	set(map, &zero, &none, 0);
	event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	int other = breakpoint(&other_watched, 1, PERF_SAMPLE_IP);
	printf("two events: %s %s", said(set_bpf(event, program)), said(set_bpf(other, program)));
	close(program);
	watched = 1, other_watched = 2, watched = 3;
	printf(", %llu runs\n", at_index(map, 0));
	close(event);
	watched = 1, other_watched = 2;
	printf("one is closed: %llu runs\n", at_index(map, 0));
	close(other);
	close(map);
}

static __attribute__((noinline)) void hit(u64 value)
{
	watched = value;
	asm volatile("" ::: "memory");
}

static __attribute__((noinline)) void outer(u64 value)
{
	hit(value);
	asm volatile("" ::: "memory");
}

static int inside(u64 addr, void *function)
{
	return addr >= U(function) && addr < U(function) + 64;
}

static void contexts(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT,
		COPY(6, 1),
		LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, regs.rip)), KEEP(map, 0),
		LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, sample_period)), KEEP(map, 1),
		LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, addr)), KEEP(map, 2),
		CALL(BPF_FUNC_get_current_pid_tgid), COPY(7, 0), KEEP(map, 3),
		CALL(BPF_FUNC_get_current_uid_gid), COPY(7, 0), KEEP(map, 4),
		CALL(BPF_FUNC_ktime_get_ns), COPY(7, 0), KEEP(map, 5),
		CALL(BPF_FUNC_get_smp_processor_id), COPY(7, 0), KEEP(map, 6),
		COPY(1, 10), ADD(1, -32), MOV(2, 16), CALL(BPF_FUNC_get_current_comm), LOAD(BPF_DW, 7, 10, -32), KEEP(map, 7),
		LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, regs.rsp)), KEEP(map, 8),
		LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, regs.rdi)), KEEP(map, 9),
		LOAD(BPF_W, 7, 6, offsetof(struct bpf_perf_event_data, sample_period)), KEEP(map, 10),
		LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, regs.cs)), KEEP(map, 11),
		MOV(0, 0), EXIT);
	printf("program: %s\n", said(program));
	int event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	set_bpf(event, program);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	u64 before = now.tv_sec * 1000000000ull + now.tv_nsec, here;
	asm volatile("mov %%rsp, %0" : "=r"(here));
	hit(0x77);
	clock_gettime(CLOCK_MONOTONIC, &now);
	u64 later = now.tv_sec * 1000000000ull + now.tv_nsec, time = at_index(map, 5);
	u64 comm = at_index(map, 7), stack = at_index(map, 8);
	printf("ip %d period %llu addr %d pid %d uid %d time %d cpu %d\n", inside(at_index(map, 0), hit), at_index(map, 1),
	       at_index(map, 2) == U(&watched), at_index(map, 3) == ((u64)getpid() << 32 | (u32)gettid()),
	       at_index(map, 4) == ((u64)getgid() << 32 | getuid()), time >= before && time <= later,
	       (int)at_index(map, 6) < get_nprocs_conf());
	char name[16] = { 0 };
	prctl(PR_GET_NAME, name);
	printf("comm %d stack %d first argument %llx narrow period %llu user %llu\n", !memcmp(name, &comm, 8), stack <= here && stack > here - 4096,
	       at_index(map, 9), at_index(map, 10), at_index(map, 11) & 3);
	close(event), close(program), close(map);
}

static void print_raw(struct perf_event_header *header)
{
	u32 size = *(u32 *)(header + 1);
	u8 *bytes = (u8 *)(header + 1) + 4;
	printf(" [type %u size %u raw %u: %llx]", header->type, header->size, size, *(u64 *)bytes);
}

static void outputs(void)
{
	u32 zero = 0, one = 1, nine = 9;
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 8, 0), array = map_of(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 4, 0);
	int plain = open("/dev/null", O_RDONLY);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COPY(6, 1), CONST(1, 0x1122334455667788ull), STORE(BPF_DW, 10, 1, -24), PUT(BPF_DW, 10, -32, 7),
		COPY(1, 6), MAP(2, array), MOV(3, 0), COPY(4, 10), ADD(4, -24), MOV(5, 8), CALL(BPF_FUNC_perf_event_output), COPY(7, 0), KEEP(map, 0),
		COPY(1, 6), MAP(2, array), MOV(3, 1), COPY(4, 10), ADD(4, -32), MOV(5, 12), CALL(BPF_FUNC_perf_event_output), COPY(7, 0), KEEP(map, 1),
		COPY(1, 6), MAP(2, array), MOV(3, 2), COPY(4, 10), ADD(4, -24), MOV(5, 8), CALL(BPF_FUNC_perf_event_output), COPY(7, 0), KEEP(map, 2),
		COPY(1, 6), MAP(2, array), MOV(3, 77), COPY(4, 10), ADD(4, -24), MOV(5, 8), CALL(BPF_FUNC_perf_event_output), COPY(7, 0), KEEP(map, 3),
		COPY(1, 6), MAP(2, array), MOV(3, 3), COPY(4, 10), ADD(4, -24), MOV(5, 8), CALL(BPF_FUNC_perf_event_output), COPY(7, 0), KEEP(map, 4),
		COPY(1, 6), MAP(2, array), CONST(3, 1ull << 40), COPY(4, 10), ADD(4, -24), MOV(5, 8), CALL(BPF_FUNC_perf_event_output), COPY(7, 0), KEEP(map, 5),
		MOV(0, 1), EXIT);
	printf("program: %s\n", said(program));
	int first = output_event(0, -1), second = output_event(0, -1), event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	void *ring = ring_of(first), *other = ring_of(second);
	struct perf_event_attr copied = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .inherit = 1, .exclude_kernel = 1 };
	int inherited = open_event(&copied, 0, -1);
	SAY("set", set(array, &zero, &first, 0));
	SAY("set the second", set(array, &one, &second, 0));
	SAY("set a clock", set(array, (u32[]){ 3 }, &event, 0));
	SAY("set beyond", set(array, &nine, &first, 0));
	SAY("set with flags", set(array, &zero, &first, BPF_NOEXIST));
	SAY("set a closed one", set(array, (u32[]){ 2 }, (int[]){ 999 }, 0));
	SAY("set a file", set(array, (u32[]){ 2 }, &plain, 0));
	SAY("set a map", set(array, (u32[]){ 2 }, &map, 0));
	SAY("set an inherited one", set(array, (u32[]){ 2 }, &inherited, 0));
	SAY("look", look(array, &zero, &nine));
	SAY("delete beyond", unset(array, (u32[]){ 9 }));
	SAY("delete nothing", unset(array, (u32[]){ 2 }));
	SAY("attach", set_bpf(event, program));
	struct pollfd poll_of = { .fd = first, .events = POLLIN };
	printf("poll before: %d\n", poll(&poll_of, 1, 0));
	hit(1);
	printf("poll after: %d %x\n", poll(&poll_of, 1, 0), poll_of.revents);
	for (u32 i = 0; i < 6; i++)
		printf("output %u: %lld\n", i, at_index(map, i));
	printf("records: %d", records(ring, print_raw));
	printf(", %d", records(other, print_raw));
	printf(", count %llu\n", counted(first));
	hit(2), hit(3);
	printf("records: %d\n", records(ring, 0));
	/* It lives on in the array. */
	close(first);
	hit(4);
	printf("closed: %lld, records %d\n", at_index(map, 0), records(ring, 0));
	SAY("delete", unset(array, &zero));
	hit(5);
	printf("deleted: %lld\n", at_index(map, 0));
	ioctl(second, PERF_EVENT_IOC_DISABLE, 0);
	hit(6);
	printf("off: %lld\n", at_index(map, 1));
	ioctl(second, PERF_EVENT_IOC_ENABLE, 0);
	/* The entries go with the map's file. */
	close(array);
	hit(7);
	printf("after the array: %lld\n", at_index(map, 1));
	close(event), close(second), close(program), close(map), close(inherited);
}

static void outputs_by_cpu(void)
{
	int cpus = get_nprocs_conf();
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 8, 0), array = map_of(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, cpus, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COPY(6, 1), CONST(1, 0x5566778811223344ull), STORE(BPF_DW, 10, 1, -24),
		COPY(1, 6), MAP(2, array), CONST(3, BPF_F_CURRENT_CPU), COPY(4, 10), ADD(4, -24), MOV(5, 8), CALL(BPF_FUNC_perf_event_output),
		COPY(7, 0), KEEP(map, 0), MOV(0, 0), EXIT);
	void *rings[64] = { 0 };
	for (u32 cpu = 0; cpu < (u32)cpus && cpu < 64; cpu++) {
		int event = output_event(-1, cpu);
		if (event < 0)
			printf("cpu %u: %s\n", cpu, said(event));
		rings[cpu] = ring_of(event);
		set(array, &cpu, &event, 0);
	}
	int event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	set_bpf(event, program);
	hit(1), hit(2), hit(3);
	int all = 0;
	for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
		all += records(rings[cpu], 0);
	printf("by cpu: %lld, %d records\n", at_index(map, 0), all);
	close(event), close(array), close(program), close(map);
}

static void reads(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0), array = map_of(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 4, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COPY(6, 1),
		MAP(1, array), MOV(2, 0), COPY(3, 10), ADD(3, -40), MOV(4, 24), CALL(BPF_FUNC_perf_event_read_value), COPY(7, 0), KEEP(map, 0),
		LOAD(BPF_DW, 7, 10, -40), KEEP(map, 1), LOAD(BPF_DW, 7, 10, -32), LOAD(BPF_DW, 8, 10, -24), ALUX(BPF_SUB, 7, 8), KEEP(map, 2),
		MAP(1, array), MOV(2, 0), CALL(BPF_FUNC_perf_event_read), COPY(7, 0), KEEP(map, 3),
		MAP(1, array), MOV(2, 1), COPY(3, 10), ADD(3, -40), MOV(4, 24), CALL(BPF_FUNC_perf_event_read_value), COPY(7, 0), KEEP(map, 4),
		COPY(1, 6), COPY(2, 10), ADD(2, -40), MOV(3, 24), CALL(BPF_FUNC_perf_prog_read_value), COPY(7, 0), KEEP(map, 5),
		LOAD(BPF_DW, 7, 10, -40), KEEP(map, 6),
		MAP(1, array), MOV(2, 0), COPY(3, 10), ADD(3, -40), MOV(4, 16), CALL(BPF_FUNC_perf_event_read_value), COPY(7, 0), KEEP(map, 7),
		COPY(1, 6), COPY(2, 10), ADD(2, -40), MOV(3, 16), CALL(BPF_FUNC_perf_prog_read_value), COPY(7, 0), KEEP(map, 8),
		MOV(0, 0), EXIT);
	printf("program: %s\n", said(program));
	u32 zero = 0;
	int counter = breakpoint(&other_watched, 0, 0), event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	SAY("set", set(array, &zero, &counter, 0));
	set_bpf(event, program);
	other_watched = 1, other_watched = 2, other_watched = 3;
	hit(1), hit(2);
	for (u32 i = 0; i < 9; i++)
		printf("%lld ", at_index(map, i));
	printf("\n");
	close(counter), close(event), close(program), close(array), close(map);
}

static void stacks(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0), traces = map_of(BPF_MAP_TYPE_STACK_TRACE, 4, 80, 64, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COPY(6, 1),
		COPY(1, 6), MAP(2, traces), MOV(3, BPF_F_USER_STACK), CALL(BPF_FUNC_get_stackid), COPY(7, 0), KEEP(map, 0),
		COPY(1, 6), COPY(2, 10), ADD(2, -56), MOV(3, 24), MOV(4, BPF_F_USER_STACK), CALL(BPF_FUNC_get_stack), COPY(7, 0), KEEP(map, 1),
		LOAD(BPF_DW, 7, 10, -56), KEEP(map, 2), LOAD(BPF_DW, 7, 10, -48), KEEP(map, 3),
		COPY(1, 6), COPY(2, 10), ADD(2, -56), MOV(3, 8), MOV(4, BPF_F_USER_STACK | 1), CALL(BPF_FUNC_get_stack), COPY(7, 0), KEEP(map, 4),
		LOAD(BPF_DW, 7, 10, -56), KEEP(map, 5),
		COPY(1, 6), COPY(2, 10), ADD(2, -56), MOV(3, 8), MOV(4, 1 << 20), CALL(BPF_FUNC_get_stack), COPY(7, 0), KEEP(map, 6),
		MOV(0, 0), EXIT);
	printf("program: %s\n", said(program));
	int event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	set_bpf(event, program);
	outer(1);
	u64 trace[10] = { 0 };
	u32 id = at_index(map, 0);
	SAY("the trace", look(traces, &id, trace));
	printf("id %d, in hit %d, in outer %d\n", (long long)at_index(map, 0) >= 0, inside(trace[0], hit), inside(trace[1], outer));
	printf("stack %lld: %d %d, without the first %lld: %d, flags %lld\n", at_index(map, 1), inside(at_index(map, 2), hit),
	       inside(at_index(map, 3), outer), at_index(map, 4), inside(at_index(map, 5), outer), at_index(map, 6));
	u32 ids[3], next = 0;
	unset(traces, &id);
	for (int i = 0; i < 3; i++) {
		outer(2);
		ids[i] = at_index(map, 0);
	}
	printf("the same id: %d\n", ids[1] == ids[0] && ids[2] == ids[0]);
	id = ids[0];
	SAY("next", after(traces, 0, &next));
	printf("it is that: %d\n", next == id);
	SAY("delete", unset(traces, &id));
	SAY("delete again", unset(traces, &id));
	close(event), close(program), close(traces), close(map);
}

static void memories(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0);
	static u64 secret = 0xfeedbeef;
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COPY(6, 1), PUT(BPF_DW, 10, -24, 5),
		COPY(1, 10), ADD(1, -24), MOV(2, 8), CONST(3, U(&secret)), CALL(BPF_FUNC_probe_read_user), COPY(7, 0), KEEP(map, 0),
		LOAD(BPF_DW, 7, 10, -24), KEEP(map, 1),
		COPY(1, 10), ADD(1, -24), MOV(2, 8), MOV(3, 16), CALL(BPF_FUNC_probe_read_user), COPY(7, 0), KEEP(map, 2),
		LOAD(BPF_DW, 7, 10, -24), KEEP(map, 3),
		COPY(1, 10), ADD(1, -56), MOV(2, 32), CONST(3, U(message)), CALL(BPF_FUNC_probe_read_user_str), COPY(7, 0), KEEP(map, 4),
		LOAD(BPF_DW, 7, 10, -56), KEEP(map, 5),
		COPY(1, 10), ADD(1, -56), MOV(2, 6), CONST(3, U(message)), CALL(BPF_FUNC_probe_read_user_str), COPY(7, 0), KEEP(map, 6),
		COPY(1, 10), ADD(1, -56), MOV(2, 8), CONST(3, U(&secret)), CALL(BPF_FUNC_probe_read_kernel), COPY(7, 0), KEEP(map, 7),
		COPY(1, 10), ADD(1, -56), MOV(2, 8), COPY(3, 10), ADD(3, -24), CALL(BPF_FUNC_probe_read_kernel), COPY(7, 0), KEEP(map, 8),
		MOV(0, 0), EXIT);
	printf("program: %s\n", said(program));
	int event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	set_bpf(event, program);
	hit(1);
	for (u32 i = 0; i < 9; i++)
		printf("%llx ", at_index(map, i));
	printf("\n");
	close(event), close(program), close(map);
}

static void cookies(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COUNT_RUN(map), COPY(1, 6), CALL(BPF_FUNC_get_attach_cookie), COPY(7, 0), KEEP(map, 1),
				   MOV(0, 1), EXIT);
	int event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	int link = BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = program, .target_fd = event, .attach_type = BPF_PERF_EVENT,
							  .perf_event = { .bpf_cookie = 0x1234567890ull } });
	hit(1);
	printf("cookie: %llx, %llu runs\n", at_index(map, 1), at_index(map, 0));
	close(program);
	hit(2);
	printf("the program is closed: %llu runs\n", at_index(map, 0));
	close(link);
	hit(3);
	printf("the link is closed: %llu runs, %llu counted\n", at_index(map, 0), counted(event));
	program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COUNT_RUN(map), COPY(1, 6), CALL(BPF_FUNC_get_attach_cookie), COPY(7, 0), KEEP(map, 1),
			       MOV(0, 1), EXIT);
	set_bpf(event, program);
	hit(4);
	printf("no cookie: %llx, %llu runs\n", at_index(map, 1), at_index(map, 0));
	close(event);
	event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	link = BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = program, .target_fd = event, .attach_type = BPF_PERF_EVENT });
	close(event);
	hit(5);
	printf("the event is closed: %llu runs\n", at_index(map, 0));
	close(link);
	hit(6);
	printf("and its link: %llu runs\n", at_index(map, 0));
	close(program), close(map);
}

static void goings_on(void)
{
	u32 zero = 0;
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0), array = map_of(BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 1, 0);
	int target = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(7, 55), KEEP(map, 0), MOV(0, 0), EXIT);
	int caller = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MAP(2, array), MOV(3, 0), CALL(BPF_FUNC_tail_call), MOV(7, 66), KEEP(map, 0), MOV(0, 0), EXIT);
	int event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	set_bpf(event, caller);
	hit(1);
	printf("without a target: %llu\n", at_index(map, 0));
	set(array, &zero, &target, 0);
	hit(2);
	printf("with a target: %llu\n", at_index(map, 0));
	close(target);
	hit(3);
	printf("with a closed target: %llu\n", at_index(map, 0));
	close(array);
	/* Linux clears it a while later. */
	usleep(200000);
	hit(4);
	printf("with a closed array: %llu\n", at_index(map, 0));
	close(event);
	/* Loops: functions for helpers are told by types. */
	struct bpf_insn loop[] = { MOV(1, 1000), CODE(BPF_LD | BPF_DW | BPF_IMM, 2, BPF_PSEUDO_FUNC, 0, 19), CODE(0, 0, 0, 0, 0), COPY(3, 10), ADD(3, -24), MOV(4, 0),
		PUT(BPF_DW, 10, -24, 0), CALL(BPF_FUNC_loop), LOAD(BPF_DW, 7, 10, -24), KEEP(map, 1), MOV(0, 0), EXIT,
		LOAD(BPF_DW, 1, 2, 0), ADD(1, 2), STORE(BPF_DW, 2, 1, 0), MOV(0, 0), EXIT };
	printf("without types: %s", said(load_as(BPF_PROG_TYPE_PERF_EVENT, loop, COUNT(loop), "GPL")));
	printf(", logged %s\n", logged("missing btf func_info"));
	int btf = load_types();
	printf("types: %s\n", said(btf));
	struct bpf_func_info functions[] = { { 0, 3 }, { 21, 5 } };
	for (int turn = 0; turn < 4; turn++) {
		functions[1].insn_off = turn == 1 ? 20 : 21;
		functions[0].type_id = turn == 2 ? 1 : 3;
		int looping = load_typed(loop, COUNT(loop), btf, functions, turn == 0 ? 1 : 2);
		printf("with types %d: %s\n", turn, said(looping));
		if (looping < 0)
			continue;
		event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
		set_bpf(event, looping);
		hit(1);
		printf("turns: %llu\n", at_index(map, 1));
		close(event), close(looping);
	}
	close(btf);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(7, 0), ADD(7, 1), IF(BPF_JLT, 7, 5000, -2), KEEP(map, 1), MOV(0, 0), EXIT);
	printf("a loop: %s\n", said(program));
	event = breakpoint(&watched, 1, PERF_SAMPLE_IP);
	set_bpf(event, program);
	hit(5);
	printf("it came to %llu\n", at_index(map, 1));
	int printing = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, CONST(1, 0x0a64252041ull), STORE(BPF_DW, 10, 1, -24), COPY(1, 10), ADD(1, -24), MOV(2, 6), MOV(3, 5),
				    CALL(BPF_FUNC_trace_printk), COPY(7, 0), KEEP(map, 2), MOV(0, 0), EXIT);
	int again = breakpoint(&other_watched, 1, PERF_SAMPLE_IP);
	printf("printing: %s %s\n", said(printing), said(set_bpf(again, printing)));
	other_watched = 1;
	printf("printed %lld\n", at_index(map, 2));
	close(event), close(again), close(program), close(printing), close(map);
}

static void burn(int ms)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do {
		for (volatile int i = 0; i < 10000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

static void clocks(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COUNT_RUN(map), LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, sample_period)), KEEP(map, 1),
				   LOAD(BPF_DW, 7, 6, offsetof(struct bpf_perf_event_data, regs.rip)), KEEP(map, 2), MOV(0, 0), EXIT);
	struct { u64 config, period; int freq; } all[] = { { PERF_COUNT_SW_CPU_CLOCK, 1000000, 0 }, { PERF_COUNT_SW_TASK_CLOCK, 1000000, 0 },
							   { PERF_COUNT_SW_CPU_CLOCK, 1000, 1 }, { PERF_COUNT_SW_TASK_CLOCK, 1000, 1 } };
	for (unsigned i = 0; i < COUNT(all); i++) {
		u32 zero = 0;
		u64 none = 0;
		set(map, &zero, &none, 0);
		int event = clock_of(all[i].config, all[i].period, all[i].freq);
		void *ring = ring_of(event);
		printf("clock %u: %s", i, said(set_bpf(event, program)));
		burn(300);
		ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
		u64 runs = at_index(map, 0);
		printf(", runs %d, a period %d, a place %d, records %d\n", runs > 20 && runs < 2000, at_index(map, 1) > 0, at_index(map, 2) > 4096,
		       records(ring, 0));
		munmap(ring, 5 * 4096);
		close(event);
	}
	close(program), close(map);
}

static void children(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COUNT_RUN(map), CALL(BPF_FUNC_get_current_pid_tgid), COPY(7, 0), KEEP(map, 1), MOV(0, 1), EXIT);
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT, .bp_type = HW_BREAKPOINT_W, .bp_addr = U(&watched), .bp_len = 8, .sample_period = 1,
					.sample_type = PERF_SAMPLE_IP, .inherit = 1, .exclude_kernel = 1 };
	int event = open_event(&attr, 0, -1);
	printf("inherited: %s\n", said(set_bpf(event, program)));
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		hit(1), hit(2);
		_exit(at_index(map, 1) >> 32 == (u64)getpid() ? 0 : 1);
	}
	int status;
	waitpid(child, &status, 0);
	printf("by a child: %llu runs, %d\n", at_index(map, 0), WEXITSTATUS(status));
	close(event), close(program), close(map);
}

int main(void)
{
	setvbuf(stdout, 0, _IOFBF, 1 << 20);
	attaching();
	decisions();
	contexts();
	outputs();
	outputs_by_cpu();
	reads();
	stacks();
	memories();
	cookies();
	goings_on();
	clocks();
	children();
	return 0;
}
