/**
 * The system calls that nothing in a sandbox gets to make, as a program for the kernel.
 *
 * The namespaces already forbid most of what is named here. This is the second wall: it keeps agents away from those
 * parts of the kernel in which the mistakes are found. What is left out of the list is allowed, so git, compilers,
 * node with its threads, and terminals work; a call that would have to be looked at through a pointer, which no
 * filter can, does not exist (ENOSYS), and libraries fall back to its older form.
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

/** The mount API old and new, namespaces, other processes, keys, and what only an administrator has a use for. */
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
/** Their flags lie behind a pointer. */
const ABSENT: readonly CallName[] = ['clone3', 'openat2']

/** Which argument is the mode of what is made or changed. */
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
/** Which arguments are flags and mode; the mode means something only when the flags say that a file is made. */
const OPEN_ARGUMENTS: readonly (readonly [CallName, flags: number, mode: number])[] = [
  ['open', 1, 2],
  ['openat', 2, 3],
]

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME is part of what clone takes for a signal. */
const NEW_NAMESPACE = 0x7e020000
const SETUID_OR_SETGID = 0o6000
/** O_CREAT and the bit of O_TMPFILE that is its own. */
const MAKES_A_FILE = 0o100 | 0o20000000
/** Both put characters into a terminal as if typed there. */
const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
/** UNIX, INET, INET6, NETLINK: what name lookup and ordinary programs use. */
const ALLOWED_FAMILIES = [1, 2, 10, 16]

const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const errno = (number: number): number => 0x00050000 | number
const EPERM = errno(1)
const ENOSYS = errno(38)
const EAFNOSUPPORT = errno(97)

/** For `--seccomp`; undefined for an architecture that nobody has made a table for. */
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

/** Calls whose arguments decide. Each one's steps end in an answer, so the number stays loaded for the next. */
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
