/** The list that is the sandbox, compared with what was proven. */
import { describe, expect, test } from '@jest/globals'
import {
  optionNames,
  type SandboxPlan,
  sandboxArguments,
  sandboxOptions,
} from '../../../worker/sandbox/arguments.ts'

const lines = (plan: SandboxPlan): string[] => sandboxOptions(plan).map((option) => option.join(' '))

describe('whatever the plan', () => {
  const plans: SandboxPlan[] = [
    {},
    { work: '/srv/w', home: '/srv/h', shown: ['/opt/agent'], environment: { A: 'b' } },
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
      plan.work === undefined ? [] : ['--bind /srv/h /home/agent', '--bind /srv/w /work'],
    )
  })
})

test('nothing but the descriptor of the list shows on the command line', () => {
  expect(sandboxArguments({ environment: { TOKEN: 'secret' } }).visible).toEqual(['--args', '3', '--'])
})

test('the list comes first, then each file, on the descriptor that the list names', () => {
  const { fed } = sandboxArguments({ files: [{ path: '/run/cred/token', mode: '0400', text: 'secret' }] })
  const words = (fed[0] ?? '').split('\0')
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
  expect(() => sandboxArguments({ environment: { A: 'x\0--bind\0/\0/' } })).toThrow('NUL')
})

test('the names of all options are known, once each, values not among them', () => {
  const names = optionNames(sandboxOptions({ environment: { A: '--not-an-option' } }))
  expect(names).toContain('--args')
  expect(names).not.toContain('--not-an-option')
  expect(new Set(names).size).toBe(names.length)
})
