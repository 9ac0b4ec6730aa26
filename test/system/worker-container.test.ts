/**
 * The worker in a container, with the security context of the printed pods: it executes runs with real sandboxes, and
 * names what to change where the container does not let it.
 *
 * The containers have a root of this machine's own programs. `npm run test:image` runs the same tests with the image.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { DEFAULT_DEPLOYMENT, type Recipe } from '../../bin/cli/deploy/deployment.ts'
import { archiveOf } from '../../build/worker-package.mjs'
import type { StoredConfig } from '../../protocol/config.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import type { JoinKeyResponse } from '../../protocol/join-key.ts'
import type { Run } from '../../protocol/run.ts'
import type { FleetResponse, WorkerView } from '../../protocol/worker.ts'
import {
  type ContainerPlan,
  canRunContainers,
  outsideUser,
  POD,
  type RunningContainer,
  secretVolumeFor,
  startContainer,
  volumeFor,
} from '../support/container.ts'
import { GATE } from '../support/local-system.ts'
import { connectByDevice } from '../support/oauth-consent.ts'
import { printPod } from '../support/printed-pod.ts'
import { describeIf, testIf } from '../support/skips.ts'
import { ProviderSystem } from '../support/system-with-providers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'
import { openWorkerImage } from '../support/worker-image.ts'

const TEST_MS_MAX = 120_000
/** The shortest heartbeat timeout, and a poll of it. */
const LOST_MS_MAX = 60_000
const VOLUME = '/var/lib/switchyard-worker'
const DATA = `${VOLUME}/data`
/** The unpacked image of `npm run test:image`; undefined in other rounds. */
const image = openWorkerImage()
const WORK = ['write src/hello.txt', '  Hello!', 'commit Say hello', 'say It says hello now.']

let unpacked: string | undefined
function unpackedPackage(): string {
  if (unpacked === undefined) {
    unpacked = tempFolder()
    execFileSync('tar', ['-xzf', archiveOf(process.arch), '-C', unpacked, '--strip-components=1'])
    chmodSync(unpacked, 0o755)
  }
  return unpacked
}

/** The image, or the worker package on a root of this machine's programs. */
function planWorker(args: readonly string[], more: Partial<ContainerPlan>): ContainerPlan {
  const program = ['/opt/switchyard/bin/switchyard-worker.mjs']
  const parts =
    image === undefined
      ? {
          command: [process.execPath, ...program],
          environment: { HOME: VOLUME },
          mounts: [{ from: unpackedPackage(), to: '/opt/switchyard' }],
        }
      : { root: image.root, command: image.entrypoint, environment: image.environment, mounts: [] }
  const { mounts = [], ...rest } = more
  return {
    ...POD,
    ...parts,
    ...rest,
    command: [...parts.command, ...args],
    mounts: [...parts.mounts, ...mounts],
  }
}

/** Starts a worker that tries to reach a host which is not there: its sandbox is probed before. */
const startAlone = (more: Partial<ContainerPlan>): RunningContainer =>
  startContainer(
    planWorker(['worker', `--data-dir=${DATA}`, '--host=http://127.0.0.1:9'], {
      mounts: [{ from: volumeFor({ ...POD, ...more }), to: VOLUME, writable: true }],
      ...more,
    }),
  )

async function openSystem(fleet: StoredConfig['fleet'] = {}): Promise<ProviderSystem> {
  const system = await ProviderSystem.open({ worker: { local: false }, fleet })
  await system.send('PUT', '/api/settings/credentials', { trackerApiKey: system.linear.apiKey })
  await connectByDevice(system)
  return system
}

/** Enrolls a worker with a pairing token. @param volume where its data lies, which may be that of an earlier one */
async function startWorker(
  system: ProviderSystem,
  plan: Partial<ContainerPlan> = {},
  volume = volumeFor(POD),
): Promise<RunningContainer> {
  const { fleetUrl = '' } = await system.host.waitForLaunch()
  const { body } = await system.host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const token = join(volume, 'token')
  if (!existsSync(join(volume, 'data', 'credential.json'))) {
    writeFileSync(token, (body as { token: string }).token, { mode: 0o600 })
    chownSync(token, outsideUser(POD), outsideUser(POD))
  }
  const codeHost = `--private-code-host=${new URL(system.github.origin).host}`
  const dataDir = `--data-dir=${DATA}`
  const args = ['worker', dataDir, `--host=${fleetUrl}`, `--token-file=${VOLUME}/token`, codeHost]
  return startContainer(planWorker(args, { ...plan, mounts: [{ from: volume, to: VOLUME, writable: true }] }))
}

/** What a pod gets that is printed for this system, and its start with a join key. */
async function openPod(system: ProviderSystem, recipe: Recipe) {
  const { fleetUrl = '' } = await system.host.waitForLaunch()
  const privateCodeHosts = [new URL(system.github.origin).host]
  const pod = printPod({ ...DEFAULT_DEPLOYMENT, recipe, hostUrl: fleetUrl, privateCodeHosts })
  const asked = { name: 'pods', ephemeral: recipe === 'jobs' }
  const { key } = (await system.send('POST', '/api/workers/join-keys', asked)).body as JoinKeyResponse
  const mounts = [
    { from: volumeFor(POD), to: VOLUME, writable: true },
    { from: secretVolumeFor(POD, 'join-key', key), to: '/etc/switchyard/join' },
  ]
  // A machine of tests may have its Node elsewhere than the image.
  const preStop = image === undefined ? [process.execPath, ...pod.preStop.slice(1)] : pod.preStop
  return { pod: { ...pod, preStop }, key, start: () => startContainer(planWorker(pod.args, { mounts })) }
}

/** What KEDA reads. */
async function wantedWorkers(url: string, key: string): Promise<number> {
  const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
  expect(answer.status).toBe(200)
  return ((await answer.json()) as FleetDemandResponse).wanted
}

async function onlyWorker(system: ProviderSystem): Promise<WorkerView> {
  const { workers } = await system.get<FleetResponse>('/api/workers')
  expect(workers).toHaveLength(1)
  return workers[0] as WorkerView
}

/** What a command in the container prints; undefined when it fails, or when the container does not run yet. */
function tryExec(worker: RunningContainer, command: readonly string[]): string | undefined {
  try {
    return worker.exec(...command)
  } catch {
    return undefined
  }
}

/** Waits until the agent of a run waits for its gate. */
const waitForGate = (worker: RunningContainer): Promise<void> =>
  until(
    'the agent is at its gate',
    () => tryExec(worker, ['sh', '-c', 'cat /proc/[0-9]*/cmdline; true'])?.includes('/out/go') === true,
  )
const openGate = (worker: RunningContainer, { id }: Run): void =>
  void worker.exec('touch', `${DATA}/sandboxes/${id}/out/go`)
const zombiesIn = (worker: RunningContainer): number =>
  worker.exec('sh', '-c', 'cat /proc/[0-9]*/status 2>/dev/null; true').match(/^State:\tZ/gm)?.length ?? 0

const outcomeOf = ({ status, error, prState }: Run) => ({ status, error, prState })

describeIf(canRunContainers(), 'needs runc and root')('a worker in a container', () => {
  test(
    'of a printed job is wanted for a run, joins with the key of a Secret, takes the run, and ends',
    async () => {
      const system = await openSystem()
      const { pod, key, start } = await openPod(system, 'jobs')
      expect(await wantedWorkers(pod.demandUrl, key)).toBe(0)
      const issue = system.createTicket('Say hello', [`run ${GATE}`, ...WORK])
      await until('one worker is wanted', async () => (await wantedWorkers(pod.demandUrl, key)) === 1)
      const worker = start()
      await waitForGate(worker)
      expect(tryExec(worker, pod.probe)).toBe('')
      expect(await wantedWorkers(pod.demandUrl, key)).toBe(0)
      openGate(worker, await system.waitForStatus(issue, 'running'))
      expect(outcomeOf(await system.waitForEnd(issue))).toMatchObject({
        status: 'completed',
        prState: 'open',
      })
      expect(await worker.exit).toBe(0)
      expect(worker.err()).not.toContain('other users')
      expect(`${worker.out()}${worker.err()}`).not.toContain(key)
    },
    TEST_MS_MAX,
  )

  test(
    'of a printed StatefulSet executes runs, drains before its stop, and is the same worker afterwards',
    async () => {
      const system = await openSystem()
      const { pod, start } = await openPod(system, 'statefulset')
      const worker = start()
      const first = await system.waitForEnd(system.createTicket('Say hello', WORK))
      expect(outcomeOf(first)).toEqual({ status: 'completed', error: undefined, prState: 'open' })

      const issue = system.createTicket('Say it again', [
        'run cat /proc/sys/kernel/hostname',
        `run ${GATE}`,
        ...WORK,
      ])
      const running = await system.waitForStatus(issue, 'running')
      await waitForGate(worker)
      // The image has a first process that collects what sandboxes leave behind; a root of this machine has none.
      if (image !== undefined) expect(zombiesIn(worker)).toBe(0)
      const drained = worker.run(...pod.preStop)
      await until('it drains', async () => (await onlyWorker(system)).state === 'draining')
      openGate(worker, running)
      const second = await system.waitForEnd(issue)
      expect(outcomeOf(second)).toEqual({ status: 'completed', error: undefined, prState: 'open' })
      expect(await drained).toBe(0)
      worker.signal('SIGTERM')
      expect(await worker.exit).toBe(0)
      const events = (await system.host.request(`/api/runs/${second.id}/events`)).body
      expect(JSON.stringify(events)).toContain('"stdout":"sandbox"')

      start()
      expect((await system.waitForEnd(system.createTicket('Once more', WORK))).status).toBe('completed')
      expect(await onlyWorker(system)).toMatchObject({ state: 'active', connection: 'online' })
    },
    TEST_MS_MAX,
  )

  test(
    'that is killed in the middle of a run executes it again when a container with its data starts',
    async () => {
      const system = await openSystem()
      const volume = volumeFor(POD)
      const killed = await startWorker(system, {}, volume)
      const issue = system.createTicket('Say hello', [`run ${GATE}`, ...WORK])
      await system.waitForStatus(issue, 'running')
      await waitForGate(killed)
      killed.signal('SIGKILL')
      expect(await killed.exit).not.toBe(0)
      const next = await startWorker(system, {}, volume)
      await waitForGate(next)
      openGate(next, await system.waitForStatus(issue, 'running'))
      expect((await system.waitForEnd(issue)).status).toBe('completed')
    },
    TEST_MS_MAX,
  )

  testIf(image !== undefined, 'a long round, run by npm run test:image')(
    'of a printed job that is lost makes a worker wanted again, whose job does the run',
    async () => {
      const system = await openSystem({ heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 0 })
      const { pod, key, start } = await openPod(system, 'jobs')
      const issue = system.createTicket('Say hello', [`run ${GATE}`, ...WORK])
      await until('one worker is wanted', async () => (await wantedWorkers(pod.demandUrl, key)) === 1)
      const lost = start()
      await waitForGate(lost)
      lost.signal('SIGKILL')
      await lost.exit
      const isWanted = async () => (await wantedWorkers(pod.demandUrl, key)) === 1
      await until('one worker is wanted again', isWanted, LOST_MS_MAX)
      const { start: startNext } = await openPod(system, 'jobs')
      const next = startNext()
      await waitForGate(next)
      openGate(next, await system.waitForStatus(issue, 'running'))
      expect(outcomeOf(await system.waitForEnd(issue))).toMatchObject({
        status: 'completed',
        prState: 'open',
      })
      expect(await next.exit).toBe(0)
      expect(await system.get<Run[]>('/api/runs')).toHaveLength(1)
    },
    TEST_MS_MAX,
  )

  describe('that can make no sandbox ends with 69 and names what to change', () => {
    const KUBERNETES = { KUBERNETES_SERVICE_HOST: '10.96.0.1' }
    test.each<[string, Partial<ContainerPlan>, RegExp]>([
      [
        'in a pod with a covered /proc',
        { proc: 'masked', environment: KUBERNETES },
        /parts of \/proc are covered .*procMount: Unmasked .*hostUsers: false/,
      ],
      [
        'in another container with a covered /proc',
        { proc: 'masked' },
        /parts of \/proc are covered .*runtime/,
      ],
      [
        'in a pod whose filter refuses namespaces',
        { capabilities: [], environment: KUBERNETES },
        /system call filter refuses namespaces.*add: \[SYS_ADMIN\]/,
      ],
      [
        'in a pod that runs as root',
        { uid: 0, environment: KUBERNETES },
        /root in this container .*runAsUser: 1000/,
      ],
    ])('%s', async (_, more, message) => {
      const worker = startAlone(more)
      expect([await worker.exit, worker.err()]).toEqual([69, expect.stringMatching(message)])
    })
  })

  test(
    'that may not name its host goes on without, and its sandboxes keep the name of the pod',
    async () => {
      const system = await openSystem()
      await startWorker(system, { filter: 'CRI-O', capabilities: [] })
      const run = await system.waitForEnd(
        system.createTicket('Say hello', ['run cat /proc/sys/kernel/hostname', ...WORK]),
      )
      expect(run.status).toBe('completed')
      const events = (await system.host.request(`/api/runs/${run.id}/events`)).body
      expect(JSON.stringify(events)).toContain('"stdout":"worker-pod"')
    },
    TEST_MS_MAX,
  )
})
