/** Tests of the bubblewrap argument list, which defines the sandbox. */
import { describe, expect, test } from '@jest/globals'
import {
  buildSandboxArguments,
  buildSandboxOptions,
  listOptionNames,
  type SandboxPlan,
} from '../../../../worker/sandbox/bwrap/arguments.ts'

const lines = (plan: SandboxPlan): string[] => buildSandboxOptions(plan).map((option) => option.join(' '))

describe('for every plan', () => {
  const plans: SandboxPlan[] = [
    {},
    { workFolder: '/srv/w', homeFolder: '/srv/h', readOnlyPaths: ['/opt/agent'], environment: { A: 'b' } },
    {
      workFolder: '/srv/w',
      homeFolder: '/srv/h',
      mounts: [{ from: '/srv/o', to: '/out' }],
      egressSocket: '/srv/e',
      reportsStatus: true,
    },
  ]

  test.each(plans)('every namespace is unshared and every capability dropped: %j', (plan) => {
    expect(lines(plan)).toEqual(
      expect.arrayContaining([
        '--unshare-user',
        '--unshare-ipc',
        '--unshare-pid',
        '--unshare-net',
        '--unshare-uts',
        '--unshare-cgroup',
        '--disable-userns',
        '--die-with-parent',
        '--cap-drop ALL',
        '--new-session',
        '--clearenv',
      ]),
    )
    expect(lines(plan).some((line) => line.includes('-try') && !line.startsWith('--ro-bind-try /etc/'))).toBe(
      false,
    )
  })

  test.each(plans)(
    'the list ends with making /proc, /dev, /run and the root read-only, in this order: %j',
    (plan) => {
      expect(lines(plan).slice(-5)).toEqual([
        '--remount-ro /proc',
        '--remount-ro /dev',
        '--remount-ro /run',
        '--remount-ro /',
        '--chdir /work',
      ])
    },
  )

  test.each(plans)('only the work and home folders are mounted writable: %j', (plan) => {
    const writable = lines(plan).filter((line) => /^--(dev-)?bind/.test(line))
    expect(writable).toEqual(
      plan.workFolder === undefined ? [] : ['--bind /srv/h /home/agent', '--bind /srv/w /work'],
    )
  })
})

describe('truncated at any position', () => {
  const all = buildSandboxOptions({
    workFolder: '/srv/w',
    homeFolder: '/srv/h',
    mounts: [{ from: '/srv/o', to: '/out' }],
  })
  const walls = [
    '--unshare-user',
    '--unshare-net',
    '--unshare-pid',
    '--cap-drop',
    '--die-with-parent',
    '--seccomp',
  ]

  test.each(all.map((_, length) => length))(
    '%d options show something of the host only behind every wall',
    (length) => {
      const names = all.slice(0, length).map(([name]) => name)
      const shows = names.some((name) => /^--(ro-)?bind/.test(name))
      expect(walls.filter((wall) => shows && !names.includes(wall as `--${string}`))).toEqual([])
    },
  )
})

test('mounts are read-only unless marked writable, and the egress socket is one mount', () => {
  const plan = {
    mounts: [
      { from: '/srv/o', to: '/out', writable: true },
      { from: '/srv/i', to: '/in' },
    ],
    egressSocket: '/srv/e.sock',
  }
  expect(lines(plan).filter((line) => line.includes('/srv/'))).toEqual([
    '--bind /srv/o /out',
    '--ro-bind /srv/i /in',
    '--ro-bind /srv/e.sock /run/egress.sock',
  ])
})

test('the filter follows the argument list, and the status descriptor follows the last file', () => {
  const files = [{ path: '/run/cred/token', mode: '0400', text: 'secret' }] as const
  const { inputs, statusFd } = buildSandboxArguments({ files, reportsStatus: true }, 'x64')
  expect(Buffer.isBuffer(inputs[1])).toBe(true)
  expect(inputs[0]).toContain('--seccomp\x004\0')
  expect(statusFd).toBe(3 + inputs.length)
  expect(inputs[0]).toContain(`--json-status-fd\0${statusFd}\0`)
  expect(buildSandboxArguments({}).statusFd).toBeUndefined()
})

test('an architecture without a filter has no sandbox', () => {
  expect(() => buildSandboxArguments({}, 'riscv64')).toThrow('riscv64')
})

test('the command line shows only the descriptor of the argument list', () => {
  expect(buildSandboxArguments({ environment: { TOKEN: 'secret' } }).commandLine).toEqual([
    '--args',
    '3',
    '--',
  ])
})

test('the list comes first, then each file, on the descriptor that the list names', () => {
  const { inputs } = buildSandboxArguments({
    files: [{ path: '/run/cred/token', mode: '0400', text: 'secret' }],
  })
  const words = String(inputs[0]).split('\0')
  const at = words.indexOf('/run/cred/token')
  expect(words.slice(at - 4, at + 1)).toEqual([
    '--perms',
    '0400',
    '--ro-bind-data',
    String(3 + inputs.length - 1),
    '/run/cred/token',
  ])
  expect(inputs.at(-1)).toBe('secret')
  expect(inputs[0]).not.toContain('secret')
})

test('an interactive sandbox keeps its terminal; an agent gets a new session', () => {
  expect(lines({ terminal: true })).not.toContain('--new-session')
})

test('a word with a NUL, which would inject an option, throws', () => {
  expect(() => buildSandboxArguments({ environment: { A: 'x\0--bind\0/\0/' } })).toThrow('NUL')
})

test('option names are listed once each, without values', () => {
  const names = listOptionNames(buildSandboxOptions({ environment: { A: '--not-an-option' } }))
  expect(names).toContain('--args')
  expect(names).not.toContain('--not-an-option')
  expect(new Set(names).size).toBe(names.length)
})
