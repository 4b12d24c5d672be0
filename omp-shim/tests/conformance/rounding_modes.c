/* The rounding mode and the exceptions of floating-point arithmetic are each thread's own, across every wait. */
#include "suite.h"
#include <fenv.h>
int main(void)
{
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num(), mode = modes[me % 4];
            fesetround(mode);
            feclearexcept(FE_ALL_EXCEPT);
#pragma omp barrier
            CHECK(fegetround() == mode);
            volatile double one = 1, three = 3;
            volatile long double lone = 1, lthree = 3;
            double third = one / three;
            long double lthird = lone / lthree;
            if (me % 2)
                feraiseexcept(FE_OVERFLOW);
#pragma omp critical
            CHECK(fegetround() == mode);
#pragma omp barrier
            CHECK(!!fetestexcept(FE_OVERFLOW) == me % 2);
            CHECK(one / three == third && lone / lthree == lthird);
#pragma omp for schedule(dynamic, 1)
            for (int i = 0; i < 40; i++)
                CHECK(fegetround() == mode);
            fesetround(FE_TONEAREST);
        }
        CHECK(fegetround() == FE_TONEAREST);
    }
    return suite_result();
}
