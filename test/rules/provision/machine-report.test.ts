/** The report of a target machine, and the cures that a person is given. */
import { describe, expect, test } from '@jest/globals'
import type { HostNode } from '../../../core/ports/machines.ts'
import { judgeMachine } from '../../../core/provision/machine-report.ts'

const GOOD: Readonly<Record<string, string>> = {
  system: 'Linux',
  machine: 'x86_64',
  libc: 'glibc 2.36',
  uid: '1000',
  base: '/home/ann/.local/lib/switchyard-worker',
  manager: 'user',
  answers: 'Version=252',
  linger: 'no',
  node: '/usr/bin/node',
  nodeVersion: 'v20.19.0',
  git: 'git version 2.39.5',
  bwrap: '/usr/bin/bwrap',
  bwrapVersion: 'bubblewrap 0.8.0',
  sandbox: 'works',
  free: '43000000',
  files: '1000000 900000',
  end: 'checked',
}
const NODE: HostNode = { version: 'v20.20.2', arch: 'x64', bytes: 1, sha256: '', read: async function* () {} }

function judge(changes: Readonly<Record<string, string | undefined>>, node: HostNode | undefined = NODE) {
  const lines = Object.entries({ ...GOOD, ...changes }).flatMap(([key, value]) =>
    value === undefined ? [] : [`${key} ${value}`],
  )
  return judgeMachine(`${lines.join('\n')}\n`, node, 50 * 1024 * 1024)
}

test('a machine with everything is accepted with its facts', () => {
  expect(judge({})).toEqual({
    ok: true,
    facts: {
      arch: 'x64',
      isRoot: false,
      base: GOOD.base,
      manager: 'user',
      node: '/usr/bin/node',
      nodeVersion: 'v20.19.0',
      bwrapVersion: '0.8.0',
      freeBytes: 43_000_000 * 1024,
    },
  })
})

describe('a machine is refused with the cure', () => {
  test.each<[string, Readonly<Record<string, string | undefined>>, string]>([
    ['another system', { system: 'FreeBSD' }, 'take another machine'],
    ['another processor', { machine: 'riscv64' }, 'take another machine'],
    ['no glibc', { libc: '' }, 'Debian 12'],
    ['an old glibc', { libc: 'glibc 2.31' }, 'Debian 12'],
    ['a home folder that scripts would have to quote', { base: "/home/o'neil/.local" }, 'letters, digits'],
    ['a worker that was installed by hand', { foreign: '/var/lib/switchyard-worker' }, 'another user'],
    ['no bubblewrap', { bwrap: undefined, sandbox: undefined }, 'sudo apt-get install -y bubblewrap'],
    [
      'no git and no util-linux',
      { git: undefined, missing: 'setpriv' },
      'sudo apt-get install -y util-linux git',
    ],
    [
      'user namespaces off',
      { sandbox: 'bwrap: No permissions', 'kernel/unprivileged_userns_clone': '0' },
      'sudo sysctl -w kernel.unprivileged_userns_clone=1',
    ],
    [
      'no user namespaces left',
      { sandbox: 'bwrap: No space left', 'user/max_user_namespaces': '0' },
      'sudo sysctl -w user.max_user_namespaces=15000',
    ],
    [
      'AppArmor',
      { sandbox: 'bwrap: uid map', 'kernel/apparmor_restrict_unprivileged_userns': '1' },
      'apparmor_parser',
    ],
    ['a masked /proc', { sandbox: "bwrap: Can't mount proc" }, 'unmasked /proc'],
    ['a full disk', { free: '1000' }, 'make room'],
    ['a disk of unknown size', { free: '' }, 'make room'],
    ['no files left', { files: '1000000 100' }, 'remove files'],
    ['a folder that can’t be written', { readonly: '/home' }, 'home folder of its own'],
    ['systemd without a user manager', { answers: 'Failed to connect to bus' }, 'libpam-systemd'],
    ['another answer than facts', { end: undefined }, 'POSIX shell'],
  ])('%s', (_, changes, cure) => {
    const judged = judge(changes)
    expect(judged.ok ? 'accepted' : judged.problem.cure).toContain(cure)
  })
})

describe('Node.js', () => {
  test.each([
    ['is copied where there is none', { node: undefined, nodeVersion: undefined }],
    ['is copied where it is old', { nodeVersion: 'v18.19.0' }],
    ['is copied where it does not start', { nodeVersion: '' }],
  ])('%s', (_, changes) => {
    expect(judge(changes)).toMatchObject({
      ok: true,
      facts: { node: undefined, nodeVersion: 'v20.20.2, copied' },
    })
  })

  test('must be installed where the host’s own can’t run', () => {
    const judged = judge({ node: undefined, machine: 'aarch64' })
    expect(judged.ok ? '' : judged.problem.cure).toContain('install Node.js 24')
  })
})

test('hostile output has no control characters and no length', () => {
  const judged = judge({ sandbox: `bwrap: \u001b]0;x\u0007\u202e${'y'.repeat(100_000)}` })
  const finding = judged.ok ? '' : judged.problem.finding
  expect(finding).toMatch(/^bwrap: \]0;xy+$/)
  expect(finding.length).toBeLessThanOrEqual(500)
})
