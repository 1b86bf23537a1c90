/* Fetch v4-v12, one partition per request: each slot is a reader that walks its partitions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "loadgen.h"
#include "wire.h"

enum { API_FETCH = 1, FLEXIBLE_FROM = 12, ERROR_OFFSET_OUT_OF_RANGE = 1 };
/* All connections read into this one: it stays in the processor's cache. */
enum { INPUT_BYTES = 256 << 10 };
/* Enough for everything in front of the records: fixed fields, a topic name, aborted list. */
enum { HEAD_BYTES = 2048 };
/* What of a batch header decides where the next batch starts, and the last offset. */
enum { BATCH_PREFIX_BYTES = 27, AT_BATCH_LENGTH = 8, AT_BATCH_LAST_OFFSET_DELTA = 23 };
enum { READS_PER_EVENT = 16, STEPS_MAX = 1 << 20 };

/* A response is parsed as it streams in: the head is gathered, the records are walked from
 * batch header to batch header, and nothing is kept. */
struct fetch_state {
  uint8_t head[HEAD_BYTES];
  size_t head_used;
  bool in_body;
  size_t records_left, trailer_left;
  int32_t record_bytes;
  bool known; /* the records' end is known from an earlier pass: they can be discarded */
  uint8_t batch[BATCH_PREFIX_BYTES];
  size_t batch_used, batch_skip;
  int32_t whole_bytes; /* of batches that are not cut off */
};

static struct {
  size_t partition, offset, end;
} layout;

static bool flexible(void) { return state.options.version >= FLEXIBLE_FROM; }

static void build_frame(struct slot *slot) {
  const struct options *o = &state.options;
  slot->frame = malloc(1024);
  if (!slot->frame) die("out of memory for frames");
  uint8_t *p = put_request_header(slot->frame, API_FETCH, o->version, flexible());
  p = put32(p, -1); /* replica id: a consumer */
  p = put32(p, (int32_t)o->max_wait_ms);
  p = put32(p, (int32_t)o->min_bytes);
  p = put32(p, (int32_t)o->max_bytes);
  p = put8(p, o->read_committed);
  if (o->version >= 7) p = put32(put32(p, 0), -1); /* no fetch session */
  p = put_array_length(p, 1, flexible());
  p = put_string(p, o->topic, flexible());
  p = put_array_length(p, 1, flexible());
  layout.partition = (size_t)(p - slot->frame);
  p = put32(p, 0);
  if (o->version >= 9) p = put32(p, -1); /* current leader epoch: not checked */
  layout.offset = (size_t)(p - slot->frame);
  p = put64(p, 0);
  if (o->version >= 12) p = put32(p, -1); /* last fetched epoch */
  if (o->version >= 5) p = put64(p, -1);  /* log start offset */
  p = put32(p, (int32_t)o->max_bytes);
  p = put_tags(put_tags(p, flexible()), flexible());
  if (o->version >= 7) p = put_array_length(p, 0, flexible()); /* forgotten topics */
  if (o->version >= 11) p = put_string(p, "", flexible());     /* rack */
  p = put_tags(p, flexible());
  layout.end = (size_t)(p - slot->frame);
  store32(slot->frame, (int32_t)(layout.end - 4));
}

/* Deals the broker's partitions out to all readers on it; each gets at least one. */
static void deal_partitions(struct connection *c, struct slot *slot, int reader, int readers) {
  const int n = c->broker->partition_count;
  slot->cursor_count = n > reader ? (n - reader - 1) / readers + 1 : 1;
  slot->cursors = calloc((size_t)slot->cursor_count, sizeof *slot->cursors);
  if (!slot->cursors) die("out of memory");
  for (int i = 0; i < slot->cursor_count; i++)
    slot->cursors[i].partition = c->broker->partitions[(reader + i * readers) % n];
}

void fetch_prepare(struct connection *c) {
  const struct options *o = &state.options;
  const int brokers = state.cluster.broker_count;
  const int on_broker = (o->connections - c->index % brokers - 1) / brokers + 1;
  for (int i = 0; i < o->in_flight; i++) {
    build_frame(&c->slots[i]);
    deal_partitions(c, &c->slots[i], c->index / brokers * o->in_flight + i,
                    on_broker * o->in_flight);
  }
  c->fetch = calloc(1, sizeof *c->fetch);
  if (!c->fetch) die("out of memory");
}

void fetch_send(struct connection *c, struct slot *slot) {
  slot->first = (slot->first + 1) % slot->cursor_count;
  struct cursor *cursor = &slot->cursors[slot->first];
  store32(slot->frame + AT_CORRELATION, slot->correlation);
  store32(slot->frame + layout.partition, cursor->partition);
  store64(slot->frame + layout.offset, cursor->offset);
  queue_output(c, slot->frame, layout.end);
}

static struct cursor *current(struct connection *c) {
  struct slot *slot = &c->slots[c->head];
  return &slot->cursors[slot->first];
}

/* Parses what stands before the records. Returns the bytes used, or 0 when more are needed. */
static size_t parse_head(struct connection *c) {
  struct fetch_state *f = c->fetch;
  const int version = state.options.version;
  struct reader r = {.at = f->head, .end = f->head + f->head_used};
  size_t size = (size_t)(uint32_t)get32(&r) + 4;
  int32_t correlation = get32(&r);
  skip_tags(&r, flexible());
  bool throttled = get32(&r) > 0;
  int16_t error = version >= 7 ? get16(&r) : 0;
  if (version >= 7) get32(&r); /* session */
  int64_t topics = get_length(&r, flexible());
  skip_string(&r, flexible());
  int64_t partitions = get_length(&r, flexible());
  int32_t partition = get32(&r);
  int16_t partition_error = get16(&r);
  int64_t readable_until = get64(&r), last_stable_offset = get64(&r);
  if (state.options.read_committed) readable_until = last_stable_offset;
  if (version >= 5) get64(&r);
  for (int64_t n = get_length(&r, flexible()); n > 0 && !r.short_read; n--) {
    get64(&r);
    get64(&r);
    skip_tags(&r, flexible());
  }
  if (version >= 11) get32(&r); /* preferred read replica */
  int64_t records = get_length(&r, flexible());
  if (r.short_read) {
    if (f->head_used == HEAD_BYTES || f->head_used == size) die("cannot parse Fetch v%d", version);
    return 0;
  }
  const size_t used = (size_t)(r.at - f->head);
  if (!check_correlation(c, correlation)) die("wrong correlation id in a Fetch response");
  if (topics != 1 || partitions != 1) die("the Fetch response has other partitions");
  if (records < 0) records = 0;
  if (used + (size_t)records > size) die("records run past the Fetch response");
  struct cursor *cursor = current(c);
  if (partition != cursor->partition) state.counters.misrouted++;
  if (throttled) state.counters.throttled++;
  if (error) count_error(error, partition);
  if (partition_error) count_error(partition_error, partition);
  if (partition_error == ERROR_OFFSET_OUT_OF_RANGE) cursor->next_offset = 0;
  else cursor->next_offset = cursor->offset;
  cursor->readable_until = readable_until;
  f->record_bytes = (int32_t)records;
  f->records_left = (size_t)records;
  f->trailer_left = size - used - (size_t)records;
  f->batch_used = f->batch_skip = 0;
  f->whole_bytes = 0;
  f->known = state.options.discard && cursor->step < cursor->step_count &&
             cursor->steps[cursor->step].record_bytes == f->record_bytes;
  return used;
}

static void remember_step(struct cursor *cursor, int32_t record_bytes, int32_t whole_bytes) {
  if (cursor->step != cursor->step_count || cursor->step_count == STEPS_MAX) return;
  if (cursor->step_count == cursor->step_capacity) {
    cursor->step_capacity = cursor->step_capacity ? cursor->step_capacity * 2 : 64;
    cursor->steps = realloc(cursor->steps,
                            (size_t)cursor->step_capacity * sizeof *cursor->steps);
    if (!cursor->steps) die("out of memory");
  }
  cursor->steps[cursor->step_count++] =
      (struct step){.next_offset = cursor->next_offset, .record_bytes = record_bytes,
                    .whole_bytes = whole_bytes};
}

static void finish_response(struct connection *c, uint64_t now) {
  struct fetch_state *f = c->fetch;
  struct cursor *cursor = current(c);
  if (f->known) {
    cursor->next_offset = cursor->steps[cursor->step].next_offset;
    f->whole_bytes = cursor->steps[cursor->step].whole_bytes;
  } else if (state.options.discard) {
    remember_step(cursor, f->record_bytes, f->whole_bytes);
  }
  const uint64_t records = cursor->next_offset > cursor->offset
                               ? (uint64_t)(cursor->next_offset - cursor->offset)
                               : 0;
  if (f->record_bytes == 0) state.counters.empty++;
  cursor->offset = cursor->next_offset;
  cursor->step++;
  if (cursor->offset >= cursor->readable_until) {
    cursor->offset = 0;
    cursor->step = 0;
  }
  f->head_used = 0;
  f->in_body = false;
  /* A broker that sends half a batch behind the whole ones does not do more for its reader. */
  complete_request(c, now, (uint64_t)f->whole_bytes, records);
}

/* Walks `n` bytes of records; a batch cut off at the end does not move the cursor. */
static void walk_records(struct connection *c, const uint8_t *p, size_t n) {
  struct fetch_state *f = c->fetch;
  while (n > 0 && !f->known) {
    size_t step;
    if (f->batch_skip > 0) {
      step = n < f->batch_skip ? n : f->batch_skip;
      f->batch_skip -= step;
    } else {
      step = BATCH_PREFIX_BYTES - f->batch_used;
      if (step > n) step = n;
      memcpy(f->batch + f->batch_used, p, step);
      f->batch_used += step;
    }
    p += step;
    n -= step;
    f->records_left -= step;
    if (f->batch_used < BATCH_PREFIX_BYTES) continue;
    f->batch_used = 0;
    size_t size = (size_t)(uint32_t)load32(f->batch + AT_BATCH_LENGTH) + 12;
    if (size < BATCH_HEADER_BYTES) die("a batch of %zu bytes in a Fetch response", size);
    f->batch_skip = size - BATCH_PREFIX_BYTES;
    if (f->batch_skip <= f->records_left) {
      f->whole_bytes += (int32_t)size;
      current(c)->next_offset =
          load64(f->batch) + load32(f->batch + AT_BATCH_LAST_OFFSET_DELTA) + 1;
    }
  }
  f->records_left -= n;
}

static void feed(struct connection *c, const uint8_t *p, size_t n, uint64_t now) {
  struct fetch_state *f = c->fetch;
  while (n > 0) {
    size_t step;
    if (!f->in_body) {
      const size_t before = f->head_used;
      size_t limit = HEAD_BYTES;
      if (before >= 4 && (size_t)(uint32_t)load32(f->head) + 4 < limit)
        limit = (size_t)(uint32_t)load32(f->head) + 4;
      if (before < 4) limit = 4;
      step = n < limit - before ? n : limit - before;
      memcpy(f->head + before, p, step);
      f->head_used += step;
      size_t used = f->head_used > 4 ? parse_head(c) : 0;
      if (used > 0) {
        step = used - before;
        f->in_body = true;
      }
    } else if (f->records_left > 0) {
      step = n < f->records_left ? n : f->records_left;
      walk_records(c, p, step);
    } else {
      step = n < f->trailer_left ? n : f->trailer_left;
      f->trailer_left -= step;
    }
    p += step;
    n -= step;
    if (f->in_body && f->records_left == 0 && f->trailer_left == 0) finish_response(c, now);
  }
}

/* With --discard, and so without TLS, the kernel drops records whose end is known, uncopied. */
static ssize_t receive(struct connection *c, uint8_t *buffer, bool *discarded) {
  struct fetch_state *f = c->fetch;
  *discarded = f->in_body && f->known && f->records_left > 0;
  if (*discarded) return recv(c->transport.fd, NULL, f->records_left, MSG_TRUNC);
  size_t room = state.options.discard && !f->in_body ? 512 : INPUT_BYTES;
  return transport_receive(&c->transport, buffer, room);
}

void fetch_readable(struct connection *c) {
  static uint8_t buffer[INPUT_BYTES];
  for (int i = 0; i < READS_PER_EVENT; i++) {
    bool discarded;
    ssize_t n = receive(c, buffer, &discarded);
    if (n == 0) die("the broker closed connection %d with %d in flight", c->index, c->used);
    if (n < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      die("connection %d: %s", c->index, strerror(errno));
    }
    if (!discarded) {
      feed(c, buffer, (size_t)n, now_ns());
    } else {
      c->fetch->records_left -= (size_t)n;
      if (c->fetch->records_left == 0 && c->fetch->trailer_left == 0)
        finish_response(c, now_ns());
    }
    if (c->used == 0) return;
  }
}
