/* An application's runtime as of the first page: knows nothing of what was added since. Reads the
 * allocation, counts in a slot, says which runtime it is, and prints what it was told.
 * Stays as long as its input. */
#define _GNU_SOURCE
#include "mapper_page_1.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

int main(void)
{
    const char *path = getenv("MAPPER_PAGE"), *token = getenv("MAPPER_TOKEN");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || !token)
        return 3;
    struct mapper_page *page =
        mmap(NULL, MAPPER_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return 4;
    if (LOAD(page->header.magic) != MAPPER_PAGE_MAGIC || LOAD(page->header.version) != 1 ||
        LOAD(page->header.size) != MAPPER_PAGE_BYTES ||
        LOAD(page->header.token) != strtoull(token, NULL, 16))
        return 5;
    uint32_t before = __atomic_load_n(&page->allocation.sequence, __ATOMIC_ACQUIRE);
    uint32_t cpus = LOAD(page->allocation.cpu_count);
    uint32_t mode = LOAD(page->allocation.team_mode);
    uint64_t mask = LOAD(page->allocation.cpu_mask[1]);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (before % 2 == 1 || LOAD(page->allocation.sequence) != before)
        return 6;
    uint32_t index = __atomic_fetch_add(&page->report.slots_claimed, 1, __ATOMIC_ACQ_REL);
    struct mapper_thread_slot *slot = &page->slots[index];
    uint64_t nobody = 0, me = (uint64_t)getpid() << 32 | (uint64_t)gettid();
    if (!__atomic_compare_exchange_n(&slot->owner, &nobody, me, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return 7;
    __atomic_store_n(&slot->regions, 12, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->iterations, 3400, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->last_progress_ns, 5, __ATOMIC_RELAXED);
    __atomic_fetch_or(&page->report.runtimes, MAPPER_RUNTIME_LIBGOMP, __ATOMIC_RELAXED);
    __atomic_store_n(&page->report.applied_sequence, before, __ATOMIC_RELAXED);
    __atomic_store_n(&page->report.team_size, cpus, __ATOMIC_RELAXED);
    printf("%u cpus, mode %u, mask %llx\n", cpus, mode, (unsigned long long)mask);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
