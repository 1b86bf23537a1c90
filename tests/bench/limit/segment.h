/* One file of a partition's log and its index. */
#ifndef LIMIT_SEGMENT_H
#define LIMIT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct index_entry {
  uint32_t relative_offset, position;
};

/* Lives as long as somebody refers to it: its log, the removal queue, responses being sent. */
struct segment {
  int fd, references;
  int64_t base_offset;
  uint32_t size; /* written; the file may be longer by reserved space, but does not show it */
  /* Like Kafka's: the first batch after more than INDEX_INTERVAL_BYTES gets an entry. */
  struct index_entry *index;
  uint32_t index_count, index_capacity, bytes_since_index;
  /* See segment_reserve. */
  uint32_t look_at;
  uint64_t looked_ms;
  bool reserved;
  char *path;
};

enum { INDEX_INTERVAL_BYTES = 4096, SEGMENT_BYTES_MIN = 1 << 20 };

/* Creates the file of `base_offset` in `directory`, with one reference. NULL with errno. */
struct segment *segment_create(const char *directory, int64_t base_offset, uint64_t now_ms);

/* Drops a reference; the last one closes the file. */
void segment_release(struct segment *s);

/* Notes a batch that will be at `position`; batches are noted in their order. */
void segment_note_batch(struct segment *s, int64_t base_offset, uint32_t position, uint32_t size);

/* Write behind `size` and move it. Exit if the disk does not take the bytes. */
void segment_write(struct segment *s, const uint8_t *bytes, size_t size);
void segment_write_many(struct segment *s, struct iovec *pieces, int count);

/* Writes a piece of a batch `ahead` bytes behind `size`, and does not move it. */
void segment_write_ahead(struct segment *s, const uint8_t *bytes, size_t size, uint32_t ahead);

/* Removes what segment_write_ahead wrote, or reserved space, from the file. */
void segment_trim(struct segment *s);

/* Reserves disk space for a segment that grows fast, below `limit` bytes. */
void segment_reserve(struct segment *s, uint32_t limit, uint64_t now_ms);

/* The position of the batch that holds `offset`. False if the file does not hold it. */
bool segment_find(const struct segment *s, int64_t offset, uint32_t *position);

/* Where the last whole batch ends that begins at `position` or later and ends at most `bytes`
 * behind it; `position` if the first one is longer. */
bool segment_cut(const struct segment *s, uint32_t position, uint32_t bytes, uint32_t *end);

/* The end of the batch at `position`. */
bool segment_batch_end(const struct segment *s, uint32_t position, uint32_t *end);

#endif
