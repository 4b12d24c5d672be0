/* A thread that asks where its stack is, as collectors of garbage do, is told where its variables are. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
static int is_on_own_stack(void *place)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return 0;
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return (char *)place >= (char *)lowest && (char *)place < (char *)lowest + size;
}
int main(void)
{
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int here = 0;
            CHECK(is_on_own_stack(&here));
#pragma omp barrier
            CHECK(is_on_own_stack(&here));
        }
        int here = 0;
        CHECK(is_on_own_stack(&here));
    }
    return suite_result();
}
