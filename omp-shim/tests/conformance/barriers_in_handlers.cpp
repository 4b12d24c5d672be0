// Threads wait for one another within handlers and destructors.
#include "suite.h"
#include <exception>
#include <string>
struct Waits {
    ~Waits() {
        CHECK(std::uncaught_exceptions() == 1);
        meet();
        CHECK(std::uncaught_exceptions() == 1);
    }
    static void meet() {
#pragma omp barrier
    }
};
static void fails(int me)
{
    Waits waits;
    throw std::to_string(me);
}
int main()
{
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            for (int i = 0; i < 3; i++) {
                try {
                    fails(me);
                } catch (std::string &text) {
                    Waits::meet();
                    CHECK(text == std::to_string(me));
                    try {
                        throw;
                    } catch (std::string &again) {
                        Waits::meet();
                        CHECK(&again == &text);
                    }
                }
                CHECK(!std::current_exception());
            }
        }
    }
    return suite_result();
}
