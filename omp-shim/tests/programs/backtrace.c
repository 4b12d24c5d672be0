/* Whether an unwinder finds its way from a region's body through the shim to main. */
#include <execinfo.h>
#include <stdio.h>

static void *frames[64];

__attribute__((noinline)) static int depth(void) { return backtrace(frames, 64); }

int main(void)
{
    int within = 0, outside = depth();
#pragma omp parallel num_threads(2)
#pragma omp master
    within = depth();
    char **names = backtrace_symbols(frames, within);
    int shim = 0, start = 0;
    for (int i = 0; i < within; i++) {
        for (char *c = names[i]; *c; c++) {
            shim |= !__builtin_strncmp(c, "libmapper_omp", 13);
            start |= !__builtin_strncmp(c, "__libc_start_main", 17);
        }
    }
    printf("%s %s %s\n", within > outside ? "deeper" : "not deeper", start ? "to the start" : "lost",
           shim ? "through the shim" : "without the shim");
    return 0;
}
