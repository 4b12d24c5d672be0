/* Runs a program that was compiled as a library, in such a way that its calls reach the libraries that it was
 * linked with and nothing that was preloaded.
 *
 * Arguments: the library, which has `guest_main` for `main`, and the arguments of the program. Before it runs, the
 * function that LOOKS_UP in the environment names is looked up by its handle. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    void *handle = argc < 2 ? 0 : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    int (*run)(int, char **) = handle ? (int (*)(int, char **))dlsym(handle, "guest_main") : 0;
    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const char *name = getenv("LOOKS_UP");
    if (name && !dlsym(handle, name)) return 2;
    return run(argc - 1, argv + 1);
}
