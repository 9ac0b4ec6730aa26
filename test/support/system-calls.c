/*
 * Makes system calls by number, each in a process of its own, and prints the results:
 * `999: ENOSYS`, `34: killed by 14`, `39: done`.
 *
 * Arguments name what to call: `NR`, `NR:ARG:ARG…` or `FIRST-LAST`. Arguments that are not given are -1, which makes
 * nearly every call fail in a way of its own behind a filter that lets it through. Calls that wait end after a second.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 6
#define CHILD_ENDED (-1000)

/* A call like vfork returns twice on one stack, so nothing may be pushed on it between the kernel and this line. */
static inline __attribute__((always_inline)) long call_kernel(long nr, const long *a) {
#if defined(__x86_64__)
  long result;
  register long a3 __asm__("r10") = a[3], a4 __asm__("r8") = a[4], a5 __asm__("r9") = a[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(a3), "r"(a4), "r"(a5)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = nr;
  register long x0 __asm__("x0") = a[0], x1 __asm__("x1") = a[1], x2 __asm__("x2") = a[2];
  register long x3 __asm__("x3") = a[3], x4 __asm__("x4") = a[4], x5 __asm__("x5") = a[5];
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "no way to call the kernel of this architecture"
#endif
}

static void try_call(long nr, const long *arguments) {
  volatile long *result = mmap(0, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  *result = CHILD_ENDED;
  pid_t child = fork();
  if (child == 0) {
    pid_t self = getpid();
    alarm(1);
    long got = call_kernel(nr, arguments);
    if (getpid() == self) *result = got;
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("%ld: ", nr);
  if (WIFSIGNALED(status)) printf("killed by %d\n", WTERMSIG(status));
  else if (*result == CHILD_ENDED) printf("ended\n");
  else if (*result >= 0 || *result < -4095) printf("done\n");
  else printf("%s\n", strerrorname_np((int)-*result));
  fflush(stdout);
  munmap((void *)result, sizeof *result);
}

int main(int count, char **words) {
  for (int word = 1; word < count; word++) {
    long arguments[ARGUMENTS_MAX] = {-1, -1, -1, -1, -1, -1};
    char *rest;
    long first = strtol(words[word], &rest, 0);
    long last = *rest == '-' ? strtol(rest + 1, &rest, 0) : first;
    for (int at = 0; *rest == ':' && at < ARGUMENTS_MAX; at++) arguments[at] = strtoul(rest + 1, &rest, 0);
    for (long nr = first; nr <= last; nr++) try_call(nr, arguments);
  }
  return 0;
}
