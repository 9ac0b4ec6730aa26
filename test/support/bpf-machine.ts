/**
 * Decodes, checks and runs a seccomp filter like the kernel does.
 *
 * The code follows the kernel's documentation and shares nothing with the assembler under test.
 */

export interface SystemCall {
  readonly arch: number
  readonly nr: number
  /** Each argument has 64 bits. */
  readonly args?: readonly bigint[]
}

interface DecodedInstruction {
  readonly code: number
  readonly jt: number
  readonly jf: number
  readonly k: number
}

const LOAD = 0x20
const JUMP_CONDITIONS: Readonly<Record<number, (a: number, k: number) => boolean>> = {
  21: (a, k) => a === k,
  37: (a, k) => a > k,
  53: (a, k) => a >= k,
  69: (a, k) => (a & k) !== 0,
}
const RETURN = 0x06
const RECORD_BYTES = 64

function decode(program: Uint8Array): DecodedInstruction[] {
  const bytes = Buffer.from(program)
  if (bytes.length % 8 !== 0) throw new Error('the program is not a whole number of instructions')
  return Array.from({ length: bytes.length / 8 }, (_, index) => ({
    code: bytes.readUInt16LE(index * 8),
    jt: bytes.readUInt8(index * 8 + 2),
    jf: bytes.readUInt8(index * 8 + 3),
    k: bytes.readUInt32LE(index * 8 + 4),
  }))
}

/** Runs the filter on a system call and returns its action. */
export function runFilter(program: Uint8Array, call: SystemCall): number {
  const instructions = decode(program)
  const record = encodeSeccompData(call)
  let accumulator = 0
  for (let at = 0; at < instructions.length; at++) {
    const { code, jt, jf, k } = instructions[at] as DecodedInstruction
    if (code === RETURN) return k
    if (code === LOAD) {
      if (k % 4 !== 0 || k >= RECORD_BYTES) throw new Error(`invalid load offset ${k}`)
      accumulator = record.readUInt32LE(k)
      continue
    }
    const holds = JUMP_CONDITIONS[code]
    if (holds === undefined) throw new Error(`unknown instruction code ${code}`)
    at += holds(accumulator, k) ? jt : jf
  }
  throw new Error('the program ends without a return instruction')
}

function encodeSeccompData({ arch, nr, args = [] }: SystemCall): Buffer {
  const record = Buffer.alloc(RECORD_BYTES)
  record.writeUInt32LE(nr >>> 0, 0)
  record.writeUInt32LE(arch >>> 0, 4)
  for (const [index, value] of args.entries())
    record.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index)
  return record
}
