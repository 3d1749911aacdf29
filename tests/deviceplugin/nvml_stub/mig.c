/* NVML's multi-instance calls: profiles from the scenario, geometry in the file beside it. */
#include "stub.h"

#include <string.h>

struct placement { unsigned start, size; };
struct gi_profile { unsigned id, p2p, slices, instances, sms, copy, decoders, encoders, jpeg, ofa; unsigned long long memory_mib; };
struct gi_profile2 { unsigned version, id, p2p, slices, instances, sms, copy, decoders, encoders, jpeg, ofa; unsigned long long memory_mib; char name[96]; };
struct ci_profile { unsigned id, slices, instances, sms, copy, decoders, encoders, jpeg, ofa; };
struct ci_profile2 { unsigned version, id, slices, instances, sms, copy, decoders, encoders, jpeg, ofa; char name[96]; };
struct gi_info { struct handle *device; unsigned id, profile; struct placement placement; };
struct ci_info { struct handle *device, *gi; unsigned id, profile; struct placement placement; };
struct attributes { unsigned sms, copy, decoders, encoders, jpeg, ofa, gi_slices, ci_slices; unsigned long long memory_mib; };

/* Profile number (NVML_GPU_INSTANCE_PROFILE_<n>_SLICE) to slices. */
static const unsigned SLICES[] = {1, 2, 3, 4, 7, 8, 6};

#define CARD(handle, function)                                                                                        \
    int code_ = enter(function);                                                                                      \
    struct gpu *gpu = code_ ? NULL : gpu_of(handle);                                                                  \
    if (code_) return leave(code_);                                                                                   \
    if (!gpu) return leave(LOST);                                                                                     \
    if ((code_ = injected(gpu, function))) return leave(code_)

static const struct profile *by_slices(const struct gpu *gpu, unsigned slices) {
    for (unsigned i = 0; i < gpu->profiles; i++)
        if (gpu->profile[i].slices == slices)
            return &gpu->profile[i];
    return NULL;
}

/* Ids that the driver gives are its own, not the profile's number; here: slices + 40. */
static const struct profile *by_id(const struct gpu *gpu, unsigned id) { return by_slices(gpu, id - 40); }

static const struct profile *by_number(const struct gpu *gpu, unsigned number) {
    return number < sizeof SLICES / sizeof *SLICES ? by_slices(gpu, SLICES[number]) : NULL;
}

EXPORT int nvmlDeviceGetMigMode(struct handle *device, unsigned *current, unsigned *pending) {
    CARD(device, "nvmlDeviceGetMigMode");
    *current = *pending = (unsigned)mode_of(gpu);
    return leave(gpu->profiles ? OK : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceSetMigMode(struct handle *device, unsigned mode, int *activation) {
    CARD(device, "nvmlDeviceSetMigMode");
    *activation = gpu->processes ? IN_USE : OK;
    return leave(!gpu->profiles ? NOT_SUPPORTED : gpu->processes ? IN_USE : mode_set(gpu, (int)mode));
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct handle *device, unsigned *count) {
    CARD(device, "nvmlDeviceGetMaxMigDeviceCount");
    *count = gpu->profiles ? 7 : 0;
    return leave(OK);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(struct handle *device, unsigned number, struct gi_profile *info) {
    CARD(device, "nvmlDeviceGetGpuInstanceProfileInfo");
    const struct profile *p = by_number(gpu, number);
    if (!p)
        return leave(NOT_SUPPORTED);
    *info = (struct gi_profile){.id = p->slices + 40, .slices = p->slices, .instances = p->instances, .sms = p->sms, .memory_mib = p->memory_mib};
    return leave(OK);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(struct handle *device, unsigned number, struct gi_profile2 *info) {
    CARD(device, "nvmlDeviceGetGpuInstanceProfileInfoV");
    const struct profile *p = by_number(gpu, number);
    if (!p || info->version != (sizeof *info | 2u << 24))
        return leave(p ? 25 : NOT_SUPPORTED);
    *info = (struct gi_profile2){.version = info->version, .id = p->slices + 40, .slices = p->slices, .instances = p->instances, .sms = p->sms, .memory_mib = p->memory_mib};
    copy(info->name, sizeof info->name, "MIG ");
    return leave(copy(info->name + 4, sizeof info->name - 4, p->name));
}

EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(struct handle *device, unsigned id, struct placement *into, unsigned *count) {
    CARD(device, "nvmlDeviceGetGpuInstancePossiblePlacements_v2");
    const struct profile *p = by_id(gpu, id);
    if (!p)
        return leave(NOT_SUPPORTED);
    for (unsigned i = 0; into && i < p->places && i < *count; i++)
        into[i] = (struct placement){p->starts[i], p->size};
    *count = p->places;
    return leave(OK);
}

static int offers(const struct profile *p, const struct placement *place) {
    for (unsigned i = 0; i < p->places; i++)
        if (p->starts[i] == place->start && p->size == place->size)
            return 1;
    return 0;
}

EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(struct handle *device, unsigned id, const struct placement *place, struct handle **made) {
    CARD(device, "nvmlDeviceCreateGpuInstanceWithPlacement");
    struct instance all[MOST_ROWS];
    int count = geometry_read(all, MOST_ROWS - 1);
    const struct profile *p = by_id(gpu, id);
    if (!p || !offers(p, place) || !mode_of(gpu))
        return leave(p && mode_of(gpu) ? INVALID : NOT_SUPPORTED);
    unsigned gi = 1, same = 0, taken = 1;
    for (int i = 0; i < count; i++) {
        if (strcmp(all[i].uuid, gpu->uuid))
            continue;
        if (all[i].start < place->start + place->size && place->start < all[i].start + all[i].size)
            return leave(NO_RESOURCES);
        same += all[i].profile == id;
    }
    if (same >= p->instances)
        return leave(NO_RESOURCES);
    while (taken) {
        taken = 0;
        for (int i = 0; i < count; i++)
            taken |= !strcmp(all[i].uuid, gpu->uuid) && all[i].gi == gi;
        gi += taken;
    }
    all[count] = (struct instance){.gi = gi, .profile = id, .start = place->start, .size = place->size, .ci = NONE};
    copy(all[count].uuid, sizeof all[count].uuid, gpu->uuid);
    *made = handle_of(GPU_INSTANCE, gpu->uuid, gi, NONE);
    return leave(geometry_write(all, count + 1));
}

EXPORT int nvmlDeviceGetGpuInstances(struct handle *device, unsigned id, struct handle **into, unsigned *count) {
    CARD(device, "nvmlDeviceGetGpuInstances");
    struct instance all[MOST_ROWS];
    int there = geometry_read(all, MOST_ROWS);
    *count = 0;
    for (int i = 0; i < there; i++)
        if (!strcmp(all[i].uuid, gpu->uuid) && all[i].profile == id)
            into[(*count)++] = handle_of(GPU_INSTANCE, gpu->uuid, all[i].gi, NONE);
    return leave(by_id(gpu, id) ? OK : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetGpuInstanceById(struct handle *device, unsigned id, struct handle **found) {
    CARD(device, "nvmlDeviceGetGpuInstanceById");
    struct instance all[MOST_ROWS];
    int there = geometry_read(all, MOST_ROWS);
    for (int i = 0; i < there; i++)
        if (!strcmp(all[i].uuid, gpu->uuid) && all[i].gi == id) {
            *found = handle_of(GPU_INSTANCE, gpu->uuid, id, NONE);
            return leave(OK);
        }
    return leave(NOT_FOUND);
}

static struct instance *find(struct instance *all, int count, const struct handle *handle) {
    for (int i = 0; i < count; i++)
        if (!strcmp(all[i].uuid, handle->uuid) && all[i].gi == handle->gi)
            return &all[i];
    return NULL;
}

/* The start of a function that takes an instance: `it` is its row among `count` rows `all`. */
#define INSTANCE(handle, function)                                                                                    \
    CARD(handle, function);                                                                                           \
    struct instance all[MOST_ROWS];                                                                                   \
    int count_ = geometry_read(all, MOST_ROWS);                                                                       \
    struct instance *it = find(all, count_, handle);                                                                  \
    if (!it) return leave(NOT_FOUND)

EXPORT int nvmlGpuInstanceGetInfo(struct handle *instance, struct gi_info *info) {
    INSTANCE(instance, "nvmlGpuInstanceGetInfo");
    *info = (struct gi_info){handle_of(GPU, gpu->uuid, NONE, NONE), it->gi, it->profile, {it->start, it->size}};
    return leave(OK);
}

EXPORT int nvmlGpuInstanceDestroy(struct handle *instance) {
    INSTANCE(instance, "nvmlGpuInstanceDestroy");
    if (it->ci != NONE)
        return leave(IN_USE);
    *it = all[count_ - 1];
    return leave(geometry_write(all, count_ - 1));
}

static unsigned slices_of(const struct instance *it) { return it->profile - 40; }

static int whole(const struct instance *it, unsigned number, unsigned *slices) {
    *slices = number < sizeof SLICES / sizeof *SLICES ? SLICES[number] : 0;
    return *slices && *slices <= slices_of(it);
}

EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfoV(struct handle *instance, unsigned number, unsigned engine, struct ci_profile2 *info) {
    INSTANCE(instance, "nvmlGpuInstanceGetComputeInstanceProfileInfoV");
    unsigned slices;
    (void)engine;
    if (!whole(it, number, &slices) || info->version != (sizeof *info | 2u << 24))
        return leave(NOT_SUPPORTED);
    *info = (struct ci_profile2){.version = info->version, .id = slices, .slices = slices, .instances = slices_of(it) / slices};
    return leave(OK);
}

EXPORT int nvmlGpuInstanceGetComputeInstances(struct handle *instance, unsigned id, struct handle **into, unsigned *count) {
    INSTANCE(instance, "nvmlGpuInstanceGetComputeInstances");
    *count = it->ci != NONE && id == slices_of(it);
    if (*count)
        into[0] = handle_of(COMPUTE_INSTANCE, gpu->uuid, it->gi, it->ci);
    return leave(OK);
}

EXPORT int nvmlGpuInstanceCreateComputeInstance(struct handle *instance, unsigned id, struct handle **made) {
    INSTANCE(instance, "nvmlGpuInstanceCreateComputeInstance");
    if (it->ci != NONE || id != slices_of(it))
        return leave(it->ci != NONE ? NO_RESOURCES : NOT_SUPPORTED);
    it->ci = 0;
    *made = handle_of(COMPUTE_INSTANCE, gpu->uuid, it->gi, 0);
    return leave(geometry_write(all, count_));
}

EXPORT int nvmlComputeInstanceGetInfo_v2(struct handle *compute, struct ci_info *info) {
    INSTANCE(compute, "nvmlComputeInstanceGetInfo_v2");
    *info = (struct ci_info){handle_of(GPU, gpu->uuid, NONE, NONE), handle_of(GPU_INSTANCE, gpu->uuid, it->gi, NONE), it->ci, slices_of(it), {0, slices_of(it)}};
    return leave(it->ci == NONE ? NOT_FOUND : OK);
}

EXPORT int nvmlComputeInstanceDestroy(struct handle *compute) {
    INSTANCE(compute, "nvmlComputeInstanceDestroy");
    for (unsigned i = 0; i < gpu->processes; i++)
        if (gpu->process[i].gi == it->gi)
            return leave(IN_USE);
    it->ci = NONE;
    return leave(geometry_write(all, count_));
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct handle *device, unsigned index, struct handle **found) {
    CARD(device, "nvmlDeviceGetMigDeviceHandleByIndex");
    struct instance all[MOST_ROWS];
    int count = geometry_read(all, MOST_ROWS);
    for (int i = 0; i < count; i++)
        if (!strcmp(all[i].uuid, gpu->uuid) && all[i].ci != NONE && all[i].gi == index + 1) { /* so there are holes */
            *found = handle_of(MIG_DEVICE, gpu->uuid, all[i].gi, all[i].ci);
            return leave(OK);
        }
    return leave(index < 7 ? NOT_FOUND : INVALID);
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct handle *device, struct handle **parent) {
    CARD(device, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    *parent = handle_of(GPU, gpu->uuid, NONE, NONE);
    return leave(OK);
}

EXPORT int nvmlDeviceIsMigDeviceHandle(struct handle *device, unsigned *is) {
    CARD(device, "nvmlDeviceIsMigDeviceHandle");
    *is = device->kind == MIG_DEVICE;
    return leave(OK);
}

EXPORT int nvmlDeviceGetGpuInstanceId(struct handle *device, unsigned *id) {
    CARD(device, "nvmlDeviceGetGpuInstanceId");
    *id = device->gi;
    return leave(device->kind == MIG_DEVICE ? OK : INVALID);
}

EXPORT int nvmlDeviceGetComputeInstanceId(struct handle *device, unsigned *id) {
    CARD(device, "nvmlDeviceGetComputeInstanceId");
    *id = device->ci;
    return leave(device->kind == MIG_DEVICE ? OK : INVALID);
}

EXPORT int nvmlDeviceGetAttributes_v2(struct handle *device, struct attributes *into) {
    INSTANCE(device, "nvmlDeviceGetAttributes_v2");
    const struct profile *p = by_id(gpu, it->profile);
    *into = (struct attributes){.sms = p ? p->sms : 0, .gi_slices = slices_of(it), .ci_slices = slices_of(it), .memory_mib = p ? p->memory_mib : 0};
    return leave(device->kind == MIG_DEVICE ? OK : INVALID);
}
