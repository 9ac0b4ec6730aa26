/*
 * Records what a process writes below some folders and sends over TCP, inserted before its libc with LD_PRELOAD.
 *
 * POWER_LOSS_LOG names the record, POWER_LOSS_FOLDERS the folders, separated by colons. Each entry is a line
 * "<kind> <inode> <a> <b> <bytes of text> <bytes of data>\n" followed by text (paths, separated by a zero byte) and
 * data. A call and its entry are one step for the other threads, so the order of the entries is that of the calls. A
 * sync has an entry before it and another behind it, and takes POWER_LOSS_SYNC_USEC at least, like that of a disk.
 *
 * The processes that a recorded process starts are not recorded. Calls that the record could not repeat, such as a
 * mapping that is written, have the kind '!'.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;
static const char *folders = "";
static useconds_t sync_usec;
static long syncs;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void hold(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }
static void leave(void) {
  record = -1;
  release();
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("POWER_LOSS_LOG"), *usec = getenv("POWER_LOSS_SYNC_USEC");
  if (path == NULL) return;
  folders = strdup(getenv("POWER_LOSS_FOLDERS"));
  sync_usec = usec == NULL ? 0 : (useconds_t)atoi(usec);
  record = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  unsetenv("LD_PRELOAD");
  /* A forked process has only one of the threads, so no other would give the lock back there. */
  pthread_atfork(hold, release, leave);
}

static int is_recorded(const char *path) {
  for (const char *at = folders; record >= 0 && *at != 0;) {
    size_t length = strcspn(at, ":");
    if (strncmp(path, at, length) == 0 && (path[length] == 0 || path[length] == '/')) return 1;
    at += length + (at[length] == ':');
  }
  return 0;
}

/* Writes an entry with one call, because the processes of a recording share the file. */
static void add(char kind, ino_t inode, long long a, long long b, const char *text, size_t texts, const struct iovec *data, int parts) {
  char head[160];
  long long bytes = 0;
  for (int i = 0; i < parts; i++) bytes += (long long)data[i].iov_len;
  int length = snprintf(head, sizeof head, "%c %llu %lld %lld %zu %lld\n", kind, (unsigned long long)inode, a, b, texts, bytes);
  struct iovec all[IOV_MAX] = {{head, (size_t)length}, {(void *)text, texts}};
  if (parts > IOV_MAX - 2) abort();
  memcpy(all + 2, data, sizeof *data * (size_t)parts);
  if (syscall(SYS_writev, record, all, parts + 2) != length + (long long)texts + bytes) abort();
}

/* Whether the descriptor is of a recorded file or folder; fills its status. */
static int is_recorded_file(int fd, struct stat *status) {
  char link[40], path[PATH_MAX];
  status->st_mode = 0;
  if (record < 0 || fstat(fd, status) != 0 || !(S_ISREG(status->st_mode) || S_ISDIR(status->st_mode))) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_recorded(path);
}

static int is_tcp(int fd, const struct stat *status) {
  struct sockaddr_storage name;
  socklen_t length = sizeof name;
  return record >= 0 && S_ISSOCK(status->st_mode) && getsockname(fd, (struct sockaddr *)&name, &length) == 0 &&
         (name.ss_family == AF_INET || name.ss_family == AF_INET6);
}

/* Runs a call as one step with its entry. The entry's statement sees the result, which is not negative, as `done`. */
#define STEP(type, call, entry)              \
  do {                                       \
    pthread_mutex_lock(&lock);               \
    type done = call;                        \
    int saved = errno;                       \
    if (done >= 0 && record >= 0) { entry; } \
    pthread_mutex_unlock(&lock);             \
    errno = saved;                           \
    return done;                             \
  } while (0)

// ---- bytes ----------------------------------------------------------------------------------------------------------

/* Whether writes to the descriptor are recorded. Signal handlers write to pipes, and must not wait for the lock. */
static int is_recorded_place(int fd, struct stat *status) {
  return fd != record && (is_recorded_file(fd, status) || is_tcp(fd, status));
}

/* `at`: the offset, or -1 for that of the descriptor, which is behind the bytes now. */
static void add_write(int fd, const struct stat *status, const struct iovec *parts, int count, off_t at, ssize_t bytes) {
  struct iovec data[IOV_MAX];
  int used = 0;
  for (ssize_t rest = bytes; used < count && rest > 0; used++) {
    size_t length = parts[used].iov_len < (size_t)rest ? parts[used].iov_len : (size_t)rest;
    data[used] = (struct iovec){parts[used].iov_base, length};
    rest -= (ssize_t)length;
  }
  if (S_ISSOCK(status->st_mode)) return add('>', status->st_ino, 0, 0, "", 0, data, used);
  int is_synced = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
  add('w', status->st_ino, at < 0 ? lseek(fd, 0, SEEK_CUR) - bytes : at, is_synced, "", 0, data, used);
}

#define WRITE(call, parts, count, at)                               \
  struct stat status;                                               \
  if (!is_recorded_place(fd, &status)) return call;                 \
  STEP(ssize_t, call, add_write(fd, &status, parts, count, at, done))
#define ONE(b, n) (&(struct iovec){(void *)(b), n})

ssize_t write(int fd, const void *b, size_t n) { WRITE(REAL(write)(fd, b, n), ONE(b, n), 1, -1); }
ssize_t writev(int fd, const struct iovec *v, int n) { WRITE(REAL(writev)(fd, v, n), v, n, -1); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { WRITE(REAL(pwrite)(fd, b, n, at), ONE(b, n), 1, at); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) { WRITE(REAL(pwrite64)(fd, b, n, at), ONE(b, n), 1, at); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { WRITE(REAL(pwritev)(fd, v, n, at), v, n, at); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) { WRITE(REAL(pwritev64)(fd, v, n, at), v, n, at); }
ssize_t send(int fd, const void *b, size_t n, int flags) { WRITE(REAL(send)(fd, b, n, flags), ONE(b, n), 1, -1); }
ssize_t sendto(int fd, const void *b, size_t n, int flags, const struct sockaddr *to, socklen_t length) {
  WRITE(REAL(sendto)(fd, b, n, flags, to, length), ONE(b, n), 1, -1);
}
ssize_t sendmsg(int fd, const struct msghdr *m, int flags) { WRITE(REAL(sendmsg)(fd, m, flags), m->msg_iov, (int)m->msg_iovlen, -1); }

static void add_of(char kind, int fd, long long a) {
  struct stat status;
  if (is_recorded_file(fd, &status)) add(kind, status.st_ino, a, 0, "", 0, NULL, 0);
}

int ftruncate(int fd, off_t n) { STEP(int, REAL(ftruncate)(fd, n), add_of('t', fd, n)); }
int ftruncate64(int fd, off64_t n) { STEP(int, REAL(ftruncate64)(fd, n), add_of('t', fd, n)); }
int fallocate(int fd, int mode, off_t at, off_t n) { STEP(int, REAL(fallocate)(fd, mode, at, n), add_of('!', fd, 0)); }
int posix_fallocate(int fd, off_t at, off_t n) { STEP(int, REAL(posix_fallocate)(fd, at, n), add_of('!', fd, 0)); }
ssize_t copy_file_range(int from, off64_t *a, int fd, off64_t *b, size_t n, unsigned flags) {
  STEP(ssize_t, REAL(copy_file_range)(from, a, fd, b, n, flags), add_of('!', fd, 0));
}
ssize_t sendfile(int fd, int from, off_t *at, size_t n) { STEP(ssize_t, REAL(sendfile)(fd, from, at, n), add_of('!', fd, 0)); }
ssize_t sendfile64(int fd, int from, off64_t *at, size_t n) { STEP(ssize_t, REAL(sendfile64)(fd, from, at, n), add_of('!', fd, 0)); }

static void add_mapping(int fd, int protection, int flags) {
  if (fd >= 0 && (protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0) add_of('!', fd, 0);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t from) {
  add_mapping(fd, protection, flags);
  return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, from);
}
void *mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t from) {
  add_mapping(fd, protection, flags);
  return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, from);
}

// ---- syncs ----------------------------------------------------------------------------------------------------------

static int sync_file(int fd, int (*call)(int)) {
  struct stat status;
  if (!is_recorded_file(fd, &status)) return call(fd);
  pthread_mutex_lock(&lock);
  /* Unique among the processes of a recording. */
  long long number = (long long)getpid() * 1000000 + ++syncs;
  add('s', status.st_ino, number, 0, "", 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  usleep(sync_usec);
  STEP(int, call(fd), add('e', status.st_ino, number, 0, "", 0, NULL, 0));
}

int fsync(int fd) { return sync_file(fd, REAL(fsync)); }
int fdatasync(int fd) { return sync_file(fd, REAL(fdatasync)); }

// ---- names ----------------------------------------------------------------------------------------------------------

/* Adds an entry about one or two paths when both are recorded; with `status`, the inode of the first. */
static void add_paths(char kind, int at, const char *path, int to_at, const char *to, long long a, ino_t inode) {
  char text[2 * PATH_MAX + 2];
  size_t length = 0;
  for (int i = 0; i < (to == NULL ? 1 : 2); i++) {
    char link[40], folder[PATH_MAX] = "";
    const char *name = i == 0 ? path : to;
    if (name[0] != '/') {
      snprintf(link, sizeof link, "/proc/self/fd/%d", i == 0 ? at : to_at);
      ssize_t n = readlink((i == 0 ? at : to_at) == AT_FDCWD ? "/proc/self/cwd" : link, folder, sizeof folder - 2);
      if (n < 0) return;
      strcpy(folder + n, "/");
    }
    char *full = text + length;
    length += (size_t)snprintf(full, sizeof text - length, "%s%s", folder, name) + 1;
    if (!is_recorded(full)) return;
  }
  add(kind, inode, a, 0, text, length, NULL, 0);
}

static void add_open(int at, const char *path, int flags, int fd) {
  struct stat status;
  if ((flags & (O_CREAT | O_TRUNC)) == 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  add_paths('o', at, path, 0, NULL, (flags & O_TRUNC) != 0, status.st_ino);
}

static void add_folder(int at, const char *path) {
  struct stat status;
  if (fstatat(at, path, &status, 0) == 0) add_paths('d', at, path, 0, NULL, 0, status.st_ino);
}

#define MODE(flags, mode)                                         \
  mode_t mode = 0;                                                \
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
    va_list more;                                                 \
    va_start(more, flags);                                        \
    mode = va_arg(more, mode_t);                                  \
    va_end(more);                                                 \
  }

int open(const char *p, int flags, ...) { MODE(flags, mode) STEP(int, REAL(open)(p, flags, mode), add_open(AT_FDCWD, p, flags, done)); }
int open64(const char *p, int flags, ...) { MODE(flags, mode) STEP(int, REAL(open64)(p, flags, mode), add_open(AT_FDCWD, p, flags, done)); }
int openat(int at, const char *p, int flags, ...) { MODE(flags, mode) STEP(int, REAL(openat)(at, p, flags, mode), add_open(at, p, flags, done)); }
int openat64(int at, const char *p, int flags, ...) { MODE(flags, mode) STEP(int, REAL(openat64)(at, p, flags, mode), add_open(at, p, flags, done)); }
int mkdir(const char *p, mode_t mode) { STEP(int, REAL(mkdir)(p, mode), add_folder(AT_FDCWD, p)); }
int mkdirat(int at, const char *p, mode_t mode) { STEP(int, REAL(mkdirat)(at, p, mode), add_folder(at, p)); }
int rename(const char *p, const char *to) { STEP(int, REAL(rename)(p, to), add_paths('r', AT_FDCWD, p, AT_FDCWD, to, 0, 0)); }
int renameat(int at, const char *p, int to_at, const char *to) { STEP(int, REAL(renameat)(at, p, to_at, to), add_paths('r', at, p, to_at, to, 0, 0)); }
int link(const char *p, const char *to) { STEP(int, REAL(link)(p, to), add_paths('l', AT_FDCWD, p, AT_FDCWD, to, 0, 0)); }
int symlink(const char *what, const char *p) { STEP(int, REAL(symlink)(what, p), add_paths('!', AT_FDCWD, p, 0, NULL, 0, 0)); }
int unlink(const char *p) { STEP(int, REAL(unlink)(p), add_paths('u', AT_FDCWD, p, 0, NULL, 0, 0)); }
int rmdir(const char *p) { STEP(int, REAL(rmdir)(p), add_paths('u', AT_FDCWD, p, 0, NULL, 0, 0)); }
int unlinkat(int at, const char *p, int flags) { STEP(int, REAL(unlinkat)(at, p, flags), add_paths('u', at, p, 0, NULL, 0, 0)); }
int remove(const char *p) { STEP(int, REAL(remove)(p), add_paths('u', AT_FDCWD, p, 0, NULL, 0, 0)); }
