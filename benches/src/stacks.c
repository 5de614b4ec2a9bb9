/* A program of many small functions that call each other at random, to as many distinct depths and ways as a
 * recording should have callchains: each thread faults in a page again and again, at the end of a walk through
 * the functions. Called with the number of faults and the mean depth of a walk. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct walk {
    uint64_t random;
    volatile char *page;
};

static uint64_t next(struct walk *walk)
{
    walk->random ^= walk->random << 13;
    walk->random ^= walk->random >> 7;
    return walk->random ^= walk->random << 17;
}

typedef void step(struct walk *, unsigned, unsigned);
static step *const steps[256];

/* Half of the calls of a function are of two others, a quarter of the next two, and so on. */
static step *choose(struct walk *walk, unsigned self)
{
    uint64_t random = next(walk);
    unsigned which = __builtin_ctzll(random | 1ull << 60) * 2 + (random >> 63);
    return steps[(self * 37 + which * 11 + 1) & 255];
}

static void touch(struct walk *walk)
{
    madvise((void *)walk->page, 4096, MADV_DONTNEED);
    if (next(walk) % 8)
        *walk->page = 1;
    else if (!getcwd((char *)walk->page, 4096)) /* the kernel faults */
        abort();
}

#define STEP(n) \
    static __attribute__((noinline)) void step_##n(struct walk *walk, unsigned left, unsigned self) \
    { \
        if (left == 0) \
            touch(walk); \
        else \
            choose(walk, self)(walk, left - 1, self + n + 1); \
        __asm__ volatile("" ::: "memory"); \
    }
#define NAME(n) step_##n,
#define FOUR(what, n) what(n##0) what(n##1) what(n##2) what(n##3)
#define SIXTEEN(what, n) FOUR(what, n##0) FOUR(what, n##1) FOUR(what, n##2) FOUR(what, n##3)
#define SOME(what, n) SIXTEEN(what, n##0) SIXTEEN(what, n##1) SIXTEEN(what, n##2) SIXTEEN(what, n##3)
#define ALL(what) SOME(what, 1) SOME(what, 2) SOME(what, 3) SOME(what, 4)
ALL(STEP)
static step *const steps[256] = { ALL(NAME) };

static unsigned long faults;
static unsigned depth;

static void *thread(void *seed)
{
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct walk walk = { 0x9e3779b97f4a7c15 * ((uintptr_t)seed + 1), page };
    for (unsigned long i = 0; i < faults; i++)
        choose(&walk, 0)(&walk, next(&walk) % (2 * depth), 0);
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    if (argc != 3)
        return 2;
    faults = strtoul(argv[1], 0, 0) / 2;
    depth = strtoul(argv[2], 0, 0);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, thread, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
