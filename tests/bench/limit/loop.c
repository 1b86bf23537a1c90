/* A round: read and handle what is ready, then write what was appended, then send the responses.
 * So small batches of many connections share a write, and no response precedes it. */
#include "loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "connection.h"
#include "removal.h"

/* A short round answers the first clients while the others' requests wait, so that clients on
 * another processor do not wait for a whole round of everybody. */
enum { EVENTS_MAX = 16, ACCEPTED_MAX = 64 };
enum { TICK_MS = 100, RETENTION_MS = 500, IDLE_CHECK_MS = 10000 };
/* Kafka's connections.max.idle.ms. */
enum { IDLE_MS_MAX = 600000 };

static const char LISTENER, SIGNALS; /* what events of these carry instead of a connection */

static uint64_t monotonic_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void watch(struct server *s, int fd, const char *what) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)what};
  if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll: %s", strerror(errno));
}

static int watch_signals(struct server *s) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL. */
  if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) die("signals: %s", strerror(errno));
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) die("signals: %s", strerror(errno));
  watch(s, fd, &SIGNALS);
  return fd;
}

static void accept_one(struct server *s, int fd, const struct sockaddr_in *address) {
  char host[INET_ADDRSTRLEN] = "?", name[INET_ADDRSTRLEN + 8];
  inet_ntop(AF_INET, &address->sin_addr, host, sizeof host);
  snprintf(name, sizeof name, "%s:%d", host, ntohs(address->sin_port));
  if (s->connection_count >= s->options.connections_max) {
    fprintf(stderr, "limit: %s: more than %d connections\n", name, s->options.connections_max);
    close(fd);
    return;
  }
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  connection_open(s, fd, name);
}

/* False if no more descriptors can be opened: then the listener rests until the next tick. */
static bool accept_some(struct server *s, int listener) {
  for (int i = 0; i < ACCEPTED_MAX; i++) {
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    int fd = accept4(listener, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      accept_one(s, fd, &address);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      fprintf(stderr, "limit: cannot accept: %s\n", strerror(errno));
      return false;
    }
    if (errno == EAGAIN) return true; /* Other errors are those of one connection. */
  }
  return true;
}

static void settle_touched(struct server *s) {
  struct connection *c = s->touched;
  s->touched = NULL; /* Those that go on in the next round are touched again. */
  while (c) {
    struct connection *next = c->next_touched;
    c->touched = false;
    connection_settle(s, c);
    c = next;
  }
}

/* One that waits on goes to the front, and is not seen again. */
static void resume_waiting(struct server *s) {
  s->next_deadline_ms = UINT64_MAX;
  for (struct connection *c = s->waiting, *next; c; c = next) {
    next = c->next_waiting;
    connection_resume(s, c);
  }
  settle_touched(s);
}

static void end_idle(struct server *s) {
  for (struct connection *c = s->connections; c; c = c->next)
    if (s->now_ms - c->active_ms > IDLE_MS_MAX)
      connection_end(s, c, "idle for %d s", IDLE_MS_MAX / 1000);
}

struct timers {
  uint64_t tick, retention, idle;
};

static void run_timers(struct server *s, struct timers *t, int listener, bool *resting) {
  if (s->now_ms < t->tick) return;
  t->tick = s->now_ms + TICK_MS;
  if (*resting) watch(s, listener, &LISTENER);
  *resting = false;
  if (s->now_ms >= t->retention) {
    topics_apply_retention(&s->topics, s->now_ms);
    t->retention = s->now_ms + RETENTION_MS;
  }
  if (s->now_ms >= t->idle) {
    end_idle(s);
    t->idle = s->now_ms + IDLE_CHECK_MS;
  }
}

static int timeout_ms(const struct server *s, const struct timers *t, bool at_once) {
  if (at_once || s->touched) return 0;
  const uint64_t now = monotonic_ms();
  const uint64_t next = s->waiting && s->next_deadline_ms < t->tick ? s->next_deadline_ms : t->tick;
  return next > now ? (int)(next - now) : 0;
}

static void serve(struct server *s, int listener) {
  struct epoll_event events[EVENTS_MAX];
  struct timers timers = {0};
  bool stop = false, resting = false, removing = false;
  uint64_t appended = 0; /* what the Fetches that wait have not seen */
  while (!stop) {
    const bool at_once = removing || (appended > 0 && s->waiting);
    int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, timeout_ms(s, &timers, at_once));
    if (n < 0 && errno != EINTR) die("epoll: %s", strerror(errno));
    s->now_ms = monotonic_ms();
    for (int i = 0; i < n; i++) {
      const void *what = events[i].data.ptr;
      if (what == &SIGNALS) {
        stop = true;
      } else if (what == &LISTENER) {
        resting = !accept_some(s, listener);
        if (resting) epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, listener, NULL);
      } else {
        connection_ready(s, events[i].data.ptr, events[i].events);
      }
    }
    settle_touched(s);
    const uint64_t seen = appended + log_take_appended();
    if (s->waiting && (seen > 0 || s->now_ms >= s->next_deadline_ms)) resume_waiting(s);
    appended = log_take_appended();
    run_timers(s, &timers, listener, &resting);
    removing = removal_step(s->now_ms, seen);
  }
}

void loop_run(struct server *s, int listener) {
  s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (s->epoll_fd < 0) die("epoll: %s", strerror(errno));
  s->now_ms = monotonic_ms();
  s->next_deadline_ms = UINT64_MAX;
  watch(s, listener, &LISTENER);
  int signals = watch_signals(s);
  serve(s, listener);
  log_write_pending();
  while (s->connections) connection_free(s, s->connections);
  close(signals);
  close(s->epoll_fd);
}
