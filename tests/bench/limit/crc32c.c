/* CRC-32C. One crc32 instruction takes three cycles but three can run at the same time, so long
 * pieces are computed as three streams side by side and joined. */
#include "crc32c.h"

#include <string.h>

#include "wire.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* Bytes in one of three streams: a batch of 16 KiB has two rounds of the longer kind. */
enum { LONG_BYTES = 2048, SHORT_BYTES = 256 };
enum { CHECKED_BYTES = 3 * LONG_BYTES + 3 * SHORT_BYTES + 13 };

static const uint32_t CASTAGNOLI_REFLECTED = 0x82f63b78u;

static uint32_t byte_table[256];

static uint32_t update_by_table(uint32_t c, const uint8_t *p, size_t n) {
  for (; n > 0; n--) c = byte_table[(c ^ *p++) & 0xff] ^ (c >> 8);
  return c;
}

static uint32_t (*update)(uint32_t, const uint8_t *, size_t) = update_by_table;

#if defined(__x86_64__)
/* The register after LONG_BYTES or SHORT_BYTES zeros, by each byte of the register before. */
static uint32_t long_shift[4][256], short_shift[4][256];

__attribute__((target("sse4.2"))) static uint32_t update_one_stream(uint32_t crc, const uint8_t *p,
                                                                    size_t n) {
  uint64_t c = crc, word;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&word, p, 8);
    c = _mm_crc32_u64(c, word);
  }
  for (; n > 0; n--) c = _mm_crc32_u8((uint32_t)c, *p++);
  return (uint32_t)c;
}

static void fill_shift(uint32_t table[4][256], size_t zeros) {
  static const uint8_t nothing[LONG_BYTES];
  for (int byte = 0; byte < 4; byte++)
    for (uint32_t v = 0; v < 256; v++)
      table[byte][v] = update_one_stream(v << (8 * byte), nothing, zeros);
}

static uint32_t shifted(uint32_t table[4][256], uint32_t c) {
  return table[0][c & 0xff] ^ table[1][(c >> 8) & 0xff] ^ table[2][(c >> 16) & 0xff] ^
         table[3][c >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t update_three_streams(uint32_t crc,
                                                                       const uint8_t *p, size_t n,
                                                                       size_t stream,
                                                                       uint32_t shift[4][256]) {
  for (; n >= 3 * stream; n -= 3 * stream, p += 3 * stream) {
    uint64_t a = crc, b = 0, c = 0, word;
    for (size_t i = 0; i < stream; i += 8) {
      memcpy(&word, p + i, 8);
      a = _mm_crc32_u64(a, word);
      memcpy(&word, p + stream + i, 8);
      b = _mm_crc32_u64(b, word);
      memcpy(&word, p + 2 * stream + i, 8);
      c = _mm_crc32_u64(c, word);
    }
    crc = shifted(shift, shifted(shift, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
  }
  return crc;
}

static uint32_t update_by_hardware(uint32_t crc, const uint8_t *p, size_t n) {
  size_t done = n - n % (3 * LONG_BYTES);
  crc = update_three_streams(crc, p, done, LONG_BYTES, long_shift);
  size_t rest = n - done, more = rest - rest % (3 * SHORT_BYTES);
  crc = update_three_streams(crc, p + done, more, SHORT_BYTES, short_shift);
  return update_one_stream(crc, p + done + more, rest - more);
}

static void use_hardware(void) {
  if (!__builtin_cpu_supports("sse4.2")) return;
  fill_shift(long_shift, LONG_BYTES);
  fill_shift(short_shift, SHORT_BYTES);
  update = update_by_hardware;
}
#else
static void use_hardware(void) {}
#endif

static void check(void) {
  static uint8_t sample[CHECKED_BYTES];
  static const char DIGITS[] = "123456789";
  uint32_t noise = 1;
  for (size_t i = 0; i < sizeof sample; i++) {
    noise = noise * 1664525u + 1013904223u;
    sample[i] = (uint8_t)(noise >> 24);
  }
  /* The check value that catalogues of CRCs list for CRC-32C. */
  if (crc32c(0, (const uint8_t *)DIGITS, 9) != 0xe3069283u)
    die("the CRC-32C of the digits is wrong");
  for (size_t n = 0; n <= sizeof sample; n += n < 2 * SHORT_BYTES ? 1 : 97)
    if (crc32c(0, sample, n) != ~update_by_table(~0u, sample, n))
      die("two ways to compute the CRC-32C of %zu bytes disagree", n);
}

void crc32c_start(bool hardware) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = (c & 1) ? (c >> 1) ^ CASTAGNOLI_REFLECTED : c >> 1;
    byte_table[i] = c;
  }
  if (hardware) use_hardware();
  check();
}

uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t size) {
  return ~update(~crc, bytes, size);
}
