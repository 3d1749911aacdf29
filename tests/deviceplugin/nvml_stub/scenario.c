/* Reads the scenario, keeps the handles, and keeps MIG geometry in a file beside it. */
#include "stub.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct scenario now;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct handle handles[4096];
static unsigned handle_count;
static struct stat seen;
static char seen_path[512];

static const char *path(void) {
    const char *found = getenv("NVML_STUB_SCENARIO");
    return found ? found : "";
}

static void profile_read(struct gpu *gpu, char *rest) {
    if (gpu->profiles == MOST_PROFILES)
        return;
    struct profile *p = &gpu->profile[gpu->profiles];
    char starts[128] = "";
    if (sscanf(rest, "%u %63s %u %u %u %u %127s", &p->slices, p->name, &p->memory_mib, &p->sms, &p->instances, &p->size, starts) != 7)
        return;
    p->places = 0;
    for (char *save, *word = strtok_r(starts, ",", &save); word && p->places < MOST_PLACES; word = strtok_r(NULL, ",", &save))
        p->starts[p->places++] = (unsigned)atoi(word);
    gpu->profiles++;
}

static void process_read(struct gpu *gpu, const char *rest) {
    struct process p = {.gi = NONE, .ci = NONE};
    long gi = -1, ci = -1;
    if (sscanf(rest, "%u %llu %u %u %ld %ld", &p.pid, &p.used_mib, &p.sm, &p.mem, &gi, &ci) >= 2 && gpu->processes < MOST_ROWS) {
        p.gi = (unsigned)gi;
        p.ci = (unsigned)ci;
        gpu->process[gpu->processes++] = p;
    }
}

static void event_read(struct gpu *gpu, const char *rest) {
    struct event e = {0};
    long gi = -1, ci = -1;
    if (sscanf(rest, "%llu %llu %llu %ld %ld", &e.seq, &e.type, &e.data, &gi, &ci) >= 3 && gpu->events < MOST_ROWS) {
        e.gi = (unsigned)gi;
        e.ci = (unsigned)ci;
        gpu->event[gpu->events++] = e;
    }
}

static void error_read(struct error *list, unsigned *count, const char *rest) {
    if (*count < MOST_ROWS && sscanf(rest, "%63s %d", list[*count].function, &list[*count].code) == 2)
        (*count)++;
}

static void fact_read(struct gpu *gpu, const char *word, char *rest) {
    if (!strcmp(word, "model")) copy(gpu->model, sizeof gpu->model, rest);
    else if (!strcmp(word, "bus")) copy(gpu->bus, sizeof gpu->bus, rest);
    else if (!strcmp(word, "memory_mib")) gpu->memory_mib = strtoull(rest, NULL, 10);
    else if (!strcmp(word, "minor")) gpu->minor = (unsigned)atoi(rest);
    else if (!strcmp(word, "numa")) gpu->numa = atoi(rest);
    else if (!strcmp(word, "mig")) gpu->mig = atoi(rest);
    else if (!strcmp(word, "temperature")) sscanf(rest, "%u %u %u", &gpu->temperature, &gpu->slowdown, &gpu->shutdown);
    else if (!strcmp(word, "ecc")) sscanf(rest, "%d %llu %llu", &gpu->ecc, &gpu->corrected, &gpu->uncorrected);
    else if (!strcmp(word, "recovery")) gpu->recovery = (unsigned)atoi(rest);
    else if (!strcmp(word, "power_mw")) sscanf(rest, "%u %u", &gpu->power_mw, &gpu->power_limit_mw);
    else if (!strcmp(word, "slowed")) gpu->slowed = (unsigned)strtoul(rest, NULL, 0);
    else if (!strcmp(word, "utilization")) sscanf(rest, "%u %u", &gpu->busy, &gpu->busy_memory);
    else if (!strcmp(word, "link") && gpu->links < MOST_GPUS) {
        struct link *l = &gpu->link[gpu->links++];
        sscanf(rest, "%79s %u %u", l->peer, &l->nvlinks, &l->level);
    }
    else if (!strcmp(word, "mig_profile")) profile_read(gpu, rest);
    else if (!strcmp(word, "process")) process_read(gpu, rest);
    else if (!strcmp(word, "event")) event_read(gpu, rest);
    else if (!strcmp(word, "error")) error_read(gpu->error, &gpu->errors, rest);
}

static void line_read(char *line) {
    char *word = strtok(line, " \t\n"), *rest = strtok(NULL, "\n");
    if (!word || *word == '#')
        return;
    if (!rest)
        rest = "";
    rest += strspn(rest, " \t");
    if (!strcmp(word, "gpu") && now.gpus < MOST_GPUS) {
        struct gpu *gpu = &now.gpu[now.gpus++];
        copy(gpu->uuid, sizeof gpu->uuid, rest);
        gpu->numa = -1;
        gpu->ecc = -1;
        gpu->slowed = NONE;
    } else if (now.gpus)
        fact_read(&now.gpu[now.gpus - 1], word, rest);
    else if (!strcmp(word, "driver"))
        copy(now.driver, sizeof now.driver, rest);
    else if (!strcmp(word, "error"))
        error_read(now.error, &now.errors, rest);
}

/* 0 without a scenario: as if the driver were not loaded. */
static int reread(void) {
    struct stat is;
    if (stat(path(), &is))
        return 0;
    if (!strcmp(path(), seen_path) && is.st_ino == seen.st_ino && is.st_size == seen.st_size && !memcmp(&is.st_mtim, &seen.st_mtim, sizeof is.st_mtim))
        return 1;
    FILE *file = fopen(path(), "re");
    if (!file)
        return 0;
    memset(&now, 0, sizeof now);
    char line[512];
    while (fgets(line, sizeof line, file))
        line_read(line);
    fclose(file);
    seen = is;
    copy(seen_path, sizeof seen_path, path());
    return 1;
}

int enter(const char *function) {
    pthread_mutex_lock(&turn);
    if (!reread())
        return NO_DRIVER;
    for (unsigned i = 0; i < now.errors; i++)
        if (!strcmp(now.error[i].function, function))
            return now.error[i].code;
    return OK;
}

int leave(int code) {
    pthread_mutex_unlock(&turn);
    return code;
}

int injected(const struct gpu *gpu, const char *function) {
    for (unsigned i = 0; i < gpu->errors; i++)
        if (!strcmp(gpu->error[i].function, function) || !strcmp(gpu->error[i].function, "*"))
            return gpu->error[i].code;
    return OK;
}

struct gpu *gpu_named(const char *uuid) {
    for (unsigned i = 0; i < now.gpus; i++)
        if (!strcmp(now.gpu[i].uuid, uuid))
            return &now.gpu[i];
    return NULL;
}

struct gpu *gpu_of(const struct handle *handle) {
    if (handle < handles || handle >= handles + handle_count)
        return NULL;
    return gpu_named(handle->uuid);
}

struct handle *handle_of(int kind, const char *uuid, unsigned gi, unsigned ci) {
    for (unsigned i = 0; i < handle_count; i++) {
        struct handle *h = &handles[i];
        if (h->kind == kind && h->gi == gi && h->ci == ci && !strcmp(h->uuid, uuid))
            return h;
    }
    if (handle_count == sizeof handles / sizeof *handles)
        abort();
    struct handle *h = &handles[handle_count++];
    h->kind = kind;
    h->gi = gi;
    h->ci = ci;
    copy(h->uuid, sizeof h->uuid, uuid);
    return h;
}

int copy(char *into, unsigned size, const char *text) {
    size_t length = strlen(text);
    if (length >= size)
        return SMALL;
    memcpy(into, text, length + 1);
    return OK;
}

static FILE *geometry(const char *how) {
    char name[600];
    snprintf(name, sizeof name, "%s.mig", path());
    return fopen(name, how);
}

static char modes[MOST_GPUS][96]; /* "<uuid> <0|1>" as read last */
static int mode_count;

int geometry_read(struct instance *found, int most) {
    FILE *file = geometry("re");
    int count = 0;
    mode_count = 0;
    if (!file)
        return 0;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        struct instance *i = &found[count];
        if (!strncmp(line, "mode ", 5) && mode_count < MOST_GPUS) {
            line[strcspn(line, "\n")] = 0;
            copy(modes[mode_count++], sizeof modes[0], line + 5);
        } else if (count < most && sscanf(line, "instance %79s %u %u %u %u %u", i->uuid, &i->gi, &i->profile, &i->start, &i->size, &i->ci) == 6)
            count++;
    }
    fclose(file);
    return count;
}

int geometry_write(const struct instance *all, int count) {
    FILE *file = geometry("we");
    if (!file)
        return 999;
    for (int i = 0; i < mode_count; i++)
        fprintf(file, "mode %s\n", modes[i]);
    for (int i = 0; i < count; i++)
        fprintf(file, "instance %s %u %u %u %u %u\n", all[i].uuid, all[i].gi, all[i].profile, all[i].start, all[i].size, all[i].ci);
    return fclose(file) ? 999 : OK;
}

int mode_of(const struct gpu *gpu) {
    struct instance none[MOST_ROWS];
    geometry_read(none, MOST_ROWS);
    for (int i = mode_count - 1; i >= 0; i--)
        if (!strncmp(modes[i], gpu->uuid, strlen(gpu->uuid)))
            return modes[i][strlen(gpu->uuid) + 1] == '1';
    return gpu->mig;
}

int mode_set(const struct gpu *gpu, int mode) {
    struct instance all[MOST_ROWS];
    int count = geometry_read(all, MOST_ROWS), kept = 0;
    for (int i = 0; i < count; i++)
        if (strcmp(all[i].uuid, gpu->uuid))
            all[kept++] = all[i];
    if (mode_count == MOST_GPUS)
        mode_count = 0;
    snprintf(modes[mode_count++], sizeof modes[0], "%s %d", gpu->uuid, mode);
    return geometry_write(all, kept);
}

void mig_uuid(char *into, const char *uuid, unsigned gi, unsigned ci) {
    unsigned long long sum = 1469598103934665603ull + gi * 31 + ci;
    for (const char *c = uuid; *c; c++)
        sum = (sum ^ (unsigned char)*c) * 1099511628211ull;
    sprintf(into, "MIG-%08llx-%04x-5%03x-8000-%012llx", sum & 0xffffffff, gi & 0xffff, ci & 0xfff, (sum >> 16) & 0xffffffffffffull);
}
