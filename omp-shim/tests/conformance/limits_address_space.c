/* Where there is no memory for large stacks, a program has the threads that it would have had. */
#define _GNU_SOURCE
#include "suite.h"
#include <sys/resource.h>
int main(int argc, char **argv)
{
    if (argc < 2) {
        struct rlimit limit = {600ul << 20, 600ul << 20};
        setrlimit(RLIMIT_AS, &limit);
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
        return 2;
    }
    while (more_rounds()) {
        int sum = 0;
#pragma omp parallel num_threads(4) reduction(+ : sum)
        {
            sum++;
#pragma omp barrier
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 100; i++)
                sum++;
        }
        CHECK(sum > 100);
    }
    return suite_result();
}
