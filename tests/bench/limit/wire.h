/* Fields of Kafka's protocol: read with bounds from a request, written to a growing buffer.
 *
 * Both programs have big_endian.h. What is made of it the load generator has once more, on purpose:
 * one mistake in both would stay unseen.
 */
#ifndef LIMIT_WIRE_H
#define LIMIT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "big_endian.h"

/* Prints `limit: ...` to stderr and exits with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

/* Reads a request. After the first field that is cut off or impossible, `failed` is set and every
 * field is 0, empty or null: a parser looks at `failed` once, at its end. */
struct reader {
  const uint8_t *at, *end;
  bool failed;
};

/* Bytes inside the frame; `size` is -1 for null. */
struct text {
  const uint8_t *bytes;
  int32_t size;
};

static inline bool reader_has(struct reader *r, size_t n) {
  if (r->failed || (size_t)(r->end - r->at) < n) {
    r->failed = true;
    return false;
  }
  return true;
}
static inline int8_t get8(struct reader *r) {
  return reader_has(r, 1) ? (int8_t)*r->at++ : 0;
}
static inline int16_t get16(struct reader *r) {
  if (!reader_has(r, 2)) return 0;
  r->at += 2;
  return load16(r->at - 2);
}
static inline int32_t get32(struct reader *r) {
  if (!reader_has(r, 4)) return 0;
  r->at += 4;
  return load32(r->at - 4);
}
static inline int64_t get64(struct reader *r) {
  if (!reader_has(r, 8)) return 0;
  r->at += 8;
  return load64(r->at - 8);
}

/* An unsigned varint of at most 32 bits. */
uint32_t get_uvarint(struct reader *r);
/* A string, nullable or not. */
struct text get_string(struct reader *r, bool flexible);
/* Bytes with a length of 32 bits (or a varint), nullable. */
struct text get_bytes(struct reader *r, bool flexible);
/* The number of elements, -1 for null. Fails if they cannot fit into the rest of the frame. */
int32_t get_count(struct reader *r, bool flexible);
/* Tagged fields, if the version has them; their contents are skipped. */
void skip_tags(struct reader *r, bool flexible);

/* A growing buffer. Above BUFFER_BYTES_MAX it sets `overflowed` and starts over: whoever wrote to
 * it must look at that, and throw the contents away. */
enum { BUFFER_BYTES_MAX = 128 << 20 };
struct buffer {
  uint8_t *bytes;
  size_t size, capacity;
  bool overflowed;
};

void buffer_grow(struct buffer *b, size_t extra);
void buffer_free(struct buffer *b);

static inline uint8_t *buffer_take(struct buffer *b, size_t n) {
  if (b->capacity - b->size < n) buffer_grow(b, n);
  b->size += n;
  return b->bytes + b->size - n;
}
static inline void put8(struct buffer *b, int8_t v) { *buffer_take(b, 1) = (uint8_t)v; }
static inline void put16(struct buffer *b, int16_t v) { store16(buffer_take(b, 2), v); }
static inline void put32(struct buffer *b, int32_t v) { store32(buffer_take(b, 4), v); }
static inline void put64(struct buffer *b, int64_t v) { store64(buffer_take(b, 8), v); }
void put_uvarint(struct buffer *b, uint32_t v);
void put_string(struct buffer *b, struct text s, bool flexible);
/* The length of an array, or of bytes; -1 for null. */
void put_count(struct buffer *b, int32_t n, bool flexible);
/* An empty set of tagged fields, if the version has them. */
static inline void put_tags(struct buffer *b, bool flexible) {
  if (flexible) put8(b, 0);
}

struct text text_of(const char *s);

#endif
