/* Preloaded into a process: while the file named by SLOW_WRITES_SWITCH exists, a pwritev to a file
 * whose path contains SLOW_WRITES_PATH takes 0.3 seconds longer. A disk that hangs, without one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_if_slow(int fd)
{
    const char *when = getenv("SLOW_WRITES_SWITCH"), *where = getenv("SLOW_WRITES_PATH");
    char link[64], path[4096];
    if (!when || !where || access(when, F_OK) != 0)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0)
        return;
    path[size] = 0;
    if (strstr(path, where))
        usleep(300000);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t position)
{
    static ssize_t (*next)(int, const struct iovec *, int, off64_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "pwritev64");
    wait_if_slow(fd);
    return next(fd, parts, count, position);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t position, int flags)
{
    static ssize_t (*next)(int, const struct iovec *, int, off64_t, int);
    if (!next)
        next = dlsym(RTLD_NEXT, "pwritev64v2");
    wait_if_slow(fd);
    return next(fd, parts, count, position, flags);
}
