/* NVML's device queries and events, over the scenario. */
#include "stub.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct memory { unsigned long long total, free, used; };
struct memory2 { unsigned version; unsigned long long total, reserved, free, used; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct process_info { unsigned pid; unsigned long long used; unsigned gi, ci; };
struct sample { unsigned pid; unsigned long long at; unsigned sm, mem, enc, dec; };
struct event_data { struct handle *device; unsigned long long type, data; unsigned gi, ci; };
struct field { unsigned id, scope; long long at, latency; unsigned kind; int code; union { double d; unsigned u; unsigned long long ull; } value; };
struct set { int used; unsigned long long seq, types; };

static struct set sets[64];
static int initialised;

/* The start of a function that takes a device: `gpu` is its card, or the function has returned. */
#define DEVICE(handle, function)                                                                                      \
    int code_ = enter(function);                                                                                      \
    struct gpu *gpu = code_ ? NULL : gpu_of(handle);                                                                  \
    if (code_) return leave(code_);                                                                                   \
    if (!initialised) return leave(UNINITIALIZED);                                                                    \
    if (!gpu) return leave(handle ? LOST : INVALID);                                                                  \
    if ((code_ = injected(gpu, function))) return leave(code_)

/* As SIMPLE, for what is not supported unless the scenario says it. */
#define SAID(function, type, expression, is_said)                                                                     \
    EXPORT int function(struct handle *device, type *value) {                                                         \
        DEVICE(device, #function);                                                                                    \
        *value = (type)(expression);                                                                                  \
        return leave(is_said ? OK : NOT_SUPPORTED);                                                                   \
    }

#define SIMPLE(function, type, expression)                                                                            \
    EXPORT int function(struct handle *device, type *value) {                                                         \
        DEVICE(device, #function);                                                                                    \
        *value = (type)(expression);                                                                                  \
        return leave(OK);                                                                                             \
    }

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = enter("nvmlInit");
    if (!code)
        initialised++;
    return leave(code);
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    enter("nvmlShutdown");
    if (!initialised)
        return leave(UNINITIALIZED);
    initialised--;
    return leave(OK);
}

EXPORT const char *nvmlErrorString(int code) {
    switch (code) {
        case OK: return "Success";
        case UNINITIALIZED: return "Uninitialized";
        case INVALID: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        case NO_DRIVER: return "Driver Not Loaded";
        case TIMEOUT: return "Timeout";
        case LOST: return "GPU is lost";
        case IN_USE: return "In use by another client";
        case NO_RESOURCES: return "Insufficient Resources";
        default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    int code = enter("nvmlSystemGetDriverVersion");
    return leave(code ? code : copy(version, size, now.driver));
}

EXPORT int nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    int code = enter("nvmlSystemGetNVMLVersion");
    return leave(code ? code : copy(version, size, "12.550.54.15"));
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    int code = enter("nvmlSystemGetCudaDriverVersion_v2");
    *version = 12040;
    return leave(code);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    int code = enter("nvmlDeviceGetCount_v2");
    if (!code && !initialised)
        code = UNINITIALIZED;
    *count = now.gpus;
    return leave(code);
}

static int found(struct gpu *gpu, const char *function, struct handle **device) {
    if (!initialised)
        return UNINITIALIZED;
    if (!gpu)
        return NOT_FOUND;
    *device = handle_of(GPU, gpu->uuid, NONE, NONE);
    return injected(gpu, function);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct handle **device) {
    int code = enter("nvmlDeviceGetHandleByIndex_v2");
    if (!code && index >= now.gpus)
        code = INVALID;
    return leave(code ? code : found(&now.gpu[index], "nvmlDeviceGetHandleByIndex_v2", device));
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct handle **device) {
    int code = enter("nvmlDeviceGetHandleByUUID");
    if (code)
        return leave(code);
    struct instance all[MOST_ROWS];
    int count = strncmp(uuid, "MIG-", 4) ? 0 : geometry_read(all, MOST_ROWS);
    for (int i = 0; i < count; i++) {
        char name[80];
        mig_uuid(name, all[i].uuid, all[i].gi, all[i].ci);
        if (all[i].ci != NONE && !strcmp(name, uuid)) {
            *device = handle_of(MIG_DEVICE, all[i].uuid, all[i].gi, all[i].ci);
            return leave(OK);
        }
    }
    return leave(found(gpu_named(uuid), "nvmlDeviceGetHandleByUUID", device));
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct handle **device) {
    int code = enter("nvmlDeviceGetHandleByPciBusId_v2");
    for (unsigned i = 0; !code && i < now.gpus; i++)
        if (!strcasecmp(now.gpu[i].bus, bus))
            return leave(found(&now.gpu[i], "nvmlDeviceGetHandleByPciBusId_v2", device));
    return leave(code ? code : NOT_FOUND);
}

EXPORT int nvmlDeviceGetUUID(struct handle *device, char *uuid, unsigned size) {
    DEVICE(device, "nvmlDeviceGetUUID");
    if (device->kind != MIG_DEVICE)
        return leave(copy(uuid, size, gpu->uuid));
    char name[80];
    mig_uuid(name, gpu->uuid, device->gi, device->ci);
    return leave(copy(uuid, size, name));
}

EXPORT int nvmlDeviceGetName(struct handle *device, char *name, unsigned size) {
    DEVICE(device, "nvmlDeviceGetName");
    return leave(copy(name, size, gpu->model));
}

static unsigned long long used_mib(const struct gpu *gpu, const struct handle *device) {
    unsigned long long used = 0;
    for (unsigned i = 0; i < gpu->processes; i++)
        if (device->kind == GPU || gpu->process[i].gi == device->gi)
            used += gpu->process[i].used_mib;
    return used;
}

EXPORT int nvmlDeviceGetMemoryInfo(struct handle *device, struct memory *memory) {
    DEVICE(device, "nvmlDeviceGetMemoryInfo");
    memory->total = gpu->memory_mib * MIB;
    memory->used = used_mib(gpu, device) * MIB;
    memory->free = memory->total - memory->used;
    return leave(OK);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(struct handle *device, struct memory2 *memory) {
    DEVICE(device, "nvmlDeviceGetMemoryInfo_v2");
    memory->total = gpu->memory_mib * MIB;
    memory->reserved = 0;
    memory->used = used_mib(gpu, device) * MIB;
    memory->free = memory->total - memory->used;
    return leave(OK);
}

EXPORT int nvmlDeviceGetPciInfo_v3(struct handle *device, struct pci *pci) {
    DEVICE(device, "nvmlDeviceGetPciInfo_v3");
    memset(pci, 0, sizeof *pci);
    sscanf(gpu->bus, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->legacy, sizeof pci->legacy, "%04x:%02x:%02x.0", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
    return leave(copy(pci->bus_id, sizeof pci->bus_id, gpu->bus));
}

SIMPLE(nvmlDeviceGetIndex, unsigned, gpu - now.gpu)
SIMPLE(nvmlDeviceGetMinorNumber, unsigned, gpu->minor)
SAID(nvmlDeviceGetPowerUsage, unsigned, gpu->power_mw, gpu->power_mw)
SAID(nvmlDeviceGetEnforcedPowerLimit, unsigned, gpu->power_limit_mw, gpu->power_limit_mw)
SAID(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, gpu->slowed, gpu->slowed != NONE)
SIMPLE(nvmlDeviceGetSupportedEventTypes, unsigned long long, 1 | 2 | 8)

EXPORT int nvmlDeviceGetCudaComputeCapability(struct handle *device, int *major, int *minor) {
    DEVICE(device, "nvmlDeviceGetCudaComputeCapability");
    *major = 8;
    *minor = 0;
    return leave(OK);
}

EXPORT int nvmlDeviceGetMemoryAffinity(struct handle *device, unsigned size, unsigned long *nodes, unsigned scope) {
    DEVICE(device, "nvmlDeviceGetMemoryAffinity");
    (void)scope;
    if (gpu->numa < 0)
        return leave(NOT_SUPPORTED);
    memset(nodes, 0, size * sizeof *nodes);
    nodes[gpu->numa / 64] = 1ul << (gpu->numa % 64);
    return leave(OK);
}

EXPORT int nvmlDeviceGetTemperature(struct handle *device, unsigned sensor, unsigned *celsius) {
    DEVICE(device, "nvmlDeviceGetTemperature");
    *celsius = gpu->temperature;
    return leave(sensor ? INVALID : *celsius ? OK : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetTemperatureThreshold(struct handle *device, unsigned kind, unsigned *celsius) {
    DEVICE(device, "nvmlDeviceGetTemperatureThreshold");
    *celsius = kind == 0 ? gpu->shutdown : gpu->slowdown;
    return leave(kind > 1 || !*celsius ? NOT_SUPPORTED : OK);
}

EXPORT int nvmlDeviceGetEccMode(struct handle *device, unsigned *current, unsigned *pending) {
    DEVICE(device, "nvmlDeviceGetEccMode");
    *current = *pending = gpu->ecc > 0;
    return leave(gpu->ecc < 0 ? NOT_SUPPORTED : OK);
}

EXPORT int nvmlDeviceGetTotalEccErrors(struct handle *device, unsigned kind, unsigned counter, unsigned long long *count) {
    DEVICE(device, "nvmlDeviceGetTotalEccErrors");
    (void)counter;
    *count = kind ? gpu->uncorrected : gpu->corrected;
    return leave(gpu->ecc < 1 ? NOT_SUPPORTED : OK);
}

EXPORT int nvmlDeviceGetUtilizationRates(struct handle *device, unsigned *rates) {
    DEVICE(device, "nvmlDeviceGetUtilizationRates");
    rates[0] = gpu->busy;
    rates[1] = gpu->busy_memory;
    return leave(mode_of(gpu) ? NOT_SUPPORTED : OK);
}

EXPORT int nvmlDeviceGetFieldValues(struct handle *device, int count, struct field *fields) {
    DEVICE(device, "nvmlDeviceGetFieldValues");
    for (int i = 0; i < count; i++) {
        fields[i].code = fields[i].id == 230 ? injected(gpu, "recovery") : NOT_SUPPORTED; /* GPU_RECOVERY_ACTION */
        fields[i].kind = 1;
        fields[i].value.ull = 0;
        fields[i].value.u = gpu->recovery;
    }
    return leave(OK);
}

static int processes(struct gpu *gpu, const struct handle *device, unsigned *room, struct process_info *into) {
    unsigned count = 0;
    for (unsigned i = 0; i < gpu->processes; i++) {
        const struct process *p = &gpu->process[i];
        if (device->kind == MIG_DEVICE && (p->gi != device->gi || p->ci != device->ci))
            continue;
        if (into && count < *room)
            into[count] = (struct process_info){p->pid, p->used_mib * MIB, p->gi, p->ci};
        count++;
    }
    int code = count > *room || (!into && count) ? SMALL : OK;
    *room = count;
    return code;
}

#define PROCESSES(function)                                                                                           \
    EXPORT int function(struct handle *device, unsigned *count, struct process_info *into) {                          \
        DEVICE(device, #function);                                                                                    \
        return leave(processes(gpu, device, count, into));                                                            \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)

static int nobody(struct handle *device, unsigned *count, const char *function) {
    DEVICE(device, function);
    *count = 0;
    return leave(OK);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(struct handle *device, unsigned *count, struct process_info *into) {
    (void)into;
    return nobody(device, count, "nvmlDeviceGetGraphicsRunningProcesses_v3");
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct handle *device, unsigned *count, struct process_info *into) {
    (void)into;
    return nobody(device, count, "nvmlDeviceGetMPSComputeRunningProcesses_v3");
}

EXPORT int nvmlDeviceGetProcessUtilization(struct handle *device, struct sample *into, unsigned *count, unsigned long long since) {
    DEVICE(device, "nvmlDeviceGetProcessUtilization");
    unsigned room = into ? *count : 0;
    (void)since;
    *count = gpu->processes;
    if (!gpu->processes)
        return leave(NOT_FOUND);
    if (room < gpu->processes)
        return leave(SMALL);
    for (unsigned i = 0; i < gpu->processes; i++)
        into[i] = (struct sample){gpu->process[i].pid, since + 1, gpu->process[i].sm, gpu->process[i].mem, 0, 0};
    return leave(OK);
}

static const struct link *link_between(const struct gpu *one, const struct gpu *other) {
    for (unsigned i = 0; i < one->links; i++)
        if (!strcmp(one->link[i].peer, other->uuid))
            return &one->link[i];
    return NULL;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(struct handle *device, struct handle *other, unsigned *level) {
    DEVICE(device, "nvmlDeviceGetTopologyCommonAncestor");
    struct gpu *second = gpu_of(other);
    const struct link *link = second ? link_between(gpu, second) : NULL;
    *level = gpu == second ? 0 : link && link->level ? link->level : 50;
    return leave(second ? OK : INVALID);
}

EXPORT int nvmlDeviceGetP2PStatus(struct handle *device, struct handle *other, unsigned capability, unsigned *status) {
    DEVICE(device, "nvmlDeviceGetP2PStatus");
    struct gpu *second = gpu_of(other);
    const struct link *link = second ? link_between(gpu, second) : NULL;
    *status = link && (capability != 2 || link->nvlinks) ? 0 : 5; /* 2: by NVLink; 5: not supported */
    return leave(second ? OK : INVALID);
}

/* The card at the other end of link number n: links are numbered in the order of the `link` lines. */
static const char *other_end(const struct gpu *gpu, unsigned number) {
    for (unsigned i = 0; i < gpu->links; i++) {
        if (number < gpu->link[i].nvlinks)
            return gpu->link[i].peer;
        number -= gpu->link[i].nvlinks;
    }
    return NULL;
}

EXPORT int nvmlDeviceGetNvLinkState(struct handle *device, unsigned link, unsigned *active) {
    DEVICE(device, "nvmlDeviceGetNvLinkState");
    *active = other_end(gpu, link) != NULL;
    return leave(link >= 18 ? INVALID : gpu->links ? OK : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct handle *device, unsigned link, struct pci *pci) {
    DEVICE(device, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    const char *peer = other_end(gpu, link);
    struct gpu *second = peer ? gpu_named(peer) : NULL;
    memset(pci, 0, sizeof *pci);
    return leave(second ? copy(pci->bus_id, sizeof pci->bus_id, second->bus) : INVALID);
}

static unsigned long long newest(void) {
    unsigned long long seq = 0;
    for (unsigned i = 0; i < now.gpus; i++)
        for (unsigned j = 0; j < now.gpu[i].events; j++)
            if (now.gpu[i].event[j].seq > seq)
                seq = now.gpu[i].event[j].seq;
    return seq;
}

EXPORT int nvmlEventSetCreate(struct set **made) {
    int code = enter("nvmlEventSetCreate");
    for (int i = 0; !code && i < 64; i++)
        if (!sets[i].used) {
            sets[i] = (struct set){1, newest(), 0};
            *made = &sets[i];
            return leave(OK);
        }
    return leave(code ? code : NO_RESOURCES);
}

// Not NVML's: an inventory that a test has dropped gives its set back.
EXPORT void stubForgetEventSets(void) { memset(sets, 0, sizeof sets); }

EXPORT int nvmlEventSetFree(struct set *set) {
    enter("nvmlEventSetFree");
    set->used = 0;
    return leave(OK);
}

EXPORT int nvmlDeviceRegisterEvents(struct handle *device, unsigned long long types, struct set *set) {
    DEVICE(device, "nvmlDeviceRegisterEvents");
    set->types |= types;
    return leave(OK);
}

/* The oldest event after the last one that this set was given. */
static int next_event(struct set *set, struct event_data *data) {
    const struct event *best = NULL;
    for (unsigned i = 0; i < now.gpus; i++)
        for (unsigned j = 0; j < now.gpu[i].events; j++) {
            const struct event *e = &now.gpu[i].event[j];
            if (e->seq <= set->seq || !(e->type & set->types) || (best && e->seq >= best->seq))
                continue;
            best = e;
            *data = (struct event_data){handle_of(GPU, now.gpu[i].uuid, NONE, NONE), e->type, e->data, e->gi, e->ci};
        }
    if (best)
        set->seq = best->seq;
    return best != NULL;
}

EXPORT int nvmlEventSetWait_v2(struct set *set, struct event_data *data, unsigned timeout_ms) {
    for (unsigned waited = 0;; waited += 20) {
        int code = enter("nvmlEventSetWait_v2");
        if (code || next_event(set, data))
            return leave(code);
        leave(OK);
        if (waited >= timeout_ms)
            return TIMEOUT;
        usleep(20000);
    }
}
