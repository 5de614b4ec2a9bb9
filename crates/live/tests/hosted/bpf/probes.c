/* Programs on probes, and memory that programs share with their owner: ring buffers and arrays. */
#include "common.h"
#include <linux/bpf_perf_event.h>
#include <linux/hw_breakpoint.h>
#include <pthread.h>

extern char __executable_start;

static volatile u64 watched;

static __attribute__((noinline)) u64 twice(u64 value)
{
	asm volatile("" ::: "memory");
	return value * 2;
}

static __attribute__((noinline)) u64 thrice(u64 value)
{
	asm volatile("" ::: "memory");
	return value * 3;
}

static int uprobe_type(void)
{
	int type = 9;
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	if (file) {
		fscanf(file, "%d", &type);
		fclose(file);
	}
	return type;
}

static char self[256];

static int probe(void *function, int returns, int disabled, u64 type)
{
	struct perf_event_attr attr = { .type = uprobe_type(), .size = sizeof(attr), .config = returns, .config1 = U(self),
					.config2 = U(function) - U(&__executable_start), .sample_period = 1, .sample_type = type, .disabled = disabled };
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int breakpoint(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT, .size = sizeof(attr), .bp_type = HW_BREAKPOINT_W, .bp_addr = U(&watched), .bp_len = 8,
					.sample_period = 1, .sample_type = PERF_SAMPLE_IP, .exclude_kernel = 1 };
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void *others_hits(void *unused)
{
	(void)unused;
	twice(1);
	return 0;
}

static void probes(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, COUNT_RUN(map),
		LOAD(BPF_DW, 7, 6, offsetof(struct pt_regs, rdi)), KEEP(map, 1), LOAD(BPF_DW, 7, 6, offsetof(struct pt_regs, rip)), KEEP(map, 2),
		CALL(BPF_FUNC_get_current_pid_tgid), COPY(7, 0), KEEP(map, 3), COPY(1, 6), CALL(BPF_FUNC_get_attach_cookie), COPY(7, 0), KEEP(map, 4),
		COPY(1, 6), CALL(BPF_FUNC_get_func_ip), COPY(7, 0), KEEP(map, 7), MOV(0, 1), EXIT);
	int returning = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, COUNT_RUN(map), LOAD(BPF_DW, 7, 6, offsetof(struct pt_regs, rax)), KEEP(map, 5), MOV(0, 1), EXIT);
	int silent = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, COUNT_RUN(map), MOV(0, 0), EXIT);
	int even = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, COUNT_RUN(map), MOV(0, 2), EXIT);
	int overflow = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(0, 1), EXIT), traced = LOAD_PROGRAM(BPF_PROG_TYPE_TRACEPOINT, MOV(0, 1), EXIT);
	printf("programs: %s %s %s %s\n", said(program), said(returning), said(silent), said(even));
	int event = probe(twice, 0, 0, PERF_SAMPLE_IP);
	SAY("probe", event);
	SAY("an overflow's", ioctl(event, PERF_EVENT_IOC_SET_BPF, overflow));
	SAY("a tracepoint's", ioctl(event, PERF_EVENT_IOC_SET_BPF, traced));
	SAY("set", ioctl(event, PERF_EVENT_IOC_SET_BPF, program));
	SAY("set again", ioctl(event, PERF_EVENT_IOC_SET_BPF, program));
	SAY("an overflow's, late", ioctl(event, PERF_EVENT_IOC_SET_BPF, overflow));
	twice(21);
	printf("%llu runs, argument %llu, place %d, thread %d, cookie %llu, function %d, counted %llu\n", at_index(map, 0), at_index(map, 1),
	       at_index(map, 2) == U(twice), at_index(map, 3) == ((u64)getpid() << 32 | (u32)gettid()), at_index(map, 4),
	       at_index(map, 7) == U(twice), counted(event));
	pthread_t thread;
	pthread_create(&thread, 0, others_hits, 0);
	pthread_join(thread, 0);
	printf("another thread: %llu runs, counted %llu\n", at_index(map, 0), counted(event));
	ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
	twice(3);
	printf("off: %llu runs, counted %llu\n", at_index(map, 0), counted(event));
	ioctl(event, PERF_EVENT_IOC_ENABLE, 0);
	/* Another event of the same place counts whatever the first one's program says. */
	int other = probe(twice, 0, 0, PERF_SAMPLE_IP);
	printf("two: %s %s", said(other), said(ioctl(other, PERF_EVENT_IOC_SET_BPF, silent)));
	u64 before = at_index(map, 0), first = counted(event);
	twice(4), twice(5);
	printf(", %llu runs, counted %llu and %llu\n", at_index(map, 0) - before, counted(event) - first, counted(other));
	close(other);
	other = probe(twice, 0, 0, PERF_SAMPLE_IP);
	ioctl(other, PERF_EVENT_IOC_SET_BPF, even);
	twice(6);
	printf("an even number: counted %llu\n", counted(other));
	close(other), close(event);
	/* Returns, and cookies of links. */
	before = at_index(map, 0);
	event = probe(thrice, 1, 0, PERF_SAMPLE_IP);
	int link = BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = returning, .target_fd = event, .attach_type = BPF_PERF_EVENT, .perf_event = { .bpf_cookie = 99 } });
	printf("returns: %s %s", said(event), said(link));
	thrice(5);
	printf(", %llu runs, result %llu, counted %llu\n", at_index(map, 0) - before, at_index(map, 5), counted(event));
	close(link);
	thrice(6);
	printf("after the link: %llu runs, counted %llu\n", at_index(map, 0) - before, counted(event));
	close(event);
	event = probe(twice, 0, 1, 0);
	link = BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = program, .target_fd = event, .attach_type = BPF_PERF_EVENT, .perf_event = { .bpf_cookie = 77 } });
	close(event);
	ioctl(link, PERF_EVENT_IOC_ENABLE, 0);
	before = at_index(map, 0);
	twice(1);
	printf("a cookie: %llu, %llu runs\n", at_index(map, 4), at_index(map, 0) - before);
	close(link);
	twice(1);
	printf("gone: %llu runs\n", at_index(map, 0) - before);
	fflush(stdout);
	event = probe(twice, 0, 0, 0);
	ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
	before = at_index(map, 0);
	pid_t child = fork();
	if (!child) {
		twice(9);
		_exit(0);
	}
	waitpid(child, 0, 0);
	printf("a child: %llu runs\n", at_index(map, 0) - before);
	close(event);
	close(program), close(returning), close(silent), close(even), close(overflow), close(traced), close(map);
}

static void query(int fd, int pid, int flags, char *text, u32 room)
{
	union bpf_attr attr = { .task_fd_query = { .pid = pid, .fd = fd, .flags = flags, .buf = U(text), .buf_len = room } };
	if (text)
		memset(text, 'x', 64), text[63] = 0;
	printf("query: %s", said(sys_bpf(BPF_TASK_FD_QUERY, &attr, sizeof(attr))));
	int shown = attr.task_fd_query.buf_len == strlen(self);
	printf(", program %d type %u offset %d address %llx path %d %d %zu\n", attr.task_fd_query.prog_id != 0, attr.task_fd_query.fd_type,
	       attr.task_fd_query.probe_offset == U(twice) - U(&__executable_start), attr.task_fd_query.probe_addr, shown, text && !strcmp(text, self),
	       text && room < 10 ? strlen(text) : 0);
}

/* What a descriptor is asked about. */
static void queries(void)
{
	static char text[64 + 256];
	int overflow = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(0, 1), EXIT), program = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, MOV(0, 1), EXIT);
	int other = breakpoint(), event = probe(twice, 0, 0, 0), returning = probe(twice, 1, 0, 0), map = map_of(BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0);
	query(other, getpid(), 0, text, 300);
	ioctl(other, PERF_EVENT_IOC_SET_BPF, overflow);
	query(other, getpid(), 0, text, 300);
	query(event, getpid(), 0, text, 300);
	ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
	query(event, getpid(), 0, text, 300);
	query(event, getpid(), 0, text, 4);
	query(event, getpid(), 0, 0, 0);
	query(event, getpid(), 1, text, 300);
	query(event, 0x7ffffff, 0, text, 300);
	query(999, getpid(), 0, text, 300);
	query(map, getpid(), 0, text, 300);
	query(1, getpid(), 0, text, 300);
	int link = BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = program, .target_fd = returning, .attach_type = BPF_PERF_EVENT, .perf_event = { .bpf_cookie = 6 } });
	query(returning, getpid(), 0, text, 300);
	query(link, getpid(), 0, text, 300);
	/* The part of links on events, which older headers do not have: type, path, its length, offset, cookie. */
	u32 words[16] = { 0 };
	*(u64 *)(words + 6) = U(text), words[8] = 300;
	SAY("link info", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = link, .info_len = sizeof(words), .info = U(words) }));
	printf("type %u of %u, path %d %d, offset %d, cookie %u\n", words[0], words[4], words[8] == strlen(self) + 1, !strcmp(text, self),
	       words[9] == U(twice) - U(&__executable_start), words[10]);
	words[8] = 0;
	SAY("link info without room", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = link, .info_len = sizeof(words), .info = U(words) }));
	close(other), close(event), close(returning), close(map), close(link), close(overflow), close(program);
}

struct ring { u64 *consumer; u64 *producer; u8 *data; u64 mask; };

static int ring_of(int fd, u64 size, struct ring *ring)
{
	ring->consumer = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ring->producer = mmap(0, 4096 + 2 * size, PROT_READ, MAP_SHARED, fd, 4096);
	ring->data = (u8 *)ring->producer + 4096;
	ring->mask = size - 1;
	return ring->consumer == MAP_FAILED || ring->producer == MAP_FAILED ? -1 : 0;
}

static int consume(struct ring *ring, int says)
{
	int count = 0;
	u64 at = *ring->consumer;
	while (at < __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE)) {
		u32 *header = (u32 *)(ring->data + (at & ring->mask));
		u32 length = __atomic_load_n(header, __ATOMIC_ACQUIRE);
		if (length & BPF_RINGBUF_BUSY_BIT)
			break;
		u32 bytes = length & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		if (says)
			printf(" [%u%s: %llx]", bytes, length & BPF_RINGBUF_DISCARD_BIT ? " discarded" : "", *(u64 *)(header + 2));
		count += !(length & BPF_RINGBUF_DISCARD_BIT);
		at += (bytes + 8 + 7) & ~7u;
	}
	__atomic_store_n(ring->consumer, at, __ATOMIC_RELEASE);
	return count;
}

static void *waits(void *epoll)
{
	struct epoll_event event = { 0 };
	int got = epoll_wait(*(int *)epoll, &event, 1, 5000);
	return (void *)(long)(got == 1 ? event.data.u32 : -1);
}

static void ring_buffers(void)
{
	int map = map_of(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0), numbers = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, COPY(6, 1),
		MAP(1, map), MOV(2, 16), MOV(3, 0), CALL(BPF_FUNC_ringbuf_reserve), IF(BPF_JEQ, 0, 0, 7),
		CONST(1, 0xabcdef01ull), STORE(BPF_DW, 0, 1, 0), STORE(BPF_DW, 0, 1, 8), COPY(1, 0), MOV(2, 0), CALL(BPF_FUNC_ringbuf_submit),
		MAP(1, map), MOV(2, 8), MOV(3, 0), CALL(BPF_FUNC_ringbuf_reserve), IF(BPF_JEQ, 0, 0, 4), PUT(BPF_DW, 0, 0, 3), COPY(1, 0), MOV(2, 0),
		CALL(BPF_FUNC_ringbuf_discard),
		PUT(BPF_DW, 10, -24, 0x77), MAP(1, map), COPY(2, 10), ADD(2, -24), MOV(3, 5), MOV(4, 0), CALL(BPF_FUNC_ringbuf_output), COPY(7, 0), KEEP(numbers, 0),
		MAP(1, map), MOV(2, BPF_RB_AVAIL_DATA), CALL(BPF_FUNC_ringbuf_query), COPY(7, 0), KEEP(numbers, 1),
		MAP(1, map), MOV(2, BPF_RB_RING_SIZE), CALL(BPF_FUNC_ringbuf_query), COPY(7, 0), KEEP(numbers, 2),
		MOV(0, 0), EXIT);
	printf("program: %s\n", said(program));
	struct ring ring;
	SAY("mapped", ring_of(map, 4096, &ring));
	void *wrong = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	SAY("all to write", wrong == MAP_FAILED ? -1 : 0);
	wrong = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, map, 4096);
	SAY("the producer to write", wrong == MAP_FAILED ? -1 : 0);
	wrong = mmap(0, 4096 * 8, PROT_READ, MAP_SHARED, map, 0);
	SAY("too much", wrong == MAP_FAILED ? -1 : 0);
	wrong = mmap(0, 4096, PROT_READ, MAP_PRIVATE, map, 0);
	SAY("private", wrong == MAP_FAILED ? -1 : 0);
	SAY("write to the data", mprotect(ring.producer, 4096, PROT_READ | PROT_WRITE));
	u64 value;
	u32 key = 0;
	SAY("look", look(map, &key, &value));
	SAY("look without a key", look(map, 0, &value));
	SAY("set", set(map, 0, &value, 0));
	int event = breakpoint();
	ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
	int epoll = epoll_create1(0);
	struct epoll_event wanted = { .events = EPOLLIN, .data = { .u32 = 42 } };
	SAY("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, map, &wanted));
	struct epoll_event told = { 0 };
	printf("nothing: %d\n", epoll_wait(epoll, &told, 1, 0));
	watched = 1;
	printf("something: %d %x %u\n", epoll_wait(epoll, &told, 1, 0), told.events, told.data.u32);
	printf("again: %d\n", epoll_wait(epoll, &told, 1, 0));
	printf("positions %llu %llu, output %lld, available %llu of %llu:", *ring.consumer, *ring.producer, at_index(numbers, 0), at_index(numbers, 1), at_index(numbers, 2));
	printf(" %d\n", consume(&ring, 1));
	printf("empty: %d\n", epoll_wait(epoll, &told, 1, 0));
	struct pollfd fds = { .fd = map, .events = POLLIN };
	watched = 2;
	printf("poll: %d %x\n", poll(&fds, 1, 0), fds.revents);
	printf("consumed %d, poll %d\n", consume(&ring, 0), poll(&fds, 1, 0));
	/* Around the end. */
	int all = 0;
	for (int i = 0; i < 150; i++) {
		watched = i;
		all += consume(&ring, 0);
	}
	printf("around: %d\n", all);
	/* Until it is full. */
	for (int i = 0; i < 200; i++)
		watched = i;
	printf("full: output %lld, available %llu\n", at_index(numbers, 0), at_index(numbers, 1));
	printf("of it %d\n", consume(&ring, 0));
	watched = 1;
	printf("and on: output %lld, %d\n", at_index(numbers, 0), consume(&ring, 0));
	/* Somebody waits. */
	pthread_t thread;
	pthread_create(&thread, 0, waits, &epoll);
	usleep(200000);
	watched = 5;
	void *got;
	pthread_join(thread, &got);
	printf("woken: %ld, %d\n", (long)got, consume(&ring, 0));
	/* A reader who says nonsense. */
	*ring.consumer = 1ull << 60;
	watched = 6;
	printf("nonsense: output %lld\n", at_index(numbers, 0));
	*ring.consumer = *ring.producer;
	watched = 7;
	printf("sense: output %lld, %d\n", at_index(numbers, 0), consume(&ring, 0));
	close(map);
	watched = 8;
	printf("closed: output %lld, %d\n", at_index(numbers, 0), consume(&ring, 0));
	munmap(ring.consumer, 4096), munmap(ring.producer, 4096 * 3);
	close(event), close(program), close(numbers), close(epoll);
}

static void arrays(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1000, BPF_F_MMAPABLE), one = map_of(BPF_MAP_TYPE_ARRAY, 4, 12, 3, BPF_F_MMAPABLE);
	u64 *values = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	SAY("mapped", values == MAP_FAILED ? -1 : 0);
	SAY("too much", mmap(0, 4096 * 3, PROT_READ, MAP_SHARED, map, 0) == MAP_FAILED ? -1 : 0);
	SAY("private", mmap(0, 4096, PROT_READ, MAP_PRIVATE, map, 0) == MAP_FAILED ? -1 : 0);
	SAY("to be run", mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, map, 0) == MAP_FAILED ? -1 : 0);
	u32 key = 3;
	u64 value = 33;
	set(map, &key, &value, 0);
	values[4] = 44;
	printf("set %llu, stored %llu\n", values[3], at_index(map, 4));
	u8 *narrow = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, one, 0);
	u8 bytes[12] = "abcdefghijk";
	key = 1;
	set(one, &key, bytes, 0);
	printf("in words: %s\n", narrow + 16);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, PUT(BPF_W, 10, -4, 4), MAP(1, map), COPY(2, 10), ADD(2, -4), CALL(BPF_FUNC_map_lookup_elem),
				   IF(BPF_JEQ, 0, 0, 3), LOAD(BPF_DW, 1, 0, 0), ADD(1, 1), STORE(BPF_DW, 0, 1, 0), MOV(0, 0), EXIT);
	int event = breakpoint();
	ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
	watched = 1;
	printf("by the program: %llu\n", values[4]);
	values[4] = 100;
	watched = 2;
	printf("by both: %llu %llu\n", values[4], at_index(map, 4));
	SAY("freeze what is mapped", BPF(BPF_MAP_FREEZE, .map_fd = map));
	munmap(values, 8192);
	SAY("freeze", BPF(BPF_MAP_FREEZE, .map_fd = map));
	SAY("to write", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0) == MAP_FAILED ? -1 : 0);
	values = mmap(0, 4096, PROT_READ, MAP_SHARED, map, 0);
	SAY("to read", values == MAP_FAILED ? -1 : 0);
	watched = 3;
	printf("by the program: %llu\n", values[4]);
	SAY("made writable", mprotect(values, 4096, PROT_READ | PROT_WRITE));
	close(event), close(program), close(map), close(one);
}

int main(void)
{
	setvbuf(stdout, 0, _IOFBF, 1 << 20);
	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	probes();
	queries();
	ring_buffers();
	arrays();
	return 0;
}
