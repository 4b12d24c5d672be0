/* A stream that a thread has locked is closed to the others of its team. */
#define _GNU_SOURCE
#include "suite.h"
int main(void)
{
    FILE *stream = tmpfile();
    if (!stream)
        return 2;
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            if (me == 2)
                flockfile(stream);
#pragma omp barrier
            int got = ftrylockfile(stream) == 0;
            CHECK(got == (me == 2));
            if (got)
                funlockfile(stream);
#pragma omp barrier
            if (me == 2)
                funlockfile(stream);
            for (int i = 0; i < 10; i++) {
                flockfile(stream);
                fprintf(stream, "%d ", me);
#pragma omp critical
                fprintf(stream, "%d", me);
                fprintf(stream, "\n");
                funlockfile(stream);
            }
        }
        rewind(stream);
        int one, other;
        for (int i = 0; i < 40; i++)
            CHECK(fscanf(stream, "%d %d", &one, &other) == 2 && one == other);
        rewind(stream);
    }
    return suite_result();
}
