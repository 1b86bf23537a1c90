// The codecs that KafkaJS does not include: snappy, lz4 and zstd, without native code.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { CompressionCodecs, CompressionTypes } = require("kafkajs");
const snappy = require("kafkajs-snappy");
const lz4 = require("lz4js");
const zstd = require("@bokuweb/zstd-wasm");

const LZ4_BLOCK_BYTES = 64 * 1024;
// Magic, version 1 with independent blocks (Kafka reads no other), 64 KiB blocks, their checksum.
const LZ4_FRAME_HEADER = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
const LZ4_HASH_SLOTS = 65536;
const LZ4_STORED_BIT = 0x80000000;

function lz4Frame(data) {
  const parts = [LZ4_FRAME_HEADER];
  for (let start = 0; start < data.length; start += LZ4_BLOCK_BYTES) {
    const block = data.subarray(start, start + LZ4_BLOCK_BYTES);
    const packed = Buffer.alloc(lz4.compressBound(block.length));
    const size = lz4.compressBlock(block, packed, 0, block.length, new Uint32Array(LZ4_HASH_SLOTS));
    const stored = size === 0 || size >= block.length;
    const content = stored ? block : packed.subarray(0, size);
    const header = Buffer.alloc(4);
    header.writeUInt32LE((content.length | (stored ? LZ4_STORED_BIT : 0)) >>> 0);
    parts.push(header, content);
  }
  parts.push(Buffer.alloc(4));
  return Buffer.concat(parts);
}

// lz4js decodes only the blocks: its frame reader expects block checksums in the wrong place.
function lz4Content(frame) {
  const flags = frame[4];
  const checksumBytes = flags & 0x10 ? 4 : 0;
  const blockBytesMax = 1 << (8 + 2 * ((frame[5] >> 4) & 7));
  const start = 7 + (flags & 0x08 ? 8 : 0);
  const blocks = [];
  for (let at = start, header; (header = frame.readUInt32LE(at)) !== 0; ) {
    const size = header & ~LZ4_STORED_BIT;
    blocks.push({ at: at + 4, size, stored: (header & LZ4_STORED_BIT) !== 0 });
    at += 4 + size + checksumBytes;
  }
  const content = Buffer.alloc(blocks.length * blockBytesMax);
  let end = 0;
  for (const { at, size, stored } of blocks) {
    if (stored) {
      end += frame.copy(content, end, at, at + size);
    } else {
      end = lz4.decompressBlock(frame, content, at, size, end);
    }
  }
  return content.subarray(0, end);
}

export async function installCodecs() {
  await zstd.init();
  CompressionCodecs[CompressionTypes.Snappy] = snappy;
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => lz4Frame(encoder.buffer),
    decompress: async (buffer) => lz4Content(buffer),
  });
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer, 3)),
    decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
  });
}

export const CODEC_TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
