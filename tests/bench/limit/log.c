#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "crc32c.h"
#include "kafka.h"
#include "removal.h"
#include "wire.h"

/* Batches below this wait for others of their partition: one system call for all. The copy of
 * larger ones costs more than the call, and is cheapest right after the CRC was computed. */
enum { SMALL_BATCH_BYTES = 4096 };
/* A large batch is checked and written in pieces that stay in the processor's cache. */
enum { PIECE_BYTES = 256 << 10 };

static struct log *first_listed;
static uint64_t appended_bytes;

static struct segment *active(const struct log *log) {
  return log->segment_count > 0 ? log->segments[log->segment_count - 1] : NULL;
}

void log_open(struct log *log, const struct log_config *config, char *directory) {
  *log = (struct log){.config = config, .directory = directory};
}

static void write_pending(struct log *log) {
  if (log->pending_count == 0) return;
  segment_write_many(active(log), log->pending, log->pending_count);
  log->pending_count = 0;
  log->pending_bytes = 0;
}

void log_write_pending(void) {
  for (struct log *log; (log = first_listed);) {
    first_listed = log->next_listed;
    log->listed = false;
    write_pending(log);
  }
}

uint64_t log_take_appended(void) {
  const uint64_t found = appended_bytes;
  appended_bytes = 0;
  return found;
}

void log_close(struct log *log) {
  for (int i = 0; i < log->segment_count; i++) {
    if (log->segments[i]->reserved) segment_trim(log->segments[i]);
    segment_release(log->segments[i]);
  }
  free(log->segments);
  free(log->directory);
}

static void remove_first(struct log *log, uint64_t now_ms) {
  removal_add(log->segments[0], now_ms + (uint64_t)log->config->file_delete_delay_ms);
  log->segment_count--;
  memmove(log->segments, log->segments + 1, (size_t)log->segment_count * sizeof *log->segments);
}

void log_delete(struct log *log, uint64_t now_ms) {
  log_write_pending(); /* So that the log is in no list. */
  while (log->segment_count > 0) remove_first(log, now_ms);
  if (rmdir(log->directory) != 0)
    fprintf(stderr, "limit: cannot remove %s: %s\n", log->directory, strerror(errno));
  log_close(log);
}

static bool roll(struct log *log, uint64_t now_ms) {
  write_pending(log);
  if (log->segment_count == log->segment_capacity) {
    log->segment_capacity = log->segment_capacity ? 2 * log->segment_capacity : 4;
    log->segments =
        realloc(log->segments, (size_t)log->segment_capacity * sizeof *log->segments);
    if (!log->segments) die("out of memory for a list of segments");
  }
  struct segment *s = segment_create(log->directory, log->end_offset, now_ms);
  if (!s) {
    fprintf(stderr, "limit: no new segment in %s: %s\n", log->directory, strerror(errno));
    return false;
  }
  if (log->segment_count > 0 && active(log)->reserved) segment_trim(active(log));
  log->segments[log->segment_count++] = s;
  return true;
}

/* Kafka's LogSegment.shouldRoll, but for times. */
static bool must_roll(const struct log *log, uint32_t size, int64_t last_offset) {
  const struct segment *s = active(log);
  if (!s) return true;
  const int64_t used = (int64_t)s->size + log->pending_bytes;
  if (used == 0) return false;
  return used + size > log->config->segment_bytes || last_offset - s->base_offset > INT32_MAX;
}

/* True if the CRC is right; then the batch is in the file, but the segment's end has not moved. */
static bool write_checked(struct segment *s, const uint8_t *batch, uint32_t size) {
  uint32_t crc = 0, from = ATTRIBUTES_AT;
  for (uint32_t done = 0; done < size;) {
    uint32_t end = size - done > PIECE_BYTES ? done + PIECE_BYTES : size;
    crc = crc32c(crc, batch + from, end - from);
    segment_write_ahead(s, batch + done, end - done, done);
    from = done = end;
  }
  if (crc == (uint32_t)load32(batch + CRC_AT)) return true;
  segment_trim(s);
  return false;
}

static void wait_for_others(struct log *log, uint8_t *batch, uint32_t size) {
  if (log->pending_count == PENDING_MAX) write_pending(log);
  log->pending[log->pending_count++] = (struct iovec){.iov_base = batch, .iov_len = size};
  log->pending_bytes += size;
  if (log->listed) return;
  log->listed = true;
  log->next_listed = first_listed;
  first_listed = log;
}

int16_t log_append(struct log *log, uint8_t *batch, uint32_t size, uint64_t now_ms,
                   int64_t *base_offset) {
  const bool small = size < SMALL_BATCH_BYTES;
  const int64_t first = log->end_offset;
  const int64_t next = first + load32(batch + LAST_OFFSET_DELTA_AT) + 1;
  if (size > log->config->segment_bytes) return RECORD_LIST_TOO_LARGE;
  if (small && crc32c(0, batch + ATTRIBUTES_AT, size - ATTRIBUTES_AT) !=
                   (uint32_t)load32(batch + CRC_AT))
    return CORRUPT_MESSAGE;
  if (must_roll(log, size, next - 1) && !roll(log, now_ms)) return KAFKA_STORAGE_ERROR;
  struct segment *s = active(log);
  store64(batch + BASE_OFFSET_AT, first);
  store32(batch + LEADER_EPOCH_AT, LEADER_EPOCH);
  const uint32_t position = s->size + log->pending_bytes;
  if (small) {
    wait_for_others(log, batch, size);
  } else {
    write_pending(log);
    if (!write_checked(s, batch, size)) return CORRUPT_MESSAGE;
    s->size += size;
  }
  segment_note_batch(s, first, position, size);
  segment_reserve(s, (uint32_t)log->config->segment_bytes, now_ms);
  log->end_offset = next;
  *base_offset = first;
  appended_bytes += size;
  return NO_ERROR;
}

/* The segment that holds `offset`, which is not below the log's start. */
static struct segment *segment_of(const struct log *log, int64_t offset) {
  int low = 0, high = log->segment_count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (log->segments[middle]->base_offset <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return log->segments[low - 1];
}

int16_t log_read(struct log *log, int64_t offset, int32_t bytes_max, bool at_least_one,
                 struct slice *out) {
  *out = (struct slice){0};
  if (offset < log->start_offset || offset > log->end_offset) return OFFSET_OUT_OF_RANGE;
  if (offset == log->end_offset || (bytes_max <= 0 && !at_least_one)) return NO_ERROR;
  write_pending(log);
  struct segment *s = segment_of(log, offset);
  uint32_t position, end;
  if (!segment_find(s, offset, &position) ||
      !segment_cut(s, position, bytes_max > 0 ? (uint32_t)bytes_max : 0, &end))
    return KAFKA_STORAGE_ERROR;
  if (end == position && at_least_one && !segment_batch_end(s, position, &end))
    return KAFKA_STORAGE_ERROR;
  if (end > position)
    *out = (struct slice){.segment = s, .position = position, .size = end - position};
  return NO_ERROR;
}

void log_apply_retention(struct log *log, uint64_t now_ms) {
  if (log->config->retention_bytes < 0 || log->segment_count == 0) return;
  write_pending(log);
  int64_t excess = -log->config->retention_bytes;
  for (int i = 0; i < log->segment_count; i++) excess += log->segments[i]->size;
  /* The active segment may be too much, too: then an empty one follows it. */
  while (log->segments[0]->size > 0 && excess - log->segments[0]->size >= 0) {
    excess -= log->segments[0]->size;
    if (log->segment_count == 1 && !roll(log, now_ms)) return;
    remove_first(log, now_ms);
    log->start_offset = log->segments[0]->base_offset;
  }
}
