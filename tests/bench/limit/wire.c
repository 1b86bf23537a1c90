#include "wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER_BYTES_FIRST = 4096, UVARINT_BYTES_MAX = 5 };
static const struct text NULL_TEXT = {.bytes = NULL, .size = -1};

void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("limit: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

uint32_t get_uvarint(struct reader *r) {
  uint64_t v = 0;
  for (int i = 0; i < UVARINT_BYTES_MAX; i++) {
    if (!reader_has(r, 1)) return 0;
    uint8_t b = *r->at++;
    v |= (uint64_t)(b & 0x7f) << (7 * i);
    if (b & 0x80) continue;
    if (v > UINT32_MAX) break;
    return (uint32_t)v;
  }
  r->failed = true;
  return 0;
}

/* `n` is a length as it was sent, -1 for null. */
static struct text take(struct reader *r, int64_t n) {
  if (n < -1) r->failed = true;
  if (n < 0 || !reader_has(r, (size_t)n)) return NULL_TEXT;
  r->at += n;
  return (struct text){.bytes = r->at - n, .size = (int32_t)n};
}

struct text get_string(struct reader *r, bool flexible) {
  return take(r, flexible ? (int64_t)get_uvarint(r) - 1 : get16(r));
}

struct text get_bytes(struct reader *r, bool flexible) {
  return take(r, flexible ? (int64_t)get_uvarint(r) - 1 : get32(r));
}

int32_t get_count(struct reader *r, bool flexible) {
  int64_t n = flexible ? (int64_t)get_uvarint(r) - 1 : get32(r);
  /* Every element of every array that is read here has at least one byte. */
  if (n < -1 || n > r->end - r->at) r->failed = true;
  return r->failed ? 0 : (int32_t)n;
}

void skip_tags(struct reader *r, bool flexible) {
  if (!flexible) return;
  for (uint32_t n = get_uvarint(r); n > 0 && !r->failed; n--) {
    get_uvarint(r);
    take(r, get_uvarint(r));
  }
}

void buffer_grow(struct buffer *b, size_t extra) {
  size_t wanted = b->capacity ? b->capacity : BUFFER_BYTES_FIRST;
  if (b->size + extra > BUFFER_BYTES_MAX) {
    b->overflowed = true;
    b->size = 0;
  }
  while (wanted < b->size + extra) wanted *= 2;
  if (wanted == b->capacity) return;
  b->bytes = realloc(b->bytes, wanted);
  if (!b->bytes) die("out of memory for a response of %zu bytes", wanted);
  b->capacity = wanted;
}

void buffer_free(struct buffer *b) {
  free(b->bytes);
  *b = (struct buffer){0};
}

void put_uvarint(struct buffer *b, uint32_t v) {
  for (; v >= 0x80; v >>= 7) put8(b, (int8_t)(v | 0x80));
  put8(b, (int8_t)v);
}

void put_string(struct buffer *b, struct text s, bool flexible) {
  if (flexible)
    put_uvarint(b, (uint32_t)(s.size + 1));
  else
    put16(b, (int16_t)s.size);
  if (s.size > 0) memcpy(buffer_take(b, (size_t)s.size), s.bytes, (size_t)s.size);
}

void put_count(struct buffer *b, int32_t n, bool flexible) {
  if (flexible)
    put_uvarint(b, (uint32_t)n + 1);
  else
    put32(b, n);
}

struct text text_of(const char *s) {
  return (struct text){.bytes = (const uint8_t *)s, .size = (int32_t)strlen(s)};
}
