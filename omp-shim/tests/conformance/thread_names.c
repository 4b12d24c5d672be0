/* Each thread of a team keeps the name that it has given itself, or that another one has given it, over barriers and
 * from one region to the next. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
static pthread_t members[256];
static void check_name(const char *wanted)
{
    char name[16] = "";
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
    CHECK(strcmp(name, wanted) == 0);
}
int main(void)
{
    CHECK(pthread_setname_np(pthread_self(), "a name of more than 15 bytes") != 0);
    int before = 0, now = 0;
    while (a_few_rounds()) {
#pragma omp parallel firstprivate(before)
        {
            int me = omp_get_thread_num(), n = omp_get_num_threads();
            char name[16];
            snprintf(name, sizeof name, "%d of %d", me, n);
            if (before == n)
                check_name(name);
            members[me] = pthread_self();
#pragma omp master
            now = n;
            CHECK(pthread_setname_np(pthread_self(), "mine") == 0);
#pragma omp barrier
            check_name("mine");
#pragma omp barrier
            int next = (me + 1) % n;
            snprintf(name, sizeof name, "%d of %d", next, n);
            CHECK(pthread_setname_np(members[next], name) == 0);
#pragma omp barrier
            snprintf(name, sizeof name, "%d of %d", me, n);
            check_name(name);
        }
        before = now;
    }
    return suite_result();
}
