// Reductions over classes, and private copies of objects.
#include "suite.h"
#include <atomic>
#include <string>
#include <vector>
static std::atomic<int> alive;
struct Sum {
    long value; std::vector<long> parts;
    Sum() : value(0) { alive++; }
    Sum(const Sum &o) : value(o.value), parts(o.parts) { alive++; }
    Sum &operator=(const Sum &) = default;
    ~Sum() { alive--; }
};
#pragma omp declare reduction(add : Sum : (omp_out.value += omp_in.value, omp_out.parts.insert(omp_out.parts.end(), omp_in.parts.begin(), omp_in.parts.end()))) initializer(omp_priv = Sum())
int main()
{
    while (more_rounds()) {
        {
            Sum sum;
            std::string text = "private";
#pragma omp parallel for schedule(dynamic, 3) reduction(add : sum) firstprivate(text)
            for (int i = 0; i < 200; i++) {
                sum.value += i;
                sum.parts.push_back(i);
                CHECK(text == "private" || text.size() == 8);
                text = "changed!";
            }
            CHECK(sum.value == 19900);
            CHECK(sum.parts.size() == 200);
            CHECK(text == "private");
        }
        CHECK(alive == 0);
    }
    return suite_result();
}
