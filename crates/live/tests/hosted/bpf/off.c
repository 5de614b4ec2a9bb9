/* A program at a tracepoint runs at each hit of it, those of other processes too, whether or not its event is on. */
#include "common.h"
#include <sys/prctl.h>

static u64 id_of(const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/raw_syscalls/%s/id", name);
	FILE *file = fopen(path, "r");
	u64 id = 0;
	if (!file || fscanf(file, "%llu", &id) != 1)
		exit(77);
	fclose(file);
	return id;
}

static int tracepoint_of(u64 id, int pid, int cpu)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .config = id, .sample_period = 1, .disabled = 1,
					.exclude_kernel = 1 };
	return syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int tracepoint(u64 id)
{
	return tracepoint_of(id, 0, -1);
}

/* A call that nobody else makes. */
#define CALLED SYS_sched_rr_get_interval

static void called(int times)
{
	while (times--)
		syscall(CALLED, 0, 0);
}

static int counts_calls(int map)
{
	struct bpf_insn counts[] = { COUNT_RUN(map) };
	return LOAD_PROGRAM(BPF_PROG_TYPE_TRACEPOINT, LOAD(BPF_DW, 7, 1, 8), IF(BPF_JNE, 7, CALLED, COUNT(counts)), COUNT_RUN(map), MOV(0, 1),
			    EXIT);
}

static void off(const char *name)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0), program = counts_calls(map), event = tracepoint(id_of(name));
	printf("%s: %s %s", name, said(program), said(event));
	printf(" %s\n", said(ioctl(event, PERF_EVENT_IOC_SET_BPF, program)));
	called(10);
	printf("off: %llu runs, counted %llu\n", at_index(map, 0), counted(event));
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		called(5);
		_exit(0);
	}
	waitpid(child, 0, 0);
	printf("a child's: %llu runs, counted %llu\n", at_index(map, 0), counted(event));
	ioctl(event, PERF_EVENT_IOC_ENABLE, 0);
	called(3);
	printf("on: %llu runs, counted more: %d\n", at_index(map, 0), counted(event) >= 3);
	ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
	called(2);
	printf("off again: %llu runs\n", at_index(map, 0));
	close(event);
	called(4);
	printf("closed: %llu runs\n", at_index(map, 0));
}

/* libbpf attaches programs by events of the first cpu. */
static void on_a_cpu(const char *name)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0), program = counts_calls(map), event = tracepoint_of(id_of(name), -1, 0);
	printf("%s on a cpu: %s %s", name, said(program), said(event));
	int link = BPF(BPF_LINK_CREATE, .link_create = { .prog_fd = program, .target_fd = event, .attach_type = BPF_PERF_EVENT });
	printf(" %s %s\n", said(link), said(ioctl(event, PERF_EVENT_IOC_ENABLE, 0)));
	called(10);
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		called(5);
		_exit(0);
	}
	waitpid(child, 0, 0);
	printf("on a cpu: %llu runs\n", at_index(map, 0));
	close(link);
	called(3);
	printf("without the link: %llu runs\n", at_index(map, 0));
	close(event);
}

static volatile int signalled;

static void count_signal(int number)
{
	signalled++;
}

/* A program sends a signal to the thread that it runs for. */
static void signals(void)
{
	int results = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0);
	signal(SIGUSR1, count_signal);
	for (int i = 0; i < 3; i++) {
		int number = (int[]){ SIGUSR1, SIGUSR1, 70 }[i], helper = (int[]){ BPF_FUNC_send_signal, BPF_FUNC_send_signal_thread, BPF_FUNC_send_signal }[i];
		struct bpf_insn sends[] = { MOV(1, number), CALL(helper), COPY(7, 0), KEEP(results, i) };
		int program = LOAD_PROGRAM(BPF_PROG_TYPE_TRACEPOINT, LOAD(BPF_DW, 7, 1, 8), IF(BPF_JNE, 7, CALLED, COUNT(sends)), MOV(1, number), CALL(helper),
					   COPY(7, 0), KEEP(results, i), MOV(0, 1), EXIT);
		int event = tracepoint(id_of("sys_enter"));
		ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
		called(3);
		close(event), close(program);
		printf("signal %d by %d: %d, answer %lld\n", number, helper, signalled, (long long)at_index(results, i));
		signalled = 0;
	}
}

/* A user without rights is told of his own calls, and of nobody else's. */
static void of_a_user(const char *name, int pid, int cpu)
{
	u64 id = id_of(name);
	int to[2], from[2];
	char byte = 0;
	pipe(to), pipe(from);
	pid_t child = fork();
	if (!child) {
		setresgid(65534, 65534, 65534), setresuid(65534, 65534, 65534), prctl(PR_SET_DUMPABLE, 1);
		int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0), program = counts_calls(map), event = tracepoint_of(id, pid, cpu);
		printf("%s: %s %s", name, said(program), said(event));
		printf(" %s\n", said(ioctl(event, PERF_EVENT_IOC_SET_BPF, program)));
		called(2);
		write(from[1], &byte, 1), read(to[0], &byte, 1);
		printf("a user's: %llu runs\n", at_index(map, 0));
		fflush(stdout);
		_exit(0);
	}
	read(from[0], &byte, 1);
	called(5);
	write(to[1], &byte, 1);
	waitpid(child, 0, 0);
}

__attribute__((noinline)) void probed(void)
{
	__asm__ volatile("");
}

static int probe(int pid, int cpu)
{
	static char path[256];
	path[readlink("/proc/self/exe", path, sizeof(path) - 1)] = 0;
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r"), *maps = fopen("/proc/self/maps", "r");
	unsigned type = 0;
	u64 from, to, offset;
	if (!file || !maps || fscanf(file, "%u", &type) != 1)
		exit(77);
	while (fscanf(maps, "%llx-%llx %*s %llx %*[^\n]", &from, &to, &offset) == 3 && !(from <= U(probed) && U(probed) < to))
		;
	fclose(file), fclose(maps);
	struct perf_event_attr attr = { .type = type, .size = sizeof(attr), .config1 = U(path), .config2 = U(probed) - from + offset };
	return syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The same of a probe, which another has at the same place. */
static void probe_of_a_user(void)
{
	int to[2], from[2], own = probe(0, -1);
	char byte = 0;
	pipe(to), pipe(from);
	pid_t child = fork();
	if (!child) {
		setresgid(65534, 65534, 65534), setresuid(65534, 65534, 65534), prctl(PR_SET_DUMPABLE, 1);
		int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0), program = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, COUNT_RUN(map), MOV(0, 1), EXIT);
		int event = probe(-1, 0);
		printf("probe: %s %s %s\n", said(program), said(event), said(ioctl(event, PERF_EVENT_IOC_SET_BPF, program)));
		fflush(stdout);
		pid_t grandchild = fork();
		if (!grandchild) {
			probed(), probed(), probed();
			_exit(0);
		}
		waitpid(grandchild, 0, 0);
		probed(), probed();
		write(from[1], &byte, 1), read(to[0], &byte, 1);
		printf("a user's: %llu runs\n", at_index(map, 0));
		fflush(stdout);
		_exit(0);
	}
	read(from[0], &byte, 1);
	for (int i = 0; i < 5; i++)
		probed();
	write(to[1], &byte, 1);
	waitpid(child, 0, 0);
	printf("its own: %llu\n", counted(own));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		of_a_user("sys_enter", 0, -1), of_a_user("sys_exit", 0, -1), of_a_user("sys_enter", -1, 0), probe_of_a_user();
	else
		off("sys_enter"), off("sys_exit"), on_a_cpu("sys_enter"), on_a_cpu("sys_exit"), signals();
	return 0;
}
