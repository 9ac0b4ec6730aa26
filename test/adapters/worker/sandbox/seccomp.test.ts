/** Tests of the system call filter: every named call on both architectures, run by a BPF interpreter. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { assemble, ifEqual, label, returnValue } from '../../../../worker/sandbox/bwrap/seccomp/bpf.ts'
import { ARCHITECTURES, type CallName } from '../../../../worker/sandbox/bwrap/seccomp/calls.ts'
import { buildSeccompFilter } from '../../../../worker/sandbox/bwrap/seccomp/filter.ts'
import { disassemble, runFilter } from '../../../support/bpf-machine.ts'

const testFolder = dirname(fileURLToPath(import.meta.url))

const ALLOW = 0x7fff0000
const KILL = 0x80000000
const EPERM = 0x50001
const ENOSYS = 0x50026
const EAFNOSUPPORT = 0x50061

const AUDIT = { x64: 0xc000003e, arm64: 0xc00000b7 } as const
const I386 = 0x40000003
const ARM = 0x40000028

/** The numbers of the kernel's tables, typed in a second time: x86-64, arm64. */
const REFUSED: Readonly<Record<string, readonly [number | undefined, number | undefined]>> = {
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
  unshare: [272, 97],
  setns: [308, 268],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  create_module: [174, undefined],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  settimeofday: [164, 170],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  fanotify_mark: [301, 263],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  syslog: [103, 116],
  iopl: [172, undefined],
  ioperm: [173, undefined],
}
/** read, write, close, execve, futex, wait4, exit_group, prctl, seccomp, getrandom, memfd_create, rseq, landlock. */
const ALLOWED = {
  x64: [0, 1, 3, 59, 202, 61, 231, 157, 317, 318, 319, 334, 444],
  arm64: [63, 64, 57, 221, 98, 260, 94, 167, 277, 278, 279, 293, 444],
}
/** The index of the mode argument. */
const MODES: readonly (readonly [CallName, number])[] = [
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
  const at = name === 'x64' ? 0 : 1
  const calls = (ARCHITECTURES[name] as (typeof ARCHITECTURES)[string]).calls
  const run = (nr: number, ...args: bigint[]): number => runFilter(program, { arch, nr, args })
  const withArgument = (nr: number, index: number, value: bigint): number =>
    run(nr, ...Array.from({ length: index + 1 }, (_, each) => (each === index ? value : 0n)))

  test('the program equals the reviewed one', () => {
    expect(disassemble(program)).toBe(readFileSync(join(testFolder, 'filters', `${name}.txt`), 'utf8'))
  })

  test('refused calls fail whatever their arguments', () => {
    for (const [call, numbers] of Object.entries(REFUSED)) {
      const nr = numbers[at]
      expect([call, calls[call as CallName]]).toEqual([call, nr])
      if (nr !== undefined) expect([call, run(nr), run(nr, -1n, -1n, -1n)]).toEqual([call, EPERM, EPERM])
    }
  })

  test('calls whose flags lie behind a pointer do not exist', () => {
    for (const nr of [435, 437]) expect(run(nr, -1n, -1n)).toBe(ENOSYS)
  })

  test('calls that every program needs are allowed', () => {
    for (const nr of ALLOWED[name]) expect([nr, run(nr, -1n, -1n, -1n)]).toEqual([nr, ALLOW])
  })

  test('a call of another architecture kills the process', () => {
    const others = [I386, ARM, name === 'x64' ? AUDIT.arm64 : AUDIT.x64, 0, arch ^ 0x80000000]
    for (const foreign of others) expect(runFilter(program, { arch: foreign, nr: 0 })).toBe(KILL)
  })

  const clone = calls.clone as number
  test('clone creates processes and threads, but no namespaces', () => {
    const thread = 0x003d0f00n
    expect([run(clone, 17n), run(clone, thread)]).toEqual([ALLOW, ALLOW])
    for (const bit of [17, 25, 26, 27, 28, 29, 30]) {
      const flag = 1n << BigInt(bit)
      expect([bit, run(clone, flag | 17n), run(clone, thread | flag)]).toEqual([bit, EPERM, EPERM])
    }
  })

  const ioctl = calls.ioctl as number
  test('no ioctl inserts terminal input, however its number is encoded', () => {
    for (const junk of [0n, 1n << 32n, 0xffffffffn << 32n]) {
      expect(run(ioctl, 0n, junk | 0x5412n)).toBe(EPERM)
      expect(run(ioctl, 0n, junk | 0x541cn)).toBe(EPERM)
      expect(run(ioctl, 0x5412n, junk | 0x5413n)).toBe(ALLOW)
    }
  })

  test.each(MODES)('%s sets no setuid or setgid bit', (call, index) => {
    const nr = calls[call]
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
    const nr = calls[call]
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
    const nr = calls[call] as number
    for (let family = 0; family < 64; family++) {
      const expected = [1, 2, 10, 16].includes(family) ? ALLOW : EAFNOSUPPORT
      for (const junk of [0n, 0x5555n << 32n])
        expect([family, run(nr, junk | BigInt(family))]).toEqual([family, expected])
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
