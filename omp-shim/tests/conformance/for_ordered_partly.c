/* Not every iteration of an ordered loop enters the ordered block; over unsigned long long as well. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        unsigned long long last = 0;
        int count = 0;
#pragma omp parallel
        {
#pragma omp for ordered schedule(dynamic, 2)
            for (unsigned long long i = 1; i < 80; i++)
                if (i % 3 != 0) {
#pragma omp ordered
                    {
                        CHECK(i > last);
                        last = i;
                        count++;
                    }
                }
        }
        CHECK(count == 53 && last == 79);
    }
    return suite_result();
}
