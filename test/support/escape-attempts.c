/*
 * Tries to escape from a sandbox by system calls, each in a separate process, and prints the results:
 * `name: done`, `name: EPERM`, `name: killed by 31`.
 *
 * A success harms nothing: calls that would change the machine have arguments that the kernel refuses after its
 * permission check.
 *
 * ways-out FOLDER HOST_PID HOST_PORT HOST_ABSTRACT_SOCKET
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/if_alg.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *folder, *abstract_name;
static pid_t host_pid;
static int host_port;

static char path_buffer[4096];
static const char *in_folder(const char *name) {
  snprintf(path_buffer, sizeof path_buffer, "%s/%s", folder, name);
  return path_buffer;
}
static int made_file(void) {
  return open(in_folder("mode"), O_RDWR | O_CREAT, 0644);
}
/* Deletes the created file and keeps errno. */
static long tidy(long result) {
  int error = errno;
  if (unlink(path_buffer) != 0) rmdir(path_buffer);
  errno = error;
  return result;
}

#define CALL(name, expression) static long name(void) { return (long)(expression); }

/* mounts */
CALL(mount_tmpfs, syscall(SYS_mount, "none", "/no/such", "tmpfs", 0, 0))
CALL(mount_proc, syscall(SYS_mount, "proc", "/no/such", "proc", 0, 0))
CALL(mount_bind, syscall(SYS_mount, "/usr", "/no/such", 0, MS_BIND, 0))
CALL(mount_remount, syscall(SYS_mount, 0, "/no/such", 0, MS_REMOUNT, 0))
CALL(umount_it, syscall(SYS_umount2, "/no/such", 0))
CALL(pivot, syscall(SYS_pivot_root, "/no/such", "/no/such"))
CALL(chroot_it, chroot("/"))
CALL(open_tree_it, syscall(428, AT_FDCWD, "/", 1))
CALL(move_mount_it, syscall(429, -1, "x", -1, "y", 0))
CALL(fsopen_it, syscall(430, "tmpfs", 0))
CALL(fsconfig_it, syscall(431, -1, 0, 0, 0, 0))
CALL(fsmount_it, syscall(432, -1, 0, 0))
CALL(fspick_it, syscall(433, AT_FDCWD, "/", 0))
CALL(mount_setattr_it, syscall(442, -1, "x", 0, path_buffer, 1))
CALL(statmount_it, syscall(457, 0, 0, 0, 0))
CALL(listmount_it, syscall(458, 0, 0, 0, 0))

/* namespaces */
CALL(unshare_user, unshare(CLONE_NEWUSER))
CALL(unshare_mount, unshare(CLONE_NEWNS))
CALL(unshare_net, unshare(CLONE_NEWNET))
CALL(unshare_pid, unshare(CLONE_NEWPID))
CALL(unshare_ipc, unshare(CLONE_NEWIPC))
CALL(unshare_uts, unshare(CLONE_NEWUTS))
CALL(unshare_cgroup, unshare(CLONE_NEWCGROUP))
CALL(unshare_time, unshare(0x80))
static long cloned(unsigned long flags) {
  long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(pid, 0, 0);
  return pid;
}
CALL(clone_user, cloned(CLONE_NEWUSER))
CALL(clone_mount, cloned(CLONE_NEWNS))
CALL(clone_net, cloned(CLONE_NEWNET))
CALL(clone_pid, cloned(CLONE_NEWPID))
CALL(clone_ipc, cloned(CLONE_NEWIPC))
CALL(clone_uts, cloned(CLONE_NEWUTS))
CALL(clone_cgroup, cloned(CLONE_NEWCGROUP))
CALL(clone3_it, syscall(435, 0, 0))
CALL(setns_any, syscall(SYS_setns, -1, 0))
static long setns_own(void) {
  int fd = open("/proc/self/ns/uts", O_RDONLY);
  return fd < 0 ? -1 : setns(fd, 0);
}

/* other processes */
CALL(ptrace_me, ptrace(PTRACE_TRACEME, 0, 0, 0))
static long ptrace_parent(void) { return ptrace(PTRACE_SEIZE, getppid(), 0, 0); }
static char memory_word[8];
static long vm_read(void) {
  char word[8];
  struct iovec mine = {word, 8}, theirs = {memory_word, 8};
  return process_vm_readv(getppid(), &mine, 1, &theirs, 1, 0);
}
static long vm_write(void) {
  char word[8] = {0};
  struct iovec mine = {word, 8}, theirs = {memory_word, 8};
  return process_vm_writev(getppid(), &mine, 1, &theirs, 1, 0);
}
CALL(madvise_other, syscall(440, -1, 0, 0, 0, 0))
CALL(kcmp_it, syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0))
CALL(pidfd_getfd_it, syscall(438, -1, 0, 0))
CALL(kill_host, kill(host_pid, 0))
static long read_parent_memory(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", host_pid);
  return open(path, O_RDONLY);
}

/* parts of the kernel */
CALL(bpf_it, syscall(SYS_bpf, 9999, 0, 0))
CALL(perf_it, syscall(SYS_perf_event_open, 0, 0, 0, 0, 0))
CALL(userfaultfd_it, syscall(SYS_userfaultfd, 0x10000000))
CALL(uring_setup, syscall(425, 0, 0))
CALL(uring_enter, syscall(426, -1, 0, 0, 0, 0, 0))
CALL(uring_register, syscall(427, -1, 0, 0, 0))
CALL(add_key_it, syscall(SYS_add_key, "user", "switchyard-test", "x", 1, -2))
CALL(request_key_it, syscall(SYS_request_key, "user", "switchyard-none", 0, 0))
CALL(keyctl_it, syscall(SYS_keyctl, 0, -2, 1))
CALL(init_module_it, syscall(SYS_init_module, 0, 0, ""))
CALL(finit_module_it, syscall(SYS_finit_module, -1, "", 0))
CALL(delete_module_it, syscall(SYS_delete_module, "switchyard_none", O_NONBLOCK))
CALL(kexec_it, syscall(SYS_kexec_load, 0, 1000, 0, 0))
CALL(kexec_file_it, syscall(SYS_kexec_file_load, -1, -1, 0, 0, 0))
CALL(reboot_it, syscall(SYS_reboot, 0, 0, 0, 0))
CALL(clock_settime_it, syscall(SYS_clock_settime, CLOCK_REALTIME, 0))
CALL(settimeofday_it, syscall(SYS_settimeofday, 0, 0))
static struct timex no_change;
CALL(adjtimex_it, syscall(SYS_adjtimex, &no_change))
CALL(clock_adjtime_it, syscall(SYS_clock_adjtime, CLOCK_REALTIME, &no_change))
CALL(sethostname_it, syscall(SYS_sethostname, "", -1))
CALL(setdomainname_it, syscall(SYS_setdomainname, "", -1))
CALL(dmesg_it, syscall(SYS_syslog, 10, 0, 0))
static struct { struct file_handle handle; char room[128]; } handle_room = {.handle = {.handle_bytes = 128}};
static int mount_id;
CALL(name_to_handle, syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle_room, &mount_id, 0))
CALL(open_by_handle, syscall(SYS_open_by_handle_at, -1, &handle_room, 0))
CALL(fanotify_init_it, syscall(SYS_fanotify_init, 0, 0))
CALL(fanotify_mark_it, syscall(SYS_fanotify_mark, -1, 1, 1, -1, 0))
CALL(swapon_it, syscall(SYS_swapon, "/no/such", 0))
CALL(swapoff_it, syscall(SYS_swapoff, "/no/such"))
CALL(acct_it, syscall(SYS_acct, "/no/such"))
CALL(quotactl_it, syscall(SYS_quotactl, 0, "/no/such", 0, 0))
/* Without a controlling terminal, vhangup has nothing to hang up. */
CALL(vhangup_it, (setsid(), syscall(SYS_vhangup)))
#ifdef __x86_64__
CALL(iopl_it, syscall(SYS_iopl, 0))
CALL(ioperm_it, syscall(SYS_ioperm, 0, 1, 0))
CALL(modify_ldt_it, syscall(SYS_modify_ldt, 0, path_buffer, 0))
static long int_0x80(void) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
  return result;
}
CALL(x32_call, syscall(0x40000000 | SYS_getpid))
#endif

/* user and group ids */
CALL(setuid_root, setuid(0))
CALL(setgid_root, setgid(0))
CALL(setresuid_root, setresuid(0, 0, 0))
CALL(setgroups_none, setgroups(0, 0))
static long chown_root(void) { return tidy(fchown(made_file(), 0, 0)); }
static long chown_other(void) { return tidy(fchown(made_file(), 12345, 12345)); }
CALL(raise_nice, setpriority(PRIO_PROCESS, 0, -5))
static long realtime(void) { struct sched_param p = {.sched_priority = 1}; return sched_setscheduler(0, SCHED_FIFO, &p); }
static long raise_processes(void) {
  struct rlimit limit = {4096, 4096};
  return setrlimit(RLIMIT_NPROC, &limit);
}
static long raise_file_size(void) {
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  return setrlimit(RLIMIT_FSIZE, &limit);
}
static long dump_core(void) {
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  return setrlimit(RLIMIT_CORE, &limit);
}
/* CAP_SYS_ADMIN */
CALL(gain_capability, prctl(PR_CAPBSET_READ, 21) == 1 ? 0 : (errno = EPERM, -1))

/* devices, and files with set-user-id or capabilities */
static long mknod_block(void) { return tidy(syscall(SYS_mknodat, AT_FDCWD, in_folder("block"), S_IFBLK | 0600, 0x0100)); }
static long mknod_char(void) { return tidy(syscall(SYS_mknodat, AT_FDCWD, in_folder("char"), S_IFCHR | 0600, 0x0101)); }
static long mknod_setuid(void) { return tidy(syscall(SYS_mknodat, AT_FDCWD, in_folder("fifo"), S_IFIFO | 04600, 0)); }
static long fchmod_setuid(void) { return tidy(fchmod(made_file(), 04755)); }
static long fchmodat_setgid(void) { made_file(); return tidy(syscall(SYS_fchmodat, AT_FDCWD, path_buffer, 02755)); }
static long fchmodat2_setuid(void) { made_file(); return tidy(syscall(452, AT_FDCWD, path_buffer, 04755, 0)); }
static long openat_setuid(void) { return tidy(syscall(SYS_openat, AT_FDCWD, in_folder("opened"), O_CREAT | O_WRONLY, 04755)); }
static long tmpfile_setuid(void) { return syscall(SYS_openat, AT_FDCWD, folder, O_TMPFILE | O_WRONLY, 04755); }
static long mkdirat_setgid(void) { return tidy(syscall(SYS_mkdirat, AT_FDCWD, in_folder("dir"), 02755)); }
static long openat2_setuid(void) {
  unsigned long how[3] = {O_CREAT | O_WRONLY, 04755, 0};
  return tidy(syscall(437, AT_FDCWD, in_folder("opened2"), how, sizeof how));
}
#ifdef __x86_64__
static long chmod_setuid(void) { made_file(); return tidy(syscall(SYS_chmod, path_buffer, 04755)); }
static long chmod_junk(void) { made_file(); return tidy(syscall(SYS_chmod, path_buffer, 0xffffffff00000000UL | 04755)); }
static long open_setuid(void) { return tidy(syscall(SYS_open, in_folder("open"), O_CREAT | O_WRONLY, 06755)); }
static long creat_setuid(void) { return tidy(syscall(SYS_creat, in_folder("creat"), 04755)); }
static long mkdir_setuid(void) { return tidy(syscall(SYS_mkdir, in_folder("dir2"), 04755)); }
static long mknod_old_setuid(void) { return tidy(syscall(SYS_mknod, in_folder("fifo2"), S_IFIFO | 02600, 0)); }
#endif

/* sockets */
CALL(socket_vsock, socket(40, SOCK_STREAM, 0))
CALL(socket_packet, socket(17, SOCK_RAW, 0))
CALL(socket_alg, socket(38, SOCK_SEQPACKET, 0))
CALL(socket_tipc, socket(30, SOCK_RDM, 0))
CALL(socket_bluetooth, socket(31, SOCK_RAW, 1))
CALL(socket_key, socket(15, SOCK_RAW, 2))
CALL(socket_can, socket(29, SOCK_RAW, 1))
CALL(socket_rds, socket(21, SOCK_SEQPACKET, 0))
CALL(socket_xdp, socket(44, SOCK_RAW, 0))
CALL(socket_smc, socket(43, SOCK_STREAM, 0))
CALL(socket_junk, syscall(SYS_socket, 0xffffffff00000011UL, SOCK_RAW, 0))
CALL(socket_raw, socket(AF_INET, SOCK_RAW, IPPROTO_ICMP))
CALL(socket_raw6, socket(AF_INET6, SOCK_RAW, 58))
static long to4(int type, const char *address, int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, address, &to.sin_addr);
  return connect(socket(AF_INET, type, 0), (struct sockaddr *)&to, sizeof to);
}
CALL(tcp_loopback, to4(SOCK_STREAM, "127.0.0.1", host_port))
CALL(tcp_any, to4(SOCK_STREAM, "0.0.0.0", host_port))
/* Connecting a datagram socket only looks up a route; nothing is sent. */
CALL(udp_metadata, to4(SOCK_DGRAM, "169.254.169.254", 80))
CALL(udp_public, to4(SOCK_DGRAM, "192.0.2.1", 443))
CALL(udp_name_server, to4(SOCK_DGRAM, "192.0.2.53", 53))
static long tcp_mapped(void) {
  struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(host_port)};
  inet_pton(AF_INET6, "::ffff:127.0.0.1", &to.sin6_addr);
  return connect(socket(AF_INET6, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof to);
}
static long abstract_socket(void) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  strcpy(to.sun_path + 1, abstract_name);
  socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract_name);
  return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&to, length);
}

/* terminals */
static long on_terminal(unsigned long command) {
  char word = 'x';
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  if (master < 0) return -1;
  grantpt(master);
  unlockpt(master);
  setsid();
  int slave = open(ptsname(master), O_RDWR);
  return slave < 0 ? -1 : syscall(SYS_ioctl, slave, command, &word);
}
CALL(tiocsti, on_terminal(TIOCSTI))
CALL(tiocsti_junk, on_terminal(0xffffffff00000000UL | TIOCSTI))
CALL(tioclinux, on_terminal(0x541c))

static const struct { const char *name; long (*attempt)(void); } attempts[] = {
#define TRY(name) {#name, name}
  TRY(mount_tmpfs), TRY(mount_proc), TRY(mount_bind), TRY(mount_remount), TRY(umount_it), TRY(pivot), TRY(chroot_it),
  TRY(open_tree_it), TRY(move_mount_it), TRY(fsopen_it), TRY(fsconfig_it), TRY(fsmount_it), TRY(fspick_it),
  TRY(mount_setattr_it), TRY(statmount_it), TRY(listmount_it),
  TRY(unshare_user), TRY(unshare_mount), TRY(unshare_net), TRY(unshare_pid), TRY(unshare_ipc), TRY(unshare_uts),
  TRY(unshare_cgroup), TRY(unshare_time), TRY(clone_user), TRY(clone_mount), TRY(clone_net), TRY(clone_pid),
  TRY(clone_ipc), TRY(clone_uts), TRY(clone_cgroup), TRY(clone3_it), TRY(setns_any), TRY(setns_own),
  TRY(ptrace_me), TRY(ptrace_parent), TRY(vm_read), TRY(vm_write), TRY(madvise_other), TRY(kcmp_it),
  TRY(pidfd_getfd_it), TRY(kill_host), TRY(read_parent_memory),
  TRY(bpf_it), TRY(perf_it), TRY(userfaultfd_it), TRY(uring_setup), TRY(uring_enter), TRY(uring_register),
  TRY(add_key_it), TRY(request_key_it), TRY(keyctl_it), TRY(init_module_it), TRY(finit_module_it),
  TRY(delete_module_it), TRY(kexec_it), TRY(kexec_file_it), TRY(reboot_it), TRY(clock_settime_it),
  TRY(settimeofday_it), TRY(adjtimex_it), TRY(clock_adjtime_it), TRY(sethostname_it), TRY(setdomainname_it),
  TRY(dmesg_it), TRY(name_to_handle), TRY(open_by_handle), TRY(fanotify_init_it), TRY(fanotify_mark_it),
  TRY(swapon_it), TRY(swapoff_it), TRY(acct_it), TRY(quotactl_it), TRY(vhangup_it),
  TRY(setuid_root), TRY(setgid_root), TRY(setresuid_root), TRY(setgroups_none), TRY(chown_root), TRY(chown_other),
  TRY(raise_nice), TRY(realtime), TRY(raise_processes), TRY(raise_file_size), TRY(dump_core), TRY(gain_capability),
  TRY(mknod_block), TRY(mknod_char), TRY(mknod_setuid), TRY(fchmod_setuid), TRY(fchmodat_setgid),
  TRY(fchmodat2_setuid), TRY(openat_setuid), TRY(tmpfile_setuid), TRY(mkdirat_setgid), TRY(openat2_setuid),
  TRY(socket_vsock), TRY(socket_packet), TRY(socket_alg), TRY(socket_tipc), TRY(socket_bluetooth), TRY(socket_key),
  TRY(socket_can), TRY(socket_rds), TRY(socket_xdp), TRY(socket_smc), TRY(socket_junk), TRY(socket_raw),
  TRY(socket_raw6), TRY(tcp_loopback), TRY(tcp_any), TRY(tcp_mapped), TRY(udp_metadata),
  TRY(udp_public), TRY(udp_name_server), TRY(abstract_socket),
  TRY(tiocsti), TRY(tiocsti_junk), TRY(tioclinux),
#ifdef __x86_64__
  TRY(iopl_it), TRY(ioperm_it), TRY(modify_ldt_it), TRY(int_0x80), TRY(x32_call), TRY(chmod_setuid), TRY(chmod_junk),
  TRY(open_setuid), TRY(creat_setuid), TRY(mkdir_setuid), TRY(mknod_old_setuid),
#endif
};

static void say(const char *name, long result, int error) {
  if (result >= 0) printf("%s: done\n", name);
  else printf("%s: %s\n", name, strerrorname_np(error));
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 5) return 64;
  folder = argv[1];
  host_pid = atoi(argv[2]);
  host_port = atoi(argv[3]);
  abstract_name = argv[4];
  umask(0);
  for (size_t at = 0; at < sizeof attempts / sizeof *attempts; at++) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      alarm(5);
      errno = 0;
      long result = attempts[at].attempt();
      say(attempts[at].name, result, errno);
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, __WALL);
    if (WIFSIGNALED(status)) printf("%s: killed by %d\n", attempts[at].name, WTERMSIG(status));
  }
  return 0;
}
