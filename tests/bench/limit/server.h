/* The server's state: one thread owns all of it.
 *
 * main.c        options, start and end             requests.c  which request goes where
 * loop.c        epoll, and the order of a round    produce.c   Produce
 * connection.c  frames in, responses out           fetch.c     Fetch
 * output.c      what waits to be sent              admin.c     every other request
 * topics.c      topics and partitions              log.c       appends, rolls, reads, retention
 * segment.c     a file and its index               removal.c   files nobody needs any more
 * wire.c        fields of the protocol             crc32c.c    the checksum
 */
#ifndef LIMIT_SERVER_H
#define LIMIT_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "topics.h"

struct connection;

struct options {
  const char *host, *data_dir;
  int port, connections_max;
  int32_t partitions; /* of a topic that Metadata creates */
  int64_t segment_bytes;
  bool hardware_crc;
};

struct server {
  struct options options;
  struct topics topics;
  int64_t next_producer_id;
  int epoll_fd;
  uint64_t now_ms; /* monotonic, taken once a round */
  struct connection *connections; /* all of them */
  int connection_count;
  uint64_t grown_input_bytes; /* of input buffers above their first size */
  struct connection *touched; /* those with something to do at the end of the round */
  struct connection *waiting; /* those whose next request is a Fetch that waits */
  uint64_t next_deadline_ms;  /* not above the first deadline of those */
};

#endif
