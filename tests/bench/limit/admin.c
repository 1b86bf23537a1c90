/* Metadata, topics, offsets and producer ids: what clients ask before they send or read. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "kafka.h"
#include "requests.h"

static const struct text NULL_TEXT = {.size = -1};

/* A topic without configs of its own: segments as large as the options say, kept for ever. */
static struct log_config default_config(const struct server *s) {
  return (struct log_config){.segment_bytes = s->options.segment_bytes,
                             .retention_bytes = -1,
                             .file_delete_delay_ms = 60000};
}

static bool is_read(const struct reader *body) { return !body->failed && body->at == body->end; }

static void put_node(struct buffer *b, bool flexible) {
  put_count(b, 1, flexible);
  put32(b, NODE_ID);
}

static void put_metadata_of(struct buffer *b, const struct request *r, struct text name,
                            const struct topic *topic, int16_t error) {
  put16(b, error);
  put_string(b, name, r->flexible);
  put8(b, 0); /* not internal */
  put_count(b, topic ? topic->partition_count : 0, r->flexible);
  for (int32_t i = 0; topic && i < topic->partition_count; i++) {
    put16(b, NO_ERROR);
    put32(b, i);
    put32(b, NODE_ID);
    if (r->version >= 7) put32(b, LEADER_EPOCH);
    put_node(b, r->flexible);                               /* replicas */
    put_node(b, r->flexible);                               /* in sync */
    if (r->version >= 5) put_count(b, 0, r->flexible);      /* offline */
    put_tags(b, r->flexible);
  }
  if (r->version >= 8) put32(b, INT32_MIN); /* no list of authorized operations */
  put_tags(b, r->flexible);
}

static void put_brokers(struct server *s, struct buffer *b, const struct request *r) {
  if (r->version >= 3) put32(b, 0); /* throttle */
  put_count(b, 1, r->flexible);
  put32(b, NODE_ID);
  put_string(b, text_of(s->options.host), r->flexible);
  put32(b, s->options.port);
  put_string(b, NULL_TEXT, r->flexible); /* rack */
  put_tags(b, r->flexible);
  if (r->version >= 2) put_string(b, text_of("limit"), r->flexible); /* cluster id */
  put32(b, NODE_ID); /* controller */
}

static void put_asked_topic(struct server *s, struct buffer *b, const struct request *r,
                            struct text name, bool create) {
  const struct topic *topic = topics_find(&s->topics, name);
  int16_t error = topic ? NO_ERROR : UNKNOWN_TOPIC_OR_PARTITION;
  if (!topic && create) {
    const struct log_config config = default_config(s);
    error = topics_check_new(&s->topics, name, s->options.partitions);
    if (error == NO_ERROR)
      error = topics_create(&s->topics, name, s->options.partitions, &config);
    topic = topics_find(&s->topics, name);
  }
  put_metadata_of(b, r, name, topic, error);
}

enum verdict handle_metadata(struct server *s, struct connection *c, struct request *r) {
  struct reader *body = &r->body;
  const int32_t count = get_count(body, r->flexible);
  struct reader names = *body;
  for (int32_t i = 0; i < count && !body->failed; i++) {
    if (get_string(body, r->flexible).size < 0) body->failed = true;
    skip_tags(body, r->flexible);
  }
  const bool create = r->version < 4 || get8(body) != 0;
  if (r->version >= 8) get16(body); /* whether authorized operations are wanted, twice */
  skip_tags(body, r->flexible);
  if (!is_read(body)) return MALFORMED;
  struct buffer *b = &c->output.bytes;
  const struct response response = response_begin(c, r);
  put_brokers(s, b, r);
  put_count(b, count < 0 ? s->topics.count : count, r->flexible);
  for (int32_t i = 0; i < count && !b->overflowed; i++) {
    const struct text name = get_string(&names, r->flexible);
    skip_tags(&names, r->flexible);
    put_asked_topic(s, b, r, name, create);
  }
  for (int i = 0; count < 0 && i < s->topics.count; i++) {
    const struct topic *t = s->topics.all[i];
    put_metadata_of(b, r, text_of(t->name), t, NO_ERROR);
  }
  if (r->version >= 8) put32(b, INT32_MIN);
  put_tags(b, r->flexible);
  return response_end(c, response);
}

/* False if the text is no number from `low` to `high`. */
static bool read_number(struct text text, int64_t low, int64_t high, int64_t *number) {
  char copy[24], *end;
  if (text.size < 1 || text.size >= (int32_t)sizeof copy) return false;
  memcpy(copy, text.bytes, (size_t)text.size);
  copy[text.size] = 0;
  errno = 0;
  *number = strtoll(copy, &end, 10);
  return errno == 0 && *end == 0 && *number >= low && *number <= high;
}

static bool is_text(struct text text, const char *expected) {
  return text.size == (int32_t)strlen(expected) &&
         memcmp(text.bytes, expected, (size_t)text.size) == 0;
}

/* Configs that have no meaning here are taken and do nothing. */
static int16_t set_config(struct log_config *config, struct text name, struct text value) {
  bool valid = true;
  if (is_text(name, "segment.bytes"))
    valid = read_number(value, SEGMENT_BYTES_MIN, INT32_MAX, &config->segment_bytes);
  else if (is_text(name, "retention.bytes"))
    valid = read_number(value, -1, INT64_MAX, &config->retention_bytes);
  else if (is_text(name, "file.delete.delay.ms"))
    valid = read_number(value, 0, INT32_MAX, &config->file_delete_delay_ms);
  return valid ? NO_ERROR : INVALID_CONFIG;
}

struct wanted_topic {
  struct text name;
  int32_t partitions;
  int16_t error;
  struct log_config config;
};

static struct wanted_topic read_wanted(const struct server *s, struct reader *body) {
  struct wanted_topic w = {.config = default_config(s)};
  w.name = get_string(body, false);
  w.partitions = get32(body);
  const int16_t replication = get16(body);
  if (w.name.size < 0) body->failed = true;
  if (w.partitions == -1) w.partitions = s->options.partitions;
  if (replication != 1 && replication != -1) w.error = INVALID_REPLICATION_FACTOR;
  for (int32_t n = get_count(body, false); n > 0 && !body->failed; n--) {
    get32(body);
    for (int32_t k = get_count(body, false); k > 0 && !body->failed; k--) get32(body);
    w.error = INVALID_REPLICA_ASSIGNMENT;
  }
  for (int32_t n = get_count(body, false); n > 0 && !body->failed; n--) {
    const struct text name = get_string(body, false), value = get_string(body, false);
    const int16_t error = set_config(&w.config, name, value);
    if (w.error == NO_ERROR) w.error = error;
  }
  return w;
}

enum verdict handle_create_topics(struct server *s, struct connection *c, struct request *r) {
  struct reader *body = &r->body;
  const int32_t count = get_count(body, false);
  struct reader topics = *body;
  for (int32_t i = 0; i < count && !body->failed; i++) read_wanted(s, body);
  get32(body); /* timeout: nothing is waited for */
  const bool only_validate = get8(body) != 0;
  if (!is_read(body)) return MALFORMED;
  struct buffer *b = &c->output.bytes;
  const struct response response = response_begin(c, r);
  put32(b, 0); /* throttle */
  put_count(b, count < 0 ? 0 : count, false);
  for (int32_t i = 0; i < count; i++) {
    const struct wanted_topic w = read_wanted(s, &topics);
    int16_t error = w.error;
    if (error == NO_ERROR) error = topics_check_new(&s->topics, w.name, w.partitions);
    if (error == NO_ERROR && !only_validate)
      error = topics_create(&s->topics, w.name, w.partitions, &w.config);
    put_string(b, w.name, false);
    put16(b, error);
    put_string(b, NULL_TEXT, false); /* error message */
  }
  return response_end(c, response);
}

enum verdict handle_delete_topics(struct server *s, struct connection *c, struct request *r) {
  struct reader *body = &r->body;
  const int32_t count = get_count(body, false);
  struct reader names = *body;
  for (int32_t i = 0; i < count && !body->failed; i++)
    if (get_string(body, false).size < 0) body->failed = true;
  get32(body); /* timeout: nothing is waited for */
  if (!is_read(body)) return MALFORMED;
  struct buffer *b = &c->output.bytes;
  const struct response response = response_begin(c, r);
  put32(b, 0); /* throttle */
  put_count(b, count < 0 ? 0 : count, false);
  for (int32_t i = 0; i < count; i++) {
    const struct text name = get_string(&names, false);
    put_string(b, name, false);
    put16(b, topics_delete(&s->topics, name, s->now_ms));
  }
  return response_end(c, response);
}

enum verdict handle_init_producer_id(struct server *s, struct connection *c, struct request *r) {
  const bool transactional = get_string(&r->body, false).size >= 0;
  get32(&r->body); /* transaction timeout */
  if (!is_read(&r->body)) return MALFORMED;
  struct buffer *b = &c->output.bytes;
  const struct response response = response_begin(c, r);
  put32(b, 0); /* throttle */
  put16(b, transactional ? INVALID_REQUEST : NO_ERROR);
  put64(b, transactional ? -1 : s->next_producer_id++);
  put16(b, transactional ? -1 : 0);
  return response_end(c, response);
}

/* Only the two ends of a log can be asked for: there is no index by time. */
static void put_offset(struct buffer *b, const struct request *r, const struct log *log,
                       int32_t partition, int64_t timestamp) {
  enum { LATEST = -1, EARLIEST = -2 };
  int16_t error = log ? NO_ERROR : UNKNOWN_TOPIC_OR_PARTITION;
  if (log && timestamp != LATEST && timestamp != EARLIEST) error = UNSUPPORTED_VERSION;
  int64_t offset = -1;
  if (error == NO_ERROR) offset = timestamp == LATEST ? log->end_offset : log->start_offset;
  put32(b, partition);
  put16(b, error);
  put64(b, -1); /* timestamp */
  put64(b, offset);
  if (r->version >= 4) put32(b, error == NO_ERROR ? LEADER_EPOCH : -1);
}

enum verdict handle_list_offsets(struct server *s, struct connection *c, struct request *r) {
  struct reader *body = &r->body;
  struct buffer *b = &c->output.bytes;
  const struct response response = response_begin(c, r);
  get32(body); /* replica id */
  if (r->version >= 2) get8(body);  /* isolation level: nothing is transactional */
  if (r->version >= 2) put32(b, 0); /* throttle */
  const int32_t topics = get_count(body, false);
  put_count(b, topics < 0 ? 0 : topics, false);
  for (int32_t i = 0; i < topics && !body->failed; i++) {
    const struct text name = get_string(body, false);
    const struct topic *topic = topics_find(&s->topics, name);
    put_string(b, name, false);
    const int32_t partitions = get_count(body, false);
    put_count(b, partitions < 0 ? 0 : partitions, false);
    for (int32_t k = 0; k < partitions && !body->failed; k++) {
      const int32_t partition = get32(body);
      if (r->version >= 4) get32(body); /* current leader epoch: there is only one */
      const int64_t timestamp = get64(body);
      put_offset(b, r, topic_log(topic, partition), partition, timestamp);
    }
  }
  if (!is_read(body)) {
    if (!b->overflowed) b->size = response.start;
    return MALFORMED;
  }
  return response_end(c, response);
}
