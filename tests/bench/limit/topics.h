/* The topics of this broker. They live in memory: a start finds none. */
#ifndef LIMIT_TOPICS_H
#define LIMIT_TOPICS_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "wire.h"

enum { TOPIC_NAME_BYTES_MAX = 249, TOPICS_MAX = 10000, PARTITIONS_MAX = 100000 };

struct topic {
  char name[TOPIC_NAME_BYTES_MAX + 1];
  int32_t name_size, partition_count;
  struct log_config config;
  struct log *logs;
};

struct topics {
  const char *data_dir;
  struct topic **all;
  int count, partitions;
};

/* NULL if there is none. */
struct topic *topics_find(const struct topics *topics, struct text name);

/* NULL if there is none. */
struct log *topic_log(const struct topic *topic, int32_t partition);

/* Whether a topic could be created; returns Kafka's error code. */
int16_t topics_check_new(const struct topics *topics, struct text name, int32_t partitions);

/* Creates a topic that topics_check_new accepts. Returns Kafka's error code. */
int16_t topics_create(struct topics *topics, struct text name, int32_t partitions,
                      const struct log_config *config);

int16_t topics_delete(struct topics *topics, struct text name, uint64_t now_ms);

void topics_apply_retention(struct topics *topics, uint64_t now_ms);

/* Frees everything; files stay. */
void topics_close(struct topics *topics);

#endif
