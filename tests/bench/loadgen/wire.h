/* Fields of Kafka's protocol, its varints, and bounds-checked reading of a response. */
#ifndef LOADGEN_WIRE_H
#define LOADGEN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "big_endian.h"

/* Writers: append to a buffer the caller made large enough, return the new end. */
static inline uint8_t *put8(uint8_t *p, int8_t v) { *p = (uint8_t)v; return p + 1; }
static inline uint8_t *put16(uint8_t *p, int16_t v) { store16(p, v); return p + 2; }
static inline uint8_t *put32(uint8_t *p, int32_t v) { store32(p, v); return p + 4; }
static inline uint8_t *put64(uint8_t *p, int64_t v) { store64(p, v); return p + 8; }
static inline uint8_t *put_uvarint(uint8_t *p, uint64_t v) {
  while (v >= 0x80) {
    *p++ = (uint8_t)(v | 0x80);
    v >>= 7;
  }
  *p++ = (uint8_t)v;
  return p;
}
static inline uint8_t *put_varint(uint8_t *p, int64_t v) {
  return put_uvarint(p, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}
static inline uint8_t *put_string(uint8_t *p, const char *s, bool flexible) {
  size_t n = strlen(s);
  p = flexible ? put_uvarint(p, n + 1) : put16(p, (int16_t)n);
  memcpy(p, s, n);
  return p + n;
}
static inline uint8_t *put_array_length(uint8_t *p, int32_t n, bool flexible) {
  return flexible ? put_uvarint(p, (uint64_t)n + 1) : put32(p, n);
}
static inline uint8_t *put_tags(uint8_t *p, bool flexible) {
  return flexible ? put8(p, 0) : p;
}

/* A reader never runs past `end`: it sets `short_read` and yields zeros instead, so a parser
 * checks once, at its end. */
struct reader {
  const uint8_t *at, *end;
  bool short_read;
};

static inline bool reader_need(struct reader *r, size_t n) {
  if (r->short_read || (size_t)(r->end - r->at) < n) {
    r->short_read = true;
    return false;
  }
  return true;
}
static inline int8_t get8(struct reader *r) {
  if (!reader_need(r, 1)) return 0;
  return (int8_t)*r->at++;
}
static inline int16_t get16(struct reader *r) {
  if (!reader_need(r, 2)) return 0;
  r->at += 2;
  return load16(r->at - 2);
}
static inline int32_t get32(struct reader *r) {
  if (!reader_need(r, 4)) return 0;
  r->at += 4;
  return load32(r->at - 4);
}
static inline int64_t get64(struct reader *r) {
  if (!reader_need(r, 8)) return 0;
  r->at += 8;
  return load64(r->at - 8);
}
static inline uint64_t get_uvarint(struct reader *r) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (!reader_need(r, 1)) return 0;
    uint8_t b = *r->at++;
    v |= (uint64_t)(b & 0x7f) << shift;
    if (!(b & 0x80)) return v;
  }
  r->short_read = true;
  return 0;
}
static inline void skip_bytes(struct reader *r, size_t n) {
  if (reader_need(r, n)) r->at += n;
}
/* Returns the length of an array, or of bytes; -1 stands for null. */
static inline int64_t get_length(struct reader *r, bool flexible) {
  return flexible ? (int64_t)get_uvarint(r) - 1 : (int64_t)get32(r);
}
/* Points `out` at the string's bytes inside the frame; returns its length, -1 for null. */
static inline int64_t get_string(struct reader *r, bool flexible, const uint8_t **out) {
  int64_t n = flexible ? (int64_t)get_uvarint(r) - 1 : (int64_t)get16(r);
  *out = r->at;
  if (n > 0) skip_bytes(r, (size_t)n);
  return n;
}
static inline void skip_string(struct reader *r, bool flexible) {
  const uint8_t *ignored;
  get_string(r, flexible, &ignored);
}
static inline void skip_tags(struct reader *r, bool flexible) {
  if (!flexible) return;
  uint64_t count = get_uvarint(r);
  while (count-- > 0 && !r->short_read) {
    get_uvarint(r);
    skip_bytes(r, get_uvarint(r));
  }
}

#endif
