// The program of the recordings that perf and perfuse made; see README.md. Needs no library, and ends by itself.
static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

enum { READ = 0, OPEN = 2, CLOSE = 3, MMAP = 9, MUNMAP = 11, NANOSLEEP = 35, GETPID = 39, FORK = 57, EXIT = 60, WAIT4 = 61 };
enum { KILL = 62, GETPPID = 110, PRCTL = 157 };

__attribute__((noinline)) int hash(int n) {
    for (int i = 0; i < 30000; i++)
        n = n * 31 + i;
    return n;
}

static inline int twice(int n) {
    return 2 * n;
}

__attribute__((noinline)) int insert(int n) {
    return hash(twice(n)) + 1;
}

__attribute__((noinline)) int lookup(int n) {
    return hash(n) + 2;
}

__attribute__((noinline)) int touch(void) {
    char *memory = (char *)call(MMAP, 0, 16 << 12, 3, 0x22, -1, 0);
    for (int page = 0; page < 16; page++)
        memory[page << 12] = 1;
    call(MUNMAP, (long)memory, 16 << 12, 0, 0, 0, 0);
    return memory != 0;
}

__attribute__((noinline)) int ask(void) {
    char line[64];
    int sum = 0;
    for (int i = 0; i < 300; i++)
        sum += call(GETPPID, 0, 0, 0, 0, 0, 0);
    long file = call(OPEN, (long)"/dev/zero", 0, 0, 0, 0, 0);
    for (int i = 0; i < 300; i++)
        sum += call(READ, file, (long)line, sizeof line, 0, 0, 0);
    call(CLOSE, file, 0, 0, 0, 0, 0);
    return sum;
}

__attribute__((noinline)) int work(int turns) {
    int sum = 0;
    for (int n = 0; n < turns; n++)
        sum += insert(n) + lookup(n) + touch() + ask();
    return sum;
}

void _start(void) {
    long pause[2] = {0, 1000000};
    if (call(FORK, 0, 0, 0, 0, 0, 0) == 0) {
        call(PRCTL, 15, (long)"toil-io", 0, 0, 0, 0);
        call(EXIT, work(40) & 0, 0, 0, 0, 0, 0);
    }
    call(NANOSLEEP, (long)pause, 0, 0, 0, 0, 0);
    work(40);
    call(KILL, call(GETPID, 0, 0, 0, 0, 0, 0), 28, 0, 0, 0, 0); // SIGWINCH, which does nothing
    call(WAIT4, -1, 0, 0, 0, 0, 0);
    call(EXIT, 0, 0, 0, 0, 0, 0);
}
