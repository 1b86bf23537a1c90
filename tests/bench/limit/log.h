/* The log of one partition: its segments, appends and reads. */
#ifndef LIMIT_LOG_H
#define LIMIT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "segment.h"

/* The topic configs that have a meaning here. */
struct log_config {
  int64_t segment_bytes, retention_bytes, file_delete_delay_ms;
};

/* Small batches wait in `pending` until log_write_pending: until then they are in the input buffers
 * of their connections, which must stay as they are. */
enum { PENDING_MAX = 64 };

struct log {
  const struct log_config *config;
  char *directory;
  struct segment **segments; /* oldest first; the last one is active */
  int segment_count, segment_capacity;
  int64_t start_offset, end_offset;
  struct iovec pending[PENDING_MAX];
  int pending_count;
  uint32_t pending_bytes;
  bool listed;
  struct log *next_listed;
};

/* A part of one segment. */
struct slice {
  struct segment *segment; /* NULL if there is nothing */
  uint32_t position, size;
};

/* `directory` is taken over. The first append creates the first segment. */
void log_open(struct log *log, const struct log_config *config, char *directory);

/* Frees everything; files stay. */
void log_close(struct log *log);

/* Deletes all segments, and the directory. */
void log_delete(struct log *log, uint64_t now_ms);

/* Checks the CRC of a batch whose header was checked, stamps base offset and leader epoch into it,
 * and appends it. Returns Kafka's error code; exits if the disk does not take the bytes. */
int16_t log_append(struct log *log, uint8_t *batch, uint32_t size, uint64_t now_ms,
                   int64_t *base_offset);

/* Writes the batches that wait, of all logs. */
void log_write_pending(void);

/* The bytes that were appended since the last call. */
uint64_t log_take_appended(void);

/* Finds whole batches from `offset` on, up to `bytes_max`; with `at_least_one` the first one may be
 * longer. What waits is written first. Returns Kafka's error code. */
int16_t log_read(struct log *log, int64_t offset, int32_t bytes_max, bool at_least_one,
                 struct slice *out);

/* Kafka's rule of retention.bytes: deletes the oldest segments while what remains is enough. */
void log_apply_retention(struct log *log, uint64_t now_ms);

#endif
