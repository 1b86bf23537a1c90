#include "loadgen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "report.h"
#include "wire.h"

enum { EVENTS_MAX = 256, IOV_PER_WRITE = 512, ERRORS_SHOWN = 5 };
enum { FRAME_BYTES_MAX = 32 << 20 };
/* No response at all for so long is a failure, and so is a drain at the end that takes longer. */
static const uint64_t SILENCE_NS_MAX = 30ull * 1000000000;
static const uint64_t DRAIN_NS_MAX = 15ull * 1000000000;

struct state state;

static const struct {
  void (*prepare)(struct connection *c);
  void (*send)(struct connection *c, struct slot *slot);
  void (*readable)(struct connection *c);
} MODES[] = {
    [PRODUCE] = {produce_prepare, produce_send, produce_readable},
    [FETCH] = {fetch_prepare, fetch_send, fetch_readable},
    [TRANSACT] = {transact_prepare, transact_send, transact_readable},
};

static int epoll_fd, timer_fd = -1;
static bool sending = true;
static uint64_t last_progress_ns;
static struct rusage usage_at_start, usage_at_end;

void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("loadgen: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint8_t *put_request_header(uint8_t *p, int16_t api_key, int16_t version, bool flexible) {
  p = put32(p, 0);
  p = put16(p, api_key);
  p = put16(p, version);
  p = put32(p, 0);
  p = put_string(p, state.options.client_id, false);
  return put_tags(p, flexible);
}

void count_error(int16_t code, int32_t partition) {
  state.counters.errors[code >= -1 && code < 255 ? code + 1 : 0]++;
  if (state.errors_reported++ < ERRORS_SHOWN)
    fprintf(stderr, "loadgen: error %d in partition %d of %s\n", code, partition,
            state.options.topic);
}

bool check_correlation(struct connection *c, int32_t correlation) {
  if (c->used == 0) die("connection %d: a response nobody asked for", c->index);
  if (correlation != c->slots[c->head].correlation)
    die("connection %d: correlation id %d where %d was next", c->index, correlation,
        c->slots[c->head].correlation);
  return true;
}

void release_slot(struct connection *c, uint64_t now) {
  c->head = (c->head + 1) % state.options.in_flight;
  c->used--;
  last_progress_ns = now;
}

void count_request(uint64_t start, uint64_t now, uint64_t bytes, uint64_t records) {
  uint64_t second = (now - state.origin_ns) / 1000000000u;
  if (second < SECONDS_MAX) state.counters.per_second[second]++;
  if (now < state.window_start_ns || now >= state.window_end_ns) return;
  state.counters.requests++;
  state.counters.bytes += bytes;
  state.counters.records += records;
  histogram_add(&state.counters.latency, now > start ? now - start : 0);
}

void complete_request(struct connection *c, uint64_t now, uint64_t bytes, uint64_t records) {
  const uint64_t start = c->slots[c->head].start_ns;
  release_slot(c, now);
  count_request(start, now, bytes, records);
}

static void make_room(struct connection *c, size_t frame_size) {
  if (frame_size > FRAME_BYTES_MAX) die("response of %zu bytes", frame_size);
  if (frame_size <= c->input_capacity) return;
  c->input_capacity = frame_size;
  c->input = realloc(c->input, c->input_capacity);
  if (!c->input) die("out of memory");
}

void read_frames(struct connection *c, size_t capacity,
                 void (*read_response)(struct connection *, const uint8_t *, size_t, uint64_t)) {
  if (!c->input) {
    c->input_capacity = capacity;
    c->input = malloc(capacity);
    if (!c->input) die("out of memory");
  }
  ssize_t n = transport_receive(&c->transport, c->input + c->input_used,
                                c->input_capacity - c->input_used);
  if (n == 0) die("the broker closed connection %d with %d in flight", c->index, c->used);
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    die("connection %d: %s", c->index, strerror(errno));
  }
  c->input_used += (size_t)n;
  const uint64_t now = now_ns();
  size_t at = 0;
  while (c->input_used - at >= 4) {
    size_t size = (size_t)(uint32_t)load32(c->input + at);
    if (c->input_used - at < size + 4) {
      make_room(c, size + 4);
      break;
    }
    read_response(c, c->input + at + 4, size, now);
    at += size + 4;
  }
  c->input_used -= at;
  memmove(c->input, c->input + at, c->input_used);
}

static void watch(struct connection *c, bool output) {
  struct epoll_event event = {.events = EPOLLIN | (output ? EPOLLOUT : 0), .data.ptr = c};
  if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->transport.fd, &event) != 0) die("epoll: %s", strerror(errno));
  c->waiting_for_output = output;
}

void queue_output(struct connection *c, const void *bytes, size_t size) {
  if (size == 0) return;
  if (c->output_tail == c->output_capacity) {
    c->output_tail -= c->output_head;
    memmove(c->output, c->output + c->output_head, (size_t)c->output_tail * sizeof *c->output);
    c->output_head = 0;
    if (c->output_tail == c->output_capacity) die("output queue of connection %d full", c->index);
  }
  c->output[c->output_tail++] = (struct iovec){.iov_base = (void *)bytes, .iov_len = size};
  c->output_queued += size;
}

static void advance_output(struct connection *c, size_t written) {
  c->output_written += written;
  while (written > 0) {
    struct iovec *v = &c->output[c->output_head];
    if (written < v->iov_len) {
      v->iov_base = (char *)v->iov_base + written;
      v->iov_len -= written;
      return;
    }
    written -= v->iov_len;
    c->output_head++;
  }
  if (c->output_head == c->output_tail) c->output_head = c->output_tail = 0;
}

/* With acks=0 there are no responses: a request is over when the kernel has taken it. */
static void complete_written(struct connection *c) {
  const uint64_t now = now_ns(), k = (uint64_t)state.options.partitions_per_request;
  while (c->used > 0 && c->slots[c->head].end_position <= c->output_written)
    complete_request(c, now, k * state.batch.size, k * (uint64_t)state.batch.records);
}

static void flush(struct connection *c) {
  while (c->output_head < c->output_tail) {
    const int count = c->output_tail - c->output_head;
    ssize_t n = transport_send(&c->transport, c->output + c->output_head,
                               count < IOV_PER_WRITE ? count : IOV_PER_WRITE);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) die("connection %d: %s", c->index, strerror(errno));
    advance_output(c, (size_t)n);
  }
  bool left = c->output_head < c->output_tail;
  if (left != c->waiting_for_output) watch(c, left);
}

static uint64_t intended_ns(const struct connection *c) {
  double number = (double)(c->intended * (uint64_t)state.options.connections + (uint64_t)c->index);
  return state.origin_ns + (uint64_t)(number * 1e9 / state.options.rate);
}

static bool may_send(const struct connection *c) {
  if (c->used == state.options.in_flight) return false;
  const bool may_begin = sending && !(state.options.requests && c->sent >= c->quota);
  /* What has begun is ended, so that the next run finds nothing open. */
  if (state.options.mode == TRANSACT) return transact_may_send(c, may_begin);
  if (!may_begin) return false;
  return state.options.rate <= 0 || c->due > 0;
}

static void send_next(struct connection *c, uint64_t now) {
  struct slot *slot = &c->slots[(c->head + c->used) % state.options.in_flight];
  slot->correlation = c->next_correlation++ & INT32_MAX;
  slot->start_ns = now;
  if (state.options.rate > 0) {
    slot->start_ns = intended_ns(c);
    c->intended++;
    c->due--;
  }
  c->used++;
  if (state.options.mode != TRANSACT) {
    c->sent++;
    state.sent++;
  }
  MODES[state.options.mode].send(c, slot);
  slot->end_position = c->output_queued;
}

static void pump(struct connection *c) {
  const uint64_t now = now_ns();
  while (may_send(c)) send_next(c, now);
  flush(c);
  if (state.options.mode != PRODUCE || state.options.acks != 0) return;
  complete_written(c);
  /* No response will wake this connection, and looping here would starve the others. */
  if (!c->waiting_for_output && may_send(c)) watch(c, true);
}

static void open_connection(struct connection *c, int index) {
  const struct options *o = &state.options;
  c->index = index;
  c->producer_id = -1;
  const uint64_t all = o->requests, n = (uint64_t)o->connections;
  c->quota = all / n + ((uint64_t)index < all % n);
  c->broker = &state.cluster.brokers[index % state.cluster.broker_count];
  cluster_connect(&c->transport, c->broker->host, c->broker->port);
  c->slots = calloc((size_t)o->in_flight, sizeof *c->slots);
  c->output_capacity = 2 * o->in_flight * (2 * o->partitions_per_request + 1);
  c->output = malloc((size_t)c->output_capacity * sizeof *c->output);
  if (!c->slots || !c->output) die("out of memory");
  MODES[o->mode].prepare(c);
  fcntl(c->transport.fd, F_SETFL, O_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->transport.fd, &event) != 0) die("epoll: %s", strerror(errno));
}

/* Open loop: hands every request whose time has come to its connection, and arms the timer for
 * the next one. */
static void release_due(uint64_t now) {
  static uint64_t released;
  const double gap = 1e9 / state.options.rate;
  while (state.origin_ns + (uint64_t)((double)released * gap) <= now) {
    struct connection *c = &state.connections[released % (uint64_t)state.options.connections];
    released++;
    c->due++;
    if (c->used < state.options.in_flight) pump(c);
  }
  uint64_t next = state.origin_ns + (uint64_t)((double)released * gap);
  struct itimerspec when = {.it_value = {.tv_sec = (time_t)(next / 1000000000u),
                                         .tv_nsec = (long)(next % 1000000000u)}};
  timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void start_timer(void) {
  timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  if (timer_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event) != 0)
    die("timer: %s", strerror(errno));
  release_due(now_ns());
}

static int outstanding(void) {
  int total = 0;
  for (int i = 0; i < state.options.connections; i++) {
    const struct connection *c = &state.connections[i];
    total += c->used + (c->transaction && transact_is_open(c) && c->used == 0);
  }
  return total;
}

/* Sends again what brokers have refused, where the pause is over. */
static void retry_due(uint64_t now) {
  for (int i = 0; i < state.options.connections; i++)
    if (transact_wakes(&state.connections[i], now)) pump(&state.connections[i]);
}

static void handle_event(const struct epoll_event *event) {
  struct connection *c = event->data.ptr;
  if (c == NULL) {
    uint64_t expirations;
    if (read(timer_fd, &expirations, sizeof expirations) < 0 && errno != EAGAIN)
      die("timer: %s", strerror(errno));
    if (sending) release_due(now_ns());
    return;
  }
  if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
    do MODES[state.options.mode].readable(c);
    while (c->used > 0 && transport_holds_more(&c->transport));
  }
  pump(c);
}

/* Runs until the window is over and everything in flight is answered. */
static void run(void) {
  struct epoll_event events[EVENTS_MAX];
  bool measuring = false, measured = false;
  for (;;) {
    const uint64_t now = now_ns();
    if (!measuring && now >= state.window_start_ns) {
      measuring = true;
      getrusage(RUSAGE_SELF, &usage_at_start);
    }
    if (!measured && now >= state.window_end_ns) {
      measured = true;
      getrusage(RUSAGE_SELF, &usage_at_end);
      sending = false;
    }
    const bool enough = state.options.requests && state.sent >= state.options.requests;
    if ((!sending || enough) && outstanding() == 0) break;
    if (!sending && now > state.window_end_ns + DRAIN_NS_MAX)
      die("%d requests unanswered %.0f s after the end", outstanding(), (double)DRAIN_NS_MAX / 1e9);
    if (sending && state.options.rate <= 0 && now > last_progress_ns + SILENCE_NS_MAX)
      die("no response for %.0f s, %d in flight", (double)SILENCE_NS_MAX / 1e9, outstanding());
    const bool transacts = state.options.mode == TRANSACT;
    int n = epoll_wait(epoll_fd, events, EVENTS_MAX, transacts ? transact_sleep_ms(now, 20) : 20);
    if (n < 0 && errno != EINTR) die("epoll: %s", strerror(errno));
    if (transacts) retry_due(now_ns());
    for (int i = 0; i < n; i++) handle_event(&events[i]);
  }
  if (!measured) {
    state.window_end_ns = now_ns();
    getrusage(RUSAGE_SELF, &usage_at_end);
  }
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  options_parse(argc, argv);
  const struct options *o = &state.options;
  if (o->mode == PRODUCE) {
    if (o->batch_file)
      batch_load(&state.batch, o->batch_file);
    else
      batch_build(&state.batch, (size_t)o->batch_bytes, (int32_t)o->records_per_batch,
                  (int64_t)time(NULL) * 1000);
  }
  cluster_load_metadata();
  if (o->mode == TRANSACT) coordinator_check_version();
  options_fit_to_cluster();
  if (o->mode == TRANSACT) transact_plan();
  epoll_fd = epoll_create1(0);
  state.connections = calloc((size_t)o->connections, sizeof *state.connections);
  if (epoll_fd < 0 || !state.connections) die("cannot start: %s", strerror(errno));
  for (int i = 0; i < o->connections; i++) open_connection(&state.connections[i], i);
  state.origin_ns = last_progress_ns = now_ns();
  state.window_start_ns = state.origin_ns + (uint64_t)(o->warmup_seconds * 1e9);
  state.window_end_ns = state.window_start_ns + (uint64_t)(o->seconds * 1e9);
  if (o->rate > 0) start_timer();
  for (int i = 0; i < o->connections; i++) pump(&state.connections[i]);
  run();
  return report_print(&usage_at_start, &usage_at_end);
}
