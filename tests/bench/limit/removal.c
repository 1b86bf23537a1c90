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

bool removal_step(uint64_t now_ms) {
  struct entry **at = &first;
  /* A segment that is being sent waits for its end. */
  while (*at && (*at)->due_ms <= now_ms && (*at)->segment->references > 1) at = &(*at)->next;
  struct entry *e = *at;
  if (!e || e->due_ms > now_ms) return false;
  struct segment *s = e->segment;
  s->size = s->size > PORTION_BYTES ? s->size - PORTION_BYTES : 0;
  segment_trim(s);
  if (s->size == 0) {
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
