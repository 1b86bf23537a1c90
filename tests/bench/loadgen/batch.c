#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadgen.h"
#include "wire.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* Offsets inside the batch header; the CRC covers everything from ATTRIBUTES on. */
enum {
  AT_LENGTH = 8,
  AT_MAGIC = 16,
  AT_CRC = 17,
  AT_ATTRIBUTES = 21,
  AT_LAST_OFFSET_DELTA = 23,
  AT_BASE_TIMESTAMP = 27,
  AT_MAX_TIMESTAMP = 35,
  AT_PRODUCER_ID = 43,
  AT_PRODUCER_EPOCH = 51,
  AT_BASE_SEQUENCE = 53,
  AT_RECORD_COUNT = 57,
};

enum { TRANSACTIONAL = 0x10 };
static const uint32_t NOISE = 12345;

static const uint32_t CASTAGNOLI_REFLECTED = 0x82f63b78u;

static uint32_t crc_table[256];

static void crc_init(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = (c & 1) ? (c >> 1) ^ CASTAGNOLI_REFLECTED : c >> 1;
    crc_table[i] = c;
  }
}

static uint32_t crc_update_table(uint32_t c, const uint8_t *p, size_t n) {
  while (n--) c = crc_table[(c ^ *p++) & 0xff] ^ (c >> 8);
  return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_update_sse(uint32_t crc, const uint8_t *p,
                                                                 size_t n) {
  uint64_t c = crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    c = _mm_crc32_u64(c, word);
  }
  for (; n; n--) c = _mm_crc32_u8((uint32_t)c, *p++);
  return (uint32_t)c;
}
#endif

/* The raw register: no inversion before or after, so that pieces can be joined. */
static uint32_t crc_update(uint32_t c, const uint8_t *p, size_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc_update_sse(c, p, n);
#endif
  return crc_update_table(c, p, n);
}

static uint32_t matrix_times(const uint32_t *matrix, uint32_t vector) {
  uint32_t sum = 0;
  for (; vector; vector >>= 1, matrix++)
    if (vector & 1) sum ^= *matrix;
  return sum;
}

/* Fills batch->shift: the effect on the CRC register of `n` zero bytes, by repeated squaring of
 * the one-bit operator. */
static void crc_prepare_shift(struct batch *batch, size_t n) {
  uint32_t power[32], square[32], result[32];
  power[0] = CASTAGNOLI_REFLECTED;
  for (int i = 1; i < 32; i++) power[i] = 1u << (i - 1);
  for (int i = 0; i < 32; i++) result[i] = 1u << i;
  for (uint64_t bits = (uint64_t)n * 8; bits; bits >>= 1) {
    if (bits & 1) {
      for (int i = 0; i < 32; i++) square[i] = matrix_times(power, result[i]);
      memcpy(result, square, sizeof result);
    }
    for (int i = 0; i < 32; i++) square[i] = matrix_times(power, power[i]);
    memcpy(power, square, sizeof power);
  }
  for (int byte = 0; byte < 4; byte++)
    for (uint32_t v = 0; v < 256; v++)
      batch->shift[byte][v] = matrix_times(result, v << (8 * byte));
}

static void batch_finish(struct batch *batch) {
  crc_init();
  batch->tail_crc =
      crc_update(0, batch->bytes + BATCH_HEADER_BYTES, batch->size - BATCH_HEADER_BYTES);
  crc_prepare_shift(batch, batch->size - BATCH_HEADER_BYTES);
}

static uint32_t batch_crc(const struct batch *batch, const uint8_t *header) {
  uint32_t c = crc_update(~0u, header + AT_ATTRIBUTES, BATCH_HEADER_BYTES - AT_ATTRIBUTES);
  c = batch->shift[0][c & 0xff] ^ batch->shift[1][(c >> 8) & 0xff] ^
      batch->shift[2][(c >> 16) & 0xff] ^ batch->shift[3][c >> 24];
  return ~(c ^ batch->tail_crc);
}

void batch_patch_header(const struct batch *batch, uint8_t *header, int64_t producer_id,
                        int16_t producer_epoch, int32_t base_sequence) {
  store64(header + AT_PRODUCER_ID, producer_id);
  store16(header + AT_PRODUCER_EPOCH, producer_epoch);
  store32(header + AT_BASE_SEQUENCE, base_sequence);
  store32(header + AT_CRC, (int32_t)batch_crc(batch, header));
}

int32_t sequence_add(int32_t sequence, int32_t records) {
  if (sequence > INT32_MAX - records) return records - (INT32_MAX - sequence) - 1;
  return sequence + records;
}

static size_t varint_size(int64_t v) {
  uint8_t scratch[10];
  return (size_t)(put_varint(scratch, v) - scratch);
}

static size_t record_body_size(int32_t offset_delta, size_t value_size) {
  /* attributes, timestamp delta 0, offset delta, null key, value, no headers */
  return 1 + 1 + varint_size(offset_delta) + 1 + varint_size((int64_t)value_size) + value_size + 1;
}

static size_t record_size(int32_t offset_delta, size_t value_size) {
  size_t body = record_body_size(offset_delta, value_size);
  return varint_size((int64_t)body) + body;
}

static uint8_t *put_record(uint8_t *p, int32_t offset_delta, size_t value_size, uint32_t *noise) {
  p = put_varint(p, (int64_t)record_body_size(offset_delta, value_size));
  p = put8(p, 0);
  p = put_varint(p, 0);
  p = put_varint(p, offset_delta);
  p = put_varint(p, -1);
  p = put_varint(p, (int64_t)value_size);
  for (size_t i = 0; i < value_size; i++) {
    *noise = *noise * 1664525u + 1013904223u;
    *p++ = (uint8_t)('a' + (*noise >> 24) % 26);
  }
  return put_varint(p, 0);
}

/* The header of `records` records that end at `end`. */
static void batch_close(struct batch *batch, uint8_t *bytes, uint8_t *end, int32_t records,
                        int16_t attributes, int64_t timestamp_ms) {
  batch->bytes = bytes;
  batch->size = (size_t)(end - bytes);
  batch->records = records;
  store32(bytes + AT_LENGTH, (int32_t)(batch->size - 12));
  store32(bytes + 12, -1);
  bytes[AT_MAGIC] = 2;
  store16(bytes + AT_ATTRIBUTES, attributes);
  store32(bytes + AT_LAST_OFFSET_DELTA, records - 1);
  store64(bytes + AT_BASE_TIMESTAMP, timestamp_ms);
  store64(bytes + AT_MAX_TIMESTAMP, timestamp_ms);
  store32(bytes + AT_RECORD_COUNT, records);
  batch_finish(batch);
  batch_patch_header(batch, bytes, -1, -1, -1);
  if ((uint32_t)load32(bytes + AT_CRC) !=
      ~crc_update_table(~0u, bytes + AT_ATTRIBUTES, batch->size - AT_ATTRIBUTES))
    die("the joined CRC differs from the plain one");
}

static uint8_t *batch_memory(size_t size) {
  uint8_t *bytes = calloc(1, size + 64);
  if (!bytes) die("out of memory for a batch of %zu bytes", size);
  return bytes;
}

void batch_build(struct batch *batch, size_t size, int32_t records, int64_t timestamp_ms) {
  uint8_t *bytes = batch_memory(size), *p = bytes + BATCH_HEADER_BYTES;
  uint32_t noise = NOISE;
  for (int32_t i = 0; i < records; i++) {
    size_t left = size - (size_t)(p - bytes), share = left / (size_t)(records - i);
    size_t overhead = record_size(i, 0);
    if ((size_t)(p - bytes) > size || share < overhead)
      die("%zu bytes cannot hold %d records", size, records);
    size_t value = share - overhead;
    while (value > 0 && record_size(i, value) > share) value--;
    p = put_record(p, i, value, &noise);
  }
  batch_close(batch, bytes, p, records, 0, timestamp_ms);
}

void batch_build_transactional(struct batch *batch, int32_t records, size_t value_size,
                               int64_t timestamp_ms) {
  size_t size = BATCH_HEADER_BYTES + (size_t)records * record_size(records, value_size);
  uint8_t *bytes = batch_memory(size), *p = bytes + BATCH_HEADER_BYTES;
  uint32_t noise = NOISE;
  for (int32_t i = 0; i < records; i++) p = put_record(p, i, value_size, &noise);
  batch_close(batch, bytes, p, records, TRANSACTIONAL, timestamp_ms);
}

int32_t batch_room(size_t size, size_t value_size) {
  size_t used = BATCH_HEADER_BYTES;
  int32_t records = 0;
  while (used + record_size(records, value_size) <= size)
    used += record_size(records++, value_size);
  return records;
}

void batch_load(struct batch *batch, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) die("cannot read %s", path);
  long size = ftell(file);
  rewind(file);
  if (size <= BATCH_HEADER_BYTES) die("%s holds no record batch", path);
  batch->size = (size_t)size;
  batch->bytes = malloc(batch->size);
  if (!batch->bytes || fread(batch->bytes, 1, batch->size, file) != batch->size)
    die("cannot read %s", path);
  fclose(file);
  batch->records = load32(batch->bytes + AT_RECORD_COUNT);
  batch_finish(batch);
  if (batch->bytes[AT_MAGIC] != 2 || load32(batch->bytes + AT_LENGTH) != size - 12 ||
      (uint32_t)load32(batch->bytes + AT_CRC) != batch_crc(batch, batch->bytes))
    die("%s is not one whole batch of magic 2 with a valid CRC", path);
}
