/* One record batch, magic 2, prepared once and patched per request. */
#ifndef LOADGEN_BATCH_H
#define LOADGEN_BATCH_H

#include <stddef.h>
#include <stdint.h>

enum { BATCH_HEADER_BYTES = 61 };

struct batch {
  uint8_t *bytes;
  size_t size;
  int32_t records;
  /* CRC-32C of everything behind the header, and the operator that moves a CRC over as many
   * bytes: with both, a patched header costs 40 bytes of CRC and four table look-ups, not a
   * pass over the whole batch. */
  uint32_t tail_crc;
  uint32_t shift[4][256];
};

/* Builds `records` records that fill `size` bytes, header included (one byte less where no
 * varint length fits), with create time `timestamp_ms`. Exits with a message when the size is
 * too small. */
void batch_build(struct batch *batch, size_t size, int32_t records, int64_t timestamp_ms);

/* Builds a transactional batch of `records` records with values of `value_size` bytes. */
void batch_build_transactional(struct batch *batch, int32_t records, size_t value_size,
                               int64_t timestamp_ms);

/* How many records with values of `value_size` bytes fit into a batch of `size` bytes; 0 if none. */
int32_t batch_room(size_t size, size_t value_size);

/* Takes a whole batch, for instance an lz4 one, from a file, and checks its CRC. */
void batch_load(struct batch *batch, const char *path);

/* Writes producer id, epoch and base sequence into the 61-byte header, then its CRC. */
void batch_patch_header(const struct batch *batch, uint8_t *header, int64_t producer_id,
                        int16_t producer_epoch, int32_t base_sequence);

/* Kafka's sequence arithmetic: 2147483647 is followed by 0. */
int32_t sequence_add(int32_t sequence, int32_t records);

#endif
