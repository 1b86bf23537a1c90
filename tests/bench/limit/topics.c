#include "topics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kafka.h"

enum { PATH_BYTES_MAX = 3072 };

struct topic *topics_find(const struct topics *topics, struct text name) {
  static int last; /* Nearly always the same one again. */
  for (int i = -1; i < topics->count; i++) {
    const int at = i < 0 ? last : i;
    if (at >= topics->count) continue;
    struct topic *t = topics->all[at];
    if (t->name_size != name.size || memcmp(t->name, name.bytes, (size_t)name.size) != 0) continue;
    last = at;
    return t;
  }
  return NULL;
}

struct log *topic_log(const struct topic *topic, int32_t partition) {
  if (!topic || partition < 0 || partition >= topic->partition_count) return NULL;
  return &topic->logs[partition];
}

/* Kafka's rule; it also keeps paths inside the data directory. */
static bool is_valid_name(struct text name) {
  if (name.size < 1 || name.size > TOPIC_NAME_BYTES_MAX) return false;
  bool only_dots = name.size <= 2;
  for (int32_t i = 0; i < name.size; i++) {
    const uint8_t c = name.bytes[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') return false;
    only_dots &= c == '.';
  }
  return !only_dots;
}

int16_t topics_check_new(const struct topics *topics, struct text name, int32_t partitions) {
  if (!is_valid_name(name)) return INVALID_TOPIC;
  if (topics_find(topics, name)) return TOPIC_ALREADY_EXISTS;
  if (partitions < 1) return INVALID_PARTITIONS;
  if (topics->count == TOPICS_MAX || partitions > PARTITIONS_MAX - topics->partitions)
    return POLICY_VIOLATION;
  return NO_ERROR;
}

/* Returns the directory of a new partition; NULL with errno. */
static char *make_directory(const struct topics *topics, const struct topic *topic, int32_t i) {
  char path[PATH_BYTES_MAX];
  int n = snprintf(path, sizeof path, "%s/%s-%d", topics->data_dir, topic->name, i);
  if (n < 0 || n >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return NULL;
  }
  if (mkdir(path, 0755) != 0) return NULL;
  char *copy = strdup(path);
  if (!copy) die("out of memory for a path");
  return copy;
}

static void free_topic(struct topic *topic, bool delete, uint64_t now_ms) {
  for (int32_t i = 0; i < topic->partition_count; i++) {
    if (delete)
      log_delete(&topic->logs[i], now_ms);
    else
      log_close(&topic->logs[i]);
  }
  free(topic->logs);
  free(topic);
}

int16_t topics_create(struct topics *topics, struct text name, int32_t partitions,
                      const struct log_config *config) {
  struct topic *t = calloc(1, sizeof *t);
  if (!t) die("out of memory for a topic");
  memcpy(t->name, name.bytes, (size_t)name.size);
  t->name_size = name.size;
  t->config = *config;
  t->logs = calloc((size_t)partitions, sizeof *t->logs);
  if (!topics->all) topics->all = calloc(TOPICS_MAX, sizeof *topics->all);
  if (!t->logs || !topics->all) die("out of memory for a topic of %d partitions", partitions);
  for (; t->partition_count < partitions; t->partition_count++) {
    char *directory = make_directory(topics, t, t->partition_count);
    if (!directory) {
      fprintf(stderr, "limit: no directory for %s-%d: %s\n", t->name, t->partition_count,
              strerror(errno));
      free_topic(t, true, 0);
      return KAFKA_STORAGE_ERROR;
    }
    log_open(&t->logs[t->partition_count], &t->config, directory);
  }
  topics->all[topics->count++] = t;
  topics->partitions += partitions;
  return NO_ERROR;
}

int16_t topics_delete(struct topics *topics, struct text name, uint64_t now_ms) {
  struct topic *t = name.size > 0 ? topics_find(topics, name) : NULL;
  if (!t) return UNKNOWN_TOPIC_OR_PARTITION;
  int at = 0;
  while (topics->all[at] != t) at++;
  topics->count--;
  topics->partitions -= t->partition_count;
  memmove(topics->all + at, topics->all + at + 1,
          (size_t)(topics->count - at) * sizeof *topics->all);
  free_topic(t, true, now_ms);
  return NO_ERROR;
}

void topics_apply_retention(struct topics *topics, uint64_t now_ms) {
  for (int i = 0; i < topics->count; i++)
    for (int32_t p = 0; p < topics->all[i]->partition_count; p++)
      log_apply_retention(&topics->all[i]->logs[p], now_ms);
}

void topics_close(struct topics *topics) {
  for (int i = 0; i < topics->count; i++) free_topic(topics->all[i], false, 0);
  free(topics->all);
}
