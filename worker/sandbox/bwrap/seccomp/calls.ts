/**
 * The system calls that a sandbox may make, by name, with their numbers: `[x86-64, arm64]`.
 *
 * The list is what container runtimes allow by default, less what only `REFUSED` names. A call that no table here names
 * does not exist in a sandbox, and neither does one that a later kernel adds. `undefined` means that the architecture
 * never had the call. From 424 on, all architectures use the same numbers.
 *
 * `clone3` and `openat2` are missing on purpose: their flags lie behind a pointer, which no filter can read, and
 * libraries fall back to the older call when these do not exist.
 */

export interface Architecture {
  /** The kernel's identifier of the architecture (AUDIT_ARCH_…). */
  readonly audit: number
  readonly column: 0 | 1
}

/** Keyed by Node's architecture names. */
export const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  x64: { audit: 0xc000003e, column: 0 },
  arm64: { audit: 0xc00000b7, column: 1 },
}

type Numbers = readonly [x64: number | undefined, arm64: number | undefined]
type CallTable = Readonly<Record<string, Numbers>>

/** Allowed whatever the arguments are. */
// biome-ignore format: one call a line would hide the list in three hundred lines
export const ALLOWED = {
  // Files by name
  access: [21, undefined], faccessat: [269, 48], faccessat2: [439, 439], stat: [4, undefined],
  lstat: [6, undefined], fstat: [5, 80], newfstatat: [262, 79], statx: [332, 291], statfs: [137, 43],
  fstatfs: [138, 44], readlink: [89, undefined], readlinkat: [267, 78], getdents: [78, undefined],
  getdents64: [217, 61], getcwd: [79, 17], chdir: [80, 49], fchdir: [81, 50], rename: [82, undefined],
  renameat: [264, 38], renameat2: [316, 276], link: [86, undefined], linkat: [265, 37],
  symlink: [88, undefined], symlinkat: [266, 36], unlink: [87, undefined], unlinkat: [263, 35],
  rmdir: [84, undefined], truncate: [76, 45], ftruncate: [77, 46], chown: [92, undefined],
  fchown: [93, 55], lchown: [94, undefined], fchownat: [260, 54], utime: [132, undefined],
  utimes: [235, undefined], futimesat: [261, undefined], utimensat: [280, 88], umask: [95, 166],
  // Extended attributes
  setxattr: [188, 5], lsetxattr: [189, 6], fsetxattr: [190, 7], setxattrat: [463, 463],
  getxattr: [191, 8], lgetxattr: [192, 9], fgetxattr: [193, 10], getxattrat: [464, 464],
  listxattr: [194, 11], llistxattr: [195, 12], flistxattr: [196, 13], listxattrat: [465, 465],
  removexattr: [197, 14], lremovexattr: [198, 15], fremovexattr: [199, 16], removexattrat: [466, 466],
  // Reading and writing
  read: [0, 63], write: [1, 64], pread64: [17, 67], pwrite64: [18, 68], readv: [19, 65], writev: [20, 66],
  preadv: [295, 69], pwritev: [296, 70], preadv2: [327, 286], pwritev2: [328, 287], lseek: [8, 62],
  sendfile: [40, 71], copy_file_range: [326, 285], splice: [275, 76], tee: [276, 77], vmsplice: [278, 75],
  readahead: [187, 213], fadvise64: [221, 223], fallocate: [285, 47], sync: [162, 81], syncfs: [306, 267],
  fsync: [74, 82], fdatasync: [75, 83], sync_file_range: [277, 84], cachestat: [451, 451],
  io_setup: [206, 0], io_destroy: [207, 1], io_submit: [209, 2], io_cancel: [210, 3],
  io_getevents: [208, 4], io_pgetevents: [333, 292],
  // Descriptors, waiting for them, and watching files
  close: [3, 57], close_range: [436, 436], dup: [32, 23], dup2: [33, undefined], dup3: [292, 24],
  fcntl: [72, 25], flock: [73, 32], pipe: [22, undefined], pipe2: [293, 59], poll: [7, undefined],
  ppoll: [271, 73], select: [23, undefined], pselect6: [270, 72], epoll_create: [213, undefined],
  epoll_create1: [291, 20], epoll_ctl: [233, 21], epoll_wait: [232, undefined], epoll_pwait: [281, 22],
  epoll_pwait2: [441, 441], eventfd: [284, undefined], eventfd2: [290, 19], signalfd: [282, undefined],
  signalfd4: [289, 74], timerfd_create: [283, 85], timerfd_settime: [286, 86], timerfd_gettime: [287, 87],
  inotify_init: [253, undefined], inotify_init1: [294, 26], inotify_add_watch: [254, 27],
  inotify_rm_watch: [255, 28], memfd_create: [319, 279], memfd_secret: [447, 447],
  // Sockets
  bind: [49, 200], connect: [42, 203], listen: [50, 201], accept: [43, 202], accept4: [288, 242],
  getsockname: [51, 204], getpeername: [52, 205], getsockopt: [55, 209], setsockopt: [54, 208],
  shutdown: [48, 210], sendto: [44, 206], recvfrom: [45, 207], sendmsg: [46, 211], recvmsg: [47, 212],
  sendmmsg: [307, 269], recvmmsg: [299, 243],
  // Memory
  brk: [12, 214], mmap: [9, 222], munmap: [11, 215], mremap: [25, 216], mprotect: [10, 226],
  madvise: [28, 233], msync: [26, 227], mincore: [27, 232], mlock: [149, 228], mlock2: [325, 284],
  munlock: [150, 229], mlockall: [151, 230], munlockall: [152, 231], mseal: [462, 462],
  pkey_alloc: [330, 289], pkey_free: [331, 290], pkey_mprotect: [329, 288], remap_file_pages: [216, 234],
  map_shadow_stack: [453, 453], membarrier: [324, 283],
  // Processes and threads
  fork: [57, undefined], vfork: [58, undefined], execve: [59, 221], execveat: [322, 281], exit: [60, 93],
  exit_group: [231, 94], wait4: [61, 260], waitid: [247, 95], getpid: [39, 172], getppid: [110, 173],
  gettid: [186, 178], getpgid: [121, 155], setpgid: [109, 154], getpgrp: [111, undefined],
  getsid: [124, 156], setsid: [112, 157], set_tid_address: [218, 96], set_robust_list: [273, 99],
  get_robust_list: [274, 100], rseq: [334, 293], futex: [202, 98], futex_waitv: [449, 449],
  futex_wake: [454, 454], futex_wait: [455, 455], futex_requeue: [456, 456], arch_prctl: [158, undefined],
  prctl: [157, 167], seccomp: [317, 277], landlock_create_ruleset: [444, 444],
  landlock_add_rule: [445, 445], landlock_restrict_self: [446, 446], getrlimit: [97, 163],
  setrlimit: [160, 164], prlimit64: [302, 261], getrusage: [98, 165], times: [100, 153],
  getpriority: [140, 141], setpriority: [141, 140], ioprio_get: [252, 31], ioprio_set: [251, 30],
  getcpu: [309, 168], uretprobe: [335, undefined], uprobe: [336, undefined],
  // Scheduling
  sched_yield: [24, 124], sched_getaffinity: [204, 123], sched_setaffinity: [203, 122],
  sched_getattr: [315, 275], sched_setattr: [314, 274], sched_getparam: [143, 121],
  sched_setparam: [142, 118], sched_getscheduler: [145, 120], sched_setscheduler: [144, 119],
  sched_get_priority_max: [146, 125], sched_get_priority_min: [147, 126],
  sched_rr_get_interval: [148, 127],
  // Users
  getuid: [102, 174], geteuid: [107, 175], getgid: [104, 176], getegid: [108, 177], getresuid: [118, 148],
  getresgid: [120, 150], getgroups: [115, 158], setuid: [105, 146], setgid: [106, 144],
  setreuid: [113, 145], setregid: [114, 143], setresuid: [117, 147], setresgid: [119, 149],
  setfsuid: [122, 151], setfsgid: [123, 152], setgroups: [116, 159], capget: [125, 90], capset: [126, 91],
  // Signals
  kill: [62, 129], tkill: [200, 130], tgkill: [234, 131], pidfd_open: [434, 434],
  pidfd_send_signal: [424, 424], process_mrelease: [448, 448], pause: [34, undefined],
  restart_syscall: [219, 128], sigaltstack: [131, 132], rt_sigaction: [13, 134],
  rt_sigpending: [127, 136], rt_sigprocmask: [14, 135], rt_sigqueueinfo: [129, 138],
  rt_sigreturn: [15, 139], rt_sigsuspend: [130, 133], rt_sigtimedwait: [128, 137],
  rt_tgsigqueueinfo: [297, 240],
  // Time
  time: [201, undefined], gettimeofday: [96, 169], clock_gettime: [228, 113], clock_getres: [229, 114],
  clock_nanosleep: [230, 115], nanosleep: [35, 101], 'alarm': [37, undefined], getitimer: [36, 102],
  setitimer: [38, 103], timer_create: [222, 107], timer_settime: [223, 110], timer_gettime: [224, 108],
  timer_getoverrun: [225, 109], timer_delete: [226, 111],
  // Messages, semaphores and memory between processes
  mq_open: [240, 180], mq_unlink: [241, 181], mq_timedsend: [242, 182], mq_timedreceive: [243, 183],
  mq_notify: [244, 184], mq_getsetattr: [245, 185], msgget: [68, 186], msgsnd: [69, 189],
  msgrcv: [70, 188], msgctl: [71, 187], semget: [64, 190], semop: [65, 193], semtimedop: [220, 192],
  semctl: [66, 191], shmget: [29, 194], shmat: [30, 196], shmdt: [67, 197], shmctl: [31, 195],
  // The machine
  uname: [63, 160], sysinfo: [99, 179], getrandom: [318, 278],
} as const satisfies CallTable

/** Allowed for some arguments, which `filter.ts` names. */
// biome-ignore format: as above
export const INSPECTED = {
  clone: [56, 220], ioctl: [16, 29], personality: [135, 92], open: [2, undefined], openat: [257, 56],
  creat: [85, undefined], chmod: [90, undefined], fchmod: [91, 52], fchmodat: [268, 53],
  fchmodat2: [452, 452], mkdir: [83, undefined], mkdirat: [258, 34], mknod: [133, undefined],
  mknodat: [259, 33], socket: [41, 198], socketpair: [53, 199],
} as const satisfies CallTable

/** Refused by name, so that a program hears that it may not, and not that the kernel is old. */
// biome-ignore format: as above
export const REFUSED = {
  // Mounts
  mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41], chroot: [161, 51], open_tree: [428, 428],
  open_tree_attr: [467, 467], move_mount: [429, 429], fsopen: [430, 430], fsconfig: [431, 431],
  fsmount: [432, 432], fspick: [433, 433], mount_setattr: [442, 442], statmount: [457, 457],
  listmount: [458, 458],
  // Namespaces and other processes
  unshare: [272, 97], setns: [308, 268], ptrace: [101, 117], process_vm_readv: [310, 270],
  process_vm_writev: [311, 271], process_madvise: [440, 440], kcmp: [312, 272], pidfd_getfd: [438, 438],
  // Parts of the kernel in which security bugs are usually found
  bpf: [321, 280], perf_event_open: [298, 241], userfaultfd: [323, 282], lookup_dcookie: [212, 18],
  io_uring_setup: [425, 425], io_uring_enter: [426, 426], io_uring_register: [427, 427],
  add_key: [248, 217], request_key: [249, 218], keyctl: [250, 219], modify_ldt: [154, undefined],
  // Administration
  init_module: [175, 105], finit_module: [313, 273], delete_module: [176, 106],
  create_module: [174, undefined], query_module: [178, undefined], kexec_load: [246, 104],
  kexec_file_load: [320, 294], reboot: [169, 142], settimeofday: [164, 170], clock_settime: [227, 112],
  clock_adjtime: [305, 266], adjtimex: [159, 171], name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265], fanotify_init: [300, 262], fanotify_mark: [301, 263],
  quotactl: [179, 60], quotactl_fd: [443, 443], swapon: [167, 224], swapoff: [168, 225], acct: [163, 89],
  syslog: [103, 116], sethostname: [170, 161], setdomainname: [171, 162], vhangup: [153, 58],
  nfsservctl: [180, 42], uselib: [134, undefined], _sysctl: [156, undefined], iopl: [172, undefined],
  ioperm: [173, undefined],
} as const satisfies CallTable

/** Returns the name and the number of each call that the architecture has. */
export function listCalls<Name extends string>(
  calls: Readonly<Record<Name, Numbers>>,
  { column }: Architecture,
): [Name, number][] {
  // Object.entries loses the type of the keys.
  const entries = Object.entries(calls) as [Name, Numbers][]
  return entries.flatMap(([name, { [column]: number }]) => (number === undefined ? [] : [[name, number]]))
}
