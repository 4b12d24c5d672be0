/* Closes every descriptor it has, works on for a moment, and ends with status 7: a daemon that
 * detaches itself from its parent does the same. */
#define _GNU_SOURCE
#include <unistd.h>
#include <sys/syscall.h>

int main(void)
{
#pragma omp parallel
    usleep(1000);
    syscall(SYS_close_range, 0u, ~0u, 0u);
    for (int i = 0; i < 20; i++) {
#pragma omp parallel
        usleep(10 * 1000);
    }
    return 7;
}
