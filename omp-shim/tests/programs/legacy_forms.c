/* All regions that gcc before 4.9 emitted and the generic starts that it emits since 9, called by hand
 * and checked: by themselves, within one another and within regions of today's form. */
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void body(void *);
void GOMP_parallel_start(body *, void *, unsigned);
void GOMP_parallel_sections_start(body *, void *, unsigned, unsigned);
void GOMP_parallel_loop_static_start(body *, void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_dynamic_start(body *, void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_guided_start(body *, void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_runtime_start(body *, void *, unsigned, long, long, long);
void GOMP_parallel_end(void);
bool GOMP_loop_static_start(long, long, long, long, long *, long *);
bool GOMP_loop_static_next(long *, long *);
bool GOMP_loop_ull_static_start(bool, unsigned long long, unsigned long long, unsigned long long,
                                unsigned long long, unsigned long long *, unsigned long long *);
bool GOMP_loop_ull_static_next(unsigned long long *, unsigned long long *);
bool GOMP_loop_dynamic_next(long *, long *);
bool GOMP_loop_guided_next(long *, long *);
bool GOMP_loop_runtime_next(long *, long *);
bool GOMP_loop_ull_dynamic_next(unsigned long long *, unsigned long long *);
void GOMP_loop_end(void);
void GOMP_loop_end_nowait(void);
unsigned GOMP_sections_next(void);
void GOMP_sections_end_nowait(void);
void GOMP_barrier(void);
bool GOMP_loop_start(long, long, long, long, long, long *, long *, uintptr_t *, void **);
bool GOMP_loop_ull_start(bool, unsigned long long, unsigned long long, unsigned long long, long,
                         unsigned long long, unsigned long long *, unsigned long long *,
                         uintptr_t *, void **);
unsigned GOMP_sections2_start(unsigned, uintptr_t *, void **);

enum { N = 103, MOST = 64, SECTIONS = 5 };
static int bad;

#define CHECK(what)                                                              \
    do {                                                                         \
        if (!(what)) {                                                           \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                   \
            __atomic_store_n(&bad, 1, __ATOMIC_RELAXED);                         \
        }                                                                        \
    } while (0)

/* What a region has done. */
struct work {
    int done[N], members, size, arrived;
};

static void count(int *place) { __atomic_fetch_add(place, 1, __ATOMIC_RELAXED); }

static void all_once(const struct work *w, int n)
{
    for (int i = 0; i < n; i++) CHECK(w->done[i] == 1);
}

static void plain(void *data)
{
    struct work *w = data;
    count(&w->members);
    w->size = omp_get_num_threads();
    GOMP_barrier();
    CHECK(__atomic_load_n(&w->members, __ATOMIC_RELAXED) == omp_get_num_threads());
    CHECK(omp_get_thread_num() < omp_get_num_threads());
    count(&w->done[omp_get_thread_num()]);
}

static void sections(void *data)
{
    struct work *w = data;
    for (unsigned section; (section = GOMP_sections_next());) count(&w->done[section - 1]);
    GOMP_sections_end_nowait();
}

#define LOOP(name, next)                                                         \
    static void name(void *data)                                                 \
    {                                                                            \
        struct work *w = data;                                                   \
        for (long from, to; next(&from, &to);)                                   \
            for (long i = from; i < to; i += 2) count(&w->done[i / 2]);          \
        GOMP_loop_end_nowait();                                                  \
    }
LOOP(loop_static, GOMP_loop_static_next)
LOOP(loop_dynamic, GOMP_loop_dynamic_next)
LOOP(loop_guided, GOMP_loop_guided_next)
LOOP(loop_runtime, GOMP_loop_runtime_next)

static void regions(unsigned threads)
{
    struct work w;
    int expected = omp_get_level() ? 0 : threads ? (int)threads : omp_get_max_threads();
#define RUN(n, body, start)                                                      \
    do {                                                                         \
        memset(&w, 0, sizeof w);                                                 \
        start;                                                                   \
        body(&w);                                                                \
        GOMP_parallel_end();                                                     \
        all_once(&w, n);                                                         \
    } while (0)
    memset(&w, 0, sizeof w);
    GOMP_parallel_start(plain, &w, threads);
    plain(&w);
    GOMP_parallel_end();
    all_once(&w, w.size);
    CHECK(w.members == w.size);
    if (expected && !getenv("SIZES_VARY")) CHECK(w.size == expected);
    RUN(SECTIONS, sections, GOMP_parallel_sections_start(sections, &w, threads, SECTIONS));
    RUN(N, loop_static, GOMP_parallel_loop_static_start(loop_static, &w, threads, 0, 2 * N, 2, 0));
    RUN(N, loop_static, GOMP_parallel_loop_static_start(loop_static, &w, threads, 0, 2 * N, 2, 3));
    RUN(N, loop_dynamic, GOMP_parallel_loop_dynamic_start(loop_dynamic, &w, threads, 0, 2 * N, 2, 3));
    RUN(N, loop_guided, GOMP_parallel_loop_guided_start(loop_guided, &w, threads, 0, 2 * N, 2, 1));
    RUN(N, loop_runtime, GOMP_parallel_loop_runtime_start(loop_runtime, &w, threads, 0, 2 * N, 2));
}

static void outer(void *data)
{
    struct work *w = data;
    int me = omp_get_thread_num(), size = omp_get_num_threads();
    regions(2);
    CHECK(omp_get_thread_num() == me && omp_get_num_threads() == size);
    GOMP_barrier();
    count(&w->done[me]);
    int inner = 0;
#pragma omp parallel reduction(+ : inner) num_threads(2)
    inner += omp_get_ancestor_thread_num(omp_get_level() - 1) == me;
    CHECK(inner == 1 || inner == 2);
    CHECK(omp_get_thread_num() == me && omp_get_num_threads() == size);
    GOMP_barrier();
}

/* A loop goes on after regions of the old form in its iterations. */
static void within_a_loop(void)
{
    int done[20] = {0};
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < 20; i++) {
        regions(2);
        count(&done[i]);
    }
    for (int i = 0; i < 20; i++) CHECK(done[i] == 1);
}

enum { RUNTIME, STATIC, DYNAMIC, GUIDED };

/* Constructs whose threads share memory of the runtime's. */
static void generic(struct work *w)
{
    for (int round = 0; round < 40; round++) {
        long first, end;
        size_t bytes = round % 3 ? 24 : 4000;
        void *memory = (void *)bytes;
        long kind = round % 4 | (round & 1 ? 0 : 0x80000000L);
        long chunk = round % 4 == STATIC ? 0 : 2;
        bool more = GOMP_loop_start(0, N, 1, kind, chunk, &first, &end, 0, &memory);
        int *shared = memory, mine = 0;
        CHECK(((uintptr_t)memory & 7) == 0);
        /* All threads have the same memory, zero at first. */
        count(&shared[1]);
        while (more) {
            for (long i = first; i < end; i++) count(&w->done[i]), mine++;
            switch (kind & 3) {
            case STATIC: more = GOMP_loop_static_next(&first, &end); break;
            case DYNAMIC: more = GOMP_loop_dynamic_next(&first, &end); break;
            case GUIDED: more = GOMP_loop_guided_next(&first, &end); break;
            default: more = GOMP_loop_runtime_next(&first, &end);
            }
        }
        __atomic_fetch_add(&shared[0], mine, __ATOMIC_RELAXED);
        GOMP_barrier();
        CHECK(shared[0] == N && shared[1] == omp_get_num_threads());
        GOMP_loop_end();

        unsigned long long from, to;
        if (GOMP_loop_ull_start(false, N, 0, -1ULL, DYNAMIC, 3, &from, &to, 0, 0))
            do {
                for (unsigned long long i = from; i > to; i--) count(&w->done[i - 1]);
            } while (GOMP_loop_ull_dynamic_next(&from, &to));
        GOMP_loop_end();

        /* Without a chunk: only the memory is wanted. */
        memory = (void *)bytes;
        CHECK(GOMP_loop_start(0, N, 1, STATIC, 0, 0, 0, 0, &memory));
        count(memory);
        GOMP_barrier();
        CHECK(*(int *)memory == omp_get_num_threads());
        GOMP_loop_end_nowait();

        memory = (void *)bytes;
        for (unsigned section = GOMP_sections2_start(SECTIONS, 0, &memory); section;
             section = GOMP_sections_next())
            count(&w->done[section - 1]), count(memory);
        GOMP_barrier();
        CHECK(*(int *)memory == SECTIONS);
        GOMP_sections_end_nowait();
    }
}

/* Static loops that ask for their chunks, as gcc emits none but the runtime has them: up and down, with a chunk
 * size and without. */
static void static_by_chunks(struct work *w)
{
    long first, end;
    for (int chunk = 0; chunk < 5; chunk += 4) {
        if (GOMP_loop_static_start(0, 2 * N, 2, chunk, &first, &end))
            do {
                for (long i = first; i < end; i += 2) count(&w->done[i / 2]);
            } while (GOMP_loop_static_next(&first, &end));
        GOMP_loop_end();

        unsigned long long from, to, base = ~0ULL - 3 * N;
        if (GOMP_loop_ull_static_start(true, base, base + N, 1, chunk, &from, &to))
            do {
                for (unsigned long long i = from; i < to; i++) count(&w->done[i - base]);
            } while (GOMP_loop_ull_static_next(&from, &to));
        GOMP_loop_end();
        if (GOMP_loop_ull_static_start(false, base + N, base, -1ULL, chunk, &from, &to))
            do {
                for (unsigned long long i = from; i > to; i--) count(&w->done[i - base - 1]);
            } while (GOMP_loop_ull_static_next(&from, &to));
        GOMP_loop_end_nowait();
        GOMP_barrier();
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    struct work w;
    omp_set_max_active_levels(2);
    for (int round = 0; round < rounds; round++) {
        regions(0);
        regions(1);
        regions(3);
        memset(&w, 0, sizeof w);
        GOMP_parallel_start(outer, &w, 0);
        outer(&w);
        GOMP_parallel_end();
#pragma omp parallel
        regions(2);
        within_a_loop();
        memset(&w, 0, sizeof w);
#pragma omp parallel
        generic(&w);
        for (int i = 0; i < N; i++) CHECK(w.done[i] == (i < SECTIONS ? 120 : 80));
    }
    memset(&w, 0, sizeof w);
#pragma omp parallel
    static_by_chunks(&w);
    for (int i = 0; i < N; i++) CHECK(w.done[i] == 6);
    printf("%s\n", bad ? "wrong" : "right");
    return bad;
}
