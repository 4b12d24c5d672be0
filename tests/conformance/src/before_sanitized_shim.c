/* Stands before a shim that AddressSanitizer instruments. The sanitizer's runtime begins by calls of dlsym, when the memory
 * is not there yet that instrumented code uses: until it has begun these go to the C library, and then to the shim. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void __asan_init(void);

static void *next;

void *next_dlsym(void)
{
    if (!next) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return next;
}

/* A jump, as the function finds its caller by the address to which it returns. */
__asm__(".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    push %rdi\n"
        "    push %rsi\n"
        "    sub $8, %rsp\n"
        "    call next_dlsym@PLT\n"
        "    add $8, %rsp\n"
        "    pop %rsi\n"
        "    pop %rdi\n"
        "    jmp *%rax\n"
        ".size dlsym, . - dlsym\n");

__attribute__((constructor)) static void sanitizer_has_begun(void)
{
    __asan_init();
    void *(*real)(void *, const char *) = next_dlsym();
    next = real(RTLD_NEXT, "dlsym");
}
