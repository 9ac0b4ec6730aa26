/**
 * Builds the seccomp filter of a sandbox: the system calls that processes in it may make.
 *
 * The namespaces already forbid most of what is missing. The filter is a second wall, which keeps agents away from the
 * parts of the kernel in which security bugs are usually found, and from all that later kernels add. Git, compilers,
 * Node with threads, and terminals work behind it.
 */
import {
  ARCHITECTURE_OFFSET,
  assemble,
  type BpfInstruction,
  type BpfStep,
  encode,
  ifAnyBit,
  ifEqual,
  label,
  load,
  loadArgument,
  NUMBER_OFFSET,
  returnValue,
} from './bpf.ts'
import { ALLOWED, ARCHITECTURES, type Architecture, INSPECTED, listCalls, REFUSED } from './calls.ts'
import { searchByNumber } from './decision-tree.ts'

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
const FAMILIES = [1, 2, 10, 16]
/**
 * PER_LINUX, PER_LINUX32, UNAME26, both, and the question which one is set: the ones of container runtimes. Besides these
 * ADDR_NO_RANDOMIZE, with which thread and memory sanitizers start again where addresses are too random for them.
 */
const PERSONALITIES = [0, 8, 0x20000, 0x20008, 0xffffffff, 0x40000]

const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const errno = (number: number): number => 0x00050000 | number
const EPERM = errno(1)
const ENOSYS = errno(38)
const EAFNOSUPPORT = errno(97)

const INSPECTIONS: Readonly<Record<keyof typeof INSPECTED, readonly BpfStep[]>> = {
  clone: [loadArgument(0), ifAnyBit(NEW_NAMESPACE, 'refused', 'allowed')],
  ioctl: [loadArgument(1), ifEqual(TIOCSTI, 'refused'), ifEqual(TIOCLINUX, 'refused', 'allowed')],
  personality: allowAmong(PERSONALITIES, 'refused'),
  open: refuseElevationOfNew(1),
  openat: refuseElevationOfNew(2),
  creat: refuseElevation(1),
  chmod: refuseElevation(1),
  fchmod: refuseElevation(1),
  fchmodat: refuseElevation(2),
  fchmodat2: refuseElevation(2),
  mkdir: refuseElevation(1),
  mkdirat: refuseElevation(2),
  mknod: refuseElevation(1),
  mknodat: refuseElevation(2),
  socket: allowAmong(FAMILIES, 'no such family'),
  socketpair: allowAmong(FAMILIES, 'no such family'),
}

/** Builds the filter for an architecture in Node's naming; undefined for one without a table. */
export function buildSeccompFilter(arch: string): Buffer | undefined {
  const architecture = ARCHITECTURES[arch]
  return architecture === undefined ? undefined : encode(buildFilterProgram(architecture))
}

export function buildFilterProgram(architecture: Architecture): BpfInstruction[] {
  const inspected = listCalls(INSPECTED, architecture)
  const labels = new Map([
    ...listCalls(ALLOWED, architecture).map(([, number]) => [number, 'allowed'] as const),
    ...listCalls(REFUSED, architecture).map(([, number]) => [number, 'refused'] as const),
    ...inspected.map(([name, number]) => [number, name] as const),
  ])
  return assemble([
    load(ARCHITECTURE_OFFSET),
    ifEqual(architecture.audit, undefined, 'foreign architecture'),
    load(NUMBER_OFFSET),
    ...searchByNumber(labels, 'absent'),
    ...inspected.flatMap(([name]) => [label(name), ...INSPECTIONS[name]]),
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

// ---- steps of an inspection, which end in a verdict ----------------------------------------------------------------

function refuseElevation(mode: number): BpfStep[] {
  return [loadArgument(mode), ifAnyBit(SETUID_OR_SETGID, 'refused', 'allowed')]
}

/** The mode follows the flags, and counts only when these create a file. */
function refuseElevationOfNew(flags: number): BpfStep[] {
  return [loadArgument(flags), ifAnyBit(MAKES_A_FILE, undefined, 'allowed'), ...refuseElevation(flags + 1)]
}

/** Compares the first argument. */
function allowAmong(values: readonly number[], otherwise: string): BpfStep[] {
  const last = values.length - 1
  return [
    loadArgument(0),
    ...values.map((value, at) => ifEqual(value, 'allowed', at === last ? otherwise : undefined)),
  ]
}
