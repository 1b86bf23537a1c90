/* A Kafka broker of one node and one thread that does as little as a broker can: it shows what this
 * machine could do for the load generator. See server.h for the files. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crc32c.h"
#include "loop.h"
#include "removal.h"
#include "server.h"

static const char USAGE[] =
    "usage: limit --data-dir DIRECTORY --port PORT [options]\n"
    "  --data-dir DIRECTORY    exists and is empty: nothing is recovered\n"
    "  --host ADDRESS          IPv4 address to listen on (127.0.0.1)\n"
    "  --port PORT             to listen on\n"
    "  --segment-bytes N       log.segment.bytes, for topics without segment.bytes (1073741824)\n"
    "  --partitions N          of topics that Metadata creates (1)\n"
    "  --connections N         at the same time (8192)\n"
    "  --no-hardware-crc       compute CRC-32C with a table\n"
    "Record batches go to the page cache; nothing is synced. Ends on SIGTERM.\n";

enum { BACKLOG = 1024 };

enum option_id {
  HOST = 1, PORT, DATA_DIR, SEGMENT, PARTITIONS, CONNECTIONS, NO_HARDWARE_CRC, HELP
};

static const struct option OPTIONS[] = {
    {"host", 1, 0, HOST},
    {"port", 1, 0, PORT},
    {"data-dir", 1, 0, DATA_DIR},
    {"segment-bytes", 1, 0, SEGMENT},
    {"partitions", 1, 0, PARTITIONS},
    {"connections", 1, 0, CONNECTIONS},
    {"no-hardware-crc", 0, 0, NO_HARDWARE_CRC},
    {"help", 0, 0, HELP},
    {0, 0, 0, 0},
};

__attribute__((noreturn)) static void usage_error(const char *what, const char *value) {
  fprintf(stderr, "limit: %s %s\n%s", what, value ? value : "", USAGE);
  exit(2);
}

static long integer(const char *text, long low, long high) {
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (errno || *end || end == text || v < low || v > high) usage_error("no such number", text);
  return v;
}

static struct options parse(int argc, char **argv) {
  struct options o = {.host = "127.0.0.1",
                      .connections_max = 8192,
                      .partitions = 1,
                      .segment_bytes = 1 << 30,
                      .hardware_crc = true};
  int id;
  opterr = 0;
  while ((id = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
    switch (id) {
      case HOST: o.host = optarg; break;
      case PORT: o.port = (int)integer(optarg, 1, 65535); break;
      case DATA_DIR: o.data_dir = optarg; break;
      case SEGMENT: o.segment_bytes = integer(optarg, SEGMENT_BYTES_MIN, INT32_MAX); break;
      case PARTITIONS: o.partitions = (int32_t)integer(optarg, 1, PARTITIONS_MAX); break;
      case CONNECTIONS: o.connections_max = (int)integer(optarg, 1, 100000); break;
      case NO_HARDWARE_CRC: o.hardware_crc = false; break;
      case HELP: fputs(USAGE, stdout); exit(0);
      default: usage_error("unknown or incomplete option", argv[optind - 1]);
    }
  }
  if (optind < argc) usage_error("unexpected", argv[optind]);
  if (!o.data_dir || o.port == 0) usage_error("a data directory and a port are needed", NULL);
  return o;
}

/* Segments of an earlier run would be overwritten or mixed with new ones. */
static void check_empty(const char *path) {
  DIR *directory = opendir(path);
  if (!directory) die("cannot open %s: %s", path, strerror(errno));
  for (struct dirent *e; (e = readdir(directory));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      die("%s is not empty: it has %s", path, e->d_name);
  closedir(directory);
}

static int listen_at(const struct options *o) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
  if (inet_pton(AF_INET, o->host, &address.sin_addr) != 1) usage_error("no address", o->host);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0)
    die("cannot listen on %s:%d: %s", o->host, o->port, strerror(errno));
  return fd;
}

/* Every segment and every connection has a descriptor. */
static void raise_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
  struct server server = {.options = parse(argc, argv)};
  server.topics.data_dir = server.options.data_dir;
  crc32c_start(server.options.hardware_crc);
  check_empty(server.options.data_dir);
  raise_descriptor_limit();
  int listener = listen_at(&server.options);
  loop_run(&server, listener);
  close(listener);
  topics_close(&server.topics);
  removal_end();
  return 0;
}
