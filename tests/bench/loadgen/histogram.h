/* Latency histogram: 128 linear buckets per power of two of nanoseconds (error below 0.8 %). */
#ifndef LOADGEN_HISTOGRAM_H
#define LOADGEN_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_SUB_BITS = 7, HISTOGRAM_SUB = 1 << HISTOGRAM_SUB_BITS };
enum { HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB };

struct histogram {
  uint64_t count, max, sum;
  uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_index(uint64_t v) {
  if (v < HISTOGRAM_SUB) return (unsigned)v;
  unsigned exponent = 63u - (unsigned)__builtin_clzll(v) - HISTOGRAM_SUB_BITS;
  return (exponent + 1) * HISTOGRAM_SUB + (unsigned)((v >> exponent) - HISTOGRAM_SUB);
}

/* The middle of a bucket's range. */
static inline double histogram_value(unsigned index) {
  if (index < HISTOGRAM_SUB) return index;
  unsigned exponent = index / HISTOGRAM_SUB - 1;
  uint64_t low = (uint64_t)(index % HISTOGRAM_SUB + HISTOGRAM_SUB) << exponent;
  return (double)low + (double)(1ull << exponent) / 2;
}

static inline void histogram_add(struct histogram *h, uint64_t v) {
  h->count++;
  h->sum += v;
  if (v > h->max) h->max = v;
  h->bucket[histogram_index(v)]++;
}

static inline double histogram_quantile(const struct histogram *h, double q) {
  uint64_t wanted = (uint64_t)(q * (double)h->count), seen = 0;
  if (h->count == 0) return 0;
  if (wanted >= h->count) wanted = h->count - 1;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += h->bucket[i];
    if (seen > wanted) {
      double v = histogram_value(i);
      return v < (double)h->max ? v : (double)h->max;
    }
  }
  return (double)h->max;
}

#endif
