// Exceptions in flight, caught and held are each thread's own while it waits; so are objects with thread storage, and when they end.
#include "suite.h"
#include <atomic>
#include <exception>
#include <mutex>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
static std::atomic<int> made, ended;
struct Own {
    int value;
    std::vector<int> order;
    Own() : value(0) { made++; }
    ~Own() { ended++; }
};
static thread_local Own own;
struct Guard {
    int expected;
    ~Guard() { 
#pragma omp critical(guard)
        CHECK(std::uncaught_exceptions() == expected); }
};
static int once_value(int &calls)
{
    static std::once_flag flag;
    static int value;
    std::call_once(flag, [&] { calls++; value = 42; });
    return value;
}
static int initialised(std::atomic<int> &calls)
{
    static int value = [&] {
        calls++;
        omp_lock_t lock;
        omp_init_lock(&lock);
        omp_set_lock(&lock);
        omp_unset_lock(&lock);
        return 7;
    }();
    return value;
}
int main()
{
    std::atomic<int> calls(0);
    int once_calls = 0;
    while (more_rounds()) {
        std::exception_ptr pointers[4];
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            own.value = me;
            CHECK(initialised(calls) == 7);
            CHECK(once_value(once_calls) == 42);
            try {
                Guard guard = {1};
                throw std::runtime_error(std::to_string(me));
            } catch (const std::exception &caught) {
#pragma omp critical
                CHECK(caught.what() == std::to_string(me));
                try {
                    Guard guard = {1};
                    throw me;
                } catch (int inner) {
                    omp_get_wtime();
#pragma omp critical
                    CHECK(inner == me);
                }
                pointers[me] = std::current_exception();
                try {
                    throw;
                } catch (const std::runtime_error &again) {
                    CHECK(again.what() == std::to_string(me));
                }
            }
#pragma omp barrier
            CHECK(own.value == me && std::uncaught_exceptions() == 0 && !std::current_exception());
            try {
                std::rethrow_exception(pointers[(me + 1) % 4]);
            } catch (const std::runtime_error &other) {
                CHECK(other.what() == std::to_string((me + 1) % 4));
            }
            auto later = std::async(std::launch::async, [me] { if (me == 2) throw 5; return me; });
#pragma omp barrier
            try {
                CHECK(later.get() == me && me != 2);
            } catch (int five) {
                CHECK(me == 2 && five == 5);
            }
            std::thread joined([] { own.value = 9; });
            joined.join();
            CHECK(own.value == me);
        }
        pointers[0] = nullptr;
    }
    CHECK(calls == 1 && once_calls == 1);
    CHECK(made - ended >= 1);
    return suite_result();
}
