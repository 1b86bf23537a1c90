/* CRC-32C (Castagnoli), the checksum of a record batch. */
#ifndef LIMIT_CRC32C_H
#define LIMIT_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before any other call. With `hardware` it uses SSE4.2 if the processor has it. Exits with a
 * message if the chosen way and the plain table disagree. */
void crc32c_start(bool hardware);

/* Continues a checksum: 0 is the first `crc`. */
uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t size);

#endif
