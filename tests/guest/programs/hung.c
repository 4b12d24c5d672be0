/* Maps a file and prints "ready"; for a line on its input it writes to the mapping and gives it up, which hangs if the file
   system does not answer, with its address space locked for writers. With a second argument another thread waits for that
   lock then, so that no reader gets it either. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map_more(void *unused) {
    sleep(1);
    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t other;
    int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror("map");
        return 1;
    }
    *page = 1;
    puts("ready");
    fflush(stdout);
    char line[16];
    if (fgets(line, sizeof line, stdin) == NULL)
        return 1;
    puts("goes on");
    fflush(stdout);
    if (argc > 2 && pthread_create(&other, NULL, map_more, NULL) != 0)
        return 1;
    *page = 2;
    munmap(page, 4096);
    puts("answered");
    return 0;
}
