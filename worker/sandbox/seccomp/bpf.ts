/**
 * An assembler for classic BPF, as far as a seccomp filter needs it.
 *
 * A program is a list of steps; jumps name labels and only ever go forward, by at most 255 instructions, which is all
 * that the machine can do. The kernel looks at a call as a little-endian record: its number, the architecture it was
 * made for, where it came from, and six arguments of 64 bits.
 */

export interface Instruction {
  readonly code: number
  readonly jt: number
  readonly jf: number
  readonly k: number
}

/** A label to go to, or nothing: on with the next step. */
type Way = string | undefined

export type Step =
  | { readonly is: 'load'; readonly offset: number }
  | {
      readonly is: 'test'
      readonly how: 'equal' | 'at least' | 'any bit'
      readonly value: number
      readonly yes: Way
      readonly no: Way
    }
  | { readonly is: 'answer'; readonly value: number }
  | { readonly is: 'label'; readonly name: string }

export const NUMBER_AT = 0
export const ARCHITECTURE_AT = 4
const ARGUMENTS_AT = 16

const CODES = { load: 0x20, equal: 0x15, 'at least': 0x35, 'any bit': 0x45, answer: 0x06 } as const
const JUMP_MAX = 255
const INSTRUCTIONS_MAX = 4096
const INSTRUCTION_BYTES = 8

export const load = (offset: number): Step => ({ is: 'load', offset })
/** The lower 32 bits of an argument. The kernel cuts flags, commands and modes down to these, and so must we. */
export const loadArgument = (index: number): Step => load(ARGUMENTS_AT + 8 * index)
export const answer = (value: number): Step => ({ is: 'answer', value })
export const label = (name: string): Step => ({ is: 'label', name })
export const ifEqual = (value: number, yes: Way, no?: Way): Step => test('equal', value, yes, no)
export const ifAtLeast = (value: number, yes: Way, no?: Way): Step => test('at least', value, yes, no)
export const ifAnyBit = (value: number, yes: Way, no?: Way): Step => test('any bit', value, yes, no)

function test(how: 'equal' | 'at least' | 'any bit', value: number, yes: Way, no: Way): Step {
  return { is: 'test', how, value, yes, no }
}

export function assemble(steps: readonly Step[]): Instruction[] {
  const places = placesOf(steps)
  const program = steps.filter((step) => step.is !== 'label').map((step, at) => instruction(step, at, places))
  if (program.length > INSTRUCTIONS_MAX) throw new Error(`a filter of ${program.length} instructions`)
  return program
}

/** As the kernel reads them. */
export function encode(program: readonly Instruction[]): Buffer {
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
function placesOf(steps: readonly Step[]): ReadonlyMap<string, number> {
  const places = new Map<string, number>()
  let at = 0
  for (const step of steps) {
    if (step.is !== 'label') at += 1
    else if (places.has(step.name)) throw new Error(`two labels ${step.name}`)
    else places.set(step.name, at)
  }
  return places
}

function instruction(step: Step, at: number, places: ReadonlyMap<string, number>): Instruction {
  switch (step.is) {
    case 'load':
      return { code: CODES.load, jt: 0, jf: 0, k: step.offset }
    case 'answer':
      return { code: CODES.answer, jt: 0, jf: 0, k: step.value }
    case 'test': {
      const [jt, jf] = [distance(step.yes, at, places), distance(step.no, at, places)]
      return { code: CODES[step.how], jt, jf, k: step.value }
    }
    case 'label':
      throw new Error('labels are taken out before')
  }
}

function distance(way: Way, at: number, places: ReadonlyMap<string, number>): number {
  if (way === undefined) return 0
  const place = places.get(way)
  if (place === undefined) throw new Error(`no label ${way}`)
  const over = place - at - 1
  if (over < 0 || over > JUMP_MAX) throw new Error(`label ${way} is out of reach: ${over} instructions away`)
  return over
}
