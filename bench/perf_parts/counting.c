/* Counting from inside: what runs between the two calls is what callgrind is asked about. Without valgrind both do nothing. */
#include <valgrind/callgrind.h>

void counting_starts(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void counting_ends(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
