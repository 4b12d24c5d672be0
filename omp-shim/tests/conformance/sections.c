/* sections: each section once, with a barrier after them. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int runs[5] = {0};
#pragma omp parallel
        {
#pragma omp sections
            {
                runs[0]++;
#pragma omp section
                runs[1]++;
#pragma omp section
                runs[2]++;
#pragma omp section
                runs[3]++;
#pragma omp section
                runs[4]++;
            }
            for (int i = 0; i < 5; i++)
                CHECK(runs[i] == 1);
        }
    }
    return suite_result();
}
