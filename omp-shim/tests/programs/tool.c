/* A tool of the user's: says how many regions its runtime told it of. Compiled as a library or with a program. */
#include <omp-tools.h>
#include <stdio.h>

static int regions;

static void begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *region, unsigned size, int flags,
                  const void *place)
{
    regions++;
}

static int start(ompt_function_lookup_t lookup, int device, ompt_data_t *data)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    set(ompt_callback_parallel_begin, (ompt_callback_t)begin);
    return 1;
}

static void end(ompt_data_t *data)
{
    printf("tool: %d regions\n", regions);
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t result = {start, end, {0}};
    return &result;
}
