/* Says to mapper what each line of input wants, and answers with the CPUs that it has.
 *
 *     declare LEAST MOST
 *     serial N            N more serial phases, or fewer
 *     promise SHARE       is promised this share, or says `refused` and why
 *     work                works from now on, and says so after each piece of some microseconds
 *     wait SECONDS        first waits for another allocation than the one it last reported */
#include <mapper.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *work(void *unused)
{
    for (;;) {
        volatile double x = 1;
        for (int i = 0; i < 1000; i++) x = x * 0.999 + 0.001;
        mapper_work_done(1);
    }
    return unused;
}

int main(void)
{
    char line[100], word[100];
    struct mapper_allocation now = {0, 0, 0};
    if (!mapper_get_allocation(&now)) return 1;
    while (fgets(line, sizeof line, stdin)) {
        double one = 0, other = 0;
        word[0] = 0;
        sscanf(line, "%99s %lf %lf", word, &one, &other);
        if (!strcmp(word, "declare")) {
            mapper_declare_cpus((uint32_t)one, (uint32_t)other);
        } else if (!strcmp(word, "serial")) {
            for (; one > 0; one--) mapper_serial_begin();
            for (; one < 0; one++) mapper_serial_end();
        } else if (!strcmp(word, "promise")) {
            int refused = mapper_promise(one);
            if (refused) {
                printf("refused %d\n", refused);
                fflush(stdout);
                continue;
            }
        } else if (!strcmp(word, "work")) {
            pthread_t worker;
            if (pthread_create(&worker, NULL, work, NULL)) return 3;
        } else if (!strcmp(word, "wait")) {
            if (mapper_wait(now.generation, one, &now) != 1) return 2;
        }
        if (strcmp(word, "wait")) mapper_get_allocation(&now);
        printf("%u\n", now.cpu_count);
        fflush(stdout);
    }
    return 0;
}
