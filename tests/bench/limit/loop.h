/* The loop of the server's one thread. */
#ifndef LIMIT_LOOP_H
#define LIMIT_LOOP_H

#include "server.h"

/* Serves what connects to `listener` until SIGTERM or SIGINT; then ends every connection. */
void loop_run(struct server *s, int listener);

#endif
