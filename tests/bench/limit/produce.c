/* Produce v3 to v9. acks 1 and -1 are the same with one replica; neither waits for a disk. */
#include <stdio.h>

#include "kafka.h"
#include "requests.h"

enum { ATTRIBUTE_COMPRESSION = 0x07, COMPRESSION_MAX = 4 };
enum { ATTRIBUTE_TRANSACTIONAL = 0x10, ATTRIBUTE_CONTROL = 0x20 };
enum { MAGIC = 2 };

/* Checks everything but the CRC. Returns Kafka's error code. */
static int16_t check_header(const uint8_t *batch, int32_t size) {
  if (size <= MAGIC_AT || batch[MAGIC_AT] != MAGIC) return INVALID_RECORD;
  const int64_t said = (int64_t)load32(batch + BATCH_LENGTH_AT) + LENGTH_OVERHEAD;
  if (size < BATCH_HEADER_BYTES || said < BATCH_HEADER_BYTES || said > size)
    return CORRUPT_MESSAGE;
  if (said < size) return INVALID_RECORD; /* more than one batch */
  const int16_t attributes = load16(batch + ATTRIBUTES_AT);
  const int64_t records = load32(batch + RECORD_COUNT_AT);
  if (attributes & (ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL)) return INVALID_RECORD;
  if ((attributes & ATTRIBUTE_COMPRESSION) > COMPRESSION_MAX) return INVALID_RECORD;
  if (records < 1 || load32(batch + LAST_OFFSET_DELTA_AT) != records - 1) return INVALID_RECORD;
  return NO_ERROR;
}


static struct text read_partition(struct request *r, int32_t *partition) {
  *partition = get32(&r->body);
  struct text records = get_bytes(&r->body, r->flexible);
  skip_tags(&r->body, r->flexible);
  return records;
}

/* The whole request is read once before anything is appended. */
static bool is_readable(struct request r) {
  struct reader *body = &r.body;
  for (int32_t topics = get_count(body, r.flexible); topics > 0 && !body->failed; topics--) {
    if (get_string(body, r.flexible).size < 0) body->failed = true;
    int32_t partition;
    for (int32_t n = get_count(body, r.flexible); n > 0 && !body->failed; n--)
      read_partition(&r, &partition);
    skip_tags(body, r.flexible);
  }
  skip_tags(body, r.flexible);
  return !body->failed && body->at == body->end;
}

static int16_t append(struct server *s, struct log *log, struct text records, int64_t *base) {
  if (!log) return UNKNOWN_TOPIC_OR_PARTITION;
  int16_t error = check_header(records.bytes, records.size);
  if (error != NO_ERROR) return error;
  /* The frame is in the connection's buffer: stamping the batch there saves a copy. */
  return log_append(log, (uint8_t *)records.bytes, (uint32_t)records.size, s->now_ms, base);
}

static void put_produced(struct buffer *b, const struct request *r, int32_t partition,
                         int16_t error, int64_t base, const struct log *log) {
  put32(b, partition);
  put16(b, error);
  put64(b, base);
  put64(b, -1); /* log append time: the records keep their own */
  if (r->version >= 5) put64(b, log ? log->start_offset : -1);
  if (r->version >= 8) {
    put_count(b, 0, r->flexible); /* record errors */
    put_string(b, (struct text){.size = -1}, r->flexible);
  }
  put_tags(b, r->flexible);
}

/* Returns whether every batch was appended. */
static bool append_all(struct server *s, struct buffer *b, struct request *r, bool acks_valid) {
  struct reader *body = &r->body;
  bool all = true;
  const int32_t topics = get_count(body, r->flexible);
  put_count(b, topics < 0 ? 0 : topics, r->flexible);
  for (int32_t i = 0; i < topics; i++) {
    const struct text name = get_string(body, r->flexible);
    const struct topic *topic = topics_find(&s->topics, name);
    put_string(b, name, r->flexible);
    const int32_t partitions = get_count(body, r->flexible);
    put_count(b, partitions < 0 ? 0 : partitions, r->flexible);
    for (int32_t j = 0; j < partitions; j++) {
      int32_t partition;
      const struct text records = read_partition(r, &partition);
      struct log *log = topic_log(topic, partition);
      int64_t base = -1;
      const int16_t error =
          acks_valid ? append(s, log, records, &base) : INVALID_REQUIRED_ACKS;
      all &= error == NO_ERROR;
      put_produced(b, r, partition, error, base, log);
    }
    skip_tags(body, r->flexible);
    put_tags(b, r->flexible);
  }
  return all;
}

enum verdict handle_produce(struct server *s, struct connection *c, struct request *r) {
  const bool transactional = get_string(&r->body, r->flexible).size >= 0;
  const int16_t acks = get16(&r->body);
  get32(&r->body); /* timeout: nothing is waited for */
  if (transactional || !is_readable(*r)) return MALFORMED;
  struct buffer *b = &c->output.bytes;
  const struct response response = response_begin(c, r);
  const bool all = append_all(s, b, r, acks >= -1 && acks <= 1);
  put32(b, 0); /* throttle */
  put_tags(b, r->flexible);
  if (acks != 0) return response_end(c, response);
  /* Nobody reads a response; like Kafka, an error closes the connection. */
  if (!b->overflowed) b->size = response.start;
  if (!all) connection_end(s, c, "a batch that was sent with acks=0 was refused");
  return b->overflowed ? MALFORMED : DONE;
}
