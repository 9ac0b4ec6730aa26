/**
 * Builds the seccomp filter of a sandbox: the system calls that no process in it may make.
 *
 * The namespaces already forbid most of these calls. The filter is a second layer that keeps agents away from the parts
 * of the kernel in which security bugs are usually found. All other calls are allowed, so git, compilers, Node with
 * threads, and terminals work. Calls whose flags lie behind a pointer, which no filter can read, return ENOSYS;
 * libraries then fall back to the older form of the call.
 */
import {
  ARCHITECTURE_OFFSET,
  assemble,
  type BpfInstruction,
  type BpfStep,
  encode,
  ifAnyBit,
  ifAtLeast,
  ifEqual,
  label,
  load,
  loadArgument,
  NUMBER_OFFSET,
  returnValue,
} from './bpf.ts'
import { ARCHITECTURES, type Architecture, type CallName } from './calls.ts'

/** The old and new mount API, namespaces, access to other processes, keys, and calls that only administrators need. */
const REFUSED: readonly CallName[] = [
  ...(['mount', 'umount2', 'pivot_root', 'chroot', 'open_tree', 'open_tree_attr', 'move_mount'] as const),
  ...(['fsopen', 'fsconfig', 'fsmount', 'fspick', 'mount_setattr', 'statmount', 'listmount'] as const),
  ...(['unshare', 'setns', 'ptrace', 'process_vm_readv', 'process_vm_writev', 'process_madvise'] as const),
  ...(['kcmp', 'pidfd_getfd', 'add_key', 'request_key', 'keyctl'] as const),
  ...(['bpf', 'perf_event_open', 'userfaultfd', 'lookup_dcookie'] as const),
  ...(['io_uring_setup', 'io_uring_enter', 'io_uring_register'] as const),
  ...(['init_module', 'finit_module', 'delete_module', 'create_module', 'query_module'] as const),
  ...(['kexec_load', 'kexec_file_load', 'reboot'] as const),
  ...(['settimeofday', 'clock_settime', 'clock_adjtime', 'adjtimex'] as const),
  ...(['name_to_handle_at', 'open_by_handle_at', 'fanotify_init', 'fanotify_mark'] as const),
  ...(['quotactl', 'quotactl_fd', 'swapon', 'swapoff', 'acct', 'syslog', 'sethostname'] as const),
  ...([
    'setdomainname',
    'vhangup',
    'nfsservctl',
    'uselib',
    'sysctl',
    'iopl',
    'ioperm',
    'modify_ldt',
  ] as const),
]
/** Calls whose flags lie behind a pointer. */
const ABSENT: readonly CallName[] = ['clone3', 'openat2']

/** The index of the argument that holds the file mode. */
const MODE_ARGUMENTS: readonly (readonly [CallName, argument: number])[] = [
  ['chmod', 1],
  ['fchmod', 1],
  ['creat', 1],
  ['mkdir', 1],
  ['mknod', 1],
  ['fchmodat', 2],
  ['fchmodat2', 2],
  ['mkdirat', 2],
  ['mknodat', 2],
]
/** The indexes of flags and mode. The mode is used only when the flags create a file. */
const OPEN_ARGUMENTS: readonly (readonly [CallName, flags: number, mode: number])[] = [
  ['open', 1, 2],
  ['openat', 2, 3],
]

/**
 * CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME is missing: its bit is part of the signal
 * number in `clone`.
 */
const NEW_NAMESPACE = 0x7e020000
const SETUID_OR_SETGID = 0o6000
/** O_CREAT, and the bit that only O_TMPFILE has. */
const MAKES_A_FILE = 0o100 | 0o20000000
/** Both ioctls insert characters into a terminal as if a person had typed them. */
const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
/** UNIX, INET, INET6, NETLINK: the families that name lookup and ordinary programs use. */
const ALLOWED_FAMILIES = [1, 2, 10, 16]

const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const errno = (number: number): number => 0x00050000 | number
const EPERM = errno(1)
const ENOSYS = errno(38)
const EAFNOSUPPORT = errno(97)

/** Returns the bytes for `--seccomp`, or undefined for an architecture without a table. */
export function buildSeccompFilter(arch: string): Buffer | undefined {
  const architecture = ARCHITECTURES[arch]
  return architecture === undefined ? undefined : encode(buildFilterProgram(architecture))
}

export function buildFilterProgram(architecture: Architecture): BpfInstruction[] {
  const { audit, foreignNumbersFrom } = architecture
  return assemble([
    load(ARCHITECTURE_OFFSET),
    ifEqual(audit, undefined, 'foreign architecture'),
    load(NUMBER_OFFSET),
    ...(foreignNumbersFrom === undefined ? [] : [ifAtLeast(foreignNumbersFrom, 'absent')]),
    ...jumpIfAnyOf(architecture, ABSENT, 'absent'),
    ...jumpIfAnyOf(architecture, REFUSED, 'refused'),
    ...inspectArguments(architecture),
    label('allowed'),
    returnValue(ALLOW),
    label('refused'),
    returnValue(EPERM),
    label('absent'),
    returnValue(ENOSYS),
    label('no such family'),
    returnValue(EAFNOSUPPORT),
    label('foreign architecture'),
    returnValue(KILL_PROCESS),
  ])
}

function jumpIfAnyOf({ calls }: Architecture, names: readonly CallName[], to: string): BpfStep[] {
  return names.flatMap((name) => (calls[name] === undefined ? [] : [ifEqual(calls[name], to)]))
}

/** Calls that depend on their arguments. The steps of each call end in a return, so the next still has the number. */
function inspectArguments({ calls }: Architecture): BpfStep[] {
  const when = (name: CallName, steps: readonly BpfStep[]): BpfStep[] => {
    const number = calls[name]
    if (number === undefined) return []
    return [ifEqual(number, undefined, `after ${name}`), ...steps, label(`after ${name}`)]
  }
  return [
    ...when('clone', [loadArgument(0), ifAnyBit(NEW_NAMESPACE, 'refused', 'allowed')]),
    ...when('ioctl', [
      loadArgument(1),
      ifEqual(TIOCSTI, 'refused'),
      ifEqual(TIOCLINUX, 'refused', 'allowed'),
    ]),
    ...MODE_ARGUMENTS.flatMap(([name, mode]) => when(name, refuseElevation(mode))),
    ...OPEN_ARGUMENTS.flatMap(([name, flags, mode]) =>
      when(name, [
        loadArgument(flags),
        ifAnyBit(MAKES_A_FILE, undefined, 'allowed'),
        ...refuseElevation(mode),
      ]),
    ),
    ...(['socket', 'socketpair'] as const).flatMap((name) => when(name, allowKnownFamilies())),
  ]
}

function refuseElevation(mode: number): BpfStep[] {
  return [loadArgument(mode), ifAnyBit(SETUID_OR_SETGID, 'refused', 'allowed')]
}

function allowKnownFamilies(): BpfStep[] {
  const [last, ...others] = ALLOWED_FAMILIES.toReversed()
  return [
    loadArgument(0),
    ...others.map((family) => ifEqual(family, 'allowed')),
    ifEqual(last as number, 'allowed', 'no such family'),
  ]
}
