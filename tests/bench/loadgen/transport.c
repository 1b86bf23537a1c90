#include "transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "loadgen.h"

/* One record of TLS; it is encrypted and sent in one piece. */
enum { RECORD_BYTES_MAX = 16384 };
/* What is read from a socket at once. OpenSSL would otherwise read header and body of each record. */
enum { READ_AHEAD_BYTES = 64 << 10 };
/* The same for all brokers. It is what both Java and OpenSSL choose if they may. */
static const char SUITE[] = "TLS_AES_256_GCM_SHA384";

/* Why the last call failed, in OpenSSL's words. */
static const char *reason(void) {
  const char *found = ERR_reason_error_string(ERR_peek_last_error());
  return found ? found : "the broker closed the connection";
}

static SSL_CTX *make_context(void) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
      !SSL_CTX_set_ciphersuites(context, SUITE))
    die("no TLS 1.3: %s", reason());
  if (!SSL_CTX_load_verify_locations(context, state.options.ca_file, NULL))
    die("cannot load certificates from %s: %s", state.options.ca_file, reason());
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  /* Responses have lengths: one that is cut off is found without a goodbye. */
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD_BYTES);
  return context;
}

/* The certificate must be for `host`, a name or an address. */
static bool expect_host(SSL *tls, const char *host) {
  uint8_t address[16];
  if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host);
  return SSL_set1_host(tls, host) && SSL_set_tlsext_host_name(tls, host);
}

/* Waits until the socket may be used again; false if that is not before `deadline`. */
static bool wait_for(int fd, short events, uint64_t deadline) {
  const uint64_t now = now_ns();
  struct pollfd waiting = {.fd = fd, .events = events};
  return now < deadline && poll(&waiting, 1, (int)((deadline - now) / 1000000u) + 1) > 0;
}

void tls_start(struct transport *t, const char *host, int port) {
  static SSL_CTX *context;
  if (!context) context = make_context();
  t->tls = SSL_new(context);
  if (!t->tls || !SSL_set_fd(t->tls, t->fd) || !expect_host(t->tls, host))
    die("cannot start TLS: %s", reason());
  const uint64_t deadline = now_ns() + SETUP_TIMEOUT_SECONDS * 1000000000ull;
  const int flags = fcntl(t->fd, F_GETFL);
  fcntl(t->fd, F_SETFL, flags | O_NONBLOCK);
  for (;;) {
    ERR_clear_error();
    const int done = SSL_connect(t->tls);
    if (done == 1) break;
    const int error = SSL_get_error(t->tls, done);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      if (wait_for(t->fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline)) continue;
      die("TLS handshake with %s:%d: no end after %d s", host, port, SETUP_TIMEOUT_SECONDS);
    }
    const long verified = SSL_get_verify_result(t->tls);
    die("TLS handshake with %s:%d: %s", host, port,
        verified == X509_V_OK ? reason() : X509_verify_cert_error_string(verified));
  }
  fcntl(t->fd, F_SETFL, flags);
}

/* What a call that did not succeed means to somebody who knows sockets. */
static ssize_t failed(const struct transport *t, int done) {
  const int saved = errno;
  switch (SSL_get_error(t->tls, done)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: errno = saved; return saved ? -1 : 0;
    default: die("the broker's TLS: %s", reason());
  }
}

/* Copies the beginning of `parts`, at most `size` bytes; returns how many. */
static size_t gather(uint8_t *to, size_t size, const struct iovec *parts, int count) {
  size_t used = 0;
  for (int i = 0; i < count && used < size; i++) {
    const size_t left = size - used;
    const size_t step = parts[i].iov_len < left ? parts[i].iov_len : left;
    memcpy(to + used, parts[i].iov_base, step);
    used += step;
  }
  return used;
}

/* Sends one record, as full as it can be. OpenSSL encrypts it once and keeps what the socket does not
 * take; it must then be offered again, and no more of it. */
ssize_t tls_send(struct transport *t, const struct iovec *parts, int count) {
  uint8_t gathered[RECORD_BYTES_MAX];
  const void *bytes = parts[0].iov_base;
  size_t size = t->refused ? t->refused : RECORD_BYTES_MAX;
  if (parts[0].iov_len < size) {
    size = gather(gathered, size, parts, count);
    bytes = gathered;
  }
  ERR_clear_error();
  errno = 0;
  const int n = SSL_write(t->tls, bytes, (int)size);
  t->refused = n > 0 ? 0 : size;
  if (n > 0) return n;
  if (failed(t, n) == 0) errno = ECONNRESET;
  return -1;
}

ssize_t tls_receive(struct transport *t, void *bytes, size_t size) {
  ERR_clear_error();
  errno = 0;
  const int n = SSL_read(t->tls, bytes, size < INT32_MAX ? (int)size : INT32_MAX);
  t->drained = n <= 0;
  return n > 0 ? n : failed(t, n);
}

void transport_close(struct transport *t) {
  SSL_free(t->tls); /* which may be null */
  t->tls = NULL;
  close(t->fd);
}
