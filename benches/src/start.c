/* The least that a program does who counts the default events of `perf stat` for a command, in C: the floor of `perfuse stat`. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
	uint32_t type;
	uint64_t config;
	const char *name;
} events[] = {
	{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, "task-clock"},
	{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, "context-switches"},
	{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, "cpu-migrations"},
	{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, "page-faults"},
	{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cycles"},
	{PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "instructions"},
	{PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "branches"},
	{PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, "branch-misses"},
};
#define COUNT (int)(sizeof events / sizeof *events)

int main(int argc, char **argv)
{
	int go[2], fds[COUNT], status;
	char byte = 0;
	struct timespec from, to;
	struct rusage usage;

	if (argc < 2 || pipe(go))
		return 125;
	pid_t child = fork();
	if (child == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) == 1) {
			close(go[0]);
			execvp(argv[1], argv + 1);
		}
		_exit(127);
	}
	close(go[0]);
	for (int i = 0; i < COUNT; i++) {
		struct perf_event_attr attr;
		memset(&attr, 0, sizeof attr);
		attr.size = sizeof attr;
		attr.type = events[i].type;
		attr.config = events[i].config;
		attr.disabled = attr.inherit = attr.enable_on_exec = 1;
		attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
		fds[i] = syscall(SYS_perf_event_open, &attr, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
		if (fds[i] < 0 && (errno == EACCES || errno == EPERM)) {
			attr.exclude_kernel = attr.exclude_hv = 1;
			fds[i] = syscall(SYS_perf_event_open, &attr, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	if (write(go[1], &byte, 1) != 1 || wait4(child, &status, 0, &usage) != child)
		return 125;
	clock_gettime(CLOCK_MONOTONIC, &to);
	for (int i = 0; i < COUNT; i++) {
		uint64_t values[3];
		if (fds[i] >= 0 && read(fds[i], values, sizeof values) == sizeof values)
			fprintf(stderr, "%18llu  %s\n", (unsigned long long)values[0], events[i].name);
		else
			fprintf(stderr, "%18s  %s\n", "<not supported>", events[i].name);
	}
	fprintf(stderr, "%.6f s elapsed, %ld us user, %ld us sys\n",
		(to.tv_sec - from.tv_sec) + (to.tv_nsec - from.tv_nsec) * 1e-9,
		usage.ru_utime.tv_sec * 1000000L + usage.ru_utime.tv_usec,
		usage.ru_stime.tv_sec * 1000000L + usage.ru_stime.tv_usec);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
