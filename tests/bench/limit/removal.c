#include "removal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire.h"

enum { PORTION_BYTES = 4 << 20 };

struct entry {
  struct entry *next;
  struct segment *segment;
  uint64_t due_ms;
};

static struct entry *first;

void removal_add(struct segment *segment, uint64_t due_ms) {
  struct entry *e = malloc(sizeof *e);
  if (!e) die("out of memory for a removal");
  /* Without a name, a topic of the same name may follow at once. */
  if (unlink(segment->path) != 0)
    fprintf(stderr, "limit: cannot remove %s: %s\n", segment->path, strerror(errno));
  *e = (struct entry){.segment = segment, .due_ms = due_ms};
  struct entry **at = &first;
  while (*at && (*at)->due_ms <= due_ms) at = &(*at)->next;
  e->next = *at;
  *at = e;
}

/* Where the first segment is that is due; one that is being sent waits for its end. */
static struct entry **first_due(uint64_t now_ms) {
  struct entry **at = &first;
  while (*at && (*at)->due_ms <= now_ms && (*at)->segment->references > 1) at = &(*at)->next;
  return *at && (*at)->due_ms <= now_ms ? at : NULL;
}

bool removal_step(uint64_t now_ms, uint64_t appended) {
  struct entry **at = first_due(now_ms);
  if (!at) return false;
  uint64_t left = PORTION_BYTES + 2 * appended;
  for (; at && left > 0; at = first_due(now_ms)) {
    struct entry *e = *at;
    struct segment *s = e->segment;
    const uint32_t freed = s->size < left ? s->size : (uint32_t)left;
    left -= freed;
    s->size -= freed;
    segment_trim(s);
    if (s->size > 0) continue;
    *at = e->next;
    segment_release(s);
    free(e);
  }
  return true;
}

void removal_end(void) {
  for (struct entry *e; (e = first);) {
    first = e->next;
    segment_release(e->segment);
    free(e);
  }
}
