/* Calls functions of the runtime by a handle of its library; answers each line of input by one.
 *
 *   team         the size of the team of a region; gteam in the guest
 *   max          omp_get_max_threads(); gmax in the guest's runtime
 *   set N        omp_set_num_threads(N); gset in the guest's runtime
 *   dynamic N    omp_set_dynamic(N)
 *   levels N     omp_set_max_active_levels(N)
 *   inset N      a region in which every thread sets N; prints the size of the team
 *   known        how many threads of a region are told as much by handle as by name about themselves, before and
 *                behind a barrier
 *   within       the same, looked up by each thread within the region; elsewhere: by the helper
 *   missing      looks up what there is not; prints whether dlerror() tells so, and that once
 *   next         the same function by RTLD_NEXT and by RTLD_DEFAULT, as the program sees it
 *
 * The guest is the library that GUEST in the environment names: this file with LIBRARY defined, and another runtime.
 * The helper is the one that HELPER names: this file with FIND defined, and without OpenMP. With HOST defined this is
 * a library itself, so that no runtime is in the global scope. */
#define _GNU_SOURCE
#include <dlfcn.h>
#ifdef FIND
void *find(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    /* Not by a jump, behind which the caller would be another one. */
    __asm__ volatile("" : : "r"(found));
    return found;
}
#else
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int region(void)
{
    int size = 0;
#pragma omp parallel reduction(+ : size)
    size++;
    return size;
}

#ifdef LIBRARY
int NAME(void)
{
    return region();
}
#else
static void *host, *guest;
static void *(*find)(void *, const char *) = dlsym;

static void *runtime(void)
{
    Dl_info info;
    void *known = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    return known && dladdr(known, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : 0;
}

typedef int (*query)(void);
typedef void (*setter)(int);

static int known(int looks_up_within)
{
    query number = 0, size = 0;
    if (!looks_up_within) {
        number = (query)dlsym(host, "omp_get_thread_num");
        size = (query)dlsym(host, "omp_get_num_threads");
    }
    int right = 0;
#pragma omp parallel reduction(+ : right) firstprivate(number, size)
    {
        if (looks_up_within) {
            number = (query)find(host, "omp_get_thread_num");
            size = (query)find(host, "omp_get_num_threads");
        }
        int is_right = number() == omp_get_thread_num() && size() == omp_get_num_threads();
#pragma omp barrier
        right += is_right && number() == omp_get_thread_num() && size() == omp_get_num_threads();
    }
    return right;
}

static int run(void)
{
    char line[100], word[100];
    const char *path = getenv("GUEST");
    host = runtime();
    if (path && !(guest = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    query guest_region = guest ? (query)dlsym(guest, "guest") : 0;
    if (!host || (guest && !guest_region)) return 2;
    while (fgets(line, sizeof line, stdin)) {
        int n = 0, answer = 0;
        word[0] = 0;
        sscanf(line, "%99s %d", word, &n);
        if (!strcmp(word, "team")) {
            answer = region();
        } else if (!strcmp(word, "gteam")) {
            answer = guest_region();
        } else if (!strcmp(word, "max")) {
            answer = ((query)dlsym(host, "omp_get_max_threads"))();
        } else if (!strcmp(word, "gmax")) {
            answer = ((query)dlsym(guest, "omp_get_max_threads"))();
        } else if (!strcmp(word, "set")) {
            ((setter)dlsym(host, "omp_set_num_threads"))(n);
        } else if (!strcmp(word, "gset")) {
            ((setter)dlsym(guest, "omp_set_num_threads"))(n);
        } else if (!strcmp(word, "dynamic")) {
            ((setter)dlsym(host, "omp_set_dynamic"))(n);
        } else if (!strcmp(word, "levels")) {
            ((setter)dlsym(host, "omp_set_max_active_levels"))(n);
        } else if (!strcmp(word, "inset")) {
            setter set = (setter)dlsym(host, "omp_set_num_threads");
#pragma omp parallel reduction(+ : answer)
            {
                set(n);
                answer++;
            }
        } else if (!strcmp(word, "known")) {
            answer = known(0);
        } else if (!strcmp(word, "within")) {
            answer = known(1);
        } else if (!strcmp(word, "elsewhere")) {
            void *helper = dlopen(getenv("HELPER"), RTLD_NOW | RTLD_LOCAL);
            if (!helper) return 1;
            find = (void *(*)(void *, const char *))dlsym(helper, "find");
            answer = known(1);
        } else if (!strcmp(word, "missing")) {
            void *found = dlsym(host, "omp_get_thread_num_of_nobody");
            const char *error = dlerror();
            answer = !found && error && strstr(error, "omp_get_thread_num_of_nobody") && !dlerror();
        } else if (!strcmp(word, "next")) {
            /* By name: the first behind the program, which with mapper is the shim's. */
            answer = dlsym(RTLD_NEXT, "omp_get_thread_num") == (void *)omp_get_thread_num &&
                     dlsym(RTLD_DEFAULT, "omp_get_thread_num") == (void *)omp_get_thread_num;
        }
        printf("%d\n", answer);
        fflush(stdout);
    }
    return 0;
}

#ifdef HOST
long host_main(int unused)
{
    (void)unused;
    return run();
}
#else
int main(void)
{
    return run();
}
#endif
#endif
#endif
