// Exceptions, thread_local objects and their destructors, and threads started by logical threads.
#include <omp.h>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

static int wrong;

struct Counter {
    int value = 0;
    std::vector<int> history;
};
static thread_local Counter counter;

static void thrower(int me, int round)
{
    if ((me + round) % 2) throw std::runtime_error(std::to_string(me));
#pragma omp barrier
}

int main()
{
    int n = omp_get_max_threads();
    for (int round = 0; round < 50; round++) {
        int caught = 0;
#pragma omp parallel reduction(+ : caught)
        {
            int me = omp_get_thread_num();
            counter.value += me + 1;
            counter.history.push_back(round);
            try {
                // Another thread's exception is in flight while this one runs.
                try {
                    throw std::logic_error(std::to_string(me));
                } catch (...) {
#pragma omp barrier
                    if (!std::current_exception()) wrong = 1;
#pragma omp barrier
                    throw;
                }
            } catch (std::logic_error &e) {
                if (std::to_string(me) != e.what()) wrong = 1;
                caught++;
            }
            try {
                if (me == 0) thrower(1, 0);
            } catch (std::runtime_error &) {
                caught++;
            }
#pragma omp barrier
            if (counter.value != (me + 1) * (round + 1)) wrong = 1;
            if (counter.history.size() != (size_t)round + 1) wrong = 1;
            if (me == 1) std::thread([] { counter.value = -1; }).join();
        }
        if (caught != n + 1) wrong = 1;
    }
    std::printf("%s\n", wrong ? "wrong" : "right");
    return wrong;
}
