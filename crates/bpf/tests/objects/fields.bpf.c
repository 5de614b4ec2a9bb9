// Places, sizes and values of a kernel's types. With OTHER they are another kernel's: members move, change their sizes, and go. `make` says
// how it is compiled.
#include "bpf.h"

#define CORE __attribute__((preserve_access_index))

enum color {
#ifdef OTHER
    NONE,
    RED = 7,
    BLUE,
#else
    RED,
    GREEN,
    BLUE = 2,
#endif
};

struct point {
    int x, y;
} CORE;

struct place {
#ifdef OTHER
    u64 before;
    union {
        struct {
            u16 narrow;
            u64 wide;
        };
        u64 both;
    };
    struct point *points[6];
    u32 bits : 3, more : 7;
    struct { u8 pad[3]; struct point center; } inner;
    u32 number;
    s64 turned;
#else
    u32 wide;
    u32 narrow;
    struct point *points[4];
    u32 more : 9;
    struct { struct point center; u8 gone; } inner;
    u64 number;
    int turned;
    int missing;
#endif
} CORE;

#ifdef OTHER
typedef u64 handle;
#else
typedef u32 handle;

struct unknown {
    int a;
} CORE;

// The same type under another name, of which only a part is known.
struct place___short {
    u32 number;
    u8 only_here;
} CORE;

struct vanished {
    int a;
} CORE;
#endif

struct {
    __uint(type, ARRAY);
    __uint(max_entries, 32);
    __type(key, u32);
    __type(value, u64);
} told SEC(".maps");

enum { OFFSET, SIZE, EXISTS, SIGNED, LSHIFT, RSHIFT };
#define ASK(what, kind) __builtin_preserve_field_info(what, kind)

static inline void tell(u32 index, u64 value) {
    update(&told, &index, &value, 0);
}

SEC("raw_tp/places")
int places(struct place *place) {
    tell(0, ASK(place->wide, OFFSET));
    tell(1, ASK(place->wide, SIZE));
    tell(2, ASK(place->narrow, OFFSET));
    tell(3, ASK(place->points[3], OFFSET));
    tell(4, ASK(place->more, OFFSET));
    tell(5, ASK(place->more, SIZE));
    tell(6, ASK(place->more, LSHIFT));
    tell(7, ASK(place->more, RSHIFT));
    tell(8, ASK(place->inner.center.y, OFFSET));
    tell(9, ASK(place->number, SIZE));
    tell(10, ASK(place->turned, SIGNED));
    tell(11, ASK(place->number, SIGNED));
#ifndef OTHER
    struct place___short *form = (void *)place;
    struct vanished *vanished = (void *)place;
    tell(12, ASK(place->missing, EXISTS));
    tell(13, ASK(place->inner.gone, EXISTS));
    if (ASK(place->missing, EXISTS)) tell(14, ASK(place->missing, OFFSET));
    tell(15, __builtin_preserve_type_info(*(struct unknown *)0, 0));
    tell(16, __builtin_preserve_enum_value(*(enum color *)GREEN, 0));
    tell(17, ASK(form->number, OFFSET));
    tell(18, ASK(form->only_here, EXISTS));
    tell(19, ASK(vanished->a, EXISTS));
#endif
    tell(20, __builtin_preserve_type_info(*(struct place *)0, 1));
    tell(21, __builtin_preserve_type_info(*(handle *)0, 1));
    tell(22, __builtin_preserve_enum_value(*(enum color *)RED, 0));
    tell(23, __builtin_preserve_enum_value(*(enum color *)RED, 1));
    tell(24, __builtin_preserve_enum_value(*(enum color *)BLUE, 1));
    tell(25, ASK(place->points[3], EXISTS));
    tell(26, ASK((&place[2])->number, OFFSET));
    return 0;
}

// Reads that are shorter or longer there.
SEC("raw_tp/reads")
int reads(struct place *place) {
    return place->wide + place->narrow;
}

// A number with a sign is not read in another size.
SEC("raw_tp/turned")
int turned(struct place *place) {
    return place->turned;
}

char LICENSE[] SEC("license") = "GPL";
