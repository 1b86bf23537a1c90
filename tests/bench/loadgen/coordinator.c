/* What a transactional producer asks before its first transaction, blocking: ApiVersions v3,
 * FindCoordinator v2, InitProducerId v5. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadgen.h"
#include "wire.h"

enum { API_FIND_COORDINATOR = 10, API_API_VERSIONS = 18, API_INIT_PRODUCER_ID = 22 };
enum { KEY_TRANSACTION = 1, TAG_FINALIZED_FEATURES = 2, TRANSACTION_TIMEOUT_MS = 60000 };
static const char FEATURE[] = "transaction.version";
enum { FEATURE_LEVEL = 2 };

bool coordinator_comes_back(int16_t error) {
  return (error >= ERROR_COORDINATOR_LOADING && error <= ERROR_NOT_COORDINATOR) ||
         error == ERROR_CONCURRENT_TRANSACTIONS;
}

/* Returns the finalized level of transaction.version, 0 if it has none. */
static int16_t read_level(struct reader *r) {
  int16_t level = 0;
  for (int64_t n = get_length(r, true); n > 0 && !r->short_read; n--) {
    const uint8_t *name;
    int64_t size = get_string(r, true, &name);
    int16_t max_level = get16(r);
    get16(r); /* the lowest level */
    skip_tags(r, true);
    if (!r->short_read && size == (int64_t)sizeof FEATURE - 1 && !memcmp(name, FEATURE, (size_t)size))
      level = max_level;
  }
  return level;
}

/* Java's producers do with transaction.version 2 what transact.c does, and without it something
 * else: brokers that are compared must have it. */
void coordinator_check_version(void) {
  struct transport t;
  cluster_connect(&t, state.options.host, state.options.port);
  uint8_t frame[512], *p = put_request_header(frame, API_API_VERSIONS, 3, true);
  p = put_tags(put_string(put_string(p, "loadgen", true), "1", true), true);
  struct reader r;
  uint8_t *bytes = cluster_call(&t, frame, p, &r);
  int16_t error = get16(&r), level = 0;
  for (int64_t n = get_length(&r, true); n > 0 && !r.short_read; n--) {
    skip_bytes(&r, 6); /* an API, its first and its last version */
    skip_tags(&r, true);
  }
  get32(&r); /* throttle */
  for (uint64_t n = get_uvarint(&r); n > 0 && !r.short_read; n--) {
    uint64_t tag = get_uvarint(&r), size = get_uvarint(&r);
    struct reader field = {.at = r.at, .end = r.at};
    skip_bytes(&r, size);
    field.end = r.at;
    if (tag == TAG_FINALIZED_FEATURES) level = read_level(&field);
    if (field.short_read) die("cannot parse the features in ApiVersions v3");
  }
  if (error || r.short_read) die("ApiVersions v3: error %d, or cannot be parsed", error);
  free(bytes);
  transport_close(&t);
  if (level < FEATURE_LEVEL)
    die("the broker has finalized transaction.version %d, not %d", level, FEATURE_LEVEL);
}

/* Everything of a producer goes over one connection, as with one node it does with Java's. */
static void find_coordinator(struct connection *c, const char *transactional_id) {
  for (int attempt = 0;; attempt++) {
    uint8_t frame[1024], *p = put_request_header(frame, API_FIND_COORDINATOR, 2, false);
    p = put8(put_string(p, transactional_id, false), KEY_TRANSACTION);
    struct reader r;
    uint8_t *bytes = cluster_call(&c->transport, frame, p, &r);
    get32(&r); /* throttle */
    int16_t error = get16(&r);
    skip_string(&r, false);
    int32_t node_id = get32(&r);
    if (r.short_read) die("cannot parse FindCoordinator v2");
    free(bytes);
    if (error == 0) {
      if (!state.options.no_metadata && node_id != c->broker->node_id)
        die("node %d coordinates %s, but node %d leads the partitions", node_id, transactional_id,
            c->broker->node_id);
      return;
    }
    if (!coordinator_comes_back(error)) die("FindCoordinator: error %d", error);
    cluster_retry(attempt, "FindCoordinator", error);
  }
}

void coordinator_init_producer(struct connection *c, const char *transactional_id) {
  find_coordinator(c, transactional_id);
  for (int attempt = 0;; attempt++) {
    uint8_t frame[1024], *p = put_request_header(frame, API_INIT_PRODUCER_ID, 5, true);
    p = put32(put_string(p, transactional_id, true), TRANSACTION_TIMEOUT_MS);
    p = put_tags(put16(put64(p, -1), -1), true); /* no producer id to go on with */
    struct reader r;
    uint8_t *bytes = cluster_call(&c->transport, frame, p, &r);
    skip_tags(&r, true);
    get32(&r); /* throttle */
    int16_t error = get16(&r);
    c->producer_id = get64(&r);
    c->producer_epoch = get16(&r);
    if (r.short_read) die("cannot parse InitProducerId v5");
    free(bytes);
    if (error == 0) return;
    if (!coordinator_comes_back(error)) die("InitProducerId: error %d", error);
    cluster_retry(attempt, "InitProducerId", error);
  }
}
