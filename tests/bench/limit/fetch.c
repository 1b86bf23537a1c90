/* Fetch v4 to v12, without fetch sessions: every request names its partitions. */
#include <stdlib.h>

#include "kafka.h"
#include "requests.h"

/* Kafka's fetch.max.bytes of a broker. */
enum { RESPONSE_BYTES_MAX = 55 << 20, WAIT_MS_MAX = 60000, REQUEST_PARTITIONS_MAX = 100000 };
enum { FINAL_SESSION_EPOCH = -1 };

struct fetched {
  int32_t partition;
  int16_t error;
  int64_t end_offset, start_offset;
  struct slice slice;
};

struct fetched_topic {
  struct text name;
  size_t first, count; /* in `found` */
};

/* What one request asks for. Kept between requests: one is handled at a time. */
static struct {
  struct fetched_topic *topics;
  size_t topic_count, topic_capacity;
  struct fetched *found;
  size_t found_count, found_capacity;
  int64_t bytes;
  bool error;
} answer;

struct limits {
  int32_t max_wait_ms, min_bytes, max_bytes;
};

static void *one_more(void *list, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return list;
  *capacity = *capacity ? 2 * *capacity : 16;
  list = realloc(list, *capacity * size);
  if (!list) die("out of memory for a Fetch");
  return list;
}

static int16_t find(struct log *log, int32_t epoch, int64_t offset, int32_t bytes_max,
                    int32_t bytes_left, struct fetched *f) {
  if (!log) return UNKNOWN_TOPIC_OR_PARTITION;
  f->end_offset = log->end_offset;
  f->start_offset = log->start_offset;
  if (epoch > LEADER_EPOCH) return UNKNOWN_LEADER_EPOCH;
  /* KIP-74: the first batch of a response may be longer than asked for. */
  return log_read(log, offset, bytes_max < bytes_left ? bytes_max : bytes_left, answer.bytes == 0,
                  &f->slice);
}

static void read_partition(struct request *r, const struct topic *topic, int32_t bytes_max) {
  struct reader *body = &r->body;
  struct fetched f = {.end_offset = -1, .start_offset = -1};
  f.partition = get32(body);
  const int32_t epoch = r->version >= 9 ? get32(body) : -1;
  const int64_t offset = get64(body);
  if (r->version >= 12) get32(body); /* last fetched epoch: there is only one */
  if (r->version >= 5) get64(body);  /* log start offset, of a follower */
  const int32_t partition_bytes_max = get32(body);
  skip_tags(body, r->flexible);
  if (answer.found_count == REQUEST_PARTITIONS_MAX) body->failed = true;
  if (body->failed) return;
  const int64_t left = bytes_max - answer.bytes;
  f.error = find(topic_log(topic, f.partition), epoch, offset, partition_bytes_max,
                 left > 0 ? (int32_t)left : 0, &f);
  answer.bytes += f.slice.size;
  answer.error |= f.error != NO_ERROR;
  answer.found = one_more(answer.found, answer.found_count, &answer.found_capacity, sizeof f);
  answer.found[answer.found_count++] = f;
}

static void read_topics(struct server *s, struct request *r, int32_t bytes_max) {
  struct reader *body = &r->body;
  for (int32_t n = get_count(body, r->flexible); n > 0 && !body->failed; n--) {
    struct fetched_topic t = {.name = get_string(body, r->flexible), .first = answer.found_count};
    if (t.name.size < 0) body->failed = true;
    const struct topic *topic = topics_find(&s->topics, t.name);
    for (int32_t k = get_count(body, r->flexible); k > 0 && !body->failed; k--)
      read_partition(r, topic, bytes_max);
    skip_tags(body, r->flexible);
    t.count = answer.found_count - t.first;
    answer.topics =
        one_more(answer.topics, answer.topic_count, &answer.topic_capacity, sizeof t);
    answer.topics[answer.topic_count++] = t;
  }
}

static void skip_forgotten(struct request *r) {
  struct reader *body = &r->body;
  for (int32_t n = get_count(body, r->flexible); n > 0 && !body->failed; n--) {
    get_string(body, r->flexible);
    for (int32_t k = get_count(body, r->flexible); k > 0 && !body->failed; k--) get32(body);
    skip_tags(body, r->flexible);
  }
}

static void put_partition(struct output *o, const struct request *r, const struct fetched *f) {
  struct buffer *b = &o->bytes;
  put32(b, f->partition);
  put16(b, f->error);
  put64(b, f->end_offset); /* high watermark */
  put64(b, f->end_offset); /* last stable offset */
  if (r->version >= 5) put64(b, f->start_offset);
  put_count(b, -1, r->flexible); /* aborted transactions */
  if (r->version >= 11) put32(b, -1); /* preferred read replica */
  put_count(b, (int32_t)f->slice.size, r->flexible);
  if (!b->overflowed) output_add_slice(o, &f->slice);
  put_tags(b, r->flexible);
}

static enum verdict respond(struct connection *c, const struct request *r, int16_t error) {
  struct output *o = &c->output;
  struct buffer *b = &o->bytes;
  const struct response response = response_begin(c, r);
  put32(b, 0); /* throttle */
  if (r->version >= 7) {
    put16(b, error);
    put32(b, 0); /* no session */
  }
  put_count(b, (int32_t)answer.topic_count, r->flexible);
  for (size_t i = 0; i < answer.topic_count; i++) {
    const struct fetched_topic *t = &answer.topics[i];
    put_string(b, t->name, r->flexible);
    put_count(b, (int32_t)t->count, r->flexible);
    for (size_t k = t->first; k < t->first + t->count; k++) put_partition(o, r, &answer.found[k]);
    put_tags(b, r->flexible);
  }
  put_tags(b, r->flexible);
  return response_end(c, response);
}

/* Whether the answer must wait for more. Sets the deadline the first time. */
static bool must_wait(const struct server *s, struct connection *c, const struct limits *limits) {
  if (answer.error || answer.found_count == 0 || answer.bytes >= limits->min_bytes) return false;
  if (limits->max_wait_ms <= 0) return false;
  if (c->deadline_ms == 0)
    c->deadline_ms = s->now_ms + (uint64_t)(limits->max_wait_ms < WAIT_MS_MAX ? limits->max_wait_ms
                                                                            : WAIT_MS_MAX);
  return s->now_ms < c->deadline_ms;
}

enum verdict handle_fetch(struct server *s, struct connection *c, struct request *r) {
  struct reader *body = &r->body;
  get32(body); /* replica id */
  struct limits limits;
  limits.max_wait_ms = get32(body);
  limits.min_bytes = get32(body);
  limits.max_bytes = get32(body);
  if (limits.max_bytes > RESPONSE_BYTES_MAX) limits.max_bytes = RESPONSE_BYTES_MAX;
  if (limits.max_bytes < 0) limits.max_bytes = 0;
  if (limits.min_bytes > limits.max_bytes) limits.min_bytes = limits.max_bytes;
  get8(body); /* isolation level: nothing is transactional */
  int32_t session = 0, session_epoch = FINAL_SESSION_EPOCH;
  if (r->version >= 7) {
    session = get32(body);
    session_epoch = get32(body);
  }
  answer.topic_count = answer.found_count = 0;
  answer.bytes = 0;
  answer.error = false;
  read_topics(s, r, limits.max_bytes);
  if (r->version >= 7) skip_forgotten(r);
  if (r->version >= 11) get_string(body, r->flexible); /* rack */
  skip_tags(body, r->flexible);
  if (body->failed || body->at != body->end) return MALFORMED;
  /* A session that was asked for is never given, so nobody can continue one. */
  if (session != 0 && session_epoch > 0) {
    answer.topic_count = 0;
    return respond(c, r, FETCH_SESSION_ID_NOT_FOUND);
  }
  return must_wait(s, c, &limits) ? WAIT : respond(c, r, NO_ERROR);
}
