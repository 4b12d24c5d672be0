/* One thread by default. Regions that ask for more have them, also after many that do not, and a region within
 * them is one of another level; so has a region after omp_set_num_threads. */
#include <omp.h>
#include <stdio.h>

static int wrong = 0;

static void expect(const char *what, int found, int expected)
{
    if (found == expected) return;
    printf("%s: %d instead of %d\n", what, found, expected);
    wrong = 1;
}

static int threads_of_a_plain_region(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads++;
    return threads;
}

int main(void)
{
    for (int i = 0; i < 100; i++) expect("plain", threads_of_a_plain_region(), 1);
    for (int i = 0; i < 100; i++) {
        int threads = 0, within = 0, level = 0;
#pragma omp parallel num_threads(4) reduction(+ : threads, within, level)
        {
            threads++;
            within += threads_of_a_plain_region();
#pragma omp parallel reduction(+ : level)
            level += omp_get_level();
            /* Members meet here, which takes all four. */
#pragma omp barrier
        }
        expect("clause", threads, 4);
        expect("within", within, 4);
        expect("level", level, 8);
        expect("plain in between", threads_of_a_plain_region(), 1);
    }
    omp_set_num_threads(3);
    expect("set", threads_of_a_plain_region(), 3);
    puts(wrong ? "wrong" : "right");
    return wrong;
}
