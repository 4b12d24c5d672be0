// An exception thrown and caught inside a region, and one thrown through a nested one's caller.
#include <cstdio>
#include <stdexcept>

static int risky(int i)
{
    if (i % 3 == 0) throw std::runtime_error("three");
    return i;
}

int main()
{
    int caught = 0, passed = 0;
#pragma omp parallel for schedule(dynamic, 2) reduction(+ : caught, passed)
    for (int i = 0; i < 99; i++) {
        try {
            passed += risky(i) >= 0;
        } catch (const std::exception &) {
            caught++;
        }
    }
    std::printf("caught %d passed %d\n", caught, passed);
    return 0;
}
