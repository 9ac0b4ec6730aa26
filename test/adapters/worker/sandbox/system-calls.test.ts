/**
 * Makes every system call by number in a real sandbox, and in the same one without its filter.
 *
 * An allowed call must give the same result in both, and all others the error that the filter names.
 */
import { chmodSync, copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from '@jest/globals'
import { buildSandboxArguments } from '../../../../worker/sandbox/bwrap/arguments.ts'
import { outerCommand } from '../../../../worker/sandbox/bwrap/wrapper-commands.ts'
import { thisMachine } from '../../../../worker/sandbox/local-machine.ts'
import { compileC } from '../../../support/child-process.ts'
import { readKernelCalls, verdictOf } from '../../../support/kernel-calls.ts'
import { createSandboxSetup, ORDINARY_UID } from '../../../support/sandbox.ts'
import { isRoot } from '../../../support/skips.ts'

const BWRAP = '/usr/bin/bwrap'
const KNOWN_MAX = 480
/** Far above all that this kernel has, and the same calls under the numbers of the second ABI of x86-64. */
const UNKNOWN = [999, 100_000, 0x3fffffff, 0x40000000, 0x400000a5]
const kernel = readKernelCalls(process.arch)
const numberOf = (name: string): number => [...kernel].find(([, each]) => each === name)?.[0] ?? Number.NaN
/** Calls that would write the whole disk of the machine. */
const SYNC = numberOf('sync')
const TIMEOUT_MS = 60_000

const setup = createSandboxSetup(ORDINARY_UID)
beforeAll(() => {
  const program = join(setup.root, 'work', 'system-calls')
  copyFileSync(compileC('test/support/system-calls.c', ['-static', '-O1', '-Wall']), program)
  chmodSync(program, 0o755)
})

/** Each line is the result of one call. */
async function makeCalls(calls: readonly string[], isFiltered = true): Promise<string[]> {
  const workFolder = join(setup.root, 'work')
  const { commandLine, inputs } = buildSandboxArguments({ workFolder })
  const [options, ...rest] = inputs
  const unfiltered = String(options).replace(/--seccomp\0\d+\0/, '')
  const outcome = await thisMachine().run({
    ...outerCommand(BWRAP, commandLine, ['/work/system-calls', ...calls]),
    inputs: [isFiltered ? String(options) : unfiltered, ...rest],
    timeoutMs: TIMEOUT_MS,
    ...(isRoot ? { as: { uid: ORDINARY_UID, gid: ORDINARY_UID } } : {}),
  })
  expect(outcome).toMatchObject({ is: 'exited', code: 0, stderr: '' })
  return outcome.is === 'exited' ? outcome.stdout.trim().split('\n') : []
}

test(
  'every number is allowed, refused or unknown as its name says',
  async () => {
    const calls = [`0-${SYNC - 1}`, `${SYNC + 1}-${KNOWN_MAX}`, ...UNKNOWN.map(String)]
    const [inside, unfiltered] = await Promise.all([makeCalls(calls), makeCalls(calls, false)])
    const errors = { refused: 'EPERM', absent: 'ENOSYS' } as const
    const wrong = inside.flatMap((line, at) => {
      const nr = Number.parseInt(line, 10)
      const verdict = verdictOf(kernel.get(nr))
      if (verdict === 'inspected') return []
      const expected = verdict === 'allowed' ? unfiltered[at] : `${nr}: ${errors[verdict]}`
      return line === expected ? [] : [[kernel.get(nr), line, expected]]
    })
    expect(inside).toHaveLength(KNOWN_MAX + UNKNOWN.length)
    expect(wrong).toEqual([])
  },
  TIMEOUT_MS,
)

/** `name:argument…` and the result. */
const BY_ARGUMENTS: readonly (readonly [string, string])[] = [
  ['personality:0xffffffff', 'done'],
  ['personality:0', 'done'],
  ['personality:0x20000', 'done'],
  ['personality:0x40000', 'done'],
  ['personality:0x400000', 'EPERM'],
  ['personality:0x200000', 'EPERM'],
  ['personality:0x100000000', 'done'],
  ['clone:17:0:0:0:0', 'done'],
  ...[17, 25, 26, 27, 28, 29, 30].map((bit) => [`clone:${2 ** bit + 17}:0:0:0:0`, 'EPERM'] as const),
  ['ioctl:0:0x5412', 'EPERM'],
  ['ioctl:0:0x100005412', 'EPERM'],
  ['ioctl:0:0x541c', 'EPERM'],
  ['ioctl:999:0x5413', 'EBADF'],
  ['fchmod:999:0755', 'EBADF'],
  ['fchmod:999:04755', 'EPERM'],
  ['fchmod:999:02755', 'EPERM'],
  ['socket:1:1:0', 'done'],
  ['socket:2:1:0', 'done'],
  ['socket:16:3:0', 'done'],
  ...[0, 3, 17, 29, 31, 38, 40, 44].map((family) => [`socket:${family}:3:0`, 'EAFNOSUPPORT'] as const),
]

test('a call that is looked at succeeds with some arguments and not with others', async () => {
  const calls = BY_ARGUMENTS.map(([call]) => call.replace(/^\w+/, (name) => String(numberOf(name))))
  const results = (await makeCalls(calls)).map((line, at) => [
    BY_ARGUMENTS[at]?.[0],
    line.replace(/^\d+: /, ''),
  ])
  expect(results).toEqual(BY_ARGUMENTS)
})
