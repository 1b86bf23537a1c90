/* The result, as one line of JSON on standard output. */
#ifndef LOADGEN_REPORT_H
#define LOADGEN_REPORT_H

#include <sys/resource.h>

/* Returns the exit code: 0, or 3 when any response carried an error. */
int report_print(const struct rusage *start, const struct rusage *end);

#endif
