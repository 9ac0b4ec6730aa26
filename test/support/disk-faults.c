/*
 * A disk that fails on demand, inserted between a process and its libc with LD_PRELOAD.
 *
 * Only files whose path ends in data.mdb are affected. The control file named by DISK_FAULTS contains one line,
 * "<write|grow|sync> <n> <errno> <file or ->". Starting with the n-th write (or write that extends the file, or sync)
 * after the line was written, calls fail with that errno while the named file exists; with "-" only the n-th call
 * fails. A new line (another modification time or inode) restarts the count; without a control file nothing fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timespec seen_at;
static ino_t seen_inode;
static char kind[16], until[1024];
static long from, number, writes, grows, syncs;

static int is_data(int fd) {
  char link[64], path[1024];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 8) return 0;
  path[length] = 0;
  return strcmp(path + length - 8, "data.mdb") == 0;
}

static void read_control(void) {
  const char *control = getenv("DISK_FAULTS");
  struct stat now;
  if (control == NULL || stat(control, &now) != 0) {
    kind[0] = 0;
    return;
  }
  if (now.st_ino == seen_inode && now.st_mtim.tv_sec == seen_at.tv_sec && now.st_mtim.tv_nsec == seen_at.tv_nsec) return;
  FILE *file = fopen(control, "r");
  if (file == NULL) return;
  if (fscanf(file, "%15s %ld %ld %1023s", kind, &from, &number, until) != 4) kind[0] = 0;
  fclose(file);
  seen_inode = now.st_ino;
  seen_at = now.st_mtim;
  writes = grows = syncs = 0;
}

/* The errno to fail with, or 0. */
static int fault(const char *what, long *count, int fd) {
  int saved = errno, result = 0;
  if (fd >= 0 && !is_data(fd)) { errno = saved; return 0; }
  pthread_mutex_lock(&lock);
  read_control();
  long n = ++*count;
  if (strcmp(kind, what) == 0) {
    if (strcmp(until, "-") == 0) result = n == from ? (int)number : 0;
    else if (n >= from && access(until, F_OK) == 0) result = (int)number;
  }
  pthread_mutex_unlock(&lock);
  errno = saved;
  return result;
}

/* Growing and overwriting are counted separately, because a full disk fails only growing. */
static int write_fault(int fd, long long at, long long bytes) {
  struct stat now;
  int saved = errno, number_ = fault("write", &writes, fd);
  if (number_ == 0 && is_data(fd) && fstat(fd, &now) == 0 && at + bytes > now.st_size) number_ = fault("grow", &grows, fd);
  errno = saved;
  return number_;
}

static long long sum(const struct iovec *v, int n) {
  long long bytes = 0;
  for (int i = 0; i < n; i++) bytes += v[i].iov_len;
  return bytes;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILING(found, call) \
  do { int number_ = found; if (number_) { errno = number_; return -1; } return call; } while (0)

ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { FAILING(write_fault(fd, at, n), REAL(pwrite)(fd, b, n, at)); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) { FAILING(write_fault(fd, at, n), REAL(pwrite64)(fd, b, n, at)); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { FAILING(write_fault(fd, at, sum(v, n)), REAL(pwritev)(fd, v, n, at)); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) { FAILING(write_fault(fd, at, sum(v, n)), REAL(pwritev64)(fd, v, n, at)); }
ssize_t writev(int fd, const struct iovec *v, int n) { FAILING(write_fault(fd, lseek(fd, 0, SEEK_CUR), sum(v, n)), REAL(writev)(fd, v, n)); }
int fdatasync(int fd) { FAILING(fault("sync", &syncs, fd), REAL(fdatasync)(fd)); }
int fsync(int fd) { FAILING(fault("sync", &syncs, fd), REAL(fsync)(fd)); }
int msync(void *at, size_t n, int flags) { FAILING(fault("sync", &syncs, -1), REAL(msync)(at, n, flags)); }
