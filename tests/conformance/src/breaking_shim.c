/* Plays the shim, for tests of the judge: does under follow and virtual what a broken one might. */
#include "mapper_page.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((constructor)) static void attach(void)
{
    const char *teams = getenv("MAPPER_TEAMS"), *path = getenv("MAPPER_PAGE");
    if (!teams || !path) return;
    struct mapper_page *page = mmap(NULL, MAPPER_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                                    open(path, O_RDWR | O_CLOEXEC), 0);
    if (page == MAP_FAILED) _exit(9);
    page->report.runtimes = MAPPER_RUNTIME_LIBGOMP;
    if (!strcmp(teams, "follow")) _exit(3);
    if (!strcmp(teams, "virtual")) {
#ifdef HANGS
        for (;;) pause();
#endif
        page->report.teams_off = MAPPER_TEAMS_OFF_TASKS;
    }
}
