/** The cure that a worker in a container names when its sandbox can't start, and the facts behind it. */
import { describe, expect, test } from '@jest/globals'
import { findFix } from '../../../worker/sandbox/bwrap/error-hints.ts'
import { type LocalMachine, thisMachine } from '../../../worker/sandbox/local-machine.ts'

const NO_PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
const NO_NAMESPACE =
  'bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.'
const NO_UID_MAP = 'bwrap: setting up uid map: Operation not permitted'

/** Lines of /proc/self/mountinfo in a container with the usual masks, as runc 1.1.5 makes them. */
const MASKED = [
  '22 27 0:21 / /proc rw,relatime - proc proc rw',
  '31 22 0:21 /bus /proc/bus ro,relatime - proc proc rw',
  '32 22 0:21 /sys /proc/sys ro,relatime - proc proc rw',
  '33 22 0:6 /null /proc/keys rw,relatime - devtmpfs devtmpfs rw',
  '34 22 0:6 /null /proc/timer_list rw,relatime - devtmpfs devtmpfs rw',
].join('\n')
const OPEN = [
  '22 27 0:21 / /proc rw,relatime - proc proc rw',
  '35 22 0:40 / /proc/sys/fs/binfmt_misc rw,relatime - binfmt_misc binfmt_misc rw',
].join('\n')

const KUBERNETES = { '/proc/self/environ': 'PATH=/bin\0KUBERNETES_SERVICE_HOST=10.96.0.1\0' }
const KUBELET_HOSTS = { '/etc/hosts': '# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n' }
const PODMAN = { '/run/.containerenv': 'engine="podman-4.3.1"\n' }
const DOCKER = { '/.dockerenv': '' }
const FILTERED = { '/proc/self/status': 'NoNewPrivs:\t0\nSeccomp:\t2\n' }

function machineWith(files: Readonly<Record<string, string>>, euid = 1000): LocalMachine {
  return { ...thisMachine(), euid, read: async (path) => files[path] }
}
const fixOf = (errorText: string, files: Readonly<Record<string, string>>, euid?: number) =>
  findFix(errorText, '/usr/bin/bwrap', machineWith(files, euid))

describe('parts of /proc are covered', () => {
  test.each([
    ['Kubernetes, by its variables', KUBERNETES, /procMount: Unmasked .*hostUsers: false/],
    ['Kubernetes, by its hosts file', KUBELET_HOSTS, /procMount: Unmasked .*hostUsers: false/],
    ['Podman', PODMAN, /--security-opt unmask=ALL$/],
    ['Docker', DOCKER, /--security-opt systempaths=unconfined$/],
    ['no container that is known', {}, /ProtectKernelTunables=/],
  ])('%s: the cure is named', async (_, marks, cure) => {
    const fix = await fixOf(NO_PROC, { ...marks, '/proc/self/mountinfo': MASKED })
    expect(fix?.fault).toEqual({
      of: 'container',
      problem: expect.stringContaining('/proc/bus, /proc/sys, /proc/keys'),
      cure: expect.stringMatching(cure),
    })
    expect(fix?.text).toBe(`${fix?.fault?.problem}; ${fix?.fault?.cure}`)
  })

  test('a machine whose /proc is whole gets no such cure', async () => {
    expect(await fixOf(NO_PROC, { ...KUBERNETES, '/proc/self/mountinfo': OPEN })).toBeUndefined()
    expect(await fixOf(NO_PROC, {})).toBeUndefined()
  })
})

describe('namespaces are refused', () => {
  test.each([
    ['Kubernetes', KUBERNETES, /add: \[SYS_ADMIN\].*hostUsers: false/],
    ['Podman', PODMAN, /--cap-add SYS_ADMIN/],
    ['Docker', DOCKER, /--cap-add SYS_ADMIN/],
  ])('%s: by the system call filter of the container', async (_, marks, cure) => {
    const fix = await fixOf(NO_NAMESPACE, { ...marks, ...FILTERED })
    expect(fix?.fault).toMatchObject({ of: 'container', cure: expect.stringMatching(cure) })
  })

  test('a switch of the kernel explains it better', async () => {
    const files = { ...KUBERNETES, ...FILTERED, '/proc/sys/user/max_user_namespaces': '0' }
    expect((await fixOf(NO_NAMESPACE, files))?.fault?.of).toBe('user-namespaces')
  })

  test('without a container, or without a filter, no container is named', async () => {
    expect(await fixOf(NO_NAMESPACE, FILTERED)).toBeUndefined()
    expect(await fixOf(NO_NAMESPACE, KUBERNETES)).toBeUndefined()
  })
})

test('root in a container is told to be another user, and other users are not', async () => {
  const fix = await fixOf(NO_UID_MAP, KUBERNETES, 0)
  expect(fix?.fault).toMatchObject({ of: 'container', cure: expect.stringContaining('runAsUser: 1000') })
  expect((await fixOf(NO_UID_MAP, PODMAN, 0))?.fault?.cure).toContain('--user 1000:1000')
  expect(await fixOf(NO_UID_MAP, KUBERNETES, 1000)).toBeUndefined()
  expect((await fixOf('spawn EPERM', KUBERNETES, 0))?.fault?.cure).toContain('runAsUser: 1000')
})
