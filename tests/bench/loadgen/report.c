#include "report.h"

#include <stdio.h>

#include "loadgen.h"

static const char *const NAMES[] = {[PRODUCE] = "produce", [FETCH] = "fetch", [TRANSACT] = "transact"};

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static uint64_t print_errors(void) {
  uint64_t total = 0;
  printf("\"errors\":{");
  for (int i = 0; i < 256; i++) {
    if (state.counters.errors[i] == 0) continue;
    printf("%s\"%d\":%llu", total ? "," : "", i - 1, (unsigned long long)state.counters.errors[i]);
    total += state.counters.errors[i];
  }
  printf("},\"errors_total\":%llu,", (unsigned long long)total);
  return total;
}

static void print_latency(const char *name, const struct histogram *h) {
  static const struct {
    const char *name;
    double quantile;
  } rows[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p999", .999}};
  printf("\"%s\":{\"mean\":%.1f,", name, h->count ? (double)h->sum / (double)h->count / 1e3 : 0);
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    printf("\"%s\":%.1f,", rows[i].name, histogram_quantile(h, rows[i].quantile) / 1e3);
  printf("\"max\":%.1f},", (double)h->max / 1e3);
}

int report_print(const struct rusage *start, const struct rusage *end) {
  const struct options *o = &state.options;
  const struct counters *k = &state.counters;
  const double window = state.window_end_ns > state.window_start_ns
                            ? (double)(state.window_end_ns - state.window_start_ns) / 1e9
                            : 0;
  const double per = window > 0 ? 1 / window : 0;
  int partitions = 0;
  for (int i = 0; i < state.cluster.broker_count; i++)
    partitions += state.cluster.brokers[i].partition_count;
  printf("{\"mode\":\"%s\",\"version\":%d,\"connections\":%d,\"in_flight\":%d,"
         "\"brokers\":%d,\"partitions\":%d,\"batch_bytes\":%zu,\"seconds\":%.3f,",
         NAMES[o->mode], o->version, o->connections, o->in_flight,
         state.cluster.broker_count, partitions, state.batch.size, window);
  printf("\"sent\":%llu,\"requests\":%llu,\"records\":%llu,\"requests_per_s\":%.1f,\"mb_per_s\":%.2f,"
         "\"records_per_s\":%.1f,",
         (unsigned long long)state.sent, (unsigned long long)k->requests,
         (unsigned long long)k->records, (double)k->requests * per, (double)k->bytes * per / 1e6, (double)k->records * per);
  print_latency("latency_us", &k->latency);
  print_latency("transaction_us", &k->transaction);
  uint64_t errors = print_errors() + k->misrouted;
  printf("\"misrouted\":%llu,\"throttled\":%llu,\"empty\":%llu,\"retries\":%llu,",
         (unsigned long long)k->misrouted, (unsigned long long)k->throttled,
         (unsigned long long)k->empty, (unsigned long long)k->retries);
  printf("\"client_cpu_s\":{\"user\":%.3f,\"system\":%.3f},\"per_second\":[",
         seconds_of(end->ru_utime) - seconds_of(start->ru_utime),
         seconds_of(end->ru_stime) - seconds_of(start->ru_stime));
  int last = SECONDS_MAX - 1;
  while (last > 0 && k->per_second[last] == 0) last--;
  for (int i = 0; i <= last; i++)
    printf("%s%llu", i ? "," : "", (unsigned long long)k->per_second[i]);
  printf("]}\n");
  return errors ? 3 : 0;
}
