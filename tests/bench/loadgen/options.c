#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadgen.h"

static const char USAGE[] =
    "usage: loadgen --mode produce|fetch|transact --bootstrap HOST:PORT --topic NAME [options]\n"
    "  --version N             Produce 3-9 (9), Fetch 4-12 (12)\n"
    "  --connections N         (10)   --in-flight N  requests unanswered per connection (1)\n"
    "  --seconds S (5)  --warmup-seconds S (1)  --requests N  stop after N requests,\n"
    "                          each connection after its share\n"
    "  --rate R                R requests/s in all, open loop: latency counts from the time a\n"
    "                          request should have been sent (closed loop when absent)\n"
    "  --no-metadata --partitions P   send everything to the bootstrap address\n"
    "  --metadata-version N    1-9 (4)   --client-id NAME (loadgen)\n"
    "  --sasl-plain USER:PASSWORD  log in on each connection\n"
    "  --tls-ca FILE           TLS 1.3; the broker's certificate is signed by one in FILE (PEM)\n"
    "  --auto-create           let Metadata create the topic, as ordinary producers do\n"
    "produce:\n"
    "  --acks -1|0|1 (1)  --partitions-per-request K (1)\n"
    "  --batch-bytes S         size of a whole record batch (1024)\n"
    "  --records-per-batch R   (1)\n"
    "  --batch-file FILE       a whole record batch of magic 2 instead, any codec\n"
    "  --idempotent            a producer id per connection, sequences and CRC patched\n"
    "  --producer-id-base N    use N + connection number instead of InitProducerId\n"
    "fetch:\n"
    "  --max-bytes N (1048576)  --min-bytes N (1)  --max-wait-ms N (500)\n"
    "  --discard               after the first pass over a partition the kernel drops the\n"
    "                          records uncopied: a cheaper client; not with TLS, which has to\n"
    "                          decrypt them\n"
    "  --read-committed        isolation level 1; a partition ends at its last stable offset\n"
    "transact: a request is a transaction, its latency that of EndTxn; one broker with\n"
    "                          transaction.version 2\n"
    "  --transaction-records N (100)  --record-bytes S  of a value (200)\n"
    "  --batch-bytes S         Java's batch.size (16384)\n"
    "  --abort-every N         abort each N-th transaction of a connection\n"
    "  --retry-backoff-ms N    Java's retry.backoff.ms, after CONCURRENT_TRANSACTIONS (100)\n"
    "Prints one line of JSON. Exit code 0 without errors, 3 with errors in responses, 1 when\n"
    "the run failed, 2 for a wrong command line. MB are 10^6 bytes of record batches.\n";

__attribute__((noreturn)) static void usage_error(const char *what, const char *value) {
  fprintf(stderr, "loadgen: %s%s%s\n\n%s", what, value ? " " : "", value ? value : "", USAGE);
  exit(2);
}

static double number(const char *text, double low, double high) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !(v >= low && v <= high)) usage_error("bad number", text);
  return v;
}

static long integer(const char *text, long low, long high) {
  double v = number(text, (double)low, (double)high);
  if (v != (double)(long)v) usage_error("not a whole number", text);
  return (long)v;
}

static void parse_bootstrap(struct options *o, char *text) {
  char *colon = strrchr(text, ':');
  if (!colon || colon == text) usage_error("--bootstrap wants HOST:PORT, not", text);
  *colon = 0;
  o->host = text;
  o->port = (int)integer(colon + 1, 1, 65535);
}

static void parse_login(struct options *o, char *text) {
  char *colon = strchr(text, ':');
  if (!colon || colon == text || strlen(text) > MAX_LOGIN_BYTES)
    usage_error("--sasl-plain wants USER:PASSWORD", NULL);
  *colon = 0;
  o->user = text;
  o->password = colon + 1;
}

enum option_id {
  MODE = 256, BOOTSTRAP, TOPIC, VERSION, CONNECTIONS, IN_FLIGHT, SECONDS, WARMUP, REQUESTS, RATE,
  NO_METADATA, PARTITIONS, METADATA_VERSION, CLIENT_ID, ACKS, PER_REQUEST, BATCH_BYTES, RECORDS,
  AUTO_CREATE, BATCH_FILE, IDEMPOTENT, PRODUCER_ID, MAX_BYTES, MIN_BYTES, MAX_WAIT, DISCARD, HELP,
  READ_COMMITTED, TRANSACTION_RECORDS, RECORD_BYTES, ABORT_EVERY, RETRY_BACKOFF, SASL_PLAIN,
  TLS_CA,
};

static const struct option OPTIONS[] = {
    {"mode", 1, 0, MODE}, {"bootstrap", 1, 0, BOOTSTRAP}, {"topic", 1, 0, TOPIC},
    {"version", 1, 0, VERSION}, {"connections", 1, 0, CONNECTIONS},
    {"in-flight", 1, 0, IN_FLIGHT}, {"seconds", 1, 0, SECONDS},
    {"warmup-seconds", 1, 0, WARMUP}, {"requests", 1, 0, REQUESTS}, {"rate", 1, 0, RATE},
    {"no-metadata", 0, 0, NO_METADATA}, {"partitions", 1, 0, PARTITIONS},
    {"metadata-version", 1, 0, METADATA_VERSION}, {"client-id", 1, 0, CLIENT_ID},
    {"acks", 1, 0, ACKS}, {"partitions-per-request", 1, 0, PER_REQUEST},
    {"batch-bytes", 1, 0, BATCH_BYTES}, {"records-per-batch", 1, 0, RECORDS},
    {"batch-file", 1, 0, BATCH_FILE}, {"idempotent", 0, 0, IDEMPOTENT},
    {"producer-id-base", 1, 0, PRODUCER_ID}, {"max-bytes", 1, 0, MAX_BYTES},
    {"min-bytes", 1, 0, MIN_BYTES}, {"max-wait-ms", 1, 0, MAX_WAIT},
    {"read-committed", 0, 0, READ_COMMITTED}, {"transaction-records", 1, 0, TRANSACTION_RECORDS},
    {"record-bytes", 1, 0, RECORD_BYTES}, {"abort-every", 1, 0, ABORT_EVERY},
    {"retry-backoff-ms", 1, 0, RETRY_BACKOFF}, {"sasl-plain", 1, 0, SASL_PLAIN},
    {"tls-ca", 1, 0, TLS_CA},
    {"auto-create", 0, 0, AUTO_CREATE}, {"discard", 0, 0, DISCARD}, {"help", 0, 0, HELP}, {0, 0, 0, 0},
};

static enum mode mode_of(const char *name) {
  if (strcmp(name, "produce") == 0) return PRODUCE;
  if (strcmp(name, "fetch") == 0) return FETCH;
  if (strcmp(name, "transact") != 0) usage_error("unknown mode", name);
  return TRANSACT;
}

static void set_option(struct options *o, int id, char *value) {
  switch ((enum option_id)id) {
    case MODE: o->mode = mode_of(value); break;
    case BOOTSTRAP: parse_bootstrap(o, value); break;
    case TOPIC: o->topic = value; break;
    case VERSION: o->version = (int16_t)integer(value, 3, 12); break;
    case CONNECTIONS: o->connections = (int)integer(value, 1, 20000); break;
    case IN_FLIGHT: o->in_flight = (int)integer(value, 1, 4096); break;
    case SECONDS: o->seconds = number(value, 0.01, SECONDS_MAX); break;
    case WARMUP: o->warmup_seconds = number(value, 0, SECONDS_MAX); break;
    case REQUESTS: o->requests = (uint64_t)integer(value, 1, 1L << 50); break;
    case RATE: o->rate = number(value, 0.1, 1e7); break;
    case NO_METADATA: o->no_metadata = true; break;
    case PARTITIONS: o->partitions = (int)integer(value, 1, 1000000); break;
    case METADATA_VERSION: o->metadata_version = (int)integer(value, 1, 9); break;
    case CLIENT_ID: o->client_id = value; break;
    case ACKS: o->acks = (int16_t)integer(value, -1, 1); break;
    case PER_REQUEST: o->partitions_per_request = (int)integer(value, 1, 10000); break;
    case BATCH_BYTES: o->batch_bytes = integer(value, 70, 1L << 30); break;
    case RECORDS: o->records_per_batch = integer(value, 1, 1L << 24); break;
    case BATCH_FILE: o->batch_file = value; break;
    case IDEMPOTENT: o->idempotent = true; break;
    case PRODUCER_ID: o->producer_id_base = integer(value, 0, 1L << 52); break;
    case MAX_BYTES: o->max_bytes = integer(value, 1, INT32_MAX); break;
    case MIN_BYTES: o->min_bytes = integer(value, 0, INT32_MAX); break;
    case MAX_WAIT: o->max_wait_ms = integer(value, 0, 600000); break;
    case AUTO_CREATE: o->auto_create = true; break;
    case DISCARD: o->discard = true; break;
    case READ_COMMITTED: o->read_committed = true; break;
    case TRANSACTION_RECORDS: o->transaction_records = integer(value, 1, 1L << 20); break;
    case RECORD_BYTES: o->record_bytes = integer(value, 0, 1L << 20); break;
    case ABORT_EVERY: o->abort_every = (uint64_t)integer(value, 1, 1L << 50); break;
    case RETRY_BACKOFF: o->retry_backoff_ms = integer(value, 0, 60000); break;
    case SASL_PLAIN: parse_login(o, value); break;
    case TLS_CA: o->ca_file = value; break;
    case HELP: fputs(USAGE, stdout); exit(0);
  }
}

void options_parse(int argc, char **argv) {
  struct options *o = &state.options;
  *o = (struct options){.client_id = "loadgen", .acks = 1, .metadata_version = 4,
                        .connections = 10, .in_flight = 1, .partitions_per_request = 1,
                        .records_per_batch = 1, .transaction_records = 100,
                        .record_bytes = 200, .retry_backoff_ms = 100, .max_bytes = 1 << 20,
                        .min_bytes = 1, .max_wait_ms = 500, .producer_id_base = -1,
                        .seconds = 5, .warmup_seconds = 1};
  bool mode_given = false;
  int id;
  opterr = 0;
  while ((id = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
    if (id == '?') usage_error("unknown or incomplete option", argv[optind - 1]);
    mode_given |= id == MODE;
    set_option(o, id, optarg);
  }
  if (optind < argc) usage_error("unexpected", argv[optind]);
  if (!mode_given || !o->host || !o->topic) usage_error("mode, bootstrap, topic are needed", NULL);
  if (strlen(o->topic) > MAX_TOPIC_BYTES || strlen(o->client_id) > MAX_TOPIC_BYTES)
    usage_error("name too long", NULL);
  if (o->no_metadata && o->partitions == 0) usage_error("--no-metadata needs --partitions", NULL);
  if (o->ca_file) o->discard = false;
  const bool transact = o->mode == TRANSACT;
  if (o->batch_bytes == 0) o->batch_bytes = transact ? 16384 : 1024;
  if (transact && (o->version || o->rate > 0)) usage_error("no version, no rate in this mode", NULL);
  if (o->version == 0) o->version = o->mode == PRODUCE ? 9 : 12;
  if (o->mode == FETCH ? o->version < 4 : o->version > 9 && !transact)
    usage_error("no such version in this mode", NULL);
  if (o->idempotent && o->acks == 0) usage_error("--idempotent needs acks -1 or 1", NULL);
}

void options_fit_to_cluster(void) {
  int *k = &state.options.partitions_per_request;
  for (int i = 0; i < state.cluster.broker_count; i++)
    if (*k > state.cluster.brokers[i].partition_count)
      *k = state.cluster.brokers[i].partition_count;
}
