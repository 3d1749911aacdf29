/* The shared region as a C program has it: our own declarations of its fields, by their types.
 *
 * `player offsets LAYOUT` prints where the compiler puts them; `player churn FILE MILLISECONDS` changes one process's
 * memory under its sequence word as fast as it can, total always being context plus data, and prints how often.
 */
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 16, SLOTS = 1024, NAME = 96 };

struct memory { uint64_t context, module, data, offset, total, unused[3]; };
struct use { uint64_t dec, enc, sm, unused[3]; };
struct slot { int32_t pid, hostpid; struct memory used[DEVICES]; uint64_t monitored[DEVICES]; struct use util[DEVICES];
              int32_t status; _Atomic uint64_t seqlock; uint64_t unused[2]; };
struct v1 { int32_t magic; uint32_t major, minor; int32_t sm_init; uint64_t owner; sem_t sem; uint64_t device_num;
            char uuids[DEVICES][NAME]; uint64_t limit[DEVICES], sm_limit[DEVICES]; struct slot procs[SLOTS];
            int32_t proc_num, utilization_switch, recent_kernel, priority; uint64_t last_kernel_time; sem_t postinit; };

struct slot_t { int32_t pid, hostpid; uint64_t seqlock; struct memory used[DEVICES]; uint64_t monitored[DEVICES];
                struct use util[DEVICES]; int32_t status; uint64_t unused[2]; };
struct transitional { int32_t magic; uint32_t major, minor; int32_t sm_init; uint64_t owner; sem_t sem, postinit;
                      uint64_t device_num; char uuids[DEVICES][NAME]; uint64_t limit[DEVICES], sm_limit[DEVICES];
                      struct slot_t procs[SLOTS]; int32_t proc_num, utilization_switch, recent_kernel, priority;
                      uint64_t last_kernel_time, unused[4]; };

struct memory_0 { uint64_t context, module, data, offset, total; };
struct use_0 { uint64_t dec, enc, sm; };
struct slot_0 { int32_t pid, hostpid; struct memory_0 used[DEVICES]; uint64_t monitored[DEVICES];
                struct use_0 util[DEVICES]; int32_t status; };
struct v0 { int32_t magic, sm_init; uint32_t owner; uint32_t gap; sem_t sem; uint64_t device_num;
            char uuids[DEVICES][NAME]; uint64_t limit[DEVICES], sm_limit[DEVICES]; struct slot_0 procs[SLOTS];
            int32_t proc_num, utilization_switch, recent_kernel, priority; };

#define SAY(name, value) printf("%s %zu\n", name, (size_t)(value))
#define OFFSETS(region, slot, memory, use)                                                                              \
    SAY("size", sizeof(struct region));                                                                                 \
    SAY("device_num", offsetof(struct region, device_num));                                                             \
    SAY("uuids", offsetof(struct region, uuids));                                                                       \
    SAY("limit", offsetof(struct region, limit));                                                                       \
    SAY("sm_limit", offsetof(struct region, sm_limit));                                                                 \
    SAY("procs", offsetof(struct region, procs));                                                                       \
    SAY("stride", sizeof(struct slot));                                                                                 \
    SAY("proc_num", offsetof(struct region, proc_num));                                                                 \
    SAY("utilization_switch", offsetof(struct region, utilization_switch));                                             \
    SAY("recent_kernel", offsetof(struct region, recent_kernel));                                                       \
    SAY("priority", offsetof(struct region, priority));                                                                 \
    SAY("pid", offsetof(struct slot, pid));                                                                             \
    SAY("used", offsetof(struct slot, used));                                                                           \
    SAY("used_stride", sizeof(struct memory));                                                                          \
    SAY("util", offsetof(struct slot, util));                                                                           \
    SAY("util_stride", sizeof(struct use));                                                                             \
    SAY("status", offsetof(struct slot, status))

static int offsets(const char *layout) {
    if (!strcmp(layout, "v0")) {
        OFFSETS(v0, slot_0, memory_0, use_0);
    } else if (!strcmp(layout, "v1")) {
        OFFSETS(v1, slot, memory, use);
        SAY("last_kernel_time", offsetof(struct v1, last_kernel_time));
        SAY("seqlock", offsetof(struct slot, seqlock));
    } else {
        OFFSETS(transitional, slot_t, memory, use);
        SAY("last_kernel_time", offsetof(struct transitional, last_kernel_time));
        SAY("seqlock", offsetof(struct slot_t, seqlock));
    }
    return 0;
}

static double now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e3 + at.tv_nsec / 1e6;
}

static void wait_a_little(int turns) {
    for (volatile int idle = 0; idle < turns; idle++)
        ;
}

static int churn(const char *path, double milliseconds) {
    int file = open(path, O_RDWR);
    struct v1 *region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || region == MAP_FAILED)
        return 1;
    struct slot *mine = &region->procs[0];
    volatile struct memory *used = &mine->used[0];
    uint64_t step = 0;
    for (double end = now_ms() + milliseconds; now_ms() < end;) {
        for (int i = 0; i < 10; i++, step++) {
            atomic_fetch_add(&mine->seqlock, 1);
            used->context = step * 3 % 1000;
            wait_a_little(2000); /* long enough for a reader to come in between */
            used->data = step * 7 % 1000;
            used->total = used->context + used->data;
            atomic_fetch_add(&mine->seqlock, 1);
            wait_a_little(6000); /* a library does something else most of the time */
        }
    }
    printf("%llu\n", (unsigned long long)step);
    return 0;
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "offsets"))
        return offsets(arguments[2]);
    if (count == 4 && !strcmp(arguments[1], "churn"))
        return churn(arguments[2], atof(arguments[3]));
    return 2;
}
