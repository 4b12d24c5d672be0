// Objects with thread storage are made for each thread, and ended where a thread ends, in the reverse order.
#include "suite.h"
#include <pthread.h>
#include <map>
#include <memory>
#include <mutex>
#include <vector>
static std::mutex mutex;
static std::map<int, std::vector<int>> ends;
struct Object {
    int id, owner;
    explicit Object(int id) : id(id), owner(-1) {}
    ~Object() {
        if (owner < 0) return;
        std::lock_guard<std::mutex> lock(mutex);
        ends[owner].push_back(id);
    }
};
static thread_local Object first(1);
static thread_local std::unique_ptr<Object> second(new Object(2));
static void *runs(void *argument)
{
    int base = *(int *)argument;
#pragma omp parallel num_threads(2)
    {
        int owner = base + omp_get_thread_num();
        first.owner = owner;
        second->owner = owner;
#pragma omp barrier
        CHECK(first.owner == owner && second->owner == owner);
    }
    return nullptr;
}
int main()
{
    for (int base = 0; a_few_rounds() || base < 30; base += 10) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, runs, &base)) return 2;
        pthread_join(thread, nullptr);
        std::lock_guard<std::mutex> lock(mutex);
        CHECK((ends[base] == std::vector<int>{2, 1}));
        if (base > 1000) break;
    }
    return suite_result();
}
