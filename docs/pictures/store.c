// The program of the pictures: one thread takes requests, another one sorts what has come in, once a second; for some seconds
// requests are heavier.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECONDS = 16, KEYS = 1 << 17 };
static unsigned keys[KEYS];
static volatile unsigned kept;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void pause_until(double end) {
    double left = end - now();
    struct timespec t = {(time_t)left, (long)((left - (time_t)left) * 1e9)};
    if (left > 0) nanosleep(&t, 0);
}

static unsigned mix(unsigned x) {
    for (int i = 0; i < 40; i++)
        x = x * 1664525u + 1013904223u;
    return x;
}

__attribute__((noinline)) static unsigned checksum(const char *text, size_t length) {
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++)
        sum += mix((unsigned char)text[i] + sum);
    return sum;
}

__attribute__((noinline)) static unsigned parse(char *text) {
    unsigned fields = 0;
    char *place;
    for (char *word = strtok_r(text, " ,=", &place); word; word = strtok_r(0, " ,=", &place))
        fields += strtoul(word, 0, 10);
    return fields;
}

__attribute__((noinline)) static void request(unsigned number, int weight) {
    char text[512] = "";
    int length = 0;
    for (unsigned i = 0; i < 40; i++)
        length += snprintf(text + length, sizeof text - length, "%u=%u, ", i, number * i);
    for (int i = 0; i < weight; i++)
        kept += checksum(text, length);
    kept += parse(text);
}

static int order(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

__attribute__((noinline)) static void compact(void) {
    for (int i = 0; i < KEYS; i++)
        keys[i] = mix(i + kept);
    qsort(keys, KEYS, sizeof *keys, order);
}

static void *compactor(void *start) {
    pthread_setname_np(pthread_self(), "compactor");
    for (int second = 0; second < SECONDS; second++) {
        pause_until(*(double *)start + second + 0.5);
        for (int i = 0; i < 3; i++)
            compact();
    }
    return 0;
}

int main(void) {
    double start = now();
    pthread_t thread;
    pthread_create(&thread, 0, compactor, &start);
    for (unsigned number = 0; now() - start < SECONDS; number++) {
        double since = now() - start;
        request(number, since > 9 && since < 12 ? 4 : 1);
        if (number % 50 == 0) pause_until(now() + 0.004);
    }
    return pthread_join(thread, 0);
}
