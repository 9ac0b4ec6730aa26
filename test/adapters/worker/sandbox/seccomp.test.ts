/** Tests of the system call filter: every number on both architectures, run by a BPF interpreter. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import * as calls from '../../../../worker/sandbox/bwrap/seccomp/calls.ts'
import {
  assemble,
  buildSeccompFilter,
  ifEqual,
  label,
  returnValue,
} from '../../../../worker/sandbox/bwrap/seccomp/filter.ts'
import { runFilter } from '../../../support/bpf-machine.ts'
import { readKernelCalls, verdictOf } from '../../../support/kernel-calls.ts'

const ALLOW = 0x7fff0000
const KILL = 0x80000000
const EPERM = 0x50001
const ENOSYS = 0x50026
const EAFNOSUPPORT = 0x50061

const AUDIT = { x64: 0xc000003e, arm64: 0xc00000b7 } as const
const I386 = 0x40000003
const ARM = 0x40000028

const KNOWN_NUMBERS_MAX = 1_023

/** The index of the mode argument. */
const MODES: readonly (readonly [string, number])[] = [
  ['chmod', 1],
  ['fchmod', 1],
  ['fchmodat', 2],
  ['fchmodat2', 2],
  ['creat', 1],
  ['mkdir', 1],
  ['mkdirat', 2],
  ['mknod', 1],
  ['mknodat', 2],
]
const O_CREAT = 0o100
const O_TMPFILE = 0o20000000

describe.each(['x64', 'arm64'] as const)('on %s', (name) => {
  const program = buildSeccompFilter(name) as Buffer
  const arch = AUDIT[name]
  const kernel = readKernelCalls(name)
  const numbers = new Map([...kernel].map(([number, call]) => [call, number]))
  const run = (nr: number, ...args: bigint[]): number => runFilter(program, { arch, nr, args })
  const withArgument = (nr: number, index: number, value: bigint): number =>
    run(nr, ...Array.from({ length: index + 1 }, (_, each) => (each === index ? value : 0n)))

  test('the tables have the numbers of the kernel, and each call once', () => {
    const { ALLOWED, INSPECTED, REFUSED, listCalls } = calls
    const architecture = calls.ARCHITECTURES[name] as calls.Architecture
    const listed = [ALLOWED, INSPECTED, REFUSED].flatMap((table) => listCalls<string>(table, architecture))
    expect(listed.map(([, number]) => [kernel.get(number), number])).toEqual(listed)
    expect(new Set(listed.map(([, number]) => number)).size).toBe(listed.length)
  })

  test('every number has the verdict of its name, and one without a name does not exist', () => {
    const actions = { allowed: ALLOW, refused: EPERM, absent: ENOSYS } as const
    const wrong = Array.from({ length: KNOWN_NUMBERS_MAX + 1 }, (_, nr) => nr).flatMap((nr) => {
      const verdict = verdictOf(kernel.get(nr))
      const got = [run(nr), run(nr, -1n, -1n, -1n, -1n, -1n, -1n)]
      return verdict === 'inspected' || got.every((each) => each === actions[verdict])
        ? []
        : [[nr, kernel.get(nr), got]]
    })
    expect(wrong).toEqual([])
    for (const nr of [1_024, 4_096, 0x3fffffff, 0x7fffffff, 0x80000000, 0xffffffff])
      expect([nr, run(nr)]).toEqual([nr, ENOSYS])
  })

  test('a call of another architecture kills the process', () => {
    const others = [I386, ARM, name === 'x64' ? AUDIT.arm64 : AUDIT.x64, 0, arch ^ 0x80000000]
    for (const foreign of others) expect(runFilter(program, { arch: foreign, nr: 0 })).toBe(KILL)
  })

  const clone = numbers.get('clone') as number
  test('clone creates processes and threads, but no namespaces', () => {
    const thread = 0x003d0f00n
    expect([run(clone, 17n), run(clone, thread)]).toEqual([ALLOW, ALLOW])
    for (const bit of [17, 25, 26, 27, 28, 29, 30]) {
      const flag = 1n << BigInt(bit)
      expect([bit, run(clone, flag | 17n), run(clone, thread | flag)]).toEqual([bit, EPERM, EPERM])
    }
  })

  const ioctl = numbers.get('ioctl') as number
  test('no ioctl inserts terminal input, however its number is encoded', () => {
    for (const junk of [0n, 1n << 32n, 0xffffffffn << 32n]) {
      expect(run(ioctl, 0n, junk | 0x5412n)).toBe(EPERM)
      expect(run(ioctl, 0n, junk | 0x541cn)).toBe(EPERM)
      expect(run(ioctl, 0x5412n, junk | 0x5413n)).toBe(ALLOW)
    }
  })

  test.each(MODES)('%s sets no setuid or setgid bit', (call, index) => {
    const nr = numbers.get(call)
    if (nr === undefined) return
    for (const mode of [0o4755n, 0o2755n, 0o6000n, (1n << 40n) | 0o4000n])
      expect(withArgument(nr, index, mode)).toBe(EPERM)
    for (const mode of [0o755n, 0o1777n, 0o100644n, 1n << 43n])
      expect(withArgument(nr, index, mode)).toBe(ALLOW)
  })

  test.each([
    ['open', 1],
    ['openat', 2],
  ] as const)('%s looks at the mode only when a file is made', (call, index) => {
    const nr = numbers.get(call)
    if (nr === undefined) return
    const opened = (flags: number, mode: bigint): number =>
      run(nr, ...Array.from({ length: index }, () => 0n), BigInt(flags), mode)
    expect([opened(O_CREAT, 0o4755n), opened(O_TMPFILE | 0o200000, 0o2755n)]).toEqual([EPERM, EPERM])
    expect([opened(O_CREAT, 0o644n), opened(0o200000, 0o4755n), opened(0, -1n)]).toEqual([
      ALLOW,
      ALLOW,
      ALLOW,
    ])
  })

  test.each(['socket', 'socketpair'] as const)('%s allows four families', (call) => {
    const nr = numbers.get(call) as number
    for (let family = 0; family < 64; family++) {
      const expected = [1, 2, 10, 16].includes(family) ? ALLOW : EAFNOSUPPORT
      for (const junk of [0n, 0x5555n << 32n])
        expect([family, run(nr, junk | BigInt(family))]).toEqual([family, expected])
    }
  })

  const personality = numbers.get('personality') as number
  test('personality makes a process no less like the others, but for its random addresses', () => {
    for (const junk of [0n, 0x5555n << 32n]) {
      for (const value of [0n, 8n, 0x20000n, 0x20008n, 0x40000n, 0xffffffffn])
        expect([value, run(personality, junk | value)]).toEqual([value, ALLOW])
      for (const value of [1n, 4n, 0x100000n, 0x200000n, 0x400000n, 0x440000n, 0x8000000n, 0xfffffffen])
        expect([value, run(personality, junk | value)]).toEqual([value, EPERM])
    }
  })

  test('any call gets one of five results, and only the lower half of an argument counts', () => {
    const args = fc.array(fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), { minLength: 6, maxLength: 6 })
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 512 }), args, args, (nr, values, others) => {
        const mixed = values.map(
          (value, index) => (value & 0xffffffffn) | (((others[index] ?? 0n) >> 32n) << 32n),
        )
        const action = run(nr, ...values)
        expect([ALLOW, EPERM, ENOSYS, EAFNOSUPPORT]).toContain(action)
        expect(run(nr, ...mixed)).toBe(action)
      }),
    )
  })
})

test('the second ABI of x86-64 does not exist', () => {
  const program = buildSeccompFilter('x64') as Buffer
  for (const nr of [0x40000000, 0x40000000 + 165, 0x7fffffff, 0xffffffff])
    expect(runFilter(program, { arch: AUDIT.x64, nr })).toBe(ENOSYS)
})

test('for an architecture without a table there is no filter', () => {
  expect(buildSeccompFilter('riscv64')).toBeUndefined()
})

describe('the assembler', () => {
  test('refuses a label that is behind, missing, duplicate or out of reach', () => {
    const far = [
      ifEqual(1, 'far'),
      ...Array.from({ length: 256 }, () => returnValue(0)),
      label('far'),
      returnValue(1),
    ]
    expect(() => assemble(far)).toThrow('out of reach')
    expect(() => assemble([label('a'), returnValue(0), ifEqual(1, 'a')])).toThrow('out of reach')
    expect(() => assemble([ifEqual(1, 'a'), returnValue(0)])).toThrow('label a is not defined')
    expect(() => assemble([label('a'), label('a'), returnValue(0)])).toThrow('label a is defined twice')
  })

  test('accepts jumps of the maximum distance', () => {
    const steps = [
      ifEqual(1, 'far'),
      ...Array.from({ length: 255 }, () => returnValue(0)),
      label('far'),
      returnValue(1),
    ]
    expect(assemble(steps)[0]).toEqual({ code: 0x15, jt: 255, jf: 0, k: 1 })
  })
})
