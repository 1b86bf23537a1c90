/* Produce v3-v9: one prepared frame per slot, patched before each send. */
#include <stdlib.h>
#include <string.h>

#include "loadgen.h"
#include "wire.h"

enum { API_PRODUCE = 0, FLEXIBLE_FROM = 9, TIMEOUT_MS = 30000 };
/* A batch's tail up to this size is copied into the frame, a larger one is shared by all. */
enum { INLINE_TAIL_BYTES = 1024 };
enum { INPUT_BYTES = 64 << 10 };

static bool flexible(void) { return state.options.version >= FLEXIBLE_FROM; }
static bool tail_inline(void) {
  return state.batch.size - BATCH_HEADER_BYTES <= INLINE_TAIL_BYTES;
}

/* Layout of a slot's frame, the same for every slot; the tails may be missing (see above). */
static struct {
  size_t first, stride; /* of a partition's index field */
  size_t header;        /* of the batch header, from the partition's index field */
  size_t end;
} layout;

static void build_frame(struct slot *slot) {
  const struct options *o = &state.options;
  const size_t tail = tail_inline() ? state.batch.size - BATCH_HEADER_BYTES : 0;
  const int k = o->partitions_per_request;
  slot->frame = malloc(1024 + (size_t)k * (BATCH_HEADER_BYTES + tail + 32));
  if (!slot->frame) die("out of memory for frames");
  uint8_t *p = put_request_header(slot->frame, API_PRODUCE, o->version, flexible());
  p = flexible() ? put_uvarint(p, 0) : put16(p, -1); /* no transactional id */
  p = put16(p, o->acks);
  p = put32(p, TIMEOUT_MS);
  p = put_array_length(p, 1, flexible());
  p = put_string(p, o->topic, flexible());
  p = put_array_length(p, k, flexible());
  layout.first = (size_t)(p - slot->frame);
  for (int i = 0; i < k; i++) {
    uint8_t *start = p;
    p = put32(p, 0);
    p = put_array_length(p, (int32_t)state.batch.size, flexible());
    layout.header = (size_t)(p - start);
    memcpy(p, state.batch.bytes, BATCH_HEADER_BYTES + tail);
    p += BATCH_HEADER_BYTES + tail;
    p = put_tags(p, flexible());
    layout.stride = (size_t)(p - start);
  }
  p = put_tags(p, flexible());
  p = put_tags(p, flexible());
  layout.end = (size_t)(p - slot->frame);
  size_t missing = tail_inline() ? 0 : (size_t)k * (state.batch.size - BATCH_HEADER_BYTES);
  store32(slot->frame, (int32_t)(layout.end - 4 + missing));
}

void produce_prepare(struct connection *c) {
  for (int i = 0; i < state.options.in_flight; i++) build_frame(&c->slots[i]);
  c->sequences = calloc((size_t)c->broker->partition_count, sizeof(int32_t));
  if (!c->sequences) die("out of memory");
  /* Connections start apart from each other, so that all partitions get the same load. */
  c->next_partition = (int)((int64_t)c->index * c->broker->partition_count /
                            state.options.connections);
  if (!state.options.idempotent) return;
  if (state.options.producer_id_base < 0)
    cluster_init_producer_id(c);
  else
    c->producer_id = state.options.producer_id_base + c->index;
}

void produce_send(struct connection *c, struct slot *slot) {
  const int k = state.options.partitions_per_request;
  const size_t tail = state.batch.size - BATCH_HEADER_BYTES;
  uint8_t *frame = slot->frame;
  size_t queued = 0;
  store32(frame + AT_CORRELATION, slot->correlation);
  slot->first = c->next_partition;
  for (int i = 0; i < k; i++) {
    const int index = c->next_partition;
    uint8_t *partition = frame + layout.first + (size_t)i * layout.stride;
    uint8_t *header = partition + layout.header;
    store32(partition, c->broker->partitions[index]);
    if (state.options.idempotent) {
      batch_patch_header(&state.batch, header, c->producer_id, c->producer_epoch,
                         c->sequences[index]);
      c->sequences[index] = sequence_add(c->sequences[index], state.batch.records);
    }
    if (++c->next_partition == c->broker->partition_count) c->next_partition = 0;
    if (tail_inline()) continue;
    size_t until = (size_t)(header + BATCH_HEADER_BYTES - frame);
    queue_output(c, frame + queued, until - queued);
    queue_output(c, state.batch.bytes + BATCH_HEADER_BYTES, tail);
    queued = until;
  }
  queue_output(c, frame + queued, layout.end - queued);
}

static void skip_record_errors(struct reader *r) {
  int64_t n = get_length(r, flexible());
  for (int64_t i = 0; i < n && !r->short_read; i++) {
    get32(r);
    skip_string(r, flexible());
    skip_tags(r, flexible());
  }
  skip_string(r, flexible()); /* error message */
}

/* Brokers may answer the partitions of one request in any order. */
static bool was_asked(const struct connection *c, const struct slot *slot, int32_t partition) {
  for (int i = 0; i < state.options.partitions_per_request; i++)
    if (c->broker->partitions[(slot->first + i) % c->broker->partition_count] == partition)
      return true;
  return false;
}

/* Returns how many partitions were appended to; counts an error for each of the others. */
static int read_partitions(struct connection *c, struct reader *r, const struct slot *slot) {
  const int version = state.options.version, k = state.options.partitions_per_request;
  int appended = 0;
  if (get_length(r, flexible()) != k) die("the Produce response has other partitions");
  for (int i = 0; i < k; i++) {
    int32_t partition = get32(r);
    int16_t error = get16(r);
    get64(r); /* base offset */
    get64(r); /* log append time */
    if (version >= 5) get64(r); /* log start offset */
    if (version >= 8) skip_record_errors(r);
    skip_tags(r, flexible());
    if (r->short_read) break;
    if (!was_asked(c, slot, partition)) state.counters.misrouted++;
    if (error == 0)
      appended++;
    else
      count_error(error, partition);
  }
  return appended;
}

static void read_response(struct connection *c, const uint8_t *frame, size_t size, uint64_t now) {
  struct reader r = {.at = frame, .end = frame + size};
  if (!check_correlation(c, get32(&r))) return;
  skip_tags(&r, flexible());
  if (get_length(&r, flexible()) != 1) die("the Produce response has other topics");
  skip_string(&r, flexible());
  int appended = read_partitions(c, &r, &c->slots[c->head]);
  skip_tags(&r, flexible());
  if (get32(&r) > 0) state.counters.throttled++;
  skip_tags(&r, flexible());
  if (r.short_read || r.at != r.end) die("cannot parse Produce v%d", state.options.version);
  complete_request(c, now, (uint64_t)appended * state.batch.size,
                   (uint64_t)appended * (uint64_t)state.batch.records);
}

void produce_readable(struct connection *c) { read_frames(c, INPUT_BYTES, read_response); }
