/* Big-endian integers at any address, as Kafka's protocol and its record batches have them. */
#ifndef BENCH_BIG_ENDIAN_H
#define BENCH_BIG_ENDIAN_H

#include <stdint.h>
#include <string.h>

static inline void store16(uint8_t *p, int16_t v) {
  uint16_t x = __builtin_bswap16((uint16_t)v);
  memcpy(p, &x, 2);
}
static inline void store32(uint8_t *p, int32_t v) {
  uint32_t x = __builtin_bswap32((uint32_t)v);
  memcpy(p, &x, 4);
}
static inline void store64(uint8_t *p, int64_t v) {
  uint64_t x = __builtin_bswap64((uint64_t)v);
  memcpy(p, &x, 8);
}
static inline int16_t load16(const uint8_t *p) {
  uint16_t x;
  memcpy(&x, p, 2);
  return (int16_t)__builtin_bswap16(x);
}
static inline int32_t load32(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return (int32_t)__builtin_bswap32(x);
}
static inline int64_t load64(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, 8);
  return (int64_t)__builtin_bswap64(x);
}

#endif
