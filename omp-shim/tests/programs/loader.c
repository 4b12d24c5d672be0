/* Loads libraries while it runs and calls them.
 *
 * Arguments: local:PATH:FUNCTION, global:PATH:FUNCTION and deep:PATH:FUNCTION (which prefers its own
 * libraries) load a library and remember its function (none if it is empty); call:N calls the N-th
 * remembered function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    long (*functions[16])(int);
    int count = 0;
    for (int i = 1; i < argc; i++) {
        char *kind = strtok(argv[i], ":"), *path = strtok(0, ":"), *name = strtok(0, ":");
        if (!strcmp(kind, "call")) {
            printf("%ld\n", functions[atoi(path)](10));
            continue;
        }
        int scope = strcmp(kind, "global") ? RTLD_LOCAL : RTLD_GLOBAL;
        if (!strcmp(kind, "deep")) scope |= RTLD_DEEPBIND;
        void *handle = dlopen(path, RTLD_LAZY | scope);
        if (!handle) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        if (name && !(functions[count++] = (long (*)(int))dlsym(handle, name))) return 2;
    }
    return 0;
}
