/* A driver for benchmarks: BENCH_GPUS cards whose used memory moves every second when BENCH_MOVES is 1.
 *
 * tests/support/nvml_stub.c can say anything, but reads a file at every call, and that would be measured too.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u64 total, free, used; } mem1_t;
typedef struct { u32 version; u64 total, reserved, free, used; } mem2_t;
typedef struct { u32 gpu, memory; } util_t;

static const u64 MIB = 1ull << 20;

static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }
static int index_of(void *d) { return (int)(long)d - 1; }
static double wave(void *d) {
    return number("BENCH_MOVES", 0) ? sin((double)time(NULL) * 1.7 + index_of(d)) : 0.0;
}
static u64 used(void *d) { return (u64)((84.5 + wave(d)) * 1024) * MIB; }

int nvmlInitWithFlags(u32 flags) { (void)flags; return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "not in this driver"; }
int nvmlSystemGetDriverVersion(char *b, u32 n) { snprintf(b, n, "580.00.bench"); return 0; }
int nvmlSystemGetNVMLVersion(char *b, u32 n) { snprintf(b, n, "13.0"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13000; return 0; }
int nvmlDeviceGetCount_v2(u32 *n) { *n = (u32)number("BENCH_GPUS", 8); return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **d) { *d = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetName(void *d, char *b, u32 n) { (void)d; snprintf(b, n, "NVIDIA H20"); return 0; }
int nvmlDeviceGetUUID(void *d, char *b, u32 n) { snprintf(b, n, "GPU-%08d", index_of(d)); return 0; }
int nvmlDeviceGetMemoryInfo(void *d, mem1_t *m) {
    m->total = 97887 * MIB; m->used = used(d); m->free = m->total - m->used;
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void *d, mem2_t *m) {
    if (m->version != (sizeof(mem2_t) | 2u << 24)) return 25;
    m->total = 97887 * MIB; m->reserved = 500 * MIB; m->used = used(d); m->free = m->total - m->used - m->reserved;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *d, util_t *u) { u->gpu = (u32)(90 + 9 * wave(d)); u->memory = 50; return 0; }
int nvmlDeviceGetPowerUsage(void *d, u32 *mw) { *mw = (u32)(400000 + 40000 * wave(d)); return 0; }
int nvmlDeviceGetTemperature(void *d, int sensor, u32 *c) { (void)sensor; *c = (u32)(60 + 4 * wave(d)); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, u32 *n, void *p) { (void)d; (void)p; *n = 0; return 0; }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, u32 *n, void *p) { (void)d; (void)p; *n = 0; return 0; }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *d, u32 *n, void *p) { (void)d; (void)p; *n = 0; return 0; }
