/* A program that becomes another one: usage becomes PROGRAM
 *
 * Has a region of four threads that can be cancelled, then executes PROGRAM. */
#include <unistd.h>

int main(int argc, char **argv)
{
    int done = 0;
#pragma omp parallel num_threads(4)
    {
#pragma omp cancel parallel if (argc > 100)
#pragma omp atomic
        done++;
    }
    if (argc != 2 || done != 4) return 1;
    execv(argv[1], argv + 1);
    return 2;
}
