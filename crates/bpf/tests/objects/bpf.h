// The words of compilers and the kernel that the programs need.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __kconfig __attribute__((section(".kconfig")))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) __typeof__(value) *name

enum { HASH = 1, ARRAY = 2, PERF_EVENT_ARRAY = 4 };

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const get_current_pid_tgid)(void) = (void *)14;
static u64 (*const get_current_task)(void) = (void *)35;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_loop)(u32 count, void *function, void *context, u64 flags) = (void *)181;
