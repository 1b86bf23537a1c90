/* Transactions as Java's producers run them with transaction.version 2: Produce v12, whose first batch
 * in a partition adds that to the transaction, then EndTxn v5, which answers the next epoch.
 *
 * A transaction's records fill batches up to --batch-bytes, Java's batch.size. Each batch goes to the
 * next partition, as with Java's sticky partitioner, and a request takes one batch of each partition
 * at most, and MAX_REQUEST_BYTES. EndTxn follows when all batches are stored.
 *
 * CONCURRENT_TRANSACTIONS means that the transaction before is not ended everywhere: after
 * --retry-backoff-ms everything that was refused goes again, in its order. What was on its way behind it
 * may be refused with OUT_OF_ORDER_SEQUENCE_NUMBER.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loadgen.h"
#include "wire.h"

enum { API_PRODUCE = 0, PRODUCE_VERSION = 12, API_END_TXN = 26, END_TXN_VERSION = 5 };
enum { ACKS_ALL = -1, TIMEOUT_MS = 30000, INPUT_BYTES = 64 << 10 };
enum { MAX_REQUEST_BYTES = 1 << 20, END_TXN = -1 };
/* Of one batch in a request: its partition, its length, its header and no tags. */
enum { BATCH_ROOM = 4 + 5 + BATCH_HEADER_BYTES + 1 };

/* The same for all connections. */
static struct {
  struct batch full, last; /* all batches but the last are `full` */
  int batches, per_request, requests;
  uint64_t bytes;
} plan;

/* The transaction of a connection, and what becomes of its Produce requests. */
struct transaction {
  char id[MAX_TOPIC_BYTES + 16];
  bool open, aborts, ending;
  bool refused;         /* something has to go again: nothing is sent until all answers are there */
  int first_partition;  /* where its first batch goes */
  int stored;           /* how many requests are done */
  int unsent;           /* how many are to be sent, of those that are not done from `next` on */
  int next;
  bool *done;           /* by number of the request */
  uint64_t begun_ns, end_sent_ns; /* its first request, and its first EndTxn */
  uint64_t retry_ns;    /* nothing is sent before; 0: now */
  uint64_t begun;       /* transactions so far */
};

static int waiting; /* connections that pause before they send again */

static const struct batch *batch_at(int i) {
  return i + 1 == plan.batches ? &plan.last : &plan.full;
}

void transact_plan(void) {
  struct options *o = &state.options;
  if (state.cluster.broker_count != 1) die("transactions want one broker, not several");
  const int partitions = state.cluster.brokers[0].partition_count;
  const int64_t now_ms = (int64_t)time(NULL) * 1000;
  const int32_t all = (int32_t)o->transaction_records;
  int32_t room = batch_room((size_t)o->batch_bytes, (size_t)o->record_bytes);
  if (room < 1) room = 1; /* a record that is larger than a batch has one for itself */
  if (room > all) room = all;
  plan.batches = (all + room - 1) / room;
  batch_build_transactional(&plan.full, room, (size_t)o->record_bytes, now_ms);
  batch_build_transactional(&plan.last, all - (plan.batches - 1) * room, (size_t)o->record_bytes,
                            now_ms);
  int fitting = (int)(MAX_REQUEST_BYTES / (plan.full.size + BATCH_ROOM));
  plan.per_request = fitting < 1 ? 1 : fitting < partitions ? fitting : partitions;
  plan.requests = (plan.batches + plan.per_request - 1) / plan.per_request;
  plan.bytes = (uint64_t)(plan.batches - 1) * plan.full.size + plan.last.size;
  o->partitions_per_request = plan.per_request;
  state.batch = plan.full;
}

void transact_prepare(struct connection *c) {
  struct transaction *t = c->transaction = calloc(1, sizeof *t);
  if (t) t->done = calloc((size_t)plan.requests, sizeof *t->done);
  if (!t || !t->done) die("out of memory");
  for (int i = 0; i < state.options.in_flight; i++) {
    c->slots[i].frame = malloc(1024 + (size_t)plan.per_request * BATCH_ROOM);
    if (!c->slots[i].frame) die("out of memory for frames");
  }
  c->next_partition =
      (int)((int64_t)c->index * c->broker->partition_count / state.options.connections);
  snprintf(t->id, sizeof t->id, "%s-%d", state.options.topic, c->index);
  coordinator_init_producer(c, t->id);
}

bool transact_is_open(const struct connection *c) { return c->transaction->open; }

bool transact_may_send(const struct connection *c, bool may_begin) {
  const struct transaction *t = c->transaction;
  if (t->retry_ns) return false;
  if (!t->open) return may_begin && c->used == 0;
  if (t->refused || t->ending) return false;
  return t->unsent > 0 || t->stored == plan.requests;
}

static void begin(struct connection *c, uint64_t now) {
  struct transaction *t = c->transaction;
  c->sent++;
  state.sent++;
  t->begun++;
  t->open = true;
  t->aborts = state.options.abort_every && t->begun % state.options.abort_every == 0;
  t->ending = t->refused = false;
  t->stored = t->next = 0;
  t->unsent = plan.requests;
  t->begun_ns = now;
  t->end_sent_ns = 0;
  memset(t->done, 0, (size_t)plan.requests * sizeof *t->done);
  t->first_partition = c->next_partition;
  c->next_partition = (c->next_partition + plan.batches) % c->broker->partition_count;
}

static int request_batches(int number) {
  int left = plan.batches - number * plan.per_request;
  return left < plan.per_request ? left : plan.per_request;
}

static void send_produce(struct connection *c, struct slot *slot, int number) {
  struct transaction *t = c->transaction;
  const int first = number * plan.per_request, n = request_batches(number);
  uint8_t *frame = slot->frame, *queued = frame;
  uint8_t *p = put_request_header(frame, API_PRODUCE, PRODUCE_VERSION, true);
  size_t tails = 0;
  p = put_string(p, t->id, true);
  p = put32(put16(p, ACKS_ALL), TIMEOUT_MS);
  p = put_string(put_array_length(p, 1, true), state.options.topic, true);
  p = put_array_length(p, n, true);
  for (int i = first; i < first + n; i++) {
    const struct batch *batch = batch_at(i);
    const int index = (t->first_partition + i) % c->broker->partition_count;
    /* The batches before this one in its partition are full. */
    const int32_t sequence = i / c->broker->partition_count * plan.full.records;
    p = put32(p, c->broker->partitions[index]);
    p = put_array_length(p, (int32_t)batch->size, true);
    memcpy(p, batch->bytes, BATCH_HEADER_BYTES);
    batch_patch_header(batch, p, c->producer_id, c->producer_epoch, sequence);
    p += BATCH_HEADER_BYTES;
    queue_output(c, queued, (size_t)(p - queued));
    queue_output(c, batch->bytes + BATCH_HEADER_BYTES, batch->size - BATCH_HEADER_BYTES);
    tails += batch->size - BATCH_HEADER_BYTES;
    queued = p;
    p = put_tags(p, true);
  }
  p = put_tags(put_tags(p, true), true);
  queue_output(c, queued, (size_t)(p - queued));
  store32(frame, (int32_t)((size_t)(p - frame) - 4 + tails));
  store32(frame + AT_CORRELATION, slot->correlation);
}

static void send_end(struct connection *c, struct slot *slot) {
  struct transaction *t = c->transaction;
  uint8_t *p = put_request_header(slot->frame, API_END_TXN, END_TXN_VERSION, true);
  p = put16(put64(put_string(p, t->id, true), c->producer_id), c->producer_epoch);
  p = put_tags(put8(p, !t->aborts), true);
  store32(slot->frame, (int32_t)(p - slot->frame - 4));
  store32(slot->frame + AT_CORRELATION, slot->correlation);
  queue_output(c, slot->frame, (size_t)(p - slot->frame));
  t->ending = true;
  if (!t->end_sent_ns) t->end_sent_ns = slot->start_ns;
}

void transact_send(struct connection *c, struct slot *slot) {
  struct transaction *t = c->transaction;
  if (!t->open) begin(c, slot->start_ns);
  if (t->unsent == 0) {
    slot->first = END_TXN;
    send_end(c, slot);
    return;
  }
  while (t->done[t->next]) t->next++;
  slot->first = t->next++;
  t->unsent--;
  send_produce(c, slot, slot->first);
}

/* Everything that is not stored goes again, once the pause is over. */
static void retry_later(struct connection *c, uint64_t now) {
  struct transaction *t = c->transaction;
  t->refused = t->ending = false;
  t->next = 0;
  t->unsent = plan.requests - t->stored;
  t->retry_ns = now + (uint64_t)state.options.retry_backoff_ms * 1000000u;
  waiting++;
}

bool transact_wakes(struct connection *c, uint64_t now) {
  struct transaction *t = c->transaction;
  if (!t->retry_ns || t->retry_ns > now) return false;
  t->retry_ns = 0;
  waiting--;
  return true;
}

int transact_sleep_ms(uint64_t now, int most) {
  for (int i = 0; waiting > 0 && i < state.options.connections; i++) {
    const uint64_t at = state.connections[i].transaction->retry_ns;
    if (!at) continue;
    const int ms = at > now ? (int)((at - now) / 1000000u) + 1 : 0;
    if (ms < most) most = ms;
  }
  return most;
}

static void skip_record_errors(struct reader *r) {
  for (int64_t n = get_length(r, true); n > 0 && !r->short_read; n--) {
    get32(r);
    skip_string(r, true);
    skip_tags(r, true);
  }
  skip_string(r, true); /* error message */
}

static bool is_measured(uint64_t now) {
  return now >= state.window_start_ns && now < state.window_end_ns;
}

static void count_retry(uint64_t now) {
  if (is_measured(now)) state.counters.retries++;
}

/* Returns whether the request has to be sent again; counts all other errors. */
static bool read_partitions(struct connection *c, struct reader *r, int number) {
  const struct transaction *t = c->transaction;
  const int n = request_batches(number), count = c->broker->partition_count;
  bool again = false;
  if (get_length(r, true) != n) die("the Produce response has other partitions");
  for (int i = 0; i < n; i++) {
    int32_t partition = get32(r);
    int16_t error = get16(r);
    skip_bytes(r, 24); /* base offset, log append time, log start offset */
    skip_record_errors(r);
    skip_tags(r, true);
    if (r->short_read) break;
    bool asked = false;
    for (int k = 0; k < n; k++)
      asked |= partition == c->broker->partitions[(t->first_partition + number * plan.per_request +
                                                   k) % count];
    if (!asked) state.counters.misrouted++;
    if (error == ERROR_CONCURRENT_TRANSACTIONS ||
        (error == ERROR_OUT_OF_ORDER_SEQUENCE && t->refused))
      again = true;
    else if (error)
      count_error(error, partition);
  }
  return again;
}

static void read_produce(struct connection *c, struct reader *r, int number, uint64_t now) {
  struct transaction *t = c->transaction;
  if (get_length(r, true) != 1) die("the Produce response has other topics");
  skip_string(r, true);
  const bool again = read_partitions(c, r, number);
  skip_tags(r, true);
  if (get32(r) > 0) state.counters.throttled++;
  skip_tags(r, true);
  if (r->short_read || r->at != r->end) die("cannot parse Produce v%d", PRODUCE_VERSION);
  release_slot(c, now);
  if (again) {
    t->refused = true;
    count_retry(now);
  } else {
    t->done[number] = true;
    t->stored++;
  }
  if (t->refused && c->used == 0) retry_later(c, now);
}

static void read_end(struct connection *c, struct reader *r, uint64_t now) {
  struct transaction *t = c->transaction;
  if (get32(r) > 0) state.counters.throttled++;
  int16_t error = get16(r);
  int64_t producer_id = get64(r);
  int16_t producer_epoch = get16(r);
  skip_tags(r, true);
  if (r->short_read || r->at != r->end) die("cannot parse EndTxn v%d", END_TXN_VERSION);
  release_slot(c, now);
  if (coordinator_comes_back(error)) {
    count_retry(now);
    retry_later(c, now);
    return;
  }
  /* Without an end there is no next epoch to go on with. */
  if (error) die("EndTxn of %s: error %d", t->id, error);
  c->producer_id = producer_id;
  c->producer_epoch = producer_epoch;
  t->open = t->ending = false;
  if (is_measured(now)) histogram_add(&state.counters.transaction, now - t->begun_ns);
  count_request(t->end_sent_ns, now, t->aborts ? 0 : plan.bytes,
                t->aborts ? 0 : (uint64_t)state.options.transaction_records);
}

static void read_response(struct connection *c, const uint8_t *frame, size_t size, uint64_t now) {
  struct reader r = {.at = frame, .end = frame + size};
  if (!check_correlation(c, get32(&r))) return;
  const int number = c->slots[c->head].first;
  skip_tags(&r, true);
  if (number == END_TXN)
    read_end(c, &r, now);
  else
    read_produce(c, &r, number, now);
}

void transact_readable(struct connection *c) { read_frames(c, INPUT_BYTES, read_response); }
