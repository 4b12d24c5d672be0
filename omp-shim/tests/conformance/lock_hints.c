/* Hints: locks, critical and atomic (OpenMP 4.5 and 5.0). */
#include "suite.h"
int main(void)
{
    static const omp_lock_hint_t hints[] = {omp_lock_hint_none, omp_lock_hint_uncontended,
        omp_lock_hint_contended, omp_lock_hint_nonspeculative, omp_lock_hint_speculative};
    enum { KINDS = sizeof hints / sizeof *hints };
    omp_lock_t locks[KINDS];
    omp_nest_lock_t nested[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
#ifdef __clang__
        omp_init_lock_with_hint(&locks[kind], hints[kind]);
        omp_init_nest_lock_with_hint(&nested[kind], hints[kind]);
#else /* libgomp declares them, but has them not */
        (void)hints;
        omp_init_lock(&locks[kind]);
        omp_init_nest_lock(&nested[kind]);
#endif
    }
    while (more_rounds()) {
        long counted[KINDS] = {0}, again[KINDS] = {0}, named = 0, atomically = 0, team = 0;
#pragma omp parallel
        {
#pragma omp single
            team = omp_get_num_threads();
            for (int round = 0; round < 20; round++) {
                for (int kind = 0; kind < KINDS; kind++) {
                    omp_set_lock(&locks[kind]);
                    counted[kind]++;
                    omp_unset_lock(&locks[kind]);
                    omp_set_nest_lock(&nested[kind]);
                    omp_set_nest_lock(&nested[kind]);
                    again[kind]++;
                    omp_unset_nest_lock(&nested[kind]);
                    omp_unset_nest_lock(&nested[kind]);
                }
#pragma omp critical(hinted) hint(omp_lock_hint_contended)
                named++;
#pragma omp atomic hint(omp_lock_hint_uncontended)
                atomically++;
            }
        }
        for (int kind = 0; kind < KINDS; kind++)
            CHECK(counted[kind] == 20 * team && again[kind] == 20 * team);
        CHECK(named == 20 * team && atomically == 20 * team);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        omp_destroy_lock(&locks[kind]);
        omp_destroy_nest_lock(&nested[kind]);
    }
    return suite_result();
}
