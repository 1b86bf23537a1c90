/* What a connection has to send, in order: bytes, and parts of segments between them. */
#ifndef LIMIT_OUTPUT_H
#define LIMIT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "log.h"
#include "wire.h"

/* A part of a segment that follows the first `at` of the bytes. Holds a reference. */
struct file_range {
  size_t at, left;
  off_t position;
  struct segment *segment;
};

struct output {
  struct buffer bytes;
  size_t sent; /* of the bytes */
  struct file_range *ranges;
  uint32_t range_count, range_capacity, range_first; /* the first one not yet sent */
  uint64_t range_bytes; /* of all ranges since the output was empty */
};

enum output_state { OUTPUT_EMPTY, OUTPUT_LEFT, OUTPUT_FAILED };

/* Whether more responses may be added. A response may be as long as it is, but none follows a long
 * one before that is sent. */
bool output_has_room(const struct output *o);

void output_add_slice(struct output *o, const struct slice *slice);

/* Sends until the socket is full, or some megabytes, so that other connections have their turn.
 * With OUTPUT_FAILED errno tells why. */
enum output_state output_send(struct output *o, int fd);

void output_free(struct output *o);

#endif
