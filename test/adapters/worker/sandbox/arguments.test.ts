/** The list that is the sandbox, compared with what was proven. */
import { describe, expect, test } from '@jest/globals'
import {
  buildSandboxArguments,
  buildSandboxOptions,
  listOptionNames,
  type SandboxPlan,
} from '../../../../worker/sandbox/arguments.ts'

const lines = (plan: SandboxPlan): string[] => buildSandboxOptions(plan).map((option) => option.join(' '))

describe('whatever the plan', () => {
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

  test.each(plans)('every namespace is left, every capability dropped: %j', (plan) => {
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

  test.each(plans)('the last thing is to seal /proc, /dev, /run and the root, in this order: %j', (plan) => {
    expect(lines(plan).slice(-5)).toEqual([
      '--remount-ro /proc',
      '--remount-ro /dev',
      '--remount-ro /run',
      '--remount-ro /',
      '--chdir /work',
    ])
  })

  test.each(plans)('only the work and home folders can be written through to the host: %j', (plan) => {
    const writable = lines(plan).filter((line) => /^--(dev-)?bind/.test(line))
    expect(writable).toEqual(
      plan.workFolder === undefined ? [] : ['--bind /srv/h /home/agent', '--bind /srv/w /work'],
    )
  })
})

describe('cut short at any place', () => {
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

test('folders under other names are read-only unless said otherwise, and the way out is one socket', () => {
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

test('the filter is fed next to the list, and reports come after the last file', () => {
  const files = [{ path: '/run/cred/token', mode: '0400', text: 'secret' }] as const
  const { inputs: fed, statusFd } = buildSandboxArguments({ files, reportsStatus: true }, 'x64')
  expect(Buffer.isBuffer(fed[1])).toBe(true)
  expect(fed[0]).toContain('--seccomp\x004\0')
  expect(statusFd).toBe(3 + fed.length)
  expect(fed[0]).toContain(`--json-status-fd\0${statusFd}\0`)
  expect(buildSandboxArguments({}).statusFd).toBeUndefined()
})

test('without a filter there is no sandbox', () => {
  expect(() => buildSandboxArguments({}, 'riscv64')).toThrow('no system call filter for riscv64')
})

test('nothing but the descriptor of the list shows on the command line', () => {
  expect(buildSandboxArguments({ environment: { TOKEN: 'secret' } }).commandLine).toEqual([
    '--args',
    '3',
    '--',
  ])
})

test('the list comes first, then each file, on the descriptor that the list names', () => {
  const { inputs: fed } = buildSandboxArguments({
    files: [{ path: '/run/cred/token', mode: '0400', text: 'secret' }],
  })
  const words = String(fed[0]).split('\0')
  const at = words.indexOf('/run/cred/token')
  expect(words.slice(at - 4, at + 1)).toEqual([
    '--perms',
    '0400',
    '--ro-bind-data',
    String(3 + fed.length - 1),
    '/run/cred/token',
  ])
  expect(fed.at(-1)).toBe('secret')
  expect(fed[0]).not.toContain('secret')
})

test('a person at a terminal keeps it; an agent gets a session of its own', () => {
  expect(lines({ terminal: true })).not.toContain('--new-session')
})

test('a word with a NUL, which would smuggle in another option, is a bug', () => {
  expect(() => buildSandboxArguments({ environment: { A: 'x\0--bind\0/\0/' } })).toThrow('NUL')
})

test('the names of all options are known, once each, values not among them', () => {
  const names = listOptionNames(buildSandboxOptions({ environment: { A: '--not-an-option' } }))
  expect(names).toContain('--args')
  expect(names).not.toContain('--not-an-option')
  expect(new Set(names).size).toBe(names.length)
})
