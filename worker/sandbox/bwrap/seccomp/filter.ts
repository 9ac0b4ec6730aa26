/**
 * Builds the seccomp filter of a sandbox: the system calls that processes in it may make.
 *
 * The namespaces already forbid most of what is missing. The filter is a second wall, which keeps agents away from the
 * parts of the kernel in which security bugs are usually found, and from all that later kernels add. Git, compilers,
 * Node with threads, and terminals work behind it.
 */
import { ALLOWED, ARCHITECTURES, type Architecture, INSPECTED, listCalls, REFUSED } from './calls.ts'

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

// ---- classic BPF --------------------------------------------------------------------------------------------------

// A program is a list of steps. Jumps name labels and go forward by at most 255 instructions, the limit of classic BPF.
// The kernel passes each system call as a little-endian record: the call's number, its architecture, the instruction
// pointer, and six 64-bit arguments.

interface BpfInstruction {
  readonly code: number
  readonly jt: number
  readonly jf: number
  readonly k: number
}

/** The label to jump to; undefined continues with the next step. */
type JumpTarget = string | undefined

type BpfStep =
  | { readonly is: 'load'; readonly offset: number }
  | {
      readonly is: 'test'
      readonly how: 'equal' | 'at least' | 'any bit'
      readonly value: number
      readonly yes: JumpTarget
      readonly no: JumpTarget
    }
  | { readonly is: 'return'; readonly value: number }
  | { readonly is: 'label'; readonly name: string }

const NUMBER_OFFSET = 0
const ARCHITECTURE_OFFSET = 4
const ARGUMENTS_OFFSET = 16

const CODES = { load: 0x20, equal: 0x15, 'at least': 0x35, 'any bit': 0x45, return: 0x06 } as const
const JUMP_MAX = 255
const INSTRUCTIONS_MAX = 4096
const INSTRUCTION_BYTES = 8

const load = (offset: number): BpfStep => ({ is: 'load', offset })
/** Loads the lower 32 bits of an argument, because the kernel truncates flags, commands and modes to these. */
const loadArgument = (index: number): BpfStep => load(ARGUMENTS_OFFSET + 8 * index)
export const returnValue = (value: number): BpfStep => ({ is: 'return', value })
export const label = (name: string): BpfStep => ({ is: 'label', name })
export const ifEqual = (value: number, yes: JumpTarget, no?: JumpTarget): BpfStep =>
  test('equal', value, yes, no)
const ifAtLeast = (value: number, yes: JumpTarget, no?: JumpTarget): BpfStep =>
  test('at least', value, yes, no)
const ifAnyBit = (value: number, yes: JumpTarget, no?: JumpTarget): BpfStep => test('any bit', value, yes, no)

function test(
  how: 'equal' | 'at least' | 'any bit',
  value: number,
  yes: JumpTarget,
  no: JumpTarget,
): BpfStep {
  return { is: 'test', how, value, yes, no }
}

export function assemble(steps: readonly BpfStep[]): BpfInstruction[] {
  const positions = findLabelPositions(steps)
  const program = steps
    .filter((step) => step.is !== 'label')
    .map((step, at) => encodeStep(step, at, positions))
  if (program.length > INSTRUCTIONS_MAX)
    throw new Error(`the filter has ${program.length} instructions; ${INSTRUCTIONS_MAX} are possible`)
  return program
}

/** Encodes instructions in the kernel's `sock_filter` format. */
function encode(program: readonly BpfInstruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * INSTRUCTION_BYTES)
  for (const [index, { code, jt, jf, k }] of program.entries()) {
    const at = index * INSTRUCTION_BYTES
    bytes.writeUInt16LE(code, at)
    bytes.writeUInt8(jt, at + 2)
    bytes.writeUInt8(jf, at + 3)
    bytes.writeUInt32LE(k, at + 4)
  }
  return bytes
}

/** A label occupies no instruction; it marks the one after it. */
function findLabelPositions(steps: readonly BpfStep[]): ReadonlyMap<string, number> {
  const positions = new Map<string, number>()
  let position = 0
  for (const step of steps) {
    if (step.is !== 'label') position += 1
    else if (positions.has(step.name)) throw new Error(`label ${step.name} is defined twice`)
    else positions.set(step.name, position)
  }
  return positions
}

function encodeStep(step: BpfStep, at: number, positions: ReadonlyMap<string, number>): BpfInstruction {
  switch (step.is) {
    case 'load':
      return { code: CODES.load, jt: 0, jf: 0, k: step.offset }
    case 'return':
      return { code: CODES.return, jt: 0, jf: 0, k: step.value }
    case 'test': {
      const [jt, jf] = [jumpDistance(step.yes, at, positions), jumpDistance(step.no, at, positions)]
      return { code: CODES[step.how], jt, jf, k: step.value }
    }
    case 'label':
      throw new Error('a label was not removed before encoding')
  }
}

function jumpDistance(target: JumpTarget, at: number, positions: ReadonlyMap<string, number>): number {
  if (target === undefined) return 0
  const position = positions.get(target)
  if (position === undefined) throw new Error(`label ${target} is not defined`)
  const distance = position - at - 1
  if (distance < 0 || distance > JUMP_MAX)
    throw new Error(`label ${target} is out of reach: ${distance} instructions away`)
  return distance
}

// ---- the search by number -----------------------------------------------------------------------------------------

/** Numbers from `first` up to the next range's. */
interface NumberRange {
  readonly first: number
  readonly to: string
}

/**
 * Builds the part of a filter that leads each system call to its label by its number, in a binary search.
 *
 * A search takes some seven comparisons where a list would take hundreds, for every call whose arguments are looked at.
 * The accumulator holds the number, then and in the end. Numbers that the map lacks lead to `otherwise`.
 */
function searchByNumber(labels: ReadonlyMap<number, string>, otherwise: string): BpfStep[] {
  return branch(listRanges(labels, otherwise))
}

function listRanges(labels: ReadonlyMap<number, string>, otherwise: string): NumberRange[] {
  const ends = [...labels.keys()].flatMap((number) => [number, number + 1])
  const firsts = [...new Set([0, ...ends])].sort((a, b) => a - b)
  const ranges = firsts.map((first) => ({ first, to: labels.get(first) ?? otherwise }))
  return ranges.filter(({ to }, at) => to !== ranges[at - 1]?.to)
}

/** A half that is one range is a jump; a longer half is a search of its own. */
function branch(ranges: readonly NumberRange[]): BpfStep[] {
  const middle = Math.ceil(ranges.length / 2)
  const [low, high] = [ranges.slice(0, middle), ranges.slice(middle)]
  const [lowest, start] = [low[0], high[0]]
  if (lowest === undefined || start === undefined)
    throw new Error('a search needs at least two ranges of numbers')
  const rest = `from ${start.first}`
  const isOne = high.length === 1
  return [
    ifAtLeast(start.first, isOne ? start.to : rest, low.length === 1 ? lowest.to : undefined),
    ...(low.length === 1 ? [] : branch(low)),
    ...(isOne ? [] : [label(rest), ...branch(high)]),
  ]
}

// ---- the rules ----------------------------------------------------------------------------------------------------

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
 * PER_LINUX, PER_LINUX32, UNAME26, both, and the question which one is set: the ones of container runtimes. Besides
 * these ADDR_NO_RANDOMIZE, with which thread and memory sanitizers start again where addresses are too random for
 * them.
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
