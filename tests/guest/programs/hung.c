/* Maps a file and prints "ready"; for a line on its input it writes to the mapping and gives it up, which hangs, with its
   address space locked, if the file system does not answer. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
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
    *page = 2;
    munmap(page, 4096);
    puts("answered");
    return 0;
}
