/**
 * Assembles classic BPF programs, as far as a seccomp filter needs them.
 *
 * A program is a list of steps. Jumps name labels and go forward by at most 255 instructions, the limit of classic BPF.
 * The kernel passes each system call as a little-endian record: the call's number, its architecture, the instruction
 * pointer, and six 64-bit arguments.
 */

export interface BpfInstruction {
  readonly code: number
  readonly jt: number
  readonly jf: number
  readonly k: number
}

/** The label to jump to; undefined continues with the next step. */
type JumpTarget = string | undefined

export type BpfStep =
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

export const NUMBER_OFFSET = 0
export const ARCHITECTURE_OFFSET = 4
const ARGUMENTS_OFFSET = 16

const CODES = { load: 0x20, equal: 0x15, 'at least': 0x35, 'any bit': 0x45, return: 0x06 } as const
const JUMP_MAX = 255
const INSTRUCTIONS_MAX = 4096
const INSTRUCTION_BYTES = 8

export const load = (offset: number): BpfStep => ({ is: 'load', offset })
/** Loads the lower 32 bits of an argument, because the kernel truncates flags, commands and modes to these. */
export const loadArgument = (index: number): BpfStep => load(ARGUMENTS_OFFSET + 8 * index)
export const returnValue = (value: number): BpfStep => ({ is: 'return', value })
export const label = (name: string): BpfStep => ({ is: 'label', name })
export const ifEqual = (value: number, yes: JumpTarget, no?: JumpTarget): BpfStep =>
  test('equal', value, yes, no)
export const ifAtLeast = (value: number, yes: JumpTarget, no?: JumpTarget): BpfStep =>
  test('at least', value, yes, no)
export const ifAnyBit = (value: number, yes: JumpTarget, no?: JumpTarget): BpfStep =>
  test('any bit', value, yes, no)

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
export function encode(program: readonly BpfInstruction[]): Buffer {
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
