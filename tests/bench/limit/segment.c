#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kafka.h"
#include "wire.h"

/* The product's numbers: a segment that grew by this much in less than a second gets as much
 * reserved, because writing into reserved blocks is faster than extending a file. */
enum { CHUNK_BYTES = 8 << 20, FAST_CHUNK_MS = 1000 };
/* Of a batch header: enough for its length and its last offset. */
enum { PREFIX_BYTES = LAST_OFFSET_DELTA_AT + 4 };
/* A walk reads this much at once: all small batches between two index entries. */
enum { WALK_BYTES = INDEX_INTERVAL_BYTES + 1024 };
enum { PATH_BYTES_MAX = 4096 };

struct segment *segment_create(const char *directory, int64_t base_offset, uint64_t now_ms) {
  char path[PATH_BYTES_MAX];
  int n = snprintf(path, sizeof path, "%s/%020lld.log", directory, (long long)base_offset);
  if (n < 0 || n >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return NULL;
  }
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return NULL;
  struct segment *s = calloc(1, sizeof *s);
  char *copy = strdup(path);
  if (!s || !copy) die("out of memory for a segment");
  *s = (struct segment){.fd = fd,
                        .references = 1,
                        .base_offset = base_offset,
                        .look_at = CHUNK_BYTES,
                        .looked_ms = now_ms,
                        .path = copy};
  return s;
}

void segment_release(struct segment *s) {
  if (--s->references > 0) return;
  close(s->fd);
  free(s->index);
  free(s->path);
  free(s);
}

void segment_note_batch(struct segment *s, int64_t base_offset, uint32_t position, uint32_t size) {
  if (s->bytes_since_index > INDEX_INTERVAL_BYTES) {
    if (s->index_count == s->index_capacity) {
      s->index_capacity = s->index_capacity ? 2 * s->index_capacity : 64;
      s->index = realloc(s->index, s->index_capacity * sizeof *s->index);
      if (!s->index) die("out of memory for an index");
    }
    s->index[s->index_count++] = (struct index_entry){
        .relative_offset = (uint32_t)(base_offset - s->base_offset), .position = position};
    s->bytes_since_index = 0;
  }
  s->bytes_since_index += size;
}

static void write_at(const struct segment *s, const uint8_t *bytes, size_t size, off_t position) {
  while (size > 0) {
    ssize_t n = pwrite(s->fd, bytes, size, position);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) die("cannot write %s: %s", s->path, strerror(errno));
    bytes += n;
    size -= (size_t)n;
    position += n;
  }
}

void segment_write(struct segment *s, const uint8_t *bytes, size_t size) {
  write_at(s, bytes, size, s->size);
  s->size += (uint32_t)size;
}

void segment_write_many(struct segment *s, struct iovec *pieces, int count) {
  while (count > 0) {
    ssize_t n = pwritev(s->fd, pieces, count, s->size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) die("cannot write %s: %s", s->path, strerror(errno));
    s->size += (uint32_t)n;
    for (; count > 0 && (size_t)n >= pieces->iov_len; pieces++, count--)
      n -= (ssize_t)pieces->iov_len;
    if (count == 0) break;
    pieces->iov_base = (uint8_t *)pieces->iov_base + n;
    pieces->iov_len -= (size_t)n;
  }
}

void segment_write_ahead(struct segment *s, const uint8_t *bytes, size_t size, uint32_t ahead) {
  write_at(s, bytes, size, (off_t)s->size + ahead);
}

void segment_trim(struct segment *s) {
  if (ftruncate(s->fd, s->size) != 0) die("cannot truncate %s: %s", s->path, strerror(errno));
  s->reserved = false;
}

void segment_reserve(struct segment *s, uint32_t limit, uint64_t now_ms) {
  if (s->size <= s->look_at || s->look_at == UINT32_MAX) return;
  bool fast = now_ms - s->looked_ms < FAST_CHUNK_MS;
  s->looked_ms = now_ms;
  s->look_at = s->size + CHUNK_BYTES;
  if (!fast || s->size >= limit) return;
  uint32_t room = limit - s->size;
  /* The file's size stays: nobody may see zeros behind the last batch. */
  if (fallocate(s->fd, FALLOC_FL_KEEP_SIZE, s->size, room < CHUNK_BYTES ? room : CHUNK_BYTES) == 0)
    s->reserved = true;
  else
    s->look_at = UINT32_MAX; /* This file system cannot: do not ask again. */
}

/* The batches from `position` on, in order: reads their prefixes, several with one call. */
struct walk {
  const struct segment *segment;
  uint32_t position;
  uint32_t first, count; /* of the bytes that were read */
};
static uint8_t walk_bytes[WALK_BYTES];

/* The prefix of the batch at the walk's position, and where it ends. NULL if there is none. */
static const uint8_t *look(struct walk *w, uint32_t *end) {
  const uint32_t size = w->segment->size;
  if (w->position > size || size - w->position < PREFIX_BYTES) return NULL;
  if (w->count == 0 || w->position < w->first ||
      w->position + PREFIX_BYTES > w->first + w->count) {
    ssize_t n = pread(w->segment->fd, walk_bytes, WALK_BYTES, w->position);
    if (n < PREFIX_BYTES) return NULL;
    w->first = w->position;
    w->count = (uint32_t)n;
  }
  const uint8_t *prefix = walk_bytes + (w->position - w->first);
  const int64_t batch = (int64_t)load32(prefix + BATCH_LENGTH_AT) + LENGTH_OVERHEAD;
  if (batch < BATCH_HEADER_BYTES || batch > size - w->position) return NULL;
  *end = w->position + (uint32_t)batch;
  return prefix;
}

static bool broken(const struct walk *w) {
  fprintf(stderr, "limit: no batch at %u of %s\n", w->position, w->segment->path);
  return false;
}

bool segment_find(const struct segment *s, int64_t offset, uint32_t *position) {
  const uint32_t relative = (uint32_t)(offset - s->base_offset);
  uint32_t low = 0, high = s->index_count;
  while (low < high) { /* the first entry above `relative` */
    uint32_t middle = low + (high - low) / 2;
    if (s->index[middle].relative_offset <= relative)
      low = middle + 1;
    else
      high = middle;
  }
  *position = low > 0 ? s->index[low - 1].position : 0;
  if (relative == (low > 0 ? s->index[low - 1].relative_offset : 0)) return true;
  struct walk w = {.segment = s, .position = *position};
  for (uint32_t end;; w.position = end) {
    const uint8_t *prefix = look(&w, &end);
    if (!prefix) return broken(&w);
    if (load64(prefix) + load32(prefix + LAST_OFFSET_DELTA_AT) < offset) continue;
    *position = w.position;
    return true;
  }
}

bool segment_cut(const struct segment *s, uint32_t position, uint32_t bytes, uint32_t *end) {
  if (bytes >= s->size - position) {
    *end = s->size;
    return true;
  }
  const uint32_t limit = position + bytes;
  uint32_t low = 0, high = s->index_count;
  while (low < high) { /* the first entry behind the limit */
    uint32_t middle = low + (high - low) / 2;
    if (s->index[middle].position <= limit)
      low = middle + 1;
    else
      high = middle;
  }
  *end = position;
  if (low > 0 && s->index[low - 1].position > position) *end = s->index[low - 1].position;
  struct walk w = {.segment = s, .position = *end};
  for (uint32_t next; w.position < limit; w.position = next) {
    if (!look(&w, &next)) return broken(&w);
    if (next > limit) break;
    *end = next;
  }
  return true;
}

bool segment_batch_end(const struct segment *s, uint32_t position, uint32_t *end) {
  struct walk w = {.segment = s, .position = position};
  return look(&w, end) ? true : broken(&w);
}
