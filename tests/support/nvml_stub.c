/* A stand-in for libnvidia-ml.so.1: the calls that the dashboard makes, answering from a text file.
 *
 * FAKE_NVML_STATE names the file. It is read again at every call, so a test that replaces it moves the numbers. Lines:
 *
 *   fail CALL CODE                  CALL returns CODE (any call: init, count, handle, driver, mem1, mem2, procs, ...)
 *   gpu INDEX KEY VALUE             a GPU exists as soon as a line names it; VALUE runs to the end of the line
 *   gpu INDEX fail CALL CODE        the same for one GPU; CALL "all" means every call with its handle
 *   stale N CODE                    every call about a GPU returns CODE until NVML was started N times (fakeStarts)
 *   proc INDEX LIST PID MIB GI      LIST: compute, graphics, mps. MIB -1: not available. GI: GPU instance, -1 none
 *   mig INDEX SLOT KEY VALUE        a MIG instance exists as soon as a line names it
 *
 * KEY: name, uuid, total, used, reserved (MiB), util, power (mW), temp, cc ("9.0"), migmode (1 on).
 * INDEX of a MIG instance in "gpu ... fail" and "proc" lines is GPU*100 + 100 + SLOT. Our own code: no NVIDIA header.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u64 total, free, used; } mem1_t;
typedef struct { u32 version; u64 total, reserved, free, used; } mem2_t;
typedef struct { u32 pid; u64 used; u32 gi, ci; } proc_t;
typedef struct { u32 gpu, memory; } util_t;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, MISMATCH = 25 };
static int initialized, starts;

static FILE *state(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    return path ? fopen(path, "r") : NULL;
}

/* The text after `prefix` on the first line that starts with it; 1 when found. */
static int find(const char *prefix, char *value, size_t size) {
    char line[512];
    size_t n = strlen(prefix);
    int found = 0;
    FILE *f = state();
    if (!f) return 0;
    while (!found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, prefix, n)) {
            snprintf(value, size, "%s", line + n);
            found = 1;
        }
    }
    fclose(f);
    return found;
}

/* A handle is index+1; of a MIG instance GPU*100 + 100 + slot, plus one. */
static int index_of(void *handle) { return (int)(long)handle - 1; }

static int get(void *handle, const char *key, char *value, size_t size) {
    char prefix[64];
    int i = index_of(handle);
    if (i >= 100)
        snprintf(prefix, sizeof prefix, "mig %d %d %s ", i / 100 - 1, i % 100, key);
    else
        snprintf(prefix, sizeof prefix, "gpu %d %s ", i, key);
    return find(prefix, value, size);
}

static u64 number(void *handle, const char *key, u64 otherwise) {
    char value[64];
    return get(handle, key, value, sizeof value) ? strtoull(value, NULL, 10) : otherwise;
}

static int failure(const char *call) {
    char prefix[64], value[32];
    snprintf(prefix, sizeof prefix, "fail %s ", call);
    return find(prefix, value, sizeof value) ? atoi(value) : OK;
}

static int gpu_failure(void *handle, const char *call) {
    char prefix[64], value[32];
    int wanted, code;
    if (!initialized) return UNINITIALIZED;
    if (find("stale ", value, sizeof value) && sscanf(value, "%d %d", &wanted, &code) == 2 && starts < wanted) return code;
    snprintf(prefix, sizeof prefix, "gpu %d fail all ", index_of(handle));
    if (find(prefix, value, sizeof value)) return atoi(value);
    snprintf(prefix, sizeof prefix, "gpu %d fail %s ", index_of(handle), call);
    if (find(prefix, value, sizeof value)) return atoi(value);
    return failure(call);
}

#define FAIL(call) do { int r = failure(call); if (r) return r; } while (0)
#define GPU_FAIL(handle, call) do { int r = gpu_failure(handle, call); if (r) return r; } while (0)

static int count(const char *kind, int gpu) {
    char line[512], word[16];
    int n = 0, a, b;
    FILE *f = state();
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        if (gpu < 0 && sscanf(line, "%15s %d", word, &a) == 2 && !strcmp(word, kind) && a < 100 && a + 1 > n) n = a + 1;
        if (gpu >= 0 && sscanf(line, "%15s %d %d", word, &a, &b) == 3 && !strcmp(word, kind) && a == gpu && b + 1 > n)
            n = b + 1;
    }
    fclose(f);
    return n;
}

int nvmlInitWithFlags(u32 flags) { (void)flags; FAIL("init"); initialized++; starts++; return OK; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { if (!initialized) return UNINITIALIZED; initialized--; return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in"; }
int fakeInitialized(void) { return initialized; }
int fakeStarts(void) { return starts; }

int nvmlSystemGetDriverVersion(char *b, u32 n) { FAIL("driver"); snprintf(b, n, "570.00.test"); return OK; }
int nvmlDeviceGetCount_v2(u32 *n) {
    if (!initialized) return UNINITIALIZED;
    FAIL("count");
    *n = count("gpu", -1);
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **handle) {
    *handle = (void *)(long)(i + 1);
    if ((int)i >= count("gpu", -1)) return INVALID;
    GPU_FAIL(*handle, "handle");
    return OK;
}

int nvmlDeviceGetName(void *d, char *b, u32 n) {
    GPU_FAIL(d, "name");
    if (!get(d, "name", b, n)) snprintf(b, n, "Test GPU");
    return OK;
}
int nvmlDeviceGetUUID(void *d, char *b, u32 n) {
    GPU_FAIL(d, "uuid");
    if (!get(d, "uuid", b, n)) snprintf(b, n, index_of(d) >= 100 ? "MIG-%08d" : "GPU-%08d", index_of(d));
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) {
    char value[32];
    GPU_FAIL(d, "cc");
    if (!get(d, "cc", value, sizeof value)) return NOT_SUPPORTED;
    return sscanf(value, "%d.%d", major, minor) == 2 ? OK : NOT_SUPPORTED;
}

/* Version 1 knows no reserved memory: it is part of used, as in the driver. */
int nvmlDeviceGetMemoryInfo(void *d, mem1_t *m) {
    u64 reserved;
    GPU_FAIL(d, "mem1");
    reserved = number(d, "reserved", 0) << 20;
    m->total = number(d, "total", 81920) << 20;
    m->used = (number(d, "used", 0) << 20) + reserved;
    m->free = m->total - m->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(void *d, mem2_t *m) {
    GPU_FAIL(d, "mem2");
    if (m->version != (sizeof(mem2_t) | 2u << 24)) return MISMATCH;
    m->total = number(d, "total", 81920) << 20;
    m->used = number(d, "used", 0) << 20;
    m->reserved = number(d, "reserved", 0) << 20;
    m->free = m->total - m->used - m->reserved;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *d, util_t *u) {
    GPU_FAIL(d, "util");
    u->gpu = (u32)number(d, "util", 0);
    u->memory = 0;
    return OK;
}
int nvmlDeviceGetPowerUsage(void *d, u32 *mw) { GPU_FAIL(d, "power"); *mw = (u32)number(d, "power", 0); return OK; }
int nvmlDeviceGetTemperature(void *d, int sensor, u32 *c) {
    (void)sensor;
    GPU_FAIL(d, "temp");
    *c = (u32)number(d, "temp", 0);
    return OK;
}

static int processes(void *d, const char *list, u32 *n, proc_t *out) {
    char line[512], which[16];
    int gpu, pid, gi;
    long long mib;
    u32 room = *n, have = 0;
    FILE *f = state();
    if (!f) { *n = 0; return OK; }
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "proc %d %15s %d %lld %d", &gpu, which, &pid, &mib, &gi) != 5) continue;
        if (gpu != index_of(d) || strcmp(which, list)) continue;
        if (out && have < room) out[have] = (proc_t){(u32)pid, mib < 0 ? ~0ull : (u64)mib << 20, (u32)gi, (u32)gi};
        have++;
    }
    fclose(f);
    *n = have;
    return have > room ? SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, u32 *n, proc_t *p) {
    GPU_FAIL(d, "procs");
    return processes(d, "compute", n, p);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *d, u32 *n, proc_t *p) {
    return nvmlDeviceGetComputeRunningProcesses_v3(d, n, p);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, u32 *n, proc_t *p) {
    GPU_FAIL(d, "graphics");
    return processes(d, "graphics", n, p);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *d, u32 *n, proc_t *p) {
    GPU_FAIL(d, "mps");
    return processes(d, "mps", n, p);
}

int nvmlDeviceGetMigMode(void *d, u32 *current, u32 *pending) {
    char value[8];
    GPU_FAIL(d, "migmode");
    if (!get(d, "migmode", value, sizeof value)) return NOT_SUPPORTED;
    *current = *pending = (u32)atoi(value);
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *d, u32 *n) { GPU_FAIL(d, "migcount"); (void)d; *n = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, u32 slot, void **mig) {
    char prefix[64], value[8];
    GPU_FAIL(d, "mighandle");
    snprintf(prefix, sizeof prefix, "mig %d %u ", index_of(d), slot);
    if (!find(prefix, value, sizeof value)) return NOT_FOUND;
    *mig = (void *)(long)(index_of(d) * 100 + 100 + (int)slot + 1);
    return OK;
}
int nvmlDeviceGetGpuInstanceId(void *d, u32 *id) {
    GPU_FAIL(d, "gi");
    if (index_of(d) < 100) return INVALID;
    *id = (u32)(index_of(d) % 100);
    return OK;
}
