#include "connection.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "requests.h"

/* The first size of an input buffer, and of one read: what was read is still in the processor's
 * cache when it is checked and written. */
enum { READ_BYTES = 256 << 10 };
/* An empty buffer above this is given back. */
enum { KEPT_INPUT_BYTES_MAX = 4 << 20 };
/* All input buffers together, above their first size. */
static const uint64_t GROWN_INPUT_BYTES_MAX = 2ull << 30;
/* How often one connection may send and handle again in one round. */
enum { TURNS_MAX = 4 };

static void touch(struct server *s, struct connection *c) {
  if (c->touched) return;
  c->touched = true;
  c->next_touched = s->touched;
  s->touched = c;
}

void connection_end(struct server *s, struct connection *c, const char *format, ...) {
  if (c->ending) return;
  c->ending = true;
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "limit: %s: ", c->name);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  touch(s, c);
}

void connection_open(struct server *s, int fd, const char *name) {
  struct connection *c = calloc(1, sizeof *c);
  if (!c) die("out of memory for a connection");
  c->fd = fd;
  snprintf(c->name, sizeof c->name, "%s", name);
  c->input_capacity = READ_BYTES;
  c->input = malloc(c->input_capacity);
  if (!c->input) die("out of memory for a connection");
  c->active_ms = s->now_ms;
  c->events = EPOLLIN;
  struct epoll_event event = {.events = c->events, .data.ptr = c};
  if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll: %s", strerror(errno));
  c->next = s->connections;
  if (c->next) c->next->previous = c;
  s->connections = c;
  s->connection_count++;
}

static void start_waiting(struct server *s, struct connection *c) {
  c->waiting = true;
  c->previous_waiting = NULL;
  c->next_waiting = s->waiting;
  if (s->waiting) s->waiting->previous_waiting = c;
  s->waiting = c;
  if (c->deadline_ms < s->next_deadline_ms) s->next_deadline_ms = c->deadline_ms;
}

static void stop_waiting(struct server *s, struct connection *c) {
  if (!c->waiting) return;
  c->waiting = false;
  if (c->previous_waiting)
    c->previous_waiting->next_waiting = c->next_waiting;
  else
    s->waiting = c->next_waiting;
  if (c->next_waiting) c->next_waiting->previous_waiting = c->previous_waiting;
}

void connection_free(struct server *s, struct connection *c) {
  stop_waiting(s, c);
  if (c->previous)
    c->previous->next = c->next;
  else
    s->connections = c->next;
  if (c->next) c->next->previous = c->previous;
  s->connection_count--;
  s->grown_input_bytes -= c->input_capacity - READ_BYTES;
  close(c->fd);
  free(c->input);
  output_free(&c->output);
  free(c);
}

/* The length of the frame that begins at `handled`. False if its length is not there yet. */
static bool next_frame(const struct connection *c, int32_t *size) {
  if (c->input_used - c->handled < 4) return false;
  *size = load32(c->input + c->handled);
  return true;
}

static bool is_impossible(int32_t size) { return size < 0 || size > FRAME_BYTES_MAX; }

/* Whether something can be handled. An impossible length is handled, too: by closing. */
static bool has_whole_frame(const struct connection *c) {
  int32_t size;
  if (!next_frame(c, &size)) return false;
  return is_impossible(size) || c->input_used - c->handled - 4 >= (size_t)size;
}

/* Handles frames until one is incomplete or must wait, or enough is to be sent. */
static void handle_frames(struct server *s, struct connection *c) {
  while (!c->ending && !c->waiting && output_has_room(&c->output)) {
    int32_t size;
    if (!has_whole_frame(c) || !next_frame(c, &size)) break;
    if (is_impossible(size)) {
      connection_end(s, c, "a frame of %d bytes", size);
      break;
    }
    const char *reason = NULL;
    switch (request_handle(s, c, c->input + c->handled + 4, (size_t)size, &reason)) {
      case DONE:
        c->deadline_ms = 0;
        c->handled += 4 + (size_t)size;
        break;
      case WAIT:
        start_waiting(s, c);
        break;
      case MALFORMED:
        c->silent = c->output.bytes.overflowed;
        connection_end(s, c, "%s", reason);
        break;
    }
  }
}

/* Moves what is left, less than a frame, to the front, and makes room for more of it. Nothing of it
 * may be pending in a log. False if there is no room. */
static bool make_room(struct server *s, struct connection *c) {
  if (c->handled > 0) {
    c->input_used -= c->handled;
    memmove(c->input, c->input + c->handled, c->input_used);
    c->handled = 0;
  }
  if (c->input_used == 0 && c->input_capacity > KEPT_INPUT_BYTES_MAX) {
    s->grown_input_bytes -= c->input_capacity - READ_BYTES;
    free(c->input);
    c->input_capacity = READ_BYTES;
    c->input = malloc(c->input_capacity);
    if (!c->input) die("out of memory for a request");
  }
  if (c->input_used < c->input_capacity) return true;
  /* It grows with what has come, not with what was announced. */
  int32_t frame = 0;
  next_frame(c, &frame);
  size_t wanted = 2 * c->input_capacity;
  if (wanted > (size_t)frame + 4) wanted = (size_t)frame + 4;
  s->grown_input_bytes += wanted - c->input_capacity;
  c->input_capacity = wanted;
  c->input = realloc(c->input, wanted);
  if (!c->input) die("out of memory for a request of %zu bytes", wanted);
  return s->grown_input_bytes <= GROWN_INPUT_BYTES_MAX;
}

static void read_input(struct server *s, struct connection *c) {
  if (has_whole_frame(c)) { /* Its turn in the last round was over. */
    handle_frames(s, c);
    return;
  }
  if (!make_room(s, c)) {
    connection_end(s, c, "all input buffers together are too large");
    return;
  }
  size_t room = c->input_capacity - c->input_used;
  int32_t frame = 0;
  next_frame(c, &frame);
  /* A large frame ends with a read, so that nothing behind it has to be moved. */
  if (frame > READ_BYTES && (size_t)frame + 4 - c->input_used < room)
    room = (size_t)frame + 4 - c->input_used;
  ssize_t n = recv(c->fd, c->input + c->input_used, room, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) {
    connection_end(s, c, "%s", strerror(errno));
  } else if (n == 0 && c->input_used > 0) {
    connection_end(s, c, "ended after %zu bytes of a frame of %d", c->input_used, frame);
  } else if (n == 0) {
    c->ending = true;
  } else {
    c->input_used += (size_t)n;
    c->active_ms = s->now_ms;
    handle_frames(s, c);
  }
}

void connection_ready(struct server *s, struct connection *c, uint32_t events) {
  touch(s, c);
  if (events & c->events & EPOLLIN)
    read_input(s, c);
  else if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))
    c->ending = true; /* A Fetch that waits, or responses that nobody reads. */
}

void connection_resume(struct server *s, struct connection *c) {
  stop_waiting(s, c);
  touch(s, c);
  handle_frames(s, c);
}

/* Input is only read if it can be handled, so that it has a limit. */
static void ask_epoll(struct server *s, struct connection *c, bool output_left) {
  uint32_t wanted = output_left ? EPOLLOUT : 0;
  if (c->waiting)
    wanted |= EPOLLRDHUP;
  else if (output_has_room(&c->output))
    wanted |= EPOLLIN;
  if (wanted == c->events) return;
  c->events = wanted;
  struct epoll_event event = {.events = wanted, .data.ptr = c};
  if (epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &event) != 0) die("epoll: %s", strerror(errno));
}

void connection_settle(struct server *s, struct connection *c) {
  for (int turn = 1;; turn++) {
    log_write_pending();
    enum output_state state = c->silent ? OUTPUT_EMPTY : output_send(&c->output, c->fd);
    if (state == OUTPUT_FAILED) connection_end(s, c, "cannot send: %s", strerror(errno));
    if (c->ending) {
      connection_free(s, c);
      return;
    }
    if (state == OUTPUT_EMPTY && !c->waiting && has_whole_frame(c)) {
      if (turn < TURNS_MAX) {
        handle_frames(s, c);
        continue;
      }
      touch(s, c); /* It goes on in the next round. */
    }
    ask_epoll(s, c, state == OUTPUT_LEFT);
    return;
  }
}
