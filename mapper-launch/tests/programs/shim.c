// Stands in for the OpenMP shim: says on standard error that it was loaded.

#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
    if (getenv("SHIM_TELLS")) {
        (void)!write(2, "shim loaded\n", 12);
    }
}
