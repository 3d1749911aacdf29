/* A made-up libnvidia-ml.so.1: what a scenario file says, through the functions of NVML that the agent calls.
 *
 * Layouts and numbers are NVML's ABI (NVML API reference, and the package nvidia-ml-py that declares them for Python).
 * The format of the scenario file is in __init__.py. */
#ifndef STUB_H
#define STUB_H

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST_GPUS 16
#define MOST_PROFILES 8
#define MOST_PLACES 16
#define MOST_ROWS 64
#define NONE 0xFFFFFFFFu
#define MIB (1ull << 20)

enum {
    OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, NO_DRIVER = 9, TIMEOUT = 10,
    LOST = 15, IN_USE = 19, NO_RESOURCES = 23
};
enum { GPU = 1, GPU_INSTANCE, COMPUTE_INSTANCE, MIG_DEVICE };

struct profile {
    unsigned slices, memory_mib, sms, instances, size, places, starts[MOST_PLACES];
    char name[64];
};
struct process { unsigned pid, gi, ci, sm, mem; unsigned long long used_mib; };
struct event { unsigned long long seq, type, data; unsigned gi, ci; };
struct link { char peer[80]; unsigned nvlinks, level; };
struct error { char function[64]; int code; };
struct gpu {
    char uuid[80], model[96], bus[32];
    int numa, mig, ecc;
    unsigned minor, temperature, slowdown, shutdown, recovery, power_mw, power_limit_mw, slowed, busy, busy_memory;
    unsigned long long memory_mib, corrected, uncorrected;
    unsigned profiles, processes, events, links, errors;
    struct profile profile[MOST_PROFILES];
    struct process process[MOST_ROWS];
    struct event event[MOST_ROWS];
    struct link link[MOST_GPUS];
    struct error error[MOST_ROWS];
};
struct scenario {
    char driver[64];
    unsigned gpus, errors;
    struct gpu gpu[MOST_GPUS];
    struct error error[MOST_ROWS];
};
/* A thing a caller holds. The address is the handle, and stays valid as long as the process lives. */
struct handle { int kind; unsigned gi, ci; char uuid[80]; };
/* A GPU instance that exists; ci: its compute instance, NONE while there is none. */
struct instance { char uuid[80]; unsigned gi, profile, start, size, ci; };

extern struct scenario now;

int enter(const char *function);             /* locks, rereads; injected error or OK. Always followed by leave(). */
int leave(int code);                         /* unlocks; returns code */
int injected(const struct gpu *gpu, const char *function);
struct gpu *gpu_of(const struct handle *handle);
struct gpu *gpu_named(const char *uuid);
struct handle *handle_of(int kind, const char *uuid, unsigned gi, unsigned ci);
int copy(char *into, unsigned size, const char *text);

/* The geometry outlives processes, in <scenario>.mig, as instances outlive those that made them. */
int geometry_read(struct instance *found, int most);
int geometry_write(const struct instance *all, int count);
int mode_of(const struct gpu *gpu);
int mode_set(const struct gpu *gpu, int mode);
void mig_uuid(char *into, const char *uuid, unsigned gi, unsigned ci);

#endif
