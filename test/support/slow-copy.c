/*
 * A slow disk for copies, inserted between a process and its libc with LD_PRELOAD.
 *
 * Each write to a data.mdb in a folder whose name ends in .part takes SLOW_COPY_SECONDS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *END = ".part/data.mdb";

static int is_copy(int fd) {
  char link[64], path[1024];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < (ssize_t)strlen(END)) return 0;
  path[length] = 0;
  return strcmp(path + length - strlen(END), END) == 0;
}

ssize_t write(int fd, const void *bytes, size_t count) {
  int saved = errno;
  const char *seconds = getenv("SLOW_COPY_SECONDS");
  if (seconds != NULL && is_copy(fd)) sleep(atoi(seconds));
  errno = saved;
  return ((__typeof__(&write))dlsym(RTLD_NEXT, "write"))(fd, bytes, count);
}
