/* Arrays of cgroups, and what programs see of the cgroup of their thread. */
#include "common.h"

static char root[256], child[300];

static void find_root(void)
{
	FILE *mounts = fopen("/proc/mounts", "r");
	char place[256], kind[64];
	while (mounts && fscanf(mounts, "%*s %255s %63s %*[^\n]", place, kind) == 2)
		if (!strcmp(kind, "cgroup2"))
			strcpy(root, place);
}

static u64 number_of(const char *path)
{
	struct stat about;
	return stat(path, &about) ? 0 : about.st_ino;
}

static int opened(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int put(int map, u32 index, int fd)
{
	return set(map, &index, &fd, 0);
}

static int run(int program)
{
	union bpf_attr run = { .test = { .prog_fd = program } };
	return sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run)) ? -1000 : (int)run.test.retval;
}

static int is_in(int map, u32 index)
{
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_RAW_TRACEPOINT, MAP(1, map), MOV(2, index), CALL(BPF_FUNC_current_task_under_cgroup), EXIT);
	int found = run(program);
	close(program);
	return found;
}

/* The thread's cgroup; or the one so many levels below the root. */
static u64 own(int level)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	int program = level < 0 ? LOAD_PROGRAM(BPF_PROG_TYPE_RAW_TRACEPOINT, CALL(BPF_FUNC_get_current_cgroup_id), COPY(7, 0), KEEP(map, 0), MOV(0, 0), EXIT)
				: LOAD_PROGRAM(BPF_PROG_TYPE_RAW_TRACEPOINT, MOV(1, level), CALL(BPF_FUNC_get_current_ancestor_cgroup_id), COPY(7, 0),
					       KEEP(map, 0), MOV(0, 0), EXIT);
	int ran = run(program);
	u64 id = at_index(map, 0);
	close(program), close(map);
	return ran ? ~0ull : id;
}

static void tell(const char *who, int map)
{
	printf("%s: in the root %d, in the other %d, in none %d, beyond %d\n", who, is_in(map, 0), is_in(map, 1), is_in(map, 2), is_in(map, 3));
	printf("%s: its own is the root %d, the other %d;", who, own(-1) == number_of(root), own(-1) == number_of(child));
	printf(" above: %d %d %llu\n", own(0) == number_of(root), own(1) == number_of(child), own(2));
	fflush(stdout);
}

int main(void)
{
	u32 zero = 0, next = 9;
	int value = 0;
	find_root();
	snprintf(child, sizeof(child), "%s/perfuse-bpf-%d", root, getpid());
	SAY("a cgroup", mkdir(child, 0755));
	int map = map_of(BPF_MAP_TYPE_CGROUP_ARRAY, 4, 4, 3, 0);
	SAY("an array", map);
	SAY("values of 8", map_of(BPF_MAP_TYPE_CGROUP_ARRAY, 4, 8, 3, 0));
	SAY("nothing open", put(map, 0, 999));
	SAY("a folder", put(map, 0, opened("/tmp")));
	SAY("a map", put(map, 0, map));
	char procs[300];
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", root);
	SAY("a file of a cgroup", put(map, 0, opened(procs)));
	SAY("the root", put(map, 0, opened(root)));
	SAY("the other", put(map, 1, opened(child)));
	SAY("beyond", put(map, 3, opened(root)));
	value = opened(root);
	SAY("only if new", set(map, &zero, &value, BPF_NOEXIST));
	SAY("looked up", look(map, &zero, &value));
	SAY("the next", after(map, &zero, &next));
	SAY("for events", LOAD_PROGRAM(BPF_PROG_TYPE_RAW_TRACEPOINT, MAP(2, map), MOV(3, 0), COPY(4, 10), ADD(4, -8), PUT(BPF_DW, 10, -8, 0), MOV(5, 8),
				       CALL(BPF_FUNC_perf_event_output), EXIT));
	int plain = map_of(BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0);
	SAY("in values", LOAD_PROGRAM(BPF_PROG_TYPE_RAW_TRACEPOINT, MAP(1, plain), MOV(2, 0), CALL(BPF_FUNC_current_task_under_cgroup), EXIT));
	tell("here", map);
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		snprintf(procs, sizeof(procs), "%s/cgroup.procs", child);
		FILE *file = fopen(procs, "w");
		fprintf(file, "%d", getpid());
		SAY("moved", fclose(file));
		tell("there", map);
		_exit(0);
	}
	waitpid(pid, 0, 0);
	u32 one = 1;
	SAY("taken out", unset(map, &one));
	SAY("once more", unset(map, &one));
	printf("in the other %d\n", is_in(map, 1));
	while (rmdir(child) && errno == EBUSY)
		usleep(1000);
	return 0;
}
