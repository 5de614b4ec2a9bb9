/* A program at a tracepoint runs at each hit of it, those of other processes too, whether or not its event is on. */
#include "common.h"

static int tracepoint(const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/raw_syscalls/%s/id", name);
	FILE *file = fopen(path, "r");
	u64 id = 0;
	if (!file || fscanf(file, "%llu", &id) != 1)
		exit(77);
	fclose(file);
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .config = id, .sample_period = 1, .disabled = 1 };
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* A call that nobody else makes. */
#define CALLED SYS_sched_rr_get_interval

static void called(int times)
{
	while (times--)
		syscall(CALLED, 0, 0);
}

static void off(const char *name)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0);
	struct bpf_insn counts[] = { COUNT_RUN(map) };
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_TRACEPOINT, LOAD(BPF_DW, 7, 1, 8), IF(BPF_JNE, 7, CALLED, COUNT(counts)), COUNT_RUN(map),
				   MOV(0, 1), EXIT);
	int event = tracepoint(name);
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

int main(void)
{
	off("sys_enter"), off("sys_exit");
	return 0;
}
