/** Provisioning that fails, against real OpenSSH servers: what is said, and that nothing stays on the machine. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from '@jest/globals'
import type { ProvisionPush, ProvisionRequest } from '../../protocol/provision.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { type CommandProcess, keepForFile, serve } from '../support/command-process.ts'
import { describeIf, isRoot } from '../support/skips.ts'
import { connectSocket, type SocketClient } from '../support/socket-client.ts'
import { SshTarget, type SshTargetOptions } from '../support/ssh-target.ts'
import { TcpRelay } from '../support/tcp-relay.ts'
import { tempFolder } from '../support/temp-folder.ts'

const TEST_MS_MAX = 60_000
const ANN = 'home/ann'

let host: CommandProcess

beforeAll(async () => {
  const dataDir = tempFolder()
  const config = {
    server: { port: 0 },
    fleet: { host: '0.0.0.0', port: 0, insecure: true },
    tracker: { driver: 'local', path: tempFolder() },
    worker: { local: false },
  }
  writeFileSync(join(dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  host = keepForFile(serve(dataDir))
  await host.waitForLaunch()
}, TEST_MS_MAX)

const requestFor = (target: SshTarget, more: Partial<ProvisionRequest> = {}): ProvisionRequest => ({
  host: '127.0.0.1',
  port: target.port,
  user: 'ann',
  identityFile: target.identityFile,
  hostKeySha256: target.hostKeySha256,
  ...more,
})

async function provision(body: ProvisionRequest) {
  const answer = await host.request('/api/workers/provision', { method: 'POST', body })
  return { status: answer.status, error: String((answer.body as { error?: string }).error) }
}

const workers = async () => ((await host.request('/api/workers')).body as FleetResponse).workers

/** Provisions a machine that can't be a worker, and returns what is said; nothing may stay. */
async function refuse(
  options: SshTargetOptions,
  more: Partial<ProvisionRequest> = {},
  prepare: (target: SshTarget) => void = () => {},
) {
  const target = await SshTarget.start(options)
  prepare(target)
  const before = [target.files(ANN), target.files('var/lib'), target.files('tmp')]
  const answer = await provision(requestFor(target, more))
  expect([target.files(ANN), target.files('var/lib'), target.files('tmp')]).toEqual(before)
  expect(await workers()).toEqual([])
  await target.stop()
  return answer
}

describeIf(isRoot, 'needs root')('nothing stays of a provisioning that fails', () => {
  test.each<[string, SshTargetOptions, Partial<ProvisionRequest>, RegExp]>([
    [
      'without bubblewrap',
      { programs: { '/usr/bin/bwrap': '' } },
      {},
      /lacks bwrap\n {2}try, on 127.0.0.1: sudo apt-get install -y bubblewrap/,
    ],
    [
      'where sandboxes are denied',
      {
        programs: { '/usr/bin/bwrap': 'echo "bwrap: No permissions to create new namespace" >&2\nexit 1\n' },
      },
      {},
      /can't make sandboxes: .*\n {2}try, on 127.0.0.1: /,
    ],
    [
      'on a full disk',
      { diskBytes: 64 * 1024 * 1024 },
      { user: 'root' },
      /has 6\d MiB free, and a worker needs 10\d\d MiB/,
    ],
    [
      'where a command writes without an end',
      { programs: { '/usr/bin/df': 'yes >&2\n' } },
      {},
      /wrote more than 64 KiB/,
    ],
    [
      'where the worker does not start',
      { programs: { '/usr/bin/prlimit': 'exit 1\n' } },
      {},
      /the worker on 127.0.0.1 ended with 69: /,
    ],
  ])(
    '%s',
    async (_, options, more, message) => {
      const { status, error } = await refuse(options, more)
      expect([status, error]).toEqual([500, expect.stringMatching(message)])
    },
    TEST_MS_MAX,
  )

  test('where a worker was installed by hand', async () => {
    const { error } = await refuse({}, { user: 'root' }, (target) => {
      mkdirSync(target.path('var/lib/switchyard-worker'))
      writeFileSync(target.path('var/lib/switchyard-worker/credential.json'), '{}')
    })
    expect(error).toContain('/var/lib/switchyard-worker')
  })

  test('with a key that the machine does not accept', async () => {
    const [target, foreign] = [await SshTarget.start(), await SshTarget.start()]
    const { status, error } = await provision(requestFor(target, { identityFile: foreign.identityFile }))
    expect([status, error]).toEqual([500, expect.stringContaining('ssh-copy-id')])
    await Promise.all([target.stop(), foreign.stop()])
  })

  test(
    'when its connection is cut at any step',
    async () => {
      const dashboard = await openDashboard()
      const steps = ['copy', 'install', 'pair', 'online']
      const cuts = steps.map(async (step) => {
        const target = await SshTarget.start({ systemd: step === 'online' })
        const relay = await TcpRelay.startFor(target.port)
        const port = Number(new URL(relay.url).port)
        const before = [target.files(ANN), target.files('tmp')]
        const answer = provision(requestFor(target, { port }))
        await dashboard.waitFor(`ann@127.0.0.1:${port}`, step)
        relay.disconnect()
        relay.restore()
        const { status, error } = await answer
        relay.close()
        const left = target.files('tmp').filter((path) => !/\/(calls|journal|unit\.\d+)$/.test(path))
        expect([step, status, error, target.files(ANN), left]).toEqual([
          step,
          500,
          expect.not.stringContaining('could not be undone'),
          ...before,
        ])
        await target.stop()
      })
      await Promise.all(cuts)
      dashboard.close()
      expect(await workers()).toEqual([])
    },
    TEST_MS_MAX,
  )
})

async function openDashboard() {
  const { url, token } = await host.waitForLaunch()
  const client: SocketClient = connectSocket(Number(new URL(url).port), '/ws', {
    authorization: `Bearer ${token}`,
  })
  await client.firstFrames(1)
  return {
    close: () => client.close(),
    waitFor: async (id: string, step: string) => {
      for (let count = 1; ; count += 1) {
        const frame = (await client.firstFrames(count)).at(-1) as unknown as ProvisionPush
        if (frame.type === 'provision' && frame.id === id && frame.step === step) return
      }
    },
  }
}
