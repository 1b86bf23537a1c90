/* Requests: their header, and the functions that answer them. */
#ifndef LIMIT_REQUESTS_H
#define LIMIT_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "connection.h"
#include "server.h"

struct request {
  int16_t key, version;
  int32_t correlation;
  bool flexible;
  struct reader body;
};

enum verdict {
  DONE,      /* answered, or needs no answer */
  MALFORMED, /* the connection ends */
  WAIT,      /* not answered: to be handled again, at the latest at c->deadline_ms */
};

typedef enum verdict handler(struct server *s, struct connection *c, struct request *r);

/* Handles one frame without its length. The bytes may be changed, and must stay until
 * log_write_pending. On MALFORMED `reason` says why. */
enum verdict request_handle(struct server *s, struct connection *c, uint8_t *frame, size_t size,
                            const char **reason);

/* The response's header; the fields of the body follow in c->output. */
struct response {
  size_t start;
  uint64_t range_bytes;
};
struct response response_begin(struct connection *c, const struct request *r);
enum verdict response_end(struct connection *c, struct response response);

handler handle_produce, handle_fetch, handle_list_offsets, handle_metadata, handle_create_topics,
    handle_delete_topics, handle_init_producer_id;

#endif
