/* A load generator that replays prepared Produce and Fetch frames: one thread, one epoll.
 *
 * loadgen.c  options, the loop, pacing, the report     produce.c   Produce frames and responses
 * cluster.c  Metadata and InitProducerId, blocking     fetch.c     Fetch frames and responses
 * batch.c    the record batch and its CRC              transact.c  transactions of Produce and EndTxn
 * wire.h     protocol fields, varints                  coordinator.c  what comes before them, blocking
 * transport.c  TCP, or TLS on it
 */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "batch.h"
#include "histogram.h"
#include "transport.h"

enum { MAX_BROKERS = 64, MAX_TOPIC_BYTES = 249, MAX_LOGIN_BYTES = 200, SECONDS_MAX = 3600 };
/* Connecting, shaking hands, and each call before the load. */
enum { SETUP_TIMEOUT_SECONDS = 20 };
enum mode { PRODUCE, FETCH, TRANSACT };
/* Kafka's error codes that are not the end of a request. */
enum {
  ERROR_COORDINATOR_LOADING = 14,
  ERROR_COORDINATOR_NOT_AVAILABLE = 15,
  ERROR_NOT_COORDINATOR = 16,
  ERROR_OUT_OF_ORDER_SEQUENCE = 45,
  ERROR_CONCURRENT_TRANSACTIONS = 51,
};

struct options {
  const char *host, *topic, *batch_file, *client_id;
  const char *user, *password; /* of SASL PLAIN; null: no login */
  const char *ca_file;         /* of TLS; null: plain */
  int port;
  enum mode mode;
  bool idempotent, discard, no_metadata, auto_create, read_committed;
  int16_t version, acks;
  int metadata_version;
  int connections, in_flight, partitions, partitions_per_request;
  long batch_bytes, records_per_batch, max_bytes, min_bytes, max_wait_ms;
  long producer_id_base; /* -1: ask the broker with InitProducerId */
  long transaction_records, record_bytes, retry_backoff_ms;
  uint64_t abort_every; /* 0: no transaction is aborted */
  double rate, seconds, warmup_seconds;
  uint64_t requests; /* 0: no limit */
};

struct broker {
  int32_t node_id;
  char host[256];
  int port;
  int32_t *partitions;
  int partition_count;
};

struct cluster {
  struct broker brokers[MAX_BROKERS];
  int broker_count;
};

/* One place in a connection's window. Responses come in request order, so slots are used and
 * freed as a ring. */
struct slot {
  uint64_t start_ns; /* the send time, or with --rate the time it should have been sent */
  uint64_t end_position; /* where in the connection's output this frame ends (acks=0) */
  int32_t correlation;
  int first; /* produce: index of the first partition; fetch: index into the slot's cursors;
                transact: number of the Produce request, -1 for EndTxn */
  uint8_t *frame;
  struct cursor *cursors;
  int cursor_count;
};

/* Where a reader stands in one partition. */
struct cursor {
  int32_t partition;
  int64_t offset, next_offset, readable_until;
  struct step {
    int64_t next_offset;
    int32_t record_bytes, whole_bytes;
  } *steps; /* what the first pass over the partition saw, by step: see --discard */
  int step, step_count, step_capacity;
};

struct connection {
  struct transport transport;
  int index;
  bool waiting_for_output;
  struct slot *slots;
  int head, used;
  int32_t next_correlation;
  const struct broker *broker;
  int next_partition;
  int64_t producer_id;
  int16_t producer_epoch;
  int32_t *sequences;
  uint64_t sent, quota; /* with --requests: this connection's share of them */
  uint64_t due, intended; /* open loop: requests that should be out, and the next one's number */
  struct iovec *output;
  int output_head, output_tail, output_capacity;
  uint64_t output_queued, output_written;
  uint8_t *input;
  size_t input_used, input_capacity;
  struct fetch_state *fetch;
  struct transaction *transaction;
};

struct counters {
  struct histogram latency, transaction; /* the latter from the first Produce to the end's answer */
  uint64_t requests, bytes, records, empty, throttled, misrouted, retries;
  uint64_t errors[256]; /* by Kafka's error code + 1 */
  uint64_t per_second[SECONDS_MAX];
};

struct state {
  struct options options;
  struct cluster cluster;
  struct batch batch;
  struct connection *connections;
  struct counters counters;
  uint64_t origin_ns, window_start_ns, window_end_ns;
  uint64_t sent;
  uint64_t errors_reported;
};

extern struct state state;

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);
uint64_t now_ns(void);

/* loadgen.c: what the two protocols call */
void queue_output(struct connection *c, const void *bytes, size_t size);
void count_error(int16_t code, int32_t partition);
/* The oldest request of a connection is answered; its slot is free. */
void release_slot(struct connection *c, uint64_t now);
/* Counts one request, or transaction, if it ends inside the measured window. */
void count_request(uint64_t start, uint64_t now, uint64_t bytes, uint64_t records);
/* Both. */
void complete_request(struct connection *c, uint64_t now, uint64_t bytes, uint64_t records);
bool check_correlation(struct connection *c, int32_t correlation);

/* cluster.c: blocking, used before the load starts; a connection has shaken hands
 * and logged in, if it has to */
struct reader;
/* Sends the frame that ends at `end`; the caller frees the returned response. */
uint8_t *cluster_call(struct transport *t, uint8_t *frame, uint8_t *end, struct reader *response);
/* Waits a little before the next attempt, or ends the run after too many. */
void cluster_retry(int attempt, const char *what, int16_t error);
void cluster_connect(struct transport *t, const char *host, int port);
void cluster_load_metadata(void);
void cluster_init_producer_id(struct connection *c);

/* coordinator.c: blocking, too */
void coordinator_check_version(void);
/* Whether a coordinator that answers this is to be asked again, as Java's producers do. */
bool coordinator_comes_back(int16_t error);
void coordinator_init_producer(struct connection *c, const char *transactional_id);

/* produce.c, fetch.c and transact.c; what is read until a whole frame is there */
void read_frames(struct connection *c, size_t capacity,
                 void (*read_response)(struct connection *, const uint8_t *, size_t, uint64_t));
void produce_prepare(struct connection *c);
void produce_send(struct connection *c, struct slot *slot);
void produce_readable(struct connection *c);
void fetch_prepare(struct connection *c);
void fetch_send(struct connection *c, struct slot *slot);
void fetch_readable(struct connection *c);
/* Lays out the transactions, and sets partitions_per_request. */
void transact_plan(void);
void transact_prepare(struct connection *c);
void transact_send(struct connection *c, struct slot *slot);
void transact_readable(struct connection *c);
/* Whether there is something to send now; `may_begin` if that may be another transaction. */
bool transact_may_send(const struct connection *c, bool may_begin);
bool transact_is_open(const struct connection *c);
/* How long the loop may sleep, at most `most`; whether a connection's pause is over now. */
int transact_sleep_ms(uint64_t now, int most);
bool transact_wakes(struct connection *c, uint64_t now);

/* Writes size (a hole), key, version, correlation id (a hole at byte 8) and client id. */
uint8_t *put_request_header(uint8_t *p, int16_t api_key, int16_t version, bool flexible);
enum { AT_CORRELATION = 8 };

#endif
