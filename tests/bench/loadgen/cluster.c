/* The few blocking calls made before the load: connect, TLS, SASL PLAIN, Metadata v1-v9, InitProducerId v1. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "loadgen.h"
#include "wire.h"

enum { RETRIES_MAX = 2000, RETRY_PAUSE_MS = 10 };
enum { RESPONSE_BYTES_MAX = 64 << 20 };
enum { API_METADATA = 3, API_SASL_HANDSHAKE = 17, API_INIT_PRODUCER_ID = 22, API_SASL_AUTHENTICATE = 36 };
enum { ERROR_UNKNOWN_TOPIC = 3, ERROR_LEADER_NOT_AVAILABLE = 5 };

static void log_in(struct transport *t);

void cluster_connect(struct transport *t, const char *host, int port) {
  char service[8];
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  snprintf(service, sizeof service, "%d", port);
  int failed = getaddrinfo(host, service, &hints, &found);
  if (failed) die("cannot resolve %s: %s", host, gai_strerror(failed));
  int fd = -1;
  for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype, 0);
    if (fd < 0) continue;
    struct timeval limit = {.tv_sec = SETUP_TIMEOUT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  if (fd < 0) die("cannot connect to %s:%d: %s", host, port, strerror(errno));
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  *t = (struct transport){.fd = fd};
  if (state.options.ca_file) tls_start(t, host, port);
  if (state.options.user) log_in(t);
}

static void transfer(struct transport *t, void *bytes, size_t size, bool sending) {
  for (size_t done = 0; done < size;) {
    struct iovec part = {.iov_base = (char *)bytes + done, .iov_len = size - done};
    ssize_t n = sending ? transport_send(t, &part, 1)
                        : transport_receive(t, part.iov_base, part.iov_len);
    if (n == 0) die("the broker closed the connection during set-up");
    if (n < 0) die("set-up: %s", strerror(errno));
    done += (size_t)n;
  }
}

uint8_t *cluster_call(struct transport *t, uint8_t *frame, uint8_t *end, struct reader *response) {
  static int32_t correlation = 1 << 30;
  store32(frame, (int32_t)(end - frame - 4));
  store32(frame + AT_CORRELATION, ++correlation);
  transfer(t, frame, (size_t)(end - frame), true);
  uint8_t prefix[4];
  transfer(t, prefix, 4, false);
  int32_t size = load32(prefix);
  if (size < 4 || size > RESPONSE_BYTES_MAX) die("response of %d bytes during set-up", size);
  uint8_t *bytes = malloc((size_t)size);
  if (!bytes) die("out of memory");
  transfer(t, bytes, (size_t)size, false);
  if (load32(bytes) != correlation) die("wrong correlation id during set-up");
  *response = (struct reader){.at = bytes + 4, .end = bytes + size};
  return bytes;
}

static void login_step(struct transport *t, uint8_t *frame, uint8_t *end, const char *what) {
  struct reader r;
  uint8_t *bytes = cluster_call(t, frame, end, &r);
  int16_t error = get16(&r);
  if (r.short_read) die("cannot parse %s", what);
  if (error) die("%s: error %d", what, error);
  free(bytes);
}

/* SaslHandshake v1 and SaslAuthenticate v0, with PLAIN (RFC 4616). */
static void log_in(struct transport *t) {
  const char *user = state.options.user, *password = state.options.password;
  const size_t users = strlen(user), passwords = strlen(password);
  uint8_t frame[1024], *p = put_request_header(frame, API_SASL_HANDSHAKE, 1, false);
  login_step(t, frame, put_string(p, "PLAIN", false), "SaslHandshake");
  p = put_request_header(frame, API_SASL_AUTHENTICATE, 0, false);
  p = put32(p, (int32_t)(users + passwords + 2));
  *p++ = 0; /* who it acts as: itself */
  memcpy(p, user, users + 1);
  memcpy(p + users + 1, password, passwords);
  login_step(t, frame, p + users + 1 + passwords, "SaslAuthenticate");
}

void cluster_retry(int attempt, const char *what, int16_t error) {
  if (attempt == RETRIES_MAX) die("%s: error %d", what, error);
  struct timespec pause = {.tv_nsec = RETRY_PAUSE_MS * 1000000L};
  nanosleep(&pause, NULL);
}

static struct broker *broker_by_id(int32_t node_id) {
  for (int i = 0; i < state.cluster.broker_count; i++)
    if (state.cluster.brokers[i].node_id == node_id) return &state.cluster.brokers[i];
  return NULL;
}

static void add_partition(struct broker *broker, int32_t partition) {
  int n = broker->partition_count++;
  broker->partitions = realloc(broker->partitions, (size_t)(n + 1) * sizeof(int32_t));
  if (!broker->partitions) die("out of memory");
  broker->partitions[n] = partition;
}

static void read_brokers(struct reader *r, int version, bool flexible) {
  int64_t count = get_length(r, flexible);
  state.cluster.broker_count = 0;
  for (int64_t i = 0; i < count && !r->short_read; i++) {
    if (i == MAX_BROKERS) die("more than %d brokers", MAX_BROKERS);
    struct broker *broker = &state.cluster.brokers[state.cluster.broker_count++];
    free(broker->partitions);
    memset(broker, 0, sizeof *broker);
    broker->node_id = get32(r);
    const uint8_t *host;
    int64_t n = get_string(r, flexible, &host);
    if (n < 0 || n >= (int64_t)sizeof broker->host || r->short_read) die("bad host in Metadata");
    memcpy(broker->host, host, (size_t)n);
    broker->port = get32(r);
    if (version >= 1) skip_string(r, flexible); /* rack */
    skip_tags(r, flexible);
  }
}

static void skip_ids(struct reader *r, bool flexible) {
  int64_t n = get_length(r, flexible);
  if (n > 0) skip_bytes(r, (size_t)n * 4);
}

/* Returns the topic's error, or that of its first partition without a leader. */
static int16_t read_topic(struct reader *r, int version, bool flexible) {
  int16_t error = get16(r);
  skip_string(r, flexible);
  get8(r); /* is_internal */
  int64_t count = get_length(r, flexible);
  for (int64_t i = 0; i < count && !r->short_read; i++) {
    int16_t partition_error = get16(r);
    int32_t partition = get32(r), leader = get32(r);
    if (version >= 7) get32(r); /* leader epoch */
    skip_ids(r, flexible);      /* replicas */
    skip_ids(r, flexible);      /* isr */
    if (version >= 5) skip_ids(r, flexible);
    skip_tags(r, flexible);
    struct broker *broker = broker_by_id(leader);
    if (partition_error == 0 && broker)
      add_partition(broker, partition);
    else if (error == 0)
      error = partition_error ? partition_error : ERROR_LEADER_NOT_AVAILABLE;
  }
  if (version >= 8) get32(r);
  skip_tags(r, flexible);
  return error;
}

static int16_t metadata_once(struct transport *t) {
  const int version = state.options.metadata_version;
  const bool flexible = version >= 9;
  uint8_t frame[1024], *p = put_request_header(frame, API_METADATA, (int16_t)version, flexible);
  p = put_array_length(p, 1, flexible);
  p = put_string(p, state.options.topic, flexible);
  p = put_tags(p, flexible);
  if (version >= 4) p = put8(p, state.options.auto_create);
  if (version >= 8) p = put16(p, 0); /* two authorized-operations flags */
  p = put_tags(p, flexible);
  struct reader r;
  uint8_t *bytes = cluster_call(t, frame, p, &r);
  skip_tags(&r, flexible);
  if (version >= 3) get32(&r); /* throttle */
  read_brokers(&r, version, flexible);
  if (version >= 2) skip_string(&r, flexible); /* cluster id */
  get32(&r);                                   /* controller */
  int64_t topics = get_length(&r, flexible);
  if (topics != 1) die("Metadata answered %lld topics for one", (long long)topics);
  int16_t error = read_topic(&r, version, flexible);
  if (r.short_read) die("cannot parse Metadata v%d", version);
  free(bytes);
  return error;
}

static void use_bootstrap_only(void) {
  struct broker *broker = &state.cluster.brokers[0];
  snprintf(broker->host, sizeof broker->host, "%s", state.options.host);
  broker->port = state.options.port;
  state.cluster.broker_count = 1;
  for (int i = 0; i < state.options.partitions; i++) add_partition(broker, i);
}

void cluster_load_metadata(void) {
  if (state.options.no_metadata) {
    use_bootstrap_only();
    return;
  }
  struct transport t;
  cluster_connect(&t, state.options.host, state.options.port);
  for (int attempt = 0;; attempt++) {
    int16_t error = metadata_once(&t);
    if (error == 0) break;
    bool retriable = error == ERROR_LEADER_NOT_AVAILABLE || error == ERROR_UNKNOWN_TOPIC;
    if (!retriable) die("Metadata for topic %s: error %d", state.options.topic, error);
    cluster_retry(attempt, "Metadata", error);
  }
  transport_close(&t);
  /* Keep the brokers that lead something: connections are spread over these. */
  int kept = 0;
  for (int i = 0; i < state.cluster.broker_count; i++)
    if (state.cluster.brokers[i].partition_count > 0)
      state.cluster.brokers[kept++] = state.cluster.brokers[i];
  state.cluster.broker_count = kept;
  if (kept == 0) die("topic %s has no partitions with a leader", state.options.topic);
}

void cluster_init_producer_id(struct connection *c) {
  for (int attempt = 0;; attempt++) {
    uint8_t frame[256], *p = put_request_header(frame, API_INIT_PRODUCER_ID, 1, false);
    p = put16(p, -1); /* no transactional id */
    p = put32(p, 60000);
    struct reader r;
    uint8_t *bytes = cluster_call(&c->transport, frame, p, &r);
    get32(&r); /* throttle */
    int16_t error = get16(&r);
    c->producer_id = get64(&r);
    c->producer_epoch = get16(&r);
    if (r.short_read) die("cannot parse InitProducerId v1");
    free(bytes);
    if (error == 0) return;
    if (error < ERROR_COORDINATOR_LOADING || error > ERROR_NOT_COORDINATOR)
      die("InitProducerId: error %d", error);
    cluster_retry(attempt, "InitProducerId", error);
  }
}
