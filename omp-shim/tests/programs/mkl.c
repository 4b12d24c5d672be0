/* A library that asks for its number of threads as Intel's MKL does, and runs serially with one; with LIBRARY, that
 * library, otherwise a program that loads it as Python loads extensions. A line of input is what to do: "blas", "lapack"
 * or "pardiso" computes, answered by the size of the team; "max" queries as a program does, "made" as code does that has just
 * been compiled; "mkl N", "openmp N" and "dynamic N" set something, answered by 0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef LIBRARY

static int size, is_fixed;

int mkl_serv_get_dynamic(void) { return !is_fixed; }

int mkl_serv_get_ncpus(void) { return 2; }

int mkl_serv_get_ncorespercpu(void) { return 2; }

int mkl_serv_cbwr_get(int option) { return option == -1 && getenv("MKL_CBWR") ? 3 : 1; }

/* As disassembled. */
int mkl_serv_domain_get_max_threads(int domain)
{
    const char *chosen = getenv("MKL_NUM_THREADS");
    int cores = mkl_serv_get_ncpus() * mkl_serv_get_ncorespercpu();
    if (!is_fixed && omp_in_parallel()) return 1;
    int wanted = size ? size : chosen ? atoi(chosen) : omp_get_max_threads();
    return !is_fixed && wanted > cores ? cores : wanted;
}

void MKL_Set_Num_Threads(int number) { size = number; }

void MKL_Set_Dynamic(int may_adjust) { is_fixed = !may_adjust; }

int multiply(int domain)
{
    /* Through the linker, as MKL calls it. */
    int (*volatile ask)(int) = mkl_serv_domain_get_max_threads;
    int wanted = ask(domain), team = 1;
    if (wanted == 1) return 1;
#pragma omp parallel num_threads(wanted)
#pragma omp master
    team = omp_get_num_threads();
    return team;
}

#else

static void *library;

static int call(const char *function, int argument)
{
    return ((int (*)(int))dlsym(library, function))(argument);
}

/* sub rsp, 8; mov rax, ADDRESS; call rax; add rsp, 8; ret */
static int call_from_made_code(int argument)
{
    unsigned char code[] = {0x48, 0x83, 0xec, 8, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3};
    void *question = dlsym(RTLD_DEFAULT, "mkl_serv_domain_get_max_threads");
    void *made = mmap(NULL, sizeof code, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!question || made == MAP_FAILED) return -1;
    memcpy(code + 6, &question, sizeof question);
    memcpy(made, code, sizeof code);
    return ((int (*)(int))made)(argument);
}

static int obey(const char *what, int number)
{
    static const struct { const char *name; int domain; } works[] = {{"blas", 1}, {"pardiso", 4}, {"lapack", 5}};
    for (int work = 0; work < 3; work++)
        if (!strcmp(what, works[work].name)) return call("multiply", works[work].domain);
    if (!strcmp(what, "max")) {
        volatile int answer = call("mkl_serv_domain_get_max_threads", 1);
        return answer;
    }
    if (!strcmp(what, "made")) return call_from_made_code(1);
    if (!strcmp(what, "mkl")) call("MKL_Set_Num_Threads", number);
    if (!strcmp(what, "dynamic")) call("MKL_Set_Dynamic", number);
    if (!strcmp(what, "openmp")) omp_set_num_threads(number);
    return 0;
}

int main(int count, char **arguments)
{
    char line[32], what[32];
    library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return 1;
    while (fgets(line, sizeof line, stdin)) {
        int number = 0;
        sscanf(line, "%31s %d", what, &number);
        printf("%d\n", obey(what, number));
        fflush(stdout);
    }
    return 0;
}

#endif
