/**
 * A recording holds what real processes did with their files and said over TCP, from their first start on.
 *
 * A host and a worker execute runs of several kinds for a person, and the host is killed in between.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { WebSocket } from 'undici'
import type { CommandProcess } from '../command-process.ts'
import { GATE, LocalSystem } from '../local-system.ts'
import { until } from '../until.ts'
import { compileRecorder, type Entry, type FoundFile, findFiles, readRecording } from './recorded-disk.ts'

/** Below the system's folder: host and worker lose their power, the tracker and the pairing token do not. */
export const [HOST, WORKER, TICKETS, TOKEN] = ['host', 'worker1', 'tickets', 'token1'] as const
/** A sync takes as long as on a good disk, so that much is said while one is under way. */
const SYNC_USEC = '1000'
/** Enough for its events to leave the database. */
const LOUD_LINES = 2_500
const LOUD_BYTES_MIN = 32 * 1024

export interface Recording {
  readonly system: LocalSystem
  readonly found: readonly FoundFile[]
  readonly entries: readonly Entry[]
}

export async function record(): Promise<Recording> {
  const library = compileRecorder()
  const env: NodeJS.ProcessEnv = { POWER_LOSS_SYNC_USEC: SYNC_USEC }
  let found: FoundFile[] = []
  const system = await LocalSystem.open({
    beforeStart: (started) => {
      const { folder, dataDir, tickets } = started
      writeTickets(started)
      found = [...findFiles(dataDir), ...findFiles(tickets)]
      const folders = [HOST, WORKER, TICKETS, TOKEN].map((name) => join(folder, name)).join(':')
      return Object.assign(env, {
        LD_PRELOAD: library,
        POWER_LOSS_LOG: join(folder, 'recording'),
        POWER_LOSS_FOLDERS: folders,
      })
    },
  })
  const worker = await work(system)
  // A host that stops finishes the move of events that it has begun.
  system.host.process.kill('SIGTERM')
  await system.host.exit
  worker.process.kill('SIGKILL')
  await worker.exit
  // The processes that start on the images are not recorded.
  delete env.LD_PRELOAD
  return { system, found, entries: readRecording(join(system.folder, 'recording')) }
}

/** A run with a long log, one with all features, and one that does not end. */
function writeTickets(system: LocalSystem): void {
  system.writeTicket('ENG-1', [`spam ${LOUD_LINES}`, 'write a.txt', '  b', 'commit Say b'])
  const later = { state: 'Backlog' }
  const everything = [
    'say I look around.',
    'artifact report.md',
    '  # All is well',
    'run head -c 700000 /dev/urandom > $SWITCHYARD_ARTIFACTS/noise.bin',
    'remember The gate squeaks on Mondays',
    'write src/hello.txt',
    '  Hello!',
    'commit Say hello',
    'say It says hello now.',
  ]
  system.writeTicket('ENG-2', everything, later)
  system.writeTicket('ENG-3', ['say I wait.', 'spam 10', `run ${GATE}`], later)
}

async function work(system: LocalSystem): Promise<CommandProcess> {
  await watch(system)
  const worker = await system.pairWorker()
  await change(system, 1)
  const loud = await system.waitForEnd('ENG-1')
  const file = join(system.dataDir, 'runs', loud.id, 'events.jsonl')
  await until('the long log to be in its file', () => sizeOf(file) >= LOUD_BYTES_MIN)
  // Most of the moments are behind the first file.
  for (const name of ['ENG-2', 'ENG-3'])
    await system.host.request(`/api/tickets/${name}/run`, { method: 'POST' })
  await change(system, 2)
  await system.waitForGate(await system.waitForStatus('ENG-3', 'running'))
  // The power may also fail during a later start, while the worker has reports for the host.
  system.host.process.kill('SIGKILL')
  await system.host.exit
  await system.startHost()
  await watch(system)
  const run = await system.waitForEnd('ENG-2')
  await change(system, 3)
  expect([run.status, loud.status]).toEqual(['completed', 'completed'])
  return worker
}

/** The host shows what happens to a dashboard, until it ends. */
async function watch(system: LocalSystem): Promise<void> {
  const { url, token } = await system.host.waitForLaunch()
  const dashboard = new WebSocket(`${url.replace('http:', 'ws:')}/ws?token=${token}`)
  dashboard.addEventListener('error', () => {})
}

async function change(system: LocalSystem, n: number): Promise<void> {
  const patch = { repos: { [`patched-${n}`]: { remote: 'owner/name' } } }
  await system.host.request('/api/settings', { method: 'PUT', body: { patch } })
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0
