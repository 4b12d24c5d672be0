// Adds numbers up in a parallel region, prints the sum, and then becomes the program that it is given.

#include <stdio.h>
#include <unistd.h>

int main(int count, char **words) {
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int number = 0; number < 100; number++) sum += number;
    printf("%d of %zu bits\n", sum, 8 * sizeof(void *));
    fflush(stdout);
    return count > 1 ? execv(words[1], words + 1) : 0;
}
