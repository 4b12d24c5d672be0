/* What the C library keeps for a thread is that thread's: texts of errors, numbers, addresses; locales. */
#define _GNU_SOURCE
#include "suite.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <locale.h>
#include <string.h>
int main(void)
{
    locale_t other = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
    if (!other)
        other = newlocale(LC_ALL_MASK, "C", NULL);
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            char want[100];
            snprintf(want, sizeof want, "Unknown error %d", 1000 + me);
            char *text = strerror(1000 + me);
            struct in_addr address = {htonl(0x7f000000u + (unsigned)me)};
            char *dots = inet_ntoa(address);
            locale_t before = uselocale(me % 2 ? other : LC_GLOBAL_LOCALE);
            (void)before;
            dlopen(me % 2 ? "/no/such/one" : "/no/such/two", RTLD_NOW);
#pragma omp barrier
            CHECK(!strcmp(text, want));
            snprintf(want, sizeof want, "127.0.0.%d", me);
            CHECK(!strcmp(dots, want));
            CHECK(uselocale(NULL) == (me % 2 ? other : LC_GLOBAL_LOCALE));
            char *error = dlerror();
            CHECK(error && strstr(error, me % 2 ? "/no/such/one" : "/no/such/two"));
#pragma omp barrier
            uselocale(LC_GLOBAL_LOCALE);
        }
    }
    return suite_result();
}
