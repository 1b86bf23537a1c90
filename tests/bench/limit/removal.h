/* Segments that are no longer part of a log, until nobody reads them any more. */
#ifndef LIMIT_REMOVAL_H
#define LIMIT_REMOVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "segment.h"

/* Takes over the log's reference. The file's name goes at once, its space not before `due_ms`. */
void removal_add(struct segment *segment, uint64_t due_ms);

/* Frees a portion of what is due, so that no request waits for the whole, but more than the
 * `appended` bytes since the last call, so that the disk does not fill. False if nothing is due. */
bool removal_step(uint64_t now_ms, uint64_t appended);

/* Frees everything, at the end. */
void removal_end(void);

#endif
