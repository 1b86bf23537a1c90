/* What carries a connection's bytes: TCP, or with --tls-ca TLS 1.3 on it.
 *
 * Without TLS each call is the system call that it names, and nothing else.
 */
#ifndef LOADGEN_TRANSPORT_H
#define LOADGEN_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct transport {
  int fd;
  struct ssl_st *tls; /* null: plain */
  size_t refused;     /* TLS: how many bytes the socket did not take, and must be offered again */
  bool drained;       /* TLS: the last call received nothing, so the socket tells of what comes */
};

/* Shakes hands on a connected socket, within SETUP_TIMEOUT_SECONDS; ends the run if that fails. The
 * socket may block or not, before and afterwards alike. */
void tls_start(struct transport *t, const char *host, int port);
/* Both as sendmsg and recv: -1 and EAGAIN if the socket is not ready, 0 if the broker closed it. What
 * breaks the rules of TLS ends the run. */
ssize_t tls_send(struct transport *t, const struct iovec *parts, int count);
ssize_t tls_receive(struct transport *t, void *bytes, size_t size);
void transport_close(struct transport *t);

static inline ssize_t transport_send(struct transport *t, struct iovec *parts, int count) {
  if (t->tls) return tls_send(t, parts, count);
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
  return sendmsg(t->fd, &message, MSG_NOSIGNAL);
}

static inline ssize_t transport_receive(struct transport *t, void *bytes, size_t size) {
  return t->tls ? tls_receive(t, bytes, size) : recv(t->fd, bytes, size, 0);
}

/* Whether there may be bytes that the socket does not tell of, as they have been read from it. */
static inline bool transport_holds_more(const struct transport *t) {
  return t->tls && !t->drained;
}

#endif
