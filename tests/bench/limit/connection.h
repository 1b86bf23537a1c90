/* One client: frames in, handled in order, and responses out. */
#ifndef LIMIT_CONNECTION_H
#define LIMIT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output.h"
#include "server.h"

enum { FRAME_BYTES_MAX = 128 << 20 };

/* Lives from accept until the end of the round in which it ended. */
struct connection {
  int fd;
  char name[64]; /* its address, for messages */
  uint32_t events; /* what epoll was asked for */
  bool ending;     /* closed at the end of the round */
  bool silent;     /* and then nothing more is sent */
  uint8_t *input;
  size_t input_used, input_capacity, handled; /* `handled` bytes of `input_used` are done */
  struct output output;
  uint64_t active_ms;   /* the last time anything came in */
  uint64_t deadline_ms; /* of the Fetch that waits; 0 if the next request is a new one */
  bool waiting, touched;
  struct connection *next, *previous;                 /* of all */
  struct connection *next_touched;
  struct connection *next_waiting, *previous_waiting;
};

/* Takes over the socket. */
void connection_open(struct server *s, int fd, const char *name);

/* The socket has events of epoll(7). */
void connection_ready(struct server *s, struct connection *c, uint32_t events);

/* Looks again at the Fetch that waits. */
void connection_resume(struct server *s, struct connection *c);

/* At the end of a round: sends, handles what had no room, or closes it. */
void connection_settle(struct server *s, struct connection *c);

/* Closes it at the end of the round; prints the reason. */
__attribute__((format(printf, 3, 4))) void connection_end(struct server *s, struct connection *c,
                                                          const char *format, ...);

void connection_free(struct server *s, struct connection *c);

#endif
