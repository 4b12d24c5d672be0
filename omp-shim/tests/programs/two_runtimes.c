/* Linked with a library that gcc compiled and one that clang compiled. */
#include <stdio.h>

#ifndef ROUNDS
#define ROUNDS 3
#endif

long of_gcc(int), of_clang(int);

int main(void)
{
    for (int i = 0; i < ROUNDS; i++) printf("%ld %ld\n", of_gcc(10), of_clang(10));
    return 0;
}
