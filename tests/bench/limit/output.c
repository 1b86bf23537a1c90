#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { WAITING_BYTES_MAX = 256 << 10, WAITING_RANGES_MAX = 256 };
enum { TURN_BYTES_MAX = 4 << 20 };
/* Memory that is kept for the next responses. */
enum { KEPT_BYTES_MAX = 1 << 20 };

bool output_has_room(const struct output *o) {
  return o->bytes.size < WAITING_BYTES_MAX && o->range_count < WAITING_RANGES_MAX;
}

void output_add_slice(struct output *o, const struct slice *slice) {
  if (!slice->segment) return;
  if (o->range_count == o->range_capacity) {
    o->range_capacity = o->range_capacity ? 2 * o->range_capacity : 8;
    o->ranges = realloc(o->ranges, o->range_capacity * sizeof *o->ranges);
    if (!o->ranges) die("out of memory for a response");
  }
  slice->segment->references++;
  o->range_bytes += slice->size;
  o->ranges[o->range_count++] = (struct file_range){.at = o->bytes.size,
                                                    .left = slice->size,
                                                    .position = slice->position,
                                                    .segment = slice->segment};
}

static ssize_t send_bytes(struct output *o, int fd, size_t end, bool more_follows) {
  ssize_t n = send(fd, o->bytes.bytes + o->sent, end - o->sent,
                   MSG_NOSIGNAL | (more_follows ? MSG_MORE : 0));
  if (n > 0) o->sent += (size_t)n;
  return n;
}

static ssize_t send_range(struct output *o, int fd) {
  struct file_range *range = &o->ranges[o->range_first];
  ssize_t n = sendfile(fd, range->segment->fd, &range->position, range->left);
  if (n == 0) { /* The file is shorter than the log knows it. */
    errno = EIO;
    return -1;
  }
  if (n < 0) return n;
  range->left -= (size_t)n;
  if (range->left == 0) {
    segment_release(range->segment);
    o->range_first++;
  }
  return n;
}

static void start_over(struct output *o) {
  o->bytes.size = o->sent = 0;
  o->range_count = o->range_first = 0;
  o->range_bytes = 0;
  if (o->bytes.capacity > KEPT_BYTES_MAX) buffer_free(&o->bytes);
}

enum output_state output_send(struct output *o, int fd) {
  size_t turn = 0;
  for (;;) {
    const bool ranges_left = o->range_first < o->range_count;
    const size_t end = ranges_left ? o->ranges[o->range_first].at : o->bytes.size;
    if (!ranges_left && o->sent == end) break;
    if (turn >= TURN_BYTES_MAX) return OUTPUT_LEFT;
    ssize_t n = o->sent < end ? send_bytes(o, fd, end, ranges_left) : send_range(o, fd);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN ? OUTPUT_LEFT : OUTPUT_FAILED;
    turn += (size_t)n;
  }
  start_over(o);
  return OUTPUT_EMPTY;
}

void output_free(struct output *o) {
  for (; o->range_first < o->range_count; o->range_first++)
    segment_release(o->ranges[o->range_first].segment);
  free(o->ranges);
  buffer_free(&o->bytes);
}
