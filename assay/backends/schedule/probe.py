"""The C++ that measures the machine: one function a quantity, seconds an operation or a byte (machine.py reads it)."""

from __future__ import annotations

# Twelve independent chains hide the latency of every operation; the empty asm keeps the compiler from folding them.
SOURCE = r"""
#include <pthread.h>
#include <time.h>
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / 4)
#if defined(__x86_64__)
#define REG "v"
#else
#define REG "w"
#endif
typedef float F __attribute__((vector_size(BYTES)));
typedef int I __attribute__((vector_size(BYTES)));
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
#define STEP(v, EXPR) { auto x = v; v = EXPR; asm volatile("" : "+" REG(v)); }
#define STEP_(v, EXPR) { v = EXPR; asm volatile("" : "+r"(v)); }
#define TWICE(X) X X
#define CHAINS(NAME, T, EXPR, EXPR2) extern "C" double NAME(long n) { \
    T c = T{} + 1.0000001f; \
    T v0=c,v1=c,v2=c,v3=c,v4=c,v5=c,v6=c,v7=c,v8=c,v9=c,va=c,vb=c; double t = now(); \
    for (long i = 0; i < n; i++) { TWICE(TWICE( \
        STEP(v0,EXPR) STEP(v1,EXPR2) STEP(v2,EXPR) STEP(v3,EXPR2) STEP(v4,EXPR) STEP(v5,EXPR2) \
        STEP(v6,EXPR) STEP(v7,EXPR2) STEP(v8,EXPR) STEP(v9,EXPR2) STEP(va,EXPR) STEP(vb,EXPR2))) } \
    t = now() - t; return t / (n * 48); }
#define ONE(NAME, EXPR) extern "C" double NAME(long n) { F c = F{} + 1.0000001f, v0 = c; double t = now(); \
    for (long i = 0; i < n; i++) { TWICE(TWICE(TWICE(STEP(v0, EXPR)))) } return (now() - t) / (8 * n); }
static inline F sqrt_(F x) {
#if defined(__AVX__)
    F y; asm("vsqrtps %1, %0" : "=v"(y) : "v"(x)); return y;
#else
    for (int l = 0; l < LANES; l++) x[l] = __builtin_sqrtf(x[l]);
    return x;
#endif
}
#define BOTH(NAME, EXPR) CHAINS(NAME##_t, F, EXPR, EXPR) ONE(NAME##_l, EXPR)
BOTH(add, x + c) BOTH(mul, x * c) BOTH(fma, x * c + c) BOTH(div, c / x) BOTH(sqrt, sqrt_(x))
extern "C" double clock_l(long n) { long v = n, c = n; double t = now();
    for (long i = 0; i < n; i++) { TWICE(TWICE(TWICE(STEP_(v, v + c)))) }
    return (now() - t) / (8 * n); }
BOTH(int, (F)((I)x + (I)c)) BOTH(cmp, (x < c ? c : x))
CHAINS(mix_t, F, x + c, x * c)

extern "C" double scalar_t(long n) { float c = 1.0000001f, v0=c,v1=c,v2=c,v3=c,v4=c,v5=c,v6=c,v7=c,v8=c,v9=c,va=c,vb=c;
    double t = now(); for (long i = 0; i < n; i++) { STEP(v0,x+c) STEP(v1,x+c) STEP(v2,x+c) STEP(v3,x+c) STEP(v4,x+c) STEP(v5,x+c)
        STEP(v6,x+c) STEP(v7,x+c) STEP(v8,x+c) STEP(v9,x+c) STEP(va,x+c) STEP(vb,x+c) } return (now() - t) / (n * 12); }
extern "C" double gather_t(long n) {
    static float b[8192]; int at[LANES]; for (int l = 0; l < LANES; l++) at[l] = 17 * l;
    F s = F{}; double t = now();
    for (long i = 0; i < n; i++) { const float* p = b + (i & 63); asm volatile("" ::: "memory");
#if defined(__AVX512F__)
        s += __builtin_ia32_gathersiv16sf(F{}, p, *(I*)at, (unsigned short)-1, 4);
#elif defined(__AVX2__)
        s += __builtin_ia32_gathersiv8sf(F{}, p, *(I*)at, (F)(I{} - 1), 4);
#else
        F g; for (int l = 0; l < LANES; l++) g[l] = p[at[l]];
        s += g;
#endif
    }
    t = now() - t; asm volatile("" :: REG(s)); return t / n; }
static void read_(const float* p, long n) { for (long i = 0; i < n / (4 * LANES); i++) { const F* q = (const F*)p + 4 * i;
    F a = q[0], b = q[1], c = q[2], d = q[3]; asm volatile("" :: REG(a), REG(b), REG(c), REG(d)); } }
static void store_(float* p, long n) { F a = F{};
    for (long i = 0; i < n / LANES; i++) { *((F*)p + i) = a; asm volatile("" ::: "memory"); } }
// Every thread works on its own slice `repeat` times between two barriers; the result is seconds a byte of all of them.
struct Job { float* o; const float* p; long n, repeat; int kind; pthread_barrier_t* b; };
static void work_(Job* j) {
    for (long r = 0; r < j->repeat; r++) { asm volatile("" ::: "memory");
    if (j->kind == 0) read_(j->p, j->n); else store_(j->o, j->n); } }
static void* run_(void* a) { Job* j = (Job*)a; pthread_barrier_wait(j->b); work_(j); pthread_barrier_wait(j->b); return 0; }
extern "C" double bytes(float* o, const float* p, long n, long repeat, int kind, int threads) {
    pthread_barrier_t b; pthread_barrier_init(&b, 0, threads); pthread_t id[256]; Job jobs[256]; long m = n / threads / 64 * 64;
    for (int k = 0; k < threads; k++) jobs[k] = Job{o + k * m, p + k * m, m, repeat, kind, &b};
    work_(&jobs[0]);
    for (int k = 1; k < threads; k++) pthread_create(&id[k], 0, run_, &jobs[k]);
    pthread_barrier_wait(&b); double t = now(); work_(&jobs[0]); pthread_barrier_wait(&b); t = now() - t;
    for (int k = 1; k < threads; k++) pthread_join(id[k], 0);
    pthread_barrier_destroy(&b); return t / ((double)repeat * m * threads * 4); }
// A round trip to a spinning thread: what handing out work and waiting for it costs.
static volatile long ball_;
static void* answer_(void* a) { long n = (long)a;
    for (long i = 0; i < n; i++) { while (ball_ != 2 * i + 1); ball_ = 2 * i + 2; } return 0; }
extern "C" double fork_s(long n) { ball_ = 0; pthread_t id; pthread_create(&id, 0, answer_, (void*)n); double t = now();
    for (long i = 0; i < n; i++) { __sync_synchronize(); ball_ = 2 * i + 1; while (ball_ != 2 * i + 2); } t = now() - t;
    pthread_join(id, 0); return t / n; }
extern "C" int lanes() { return LANES; }
"""
