/**
 * The numbers of the system calls that the filter names, per architecture.
 *
 * `undefined` means that the architecture never had the call. From 424 on, all architectures use the same numbers.
 */

export interface Architecture {
  /** The kernel's identifier of the architecture (AUDIT_ARCH_…). */
  readonly audit: number
  /** Numbers from here on belong to a second ABI, which offers the same calls under other numbers. */
  readonly foreignNumbersFrom?: number
  readonly calls: Readonly<Record<CallName, number | undefined>>
}

export type CallName = keyof typeof CALL_NUMBERS

/** name: [x86-64, arm64] */
const CALL_NUMBERS = {
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  statmount: [457, 457],
  listmount: [458, 458],
  open_tree_attr: [467, 467],
  unshare: [272, 97],
  setns: [308, 268],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  process_madvise: [440, 440],
  kcmp: [312, 272],
  pidfd_getfd: [438, 438],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  lookup_dcookie: [212, 18],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  create_module: [174, undefined],
  query_module: [178, undefined],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  fanotify_mark: [301, 263],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  syslog: [103, 116],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  vhangup: [153, 58],
  nfsservctl: [180, 42],
  uselib: [134, undefined],
  sysctl: [156, undefined],
  iopl: [172, undefined],
  ioperm: [173, undefined],
  modify_ldt: [154, undefined],
  clone3: [435, 435],
  openat2: [437, 437],
  clone: [56, 220],
  ioctl: [16, 29],
  chmod: [90, undefined],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  open: [2, undefined],
  openat: [257, 56],
  creat: [85, undefined],
  mknod: [133, undefined],
  mknodat: [259, 33],
  mkdir: [83, undefined],
  mkdirat: [258, 34],
  socket: [41, 198],
  socketpair: [53, 199],
} as const satisfies Record<string, readonly [number, number | undefined]>

/** Keyed by Node's architecture names. */
export const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  // The second ABI of x86-64 is x32: the same calls with this bit set.
  x64: { audit: 0xc000003e, foreignNumbersFrom: 0x40000000, calls: callsOf(0) },
  arm64: { audit: 0xc00000b7, calls: callsOf(1) },
}

function callsOf(index: 0 | 1): Readonly<Record<CallName, number | undefined>> {
  const entries = Object.entries(CALL_NUMBERS).map(([name, numbers]) => [name, numbers[index]])
  // Object.fromEntries loses the key type.
  return Object.fromEntries(entries) as Record<CallName, number | undefined>
}
