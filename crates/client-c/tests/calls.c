/* Calls every function of mapper.h once; also valid C++. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <mapper.h>
#include <sched.h>
#include <stdio.h>

int main(void)
{
    struct mapper_allocation allocation = {9, 9, 9};
    cpu_set_t cpus;
    int there = mapper_get_allocation(&allocation);
    int named = mapper_get_cpus(sizeof cpus, &cpus);
    mapper_get_allocation(NULL);
    mapper_work_done(4);
    mapper_work_done(-1);
    mapper_latency(0.25);
    mapper_latency(-1);
    mapper_work_done(0.5);
    mapper_declare_cpus(2, 7);
    /* No such share, managed or not. */
    if (mapper_promise(2) != EINVAL || (!there && mapper_promise(0.5))) return 2;
    mapper_serial_begin();
    mapper_serial_begin();
    mapper_serial_end();
    printf("managed %d, %u cpus", mapper_is_managed(), mapper_cpu_count());
    if (there && named == 3)
        printf(", generation %u, nodes %u, cpu %d", allocation.generation,
               (unsigned)allocation.node_mask, CPU_ISSET(6, &cpus) ? 6 : -1);
    else if (there || named || allocation.cpu_count != 9)
        return 1;
    printf(", wait %d\n", mapper_wait(mapper_generation(), 0.001, NULL));
    return 0;
}
