/* System calls about events as 32-bit programs make them, from a 32-bit program (cc -m32) or a 64-bit one. It needs no
 * library; what it writes must be the same whoever answers. */

typedef unsigned int u32;
typedef unsigned long long u64;

enum {
	EXIT = 1, FORK = 2, READ = 3, WRITE = 4, CLOSE = 6, DUP = 41, IOCTL = 54, DUP2 = 63, MUNMAP = 91, WAITPID = 7,
	READV = 145, MREMAP = 163, POLL = 168, PRCTL = 172, MMAP2 = 192, FCNTL64 = 221, DUP3 = 330, OPEN = 336,
};

static long call(u32 number, u32 a, u32 b, u32 c, u32 d, u32 e, u32 f)
{
	long answer;
#ifdef __x86_64__
	/* What is in the upper halves must not matter. */
	u64 junk = 0x6b00ULL << 32;
	asm volatile("push %%rbp\n mov %7, %%rbp\n int $0x80\n pop %%rbp"
		     : "=a"(answer)
		     : "a"((u64)number), "b"(a | junk), "c"(b | junk), "d"(c | junk), "S"(d | junk), "D"(e | junk), "r"((u64)f)
		     : "memory", "r8", "r9", "r10", "r11");
#else
	u32 last[2] = { a, f };
	asm volatile("push %%ebx\n push %%ebp\n mov 4(%%ebx), %%ebp\n mov (%%ebx), %%ebx\n int $0x80\n pop %%ebp\n pop %%ebx"
		     : "=a"(answer)
		     : "a"(number), "b"(last), "c"(b), "d"(c), "S"(d), "D"(e)
		     : "memory");
#endif
	return answer;
}

#define CALL(n, a, b, c) call(n, (u32)(unsigned long)(a), (u32)(unsigned long)(b), (u32)(unsigned long)(c), 0, 0, 0)

static char line[128];

static void say(const char *what, long long number)
{
	char digits[24];
	int at = 0, len = 0, negative = number < 0;
	u64 rest = negative ? -(u64)number : (u64)number;
	do {
		u64 high = rest >> 32;
		/* Without a library there is no division of 64 bits. */
		u32 quotient, low = (u32)rest, top = (u32)high, digit;
		u32 upper = top / 10;
		asm("divl %4" : "=a"(quotient), "=d"(digit) : "a"(low), "d"(top % 10), "r"(10u));
		rest = (u64)upper << 32 | quotient;
		digits[at++] = '0' + digit;
	} while (rest);
	while (*what)
		line[len++] = *what++;
	line[len++] = ':';
	line[len++] = ' ';
	if (negative)
		line[len++] = '-';
	while (at)
		line[len++] = digits[--at];
	line[len++] = '\n';
	CALL(WRITE, 1, line, len);
}

/* The first 128 bytes of perf_event_attr. */
static union {
	u32 half[32];
	u64 word[16];
} attr;

static int prepare(u32 type, u32 config, u64 period, u64 flags)
{
	for (int i = 0; i < 16; i++)
		attr.word[i] = 0;
	attr.half[0] = type;
	attr.half[1] = 112;
	attr.word[1] = config;
	attr.word[2] = period;
	attr.word[5] = flags;
	return 0;
}

static long open_event(void)
{
	return call(OPEN, (u32)(unsigned long)&attr, 0, -1, -1, 8, 0);
}

static volatile char pages[64 * 4096];
static u64 words[8];
static struct { u32 fd; unsigned short events, revents; } waiting;
static struct { u32 base, len; } parts[2];

static void touch(int from, int count)
{
	for (int i = 0; i < count; i++)
		pages[(from + i) * 4096] = 1;
}

static long sign(long answer)
{
	return answer < 0 && answer >= -4095 ? answer : 0;
}

int main_(void)
{
	enum { DISABLED = 1, EXCLUDE_KERNEL = 1 << 5, ENABLE = 0x2400, DISABLE = 0x2401 };
	static u64 period = 2000000;
	static u64 cell;

	/* Minor faults of this very program. */
	prepare(1, 5, 0, DISABLED);
	attr.word[4] = 1 << 2; /* PERF_FORMAT_ID */
	long faults = open_event();
	say("opened", sign(faults));
	if (faults < 0)
		return 2;
	CALL(IOCTL, faults, ENABLE, 0);
	touch(0, 16);
	CALL(IOCTL, faults, DISABLE, 0);
	say("read", CALL(READ, faults, words, sizeof words));
	say("faults", words[0]);
	say("short", CALL(READ, faults, words, 4));
	say("nowhere", CALL(READ, faults, 16, 32));

	/* Codes with the size of a pointer, of either kind. */
	cell = 0;
	say("id", CALL(IOCTL, faults, 0x80042407, &cell));
	say("same id", cell == words[1]);
	cell = 0;
	say("wide id", CALL(IOCTL, faults, 0x80082407, &cell));
	say("same id", cell == words[1]);
	say("id nowhere", CALL(IOCTL, faults, 0x80042407, 16));
	say("filter", CALL(IOCTL, faults, 0x40042406, "x == 1"));
	say("wide filter", CALL(IOCTL, faults, 0x40082406, "x == 1"));
	say("period of a count", CALL(IOCTL, faults, 0x40082404, &period));
	say("narrow period", CALL(IOCTL, faults, 0x40042404, &period));
	say("no such", CALL(IOCTL, faults, 0x24ff, 0));
	say("reset", CALL(IOCTL, faults, 0x2403, 0));
	parts[0].base = (u32)(unsigned long)words;
	parts[0].len = 16;
	say("in parts", CALL(READV, faults, parts, 1));
	say("after reset", words[0]);

	/* Other numbers for the same event. */
	long copy = CALL(DUP, faults, 0, 0);
	say("dup", sign(copy));
	say("other number", copy != faults);
	long far = CALL(FCNTL64, faults, 0, 900);
	say("far", far >= 900);
	say("dup2", CALL(DUP2, faults, 40, 0));
	say("dup3", CALL(DUP3, faults, 41, 02000000));
	say("close", CALL(CLOSE, faults, 0, 0));
	CALL(IOCTL, copy, ENABLE, 0);
	touch(16, 8);
	CALL(PRCTL, 31, 0, 0);
	touch(24, 8);
	say("closed", CALL(READ, faults, words, sizeof words));
	say("by copy", CALL(READ, copy, words, sizeof words));
	say("faults", words[0]);
	words[0] = 0;
	say("by 40", CALL(READ, 40, words, sizeof words));
	say("faults", words[0]);
	long child = CALL(FORK, 0, 0, 0);
	if (child == 0) {
		words[0] = 0;
		say("in a child", CALL(READ, 41, words, sizeof words));
		say("faults", words[0]);
		CALL(EXIT, 0, 0, 0);
	}
	CALL(WAITPID, child, 0, 0);

	/* A ring, and waiting for it. */
	prepare(1, 1, 1000000, DISABLED | EXCLUDE_KERNEL);
	attr.word[3] = 1; /* IP */
	attr.half[12] = 1; /* wakeup_events */
	long clock = open_event();
	say("clock", sign(clock));
	say("period", CALL(IOCTL, clock, 0x40082404, &period));
	say("odd ring", sign(call(MMAP2, 0, 4096 * 4, 3, 1, clock, 0)));
	say("ring elsewhere", sign(call(MMAP2, 0, 4096 * 3, 3, 1, clock, 5)));
	long at = call(MMAP2, 0, 4096 * 3, 3, 1, clock, 0);
	say("ring", sign(at));
#ifdef __x86_64__
	say("within reach", (u64)at < 1ULL << 32);
#else
	say("within reach", 1);
#endif
	volatile u64 *ring = (volatile u64 *)(unsigned long)(u32)at;
	say("nothing yet", ring[1024 / 8]);
	CALL(IOCTL, clock, ENABLE, 0);
	for (u32 round = 0; round < 4000 && !ring[1024 / 8]; round++)
		for (volatile u32 i = 0; i < 1000000; i++)
			;
	waiting.fd = clock;
	waiting.events = 1;
	say("poll", CALL(POLL, &waiting, 1, 1000));
	say("ready", waiting.revents);
	CALL(IOCTL, clock, DISABLE, 0);
	say("samples", ring[1024 / 8] >= 16);
	say("kind", *(volatile u32 *)((unsigned long)(u32)at + 4096));
	say("cut", CALL(MUNMAP, (u32)at + 4096, 4096, 0));
	say("unmapped", CALL(MUNMAP, at, 4096 * 3, 0));
	at = call(MMAP2, 0, 4096 * 2, 3, 1, clock, 0);
	say("again", sign(at));
	say("grown", sign(call(MREMAP, at, 4096 * 2, 4096 * 8, 1, 0, 0)));
	say("closed", CALL(CLOSE, clock, 0, 0));

	prepare(1, 4711, 0, DISABLED);
	say("no such event", open_event());
	say("no attr", call(OPEN, 16, 0, -1, -1, 0, 0));
	attr.half[1] = 5;
	say("odd size", open_event());
	say("now", attr.half[1]);
	return 0;
}

#ifdef __x86_64__
/* At an address that narrow calls can name. */
asm(".globl _start\n_start:\n and $-16, %rsp\n call main_\n mov %eax, %ebx\n mov $1, %eax\n int $0x80\n");
#else
asm(".globl _start\n_start:\n and $-16, %esp\n call main_\n mov %eax, %ebx\n mov $1, %eax\n int $0x80\n");
#endif
