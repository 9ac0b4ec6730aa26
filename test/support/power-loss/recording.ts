/**
 * A recording holds what real processes did with their files and said over TCP, from their first start on.
 *
 * A host and a worker execute runs of several kinds for a person, and the host is killed in between.
 */
import { cpSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { WebSocket } from 'undici'
import type { Run } from '../../../protocol/run.ts'
import type { CommandProcess } from '../command-process.ts'
import { agentRequest, GATE, hasAnswered, LocalSystem } from '../local-system.ts'
import { until } from '../until.ts'
import { compileRecorder, type Entry, type FoundFile, findFiles, readRecording } from './recorded-disk.ts'
import { Statements } from './statements.ts'

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
  /** Everything that was sent until the end. */
  readonly whole: Statements
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
  cpSync(system.code, `${system.code}.recorded`, { recursive: true })
  // The processes that start on the images are not recorded.
  delete env.LD_PRELOAD
  const entries = readRecording(join(system.folder, 'recording'))
  return { system, found, entries, whole: new Statements(entries, entries.length) }
}

/** A run with a long log, one with all features, one that does not end, and one that a person cancels. */
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
  system.writeTicket('ENG-4', ['say I stay.', `run ${GATE}`], later)
}

async function work(system: LocalSystem): Promise<CommandProcess> {
  await watch(system)
  const worker = await system.pairWorker(['--drain-seconds', '0'])
  await change(system, 1)
  const loud = await system.waitForEnd('ENG-1')
  await followUp(system, loud)
  const file = join(system.dataDir, 'runs', loud.id, 'events.jsonl')
  await until('the long log to be in its file', () => sizeOf(file) >= LOUD_BYTES_MIN)
  // Most of the moments are behind the first file.
  for (const name of ['ENG-2', 'ENG-3', 'ENG-4'])
    await system.host.request(`/api/tickets/${name}/run`, { method: 'POST' })
  await change(system, 2)
  const followed = await system.waitForEnd('ENG-1')
  expect([loud, followed].map(({ status }) => status)).toEqual(['completed', 'completed'])
  // A worker forgets with a lease what it has reported of it and the host lacks.
  for (const name of ['ENG-3', 'ENG-4']) await waitForAnswer(system, name)
  return restart(system, worker)
}

/** The reviewer's remark gives the agent something to do, which costs something. */
async function followUp(system: LocalSystem, { id }: Run): Promise<void> {
  const [pull] = system.pulls('plain')
  const body = agentRequest('append a.txt', '  c', 'say It says c now.')
  const ask = (path: string, more = {}) => system.host.request(path, { method: 'POST', ...more })
  const comment = await ask(`/api/pulls/plain/${pull?.number}/comment`, { body: { body } })
  const answer = await ask(`/api/runs/${id}/followup`)
  expect([comment.status, answer.status]).toEqual([200, 200])
}

/**
 * The power may also fail during a later start, while the worker has reports for the host. Without its host, the worker
 * finishes a run, and gives up two when it stops: one is cancelled meanwhile, the other begins again. Their costs are
 * reported behind the end of their leases.
 */
async function restart(system: LocalSystem, worker: CommandProcess): Promise<CommandProcess> {
  system.host.process.kill('SIGKILL')
  await system.host.exit
  await until('the work is published', () => system.pulls('plain').length === 2)
  worker.process.kill('SIGTERM')
  await worker.exit
  await system.startHost()
  await watch(system)
  const { id } = await system.waitForRun('ENG-4', 'known', () => true)
  await system.host.request(`/api/runs/${id}/cancel`, { method: 'POST' })
  const next = system.startWorker(worker.dataDir)
  await change(system, 3)
  expect((await system.waitForEnd('ENG-2')).status).toBe('completed')
  const isCharged = ({ costs }: Run) => costs.length === 1
  await system.waitForRun('ENG-4', 'charged', (run) => run.status === 'cancelled' && isCharged(run))
  await system.waitForRun('ENG-3', 'begun again', (run) => run.status === 'running' && isCharged(run))
  return next
}

async function waitForAnswer(system: LocalSystem, name: string): Promise<void> {
  const run = await system.waitForStatus(name, 'running')
  await until(`the agent of ${name} waits`, async () => hasAnswered(await system.events(run)))
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
