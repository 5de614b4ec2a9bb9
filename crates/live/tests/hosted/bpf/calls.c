/* Maps, programs and their descriptors: the calls of bpf(2) that need no event. */
#include "common.h"

static void attrs(void)
{
	char bytes[8192] = { 0 };
	SAY("no such command", BPF(9999));
	SAY("an attr that is not there", sys_bpf(BPF_MAP_CREATE, (void *)16, 64));
	SAY("a whole page", sys_bpf(BPF_MAP_CREATE, bytes, 4096));
	SAY("more than a page", sys_bpf(BPF_MAP_CREATE, bytes, 4097));
	bytes[4000] = 1;
	SAY("something unknown behind", sys_bpf(BPF_MAP_CREATE, bytes, 4096));
	bytes[4000] = 0;
	for (int at = 32; at < 240; at += 4) {
		bytes[at] = 1;
		errno = 0;
		sys_bpf(BPF_MAP_LOOKUP_ELEM, bytes, 240);
		printf("%d/%d ", at, errno);
		bytes[at] = 0;
	}
	printf("\n");
	SAY("nothing at all", sys_bpf(BPF_MAP_CREATE, bytes, 0));
	SAY("no map of that type", map_of(1000, 4, 4, 1, 0));
	SAY("type 0", map_of(0, 4, 4, 1, 0));
	SAY("a name", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1,
			  .map_name = "a_name.9"));
	SAY("a wrong name", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1,
				.map_name = "a-b"));
	SAY("a name without an end", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
					 .max_entries = 1, .map_name = "0123456789abcdef"));
	SAY("a node without its flag", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
					   .max_entries = 1, .numa_node = 1));
	SAY("a type of keys without types", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
						.max_entries = 1, .btf_key_type_id = 1));
	SAY("types that are not open", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
					   .max_entries = 1, .btf_fd = 555, .btf_key_type_id = 1, .btf_value_type_id = 1));
	SAY("something extra", BPF(BPF_MAP_CREATE, .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
				   .max_entries = 1, .map_extra = 1));
}

static void declarations(void)
{
	static const u32 all[][5] = {
		{ BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0 }, { BPF_MAP_TYPE_ARRAY, 8, 8, 4, 0 }, { BPF_MAP_TYPE_ARRAY, 4, 0, 4, 0 },
		{ BPF_MAP_TYPE_ARRAY, 4, 8, 0, 0 }, { BPF_MAP_TYPE_ARRAY, 4, 8, 4, 1 << 10 }, { BPF_MAP_TYPE_ARRAY, 4, 8, 4, 1 << 20 },
		{ BPF_MAP_TYPE_HASH, 4, 8, 4, 0 }, { BPF_MAP_TYPE_HASH, 0, 8, 4, 0 }, { BPF_MAP_TYPE_HASH, 4, 8, 4, 1 },
		{ BPF_MAP_TYPE_HASH, 4, 8, 4, 1 << 1 }, { BPF_MAP_TYPE_LRU_HASH, 4, 8, 64, 0 },
		{ BPF_MAP_TYPE_PERCPU_HASH, 4, 8, 4, 0 }, { BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 4, 0 },
		{ BPF_MAP_TYPE_LRU_PERCPU_HASH, 4, 8, 64, 0 }, { BPF_MAP_TYPE_QUEUE, 0, 8, 4, 0 }, { BPF_MAP_TYPE_QUEUE, 4, 8, 4, 0 },
		{ BPF_MAP_TYPE_STACK, 0, 8, 4, 0 }, { BPF_MAP_TYPE_STACK_TRACE, 4, 80, 16, 0 },
		{ BPF_MAP_TYPE_STACK_TRACE, 4, 81, 16, 0 }, { BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 4, 0 },
		{ BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 8, 4, 0 }, { BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 4, 0 },
		{ BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0 }, { BPF_MAP_TYPE_RINGBUF, 0, 0, 4095, 0 }, { BPF_MAP_TYPE_RINGBUF, 4, 0, 4096, 0 },
		{ BPF_MAP_TYPE_ARRAY, 4, 8, 4, BPF_F_RDONLY | BPF_F_WRONLY }, { BPF_MAP_TYPE_ARRAY, 4, 1 << 30, 1 << 30, 0 },
	};
	for (unsigned i = 0; i < COUNT(all); i++) {
		int fd = map_of(all[i][0], all[i][1], all[i][2], all[i][3], all[i][4]);
		printf("declaration %u: %s\n", i, said(fd));
		if (fd >= 0)
			close(fd);
	}
}

static void elements(int type, const char *name)
{
	int fd = map_of(type, type == BPF_MAP_TYPE_QUEUE || type == BPF_MAP_TYPE_STACK ? 0 : 4, 8, 4, 0);
	u64 values[64] = { 0 }, value;
	u32 keys[] = { 0, 1, 2, 3, 4, 9 }, next = 0;
	printf("== %s\n", name);
	SAY("look at nothing", look(fd, &keys[1], values));
	for (unsigned i = 0; i < COUNT(keys); i++) {
		for (unsigned cpu = 0; cpu < COUNT(values); cpu++)
			values[cpu] = 100 + i + cpu;
		printf("set %u: %s\n", keys[i], said(set(fd, &keys[i], values, BPF_ANY)));
	}
	SAY("set what is not", set(fd, &keys[5], values, BPF_EXIST));
	SAY("set what is", set(fd, &keys[1], values, BPF_NOEXIST));
	SAY("set with lock", set(fd, &keys[1], values, BPF_F_LOCK));
	SAY("set with unknown flags", set(fd, &keys[1], values, 64));
	SAY("set from nowhere", set(fd, &keys[1], (void *)16, 0));
	SAY("set at nowhere", set(fd, (void *)16, values, 0));
	SAY("look at nowhere", look(fd, (void *)16, values));
	SAY("look into nowhere", look(fd, &keys[2], (void *)16));
	memset(values, 0, sizeof(values));
	SAY("look", look(fd, &keys[2], values));
	printf("found %llu %llu\n", values[0], values[1]);
	SAY("look with flags", BPF(BPF_MAP_LOOKUP_ELEM, .map_fd = fd, .key = U(&keys[2]), .value = U(values), .flags = 1));
	SAY("look with lock", BPF(BPF_MAP_LOOKUP_ELEM, .map_fd = fd, .key = U(&keys[2]), .value = U(values), .flags = BPF_F_LOCK));
	SAY("delete", unset(fd, &keys[2]));
	SAY("delete again", unset(fd, &keys[2]));
	memset(values, 0, sizeof(values));
	SAY("take", BPF(BPF_MAP_LOOKUP_AND_DELETE_ELEM, .map_fd = fd, .key = U(&keys[3]), .value = U(values)));
	printf("taken %llu\n", values[0]);
	SAY("take again", BPF(BPF_MAP_LOOKUP_AND_DELETE_ELEM, .map_fd = fd, .key = U(&keys[3]), .value = U(values)));
	SAY("take with flags", BPF(BPF_MAP_LOOKUP_AND_DELETE_ELEM, .map_fd = fd, .key = U(&keys[3]), .value = U(values), .flags = 1));
	SAY("a key with no key", BPF(BPF_MAP_LOOKUP_AND_DELETE_ELEM, .map_fd = fd, .key = 0, .value = U(values)));
	u32 sum = 0, count = 0;
	void *before = 0;
	while (count < 20 && after(fd, before, &next) == 0) {
		sum += next;
		count++;
		before = &next;
	}
	printf("keys: %u, sum %u, then %s\n", count, sum, said(-1));
	u32 missing = 77;
	SAY("after one that is not", after(fd, &missing, &next));
	SAY("after, into nowhere", after(fd, 0, (void *)16));
	SAY("after, from nowhere", after(fd, (void *)16, &next));
	/* In batches. */
	u32 many[8] = { 0 }, cursor = 0;
	u64 several[512] = { 0 };
	union bpf_attr batch = { .batch = { .keys = U(many), .values = U(several), .count = 8, .map_fd = fd, .out_batch = U(&cursor) } };
	printf("batch: %s", said(sys_bpf(BPF_MAP_LOOKUP_BATCH, &batch, sizeof(batch))));
	printf(", %u\n", batch.batch.count);
	many[0] = 1, many[1] = 2;
	union bpf_attr update = { .batch = { .keys = U(many), .values = U(several), .count = 2, .map_fd = fd } };
	printf("batch update: %s", said(sys_bpf(BPF_MAP_UPDATE_BATCH, &update, sizeof(update))));
	printf(", %u\n", update.batch.count);
	union bpf_attr gone = { .batch = { .keys = U(many), .count = 2, .map_fd = fd } };
	printf("batch delete: %s", said(sys_bpf(BPF_MAP_DELETE_BATCH, &gone, sizeof(gone))));
	printf(", %u\n", gone.batch.count);
	batch.batch.count = 8;
	printf("batch take: %s", said(sys_bpf(BPF_MAP_LOOKUP_AND_DELETE_BATCH, &batch, sizeof(batch))));
	printf(", %u\n", batch.batch.count);
	SAY("freeze", BPF(BPF_MAP_FREEZE, .map_fd = fd));
	SAY("freeze again", BPF(BPF_MAP_FREEZE, .map_fd = fd));
	value = 5;
	SAY("set what is frozen", set(fd, &keys[1], &value, 0));
	SAY("delete what is frozen", unset(fd, &keys[1]));
	SAY("look at what is frozen", look(fd, &keys[1], values));
	close(fd);
}

static void rights(void)
{
	u32 key = 0;
	u64 value = 7;
	int read_only = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_RDONLY), write_only = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_WRONLY);
	SAY("read what is to be read", look(read_only, &key, &value));
	SAY("write what is to be read", set(read_only, &key, &value, 0));
	SAY("freeze what is to be read", BPF(BPF_MAP_FREEZE, .map_fd = read_only));
	SAY("read what is to be written", look(write_only, &key, &value));
	SAY("write what is to be written", set(write_only, &key, &value, 0));
	SAY("next of what is to be written", after(write_only, 0, &key));
	close(read_only), close(write_only);
	int fd = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_RDONLY_PROG);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, VALUE(1, fd, 0), PUT(BPF_DW, 1, 0, 5), MOV(0, 0), EXIT);
	printf("a program writes what it may not: %s", said(program));
	printf(", logged %s\n", logged("write into map forbidden"));
	program = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, VALUE(1, fd, 0), LOAD(BPF_DW, 0, 1, 0), EXIT);
	printf("a program reads what it may: %s\n", said(program));
	close(fd);
}

static void descriptors(void)
{
	u32 key = 0, id = 0;
	u64 value = 7;
	struct stat st;
	char text[64] = { 0 };
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0), plain = open("/dev/null", O_RDONLY);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(0, 42), EXIT);
	SAY("closed", look(999, &key, &value));
	SAY("not a map", look(plain, &key, &value));
	SAY("a program for a map", look(program, &key, &value));
	SAY("a map for a program", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = map }));
	SAY("closed for a program", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = 999 }));
	SAY("not a program", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = plain }));
	SAY("read of a map", read(map, text, 8));
	SAY("write of a map", write(map, text, 8));
	SAY("read of a program", read(program, text, 8));
	SAY("write of a program", write(program, text, 8));
	SAY("ioctl of a map", ioctl(map, 0x1234, 0));
	SAY("lseek", lseek(map, 0, SEEK_SET));
	SAY("mmap", mmap(0, 4096, PROT_READ, MAP_SHARED, map, 0) == MAP_FAILED ? -1 : 0);
	SAY("mmap of a program", mmap(0, 4096, PROT_READ, MAP_SHARED, program, 0) == MAP_FAILED ? -1 : 0);
	printf("flags: %x %x %x\n", fcntl(map, F_GETFD), fcntl(map, F_GETFL) & ~O_LARGEFILE, fcntl(program, F_GETFL) & ~O_LARGEFILE);
	fstat(map, &st);
	printf("mode %o, size %ld, links %ld\n", st.st_mode, (long)st.st_size, (long)st.st_nlink);
	fstat(program, &st);
	printf("mode %o\n", st.st_mode);
	char path[64];
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i ? program : map);
		ssize_t got = readlink(path, text, sizeof(text) - 1);
		text[got < 0 ? 0 : got] = 0;
		printf("link: %s\n", text);
	}
	value = 8;
	int other = dup(map);
	SAY("set by a copy", set(other, &key, &value, 0));
	close(map);
	value = 0;
	SAY("look by the copy", look(other, &key, &value));
	printf("%llu\n", value);
	SAY("look by what is closed", look(map, &key, &value));
	int low = dup2(other, 77);
	printf("dup2: %d, %s\n", low, said(look(77, &key, &value)));
	close(other);
	SAY("look by 77", look(77, &key, &value));
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		value = 99;
		SAY("set by a child", set(77, &key, &value, 0));
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, 0, 0);
	SAY("look after the child", look(77, &key, &value));
	printf("%llu\n", value);
	struct bpf_map_info info = { 0 };
	SAY("info", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = 77, .info_len = sizeof(info), .info = U(&info) }));
	printf("info: type %u key %u value %u entries %u flags %u id %d name '%s'\n", info.type, info.key_size, info.value_size,
	       info.max_entries, info.map_flags, info.id != 0, info.name);
	int again = BPF(BPF_MAP_GET_FD_BY_ID, .map_id = info.id);
	SAY("by id", again);
	SAY("by no id", BPF(BPF_MAP_GET_FD_BY_ID, .map_id = 0x7fffffff));
	SAY("by id, to read", (id = BPF(BPF_MAP_GET_FD_BY_ID, .map_id = info.id, .open_flags = BPF_F_RDONLY)));
	SAY("set by that", set(id, &key, &value, 0));
	SAY("look by that", look(id, &key, &value));
	SAY("by id, with unknown flags", BPF(BPF_MAP_GET_FD_BY_ID, .map_id = info.id, .open_flags = 4096));
	union bpf_attr list = { 0 };
	int found = 0;
	for (u32 start = 0; ; start = list.next_id) {
		list = (union bpf_attr){ .start_id = start };
		if (sys_bpf(BPF_MAP_GET_NEXT_ID, &list, sizeof(list)))
			break;
		found |= list.next_id == info.id;
	}
	printf("listed: %d, then %s\n", found, said(-1));
	close(77), close(again), close(id);
	SAY("by the id of what is gone", BPF(BPF_MAP_GET_FD_BY_ID, .map_id = info.id));
	struct bpf_prog_info about = { 0 };
	union bpf_attr ask = { .info = { .bpf_fd = program, .info_len = sizeof(about), .info = U(&about) } };
	printf("program info: %s", said(sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &ask, sizeof(ask))));
	printf(", type %u id %d xlated %u gpl %u maps %u load time %d tag %d len %d\n", about.type, about.id != 0, about.xlated_prog_len,
	       about.gpl_compatible, about.nr_map_ids, about.load_time != 0, about.tag[0] | about.tag[1] ? 1 : 0, ask.info.info_len > 200);
	SAY("info of nothing", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = 999, .info_len = 8, .info = U(&about) }));
	SAY("info of a file", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = plain, .info_len = 8, .info = U(&about) }));
	SAY("info into nowhere", BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = program, .info_len = 80, .info = 16 }));
	SAY("program by id", (again = BPF(BPF_PROG_GET_FD_BY_ID, .prog_id = about.id)));
	SAY("program by no id", BPF(BPF_PROG_GET_FD_BY_ID, .prog_id = 0x7fffffff));
	SAY("program by a map's flags", BPF(BPF_PROG_GET_FD_BY_ID, .prog_id = about.id, .open_flags = 8));
	close(again), close(program);
	SAY("program that is gone", BPF(BPF_PROG_GET_FD_BY_ID, .prog_id = about.id));
	SAY("link by no id", BPF(BPF_LINK_GET_FD_BY_ID, .link_id = 0x7fffffff));
}

static void lifetimes(void)
{
	u32 key = 0;
	u64 value = 7;
	int map = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	int program = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MAP(1, map), PUT(BPF_W, 10, -4, 0), COPY(2, 10), ADD(2, -4),
				   CALL(BPF_FUNC_map_lookup_elem), IF(BPF_JEQ, 0, 0, 2), LOAD(BPF_DW, 0, 0, 0), EXIT, MOV(0, 0), EXIT);
	printf("uses a map: %s\n", said(program));
	set(map, &key, &value, 0);
	struct bpf_map_info info = { 0 };
	BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = map, .info_len = sizeof(info), .info = U(&info) });
	u32 ids[4] = { 0 };
	struct bpf_prog_info about = { .nr_map_ids = 4, .map_ids = U(ids) };
	BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = program, .info_len = sizeof(about), .info = U(&about) });
	printf("map ids: %u, %d\n", about.nr_map_ids, ids[0] == info.id);
	close(map);
	SAY("the map of a program", (map = BPF(BPF_MAP_GET_FD_BY_ID, .map_id = info.id)));
	close(map);
	u8 packet[64] = { 0 };
	union bpf_attr run = { .test = { .prog_fd = program, .data_size_in = 64, .data_in = U(packet) } };
	printf("run: %s", said(sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run))));
	printf(", %u\n", run.test.retval);
	close(program);
}

static void test_runs(void)
{
	u8 packet[64], out[80];
	for (int i = 0; i < 64; i++)
		packet[i] = i + 1;
	int fixed = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(0, 42), EXIT);
	int len = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, LOAD(BPF_W, 0, 1, offsetof(struct __sk_buff, len)), EXIT);
	int byte = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(2, 3), COPY(3, 10), ADD(3, -8), MOV(4, 2), CALL(BPF_FUNC_skb_load_bytes),
				LOAD(BPF_H, 0, 10, -8), EXIT);
	int absolute = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, COPY(6, 1), CODE(BPF_LD | BPF_ABS | BPF_B, 0, 0, 0, 5), EXIT);
	int protocol = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, LOAD(BPF_W, 0, 1, offsetof(struct __sk_buff, protocol)), EXIT);
	int cb = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, LOAD(BPF_W, 2, 1, offsetof(struct __sk_buff, cb)), PUT(BPF_W, 1, offsetof(struct __sk_buff, cb), 9),
			      LOAD(BPF_W, 0, 1, offsetof(struct __sk_buff, cb)), EXIT);
	int programs[] = { fixed, len, byte, absolute, protocol, cb };
	for (unsigned i = 0; i < COUNT(programs); i++) {
		memset(out, 0xee, sizeof(out));
		union bpf_attr run = { .test = { .prog_fd = programs[i], .data_size_in = 64, .data_in = U(packet), .data_size_out = 80,
						 .data_out = U(out), .repeat = 3 } };
		printf("run %u: %s", i, said(sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run))));
		printf(", %u, %u bytes: %d %d %d %d %x\n", run.test.retval, run.test.data_size_out, out[0], out[13], out[14], out[63], out[64]);
	}
	union bpf_attr run = { .test = { .prog_fd = fixed, .data_size_in = 64, .data_in = U(packet), .data_size_out = 10, .data_out = U(out) } };
	printf("little room: %s", said(sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run))));
	printf(", %u, %u\n", run.test.retval, run.test.data_size_out);
	SAY("short", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = fixed, .data_size_in = 13, .data_in = U(packet) }));
	SAY("fourteen", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = fixed, .data_size_in = 14, .data_in = U(packet) }));
	SAY("no data", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = fixed }));
	SAY("nowhere", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = fixed, .data_size_in = 64, .data_in = 16 }));
	SAY("flags", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = fixed, .data_size_in = 64, .data_in = U(packet), .flags = 1 }));
	SAY("long", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = fixed, .data_size_in = 4096, .data_in = U(packet) }));
	SAY("a context of nothing", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = fixed, .data_size_in = 64, .data_in = U(packet), .ctx_size_in = 8 }));
	struct __sk_buff context = { .mark = 7 };
	context.cb[0] = 3;
	int mark = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, LOAD(BPF_W, 0, 1, offsetof(struct __sk_buff, mark)), EXIT);
	run = (union bpf_attr){ .test = { .prog_fd = mark, .data_size_in = 64, .data_in = U(packet), .ctx_size_in = sizeof(context),
					  .ctx_in = U(&context), .ctx_size_out = sizeof(context), .ctx_out = U(&context) } };
	printf("context: %s", said(sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run))));
	printf(", %u, mark %u cb %u len %u\n", run.test.retval, context.mark, context.cb[0], context.len);
	context = (struct __sk_buff){ .len = 5 };
	SAY("context with len", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = mark, .data_size_in = 64, .data_in = U(packet), .ctx_size_in = sizeof(context),
					  .ctx_in = U(&context) }));
	run = (union bpf_attr){ .test = { .prog_fd = fixed, .data_size_in = 64, .data_in = U(packet), .repeat = 1000 } };
	sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run));
	printf("duration: %d\n", run.test.duration < 1000000);
	int event = LOAD_PROGRAM(BPF_PROG_TYPE_PERF_EVENT, MOV(0, 42), EXIT);
	SAY("an event's program", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = event }));
	int probe = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, MOV(0, 42), EXIT);
	SAY("a probe's program", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = probe }));
	int raw = LOAD_PROGRAM(BPF_PROG_TYPE_RAW_TRACEPOINT, LOAD(BPF_DW, 0, 1, 8), EXIT);
	u64 arguments[3] = { 1, 23, 4 };
	run = (union bpf_attr){ .test = { .prog_fd = raw, .ctx_in = U(arguments), .ctx_size_in = sizeof(arguments) } };
	printf("a raw tracepoint's: %s", said(sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run))));
	printf(", %u\n", run.test.retval);
	SAY("without arguments", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = raw }));
	SAY("with repeat", BPF(BPF_PROG_TEST_RUN, .test = { .prog_fd = raw, .ctx_in = U(arguments), .ctx_size_in = sizeof(arguments), .repeat = 2 }));
}

static void tail_calls(void)
{
	u32 zero = 0, one = 1, nine = 9;
	u8 packet[64] = { 0 };
	int map = map_of(BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 2, 0), plain = open("/dev/null", O_RDONLY);
	int target = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(0, 77), EXIT);
	int caller = LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MAP(2, map), MOV(3, 0), CALL(BPF_FUNC_tail_call), MOV(0, 5), EXIT);
	int other = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, MOV(0, 1), EXIT);
	printf("caller: %s\n", said(caller));
	for (int turn = 0; turn < 3; turn++) {
		union bpf_attr run = { .test = { .prog_fd = caller, .data_size_in = 64, .data_in = U(packet) } };
		printf("run: %s", said(sys_bpf(BPF_PROG_TEST_RUN, &run, sizeof(run))));
		printf(", %u\n", run.test.retval);
		if (turn == 0)
			SAY("set", set(map, &zero, &target, 0));
		if (turn == 1)
			SAY("delete", unset(map, &zero));
	}
	SAY("set another type", set(map, &one, &other, 0));
	SAY("set a closed one", set(map, &one, (int[]){ 999 }, 0));
	SAY("set a file", set(map, &one, &plain, 0));
	SAY("set a map", set(map, &one, &map, 0));
	SAY("set beyond", set(map, &nine, &target, 0));
	SAY("set with flags", set(map, &one, &target, BPF_NOEXIST));
	SAY("delete nothing", unset(map, &one));
	SAY("delete beyond", unset(map, &nine));
	set(map, &one, &target, 0);
	u32 id = 0;
	struct bpf_prog_info about = { 0 };
	BPF(BPF_OBJ_GET_INFO_BY_FD, .info = { .bpf_fd = target, .info_len = sizeof(about), .info = U(&about) });
	SAY("look", look(map, &one, &id));
	printf("its id: %d\n", id == about.id);
	close(target);
	SAY("look after close", look(map, &one, &id));
	int typed = LOAD_PROGRAM(BPF_PROG_TYPE_KPROBE, MAP(2, map), MOV(3, 0), CALL(BPF_FUNC_tail_call), MOV(0, 5), EXIT);
	printf("caller of another type: %s\n", said(typed));
}

static void descriptors_run_out(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 200;
	setrlimit(RLIMIT_NOFILE, &limit);
	close_range(3, ~0u, 0);
	int first = map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0), count = first >= 0;
	while (map_of(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0) >= 0)
		count++;
	printf("descriptors: %d, then %s", count, said(-1));
	printf(", %s\n", said(LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(0, 42), EXIT)));
	close(first);
	SAY("one is closed", LOAD_PROGRAM(BPF_PROG_TYPE_SOCKET_FILTER, MOV(0, 42), EXIT));
}

int main(int argc, char **argv)
{
	(void)argc, (void)argv;
	setvbuf(stdout, 0, _IOFBF, 1 << 20);
	attrs();
	declarations();
	elements(BPF_MAP_TYPE_ARRAY, "array");
	elements(BPF_MAP_TYPE_HASH, "hash");
	elements(BPF_MAP_TYPE_PERCPU_ARRAY, "percpu array");
	elements(BPF_MAP_TYPE_PERCPU_HASH, "percpu hash");
	elements(BPF_MAP_TYPE_QUEUE, "queue");
	elements(BPF_MAP_TYPE_STACK, "stack");
	rights();
	descriptors();
	lifetimes();
	test_runs();
	tail_calls();
	descriptors_run_out();
	return 0;
}
