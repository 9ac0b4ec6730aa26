/**
 * An assembler for classic BPF, as far as a seccomp filter needs it.
 *
 * A program is a list of steps; jumps name labels and only ever go forward, by at most 255 instructions, which is all
 * that the machine can do. The kernel looks at a call as a little-endian record: its number, the architecture it was
 * made for, where it came from, and six arguments of 64 bits.
 */

export interface BpfInstruction {
  readonly code: number
  readonly jt: number
  readonly jf: number
  readonly k: number
}

/** A label to go to, or nothing: on with the next step. */
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
/** The lower 32 bits of an argument. The kernel cuts flags, commands and modes down to these, and so must we. */
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
  if (program.length > INSTRUCTIONS_MAX) throw new Error(`a filter of ${program.length} instructions`)
  return program
}

/** As the kernel reads them. */
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

/** Labels take no room: each stands for the instruction after it. */
function findLabelPositions(steps: readonly BpfStep[]): ReadonlyMap<string, number> {
  const positions = new Map<string, number>()
  let position = 0
  for (const step of steps) {
    if (step.is !== 'label') position += 1
    else if (positions.has(step.name)) throw new Error(`two labels ${step.name}`)
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
      throw new Error('labels are taken out before')
  }
}

function jumpDistance(target: JumpTarget, at: number, positions: ReadonlyMap<string, number>): number {
  if (target === undefined) return 0
  const position = positions.get(target)
  if (position === undefined) throw new Error(`no label ${target}`)
  const distance = position - at - 1
  if (distance < 0 || distance > JUMP_MAX)
    throw new Error(`label ${target} is out of reach: ${distance} instructions away`)
  return distance
}
