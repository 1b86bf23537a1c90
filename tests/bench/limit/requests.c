#include "requests.h"

#include <stdio.h>

#include "kafka.h"

enum { NEVER_FLEXIBLE = 32767 };

static handler handle_api_versions;

static const struct api {
  int16_t key, first, last, flexible_from;
  handler *handle;
} APIS[] = {
    {API_PRODUCE, 3, 9, 9, handle_produce},
    {API_FETCH, 4, 12, 12, handle_fetch},
    {API_LIST_OFFSETS, 1, 5, NEVER_FLEXIBLE, handle_list_offsets},
    {API_METADATA, 1, 9, 9, handle_metadata},
    {API_VERSIONS, 0, 3, 3, handle_api_versions},
    {API_CREATE_TOPICS, 2, 4, NEVER_FLEXIBLE, handle_create_topics},
    {API_DELETE_TOPICS, 1, 3, NEVER_FLEXIBLE, handle_delete_topics},
    {API_INIT_PRODUCER_ID, 0, 1, NEVER_FLEXIBLE, handle_init_producer_id},
};
enum { API_COUNT = sizeof APIS / sizeof *APIS };

static const struct api *find_api(int16_t key) {
  for (int i = 0; i < API_COUNT; i++)
    if (APIS[i].key == key) return &APIS[i];
  return NULL;
}

struct response response_begin(struct connection *c, const struct request *r) {
  struct output *o = &c->output;
  struct response response = {.start = o->bytes.size, .range_bytes = o->range_bytes};
  put32(&o->bytes, 0);
  put32(&o->bytes, r->correlation);
  /* KIP-511: a client that does not know our versions must be able to read this header. */
  put_tags(&o->bytes, r->flexible && r->key != API_VERSIONS);
  return response;
}

enum verdict response_end(struct connection *c, struct response response) {
  struct output *o = &c->output;
  if (o->bytes.overflowed) return MALFORMED;
  const uint64_t size =
      o->bytes.size - response.start - 4 + (o->range_bytes - response.range_bytes);
  if (size > INT32_MAX) {
    o->bytes.overflowed = true;
    return MALFORMED;
  }
  store32(o->bytes.bytes + response.start, (int32_t)size);
  return DONE;
}

static enum verdict answer_api_versions(struct connection *c, const struct request *r,
                                        int16_t error) {
  struct buffer *b = &c->output.bytes;
  struct response response = response_begin(c, r);
  put16(b, error);
  put_count(b, API_COUNT, r->flexible);
  for (int i = 0; i < API_COUNT; i++) {
    put16(b, APIS[i].key);
    put16(b, APIS[i].first);
    put16(b, APIS[i].last);
    put_tags(b, r->flexible);
  }
  if (r->version >= 1) put32(b, 0); /* throttle */
  put_tags(b, r->flexible);
  return response_end(c, response);
}

static enum verdict handle_api_versions(struct server *s, struct connection *c,
                                        struct request *r) {
  (void)s;
  if (r->version >= 3) {
    get_string(&r->body, true); /* the client's name */
    get_string(&r->body, true); /* and version */
    skip_tags(&r->body, true);
  }
  return r->body.failed ? MALFORMED : answer_api_versions(c, r, NO_ERROR);
}

/* Only for what ends a connection: formatting would be a good part of a small request's cost. */
static enum verdict refuse(const char **reason, const char *what, const struct request *r) {
  static char text[96];
  snprintf(text, sizeof text, "%s API %d version %d", what, r->key, r->version);
  *reason = text;
  return MALFORMED;
}

enum verdict request_handle(struct server *s, struct connection *c, uint8_t *frame, size_t size,
                            const char **reason) {
  struct request r = {.body = {.at = frame, .end = frame + size}};
  r.key = get16(&r.body);
  r.version = get16(&r.body);
  r.correlation = get32(&r.body);
  *reason = "a frame without a request header";
  if (r.body.failed) return MALFORMED;
  const struct api *api = find_api(r.key);
  if (r.key == API_VERSIONS && (r.version < api->first || r.version > api->last)) {
    r.version = 0;
    return answer_api_versions(c, &r, UNSUPPORTED_VERSION);
  }
  if (!api || r.version < api->first || r.version > api->last)
    return refuse(reason, "a request of", &r);
  r.flexible = r.version >= api->flexible_from;
  get_string(&r.body, false); /* the client id: not flexible in any version */
  skip_tags(&r.body, r.flexible);
  const enum verdict verdict = r.body.failed ? MALFORMED : api->handle(s, c, &r);
  if (verdict != MALFORMED) return verdict;
  return refuse(reason, c->output.bytes.overflowed ? "too long a response to" : "cannot read", &r);
}
