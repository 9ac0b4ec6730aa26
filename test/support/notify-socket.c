/*
 * The socket of a service manager: binds the path of the first argument and prints each message as one line, with the
 * sender's process and the assignments separated by "; ".
 *
 * systemd-notify waits until its descriptors are closed, so each one that arrives is closed at once.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void print_message(char *text, int pid) {
  printf("%d", pid);
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) printf("; %s", line);
  putchar('\n');
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", arguments[1]);
  int listener = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0) {
    perror("bind");
    return 1;
  }
  int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("bound");
  for (;;) {
    char text[8192], control[1024];
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(listener, &message, MSG_CMSG_CLOEXEC);
    if (length < 0) continue;
    text[length] = 0;
    int pid = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part != NULL; part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_type == SCM_CREDENTIALS) pid = ((struct ucred *)CMSG_DATA(part))->pid;
      if (part->cmsg_type != SCM_RIGHTS) continue;
      int *descriptors = (int *)CMSG_DATA(part);
      for (size_t at = 0; at < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); at += 1) close(descriptors[at]);
    }
    print_message(text, pid);
  }
}
