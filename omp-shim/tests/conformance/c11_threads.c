/* C11's threads, mutexes, conditions, onces and thread-specific storage within regions. */
#define _GNU_SOURCE
#include "suite.h"
#include <threads.h>
static tss_t key;
static mtx_t mutex;
static once_flag once = ONCE_FLAG_INIT;
static int begun, destroyed;
static void begin(void)
{
    begun++;
    tss_create(&key, NULL);
}
static void destroy(void *value)
{
    (void)value;
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
}
static int work(void *argument)
{
    tss_t *own = argument;
    tss_set(*own, &begun);
    return 5;
}
int main(void)
{
    tss_t own;
    mtx_init(&mutex, mtx_plain | mtx_recursive);
    tss_create(&own, destroy);
    int rounds = 0, counted = 0;
    while (a_few_rounds()) {
        rounds++;
#pragma omp parallel num_threads(3)
        {
            long me = omp_get_thread_num() + 1;
            call_once(&once, begin);
            tss_set(key, (void *)me);
            thrd_t thread;
            int result = 0;
            CHECK(thrd_create(&thread, work, &own) == thrd_success);
#pragma omp barrier
            CHECK((long)tss_get(key) == me);
            CHECK(thrd_join(thread, &result) == thrd_success && result == 5);
            mtx_lock(&mutex);
            mtx_lock(&mutex);
            counted++;
            mtx_unlock(&mutex);
            mtx_unlock(&mutex);
        }
    }
    CHECK(begun == 1 && counted == 3 * rounds && destroyed == 3 * rounds);
    return suite_result();
}
