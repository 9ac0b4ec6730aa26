/**
 * Starts a host and a worker on what a power loss left of their files, and returns which statements do not hold.
 *
 * First the host alone has to have everything that it had shown or acknowledged. Then the worker has to bring what it
 * had reported and the host may have lost with its power.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REGISTERED_MESSAGE } from '../../../actors/daemon/host-connection.ts'
import { realRandom } from '../../../bin/process/clock.ts'
import type { WorkerFrame, WorkerFrameOf } from '../../../protocol/frames.ts'
import type { MemoriesResponse, Run, RunEvent } from '../../../protocol/run.ts'
import type { FleetResponse } from '../../../protocol/worker.ts'
import { checkDataDir } from '../../../store/check-data-dir.ts'
import type { LocalSystem } from '../local-system.ts'
import { UNTIL_MS_MAX, until } from '../until.ts'
import {
  findLostExecutions,
  findMissingExecutions,
  findPublished,
  findRepeatedExecutions,
} from './executions.ts'
import type { Statements } from './statements.ts'

const POLL_EVERY_MS = 50
/** A line of the log that tells an error. */
const ERROR = /"level":(50|60)/

export interface JudgedImage {
  readonly system: LocalSystem
  /** The worker's directory, if the worker has what it needs for a start without a person. */
  readonly workerDir: string | undefined
  readonly sent: Statements
  /** Everything that was sent until the end of the recording. */
  readonly whole: Statements
  /** Tickets that the host had moved. */
  readonly movedTickets: readonly string[]
}

type NumberedFrame = WorkerFrame & { readonly seq: number }

export async function judgeImage(image: JudgedImage): Promise<string[]> {
  const { system, workerDir } = image
  const damaged = [...(await findDamage(system.dataDir)), ...(workerDir ? await findDamage(workerDir) : [])]
  if (damaged.length > 0) return damaged
  const host = await system.startHost().catch((error: Error) => error)
  if (host instanceof Error) return [`the host does not start: ${host.message}`]
  const lost = await findLostOnHost(image)
  // A worker cannot bring what the host should have.
  if (workerDir !== undefined && lost.length === 0) lost.push(...(await findNotBrought(image, workerDir)))
  lost.push(...findErrors(host.err()))
  host.process.kill('SIGKILL')
  await host.exit
  return lost
}

async function findNotBrought({ system, sent, whole }: JudgedImage, workerDir: string): Promise<string[]> {
  const lost: string[] = []
  const publishedBefore = findPublished(system, sent, whole)
  const worker = system.startWorker(workerDir)
  const seen = new Map<string, string[]>()
  let runs = new Map<string, Run>()
  const findMissing = () => [
    ...findUnresent(sent, seen),
    ...findMissingExecutions(sent, whole, runs),
    ...[...sent.settledUsage.values()].flatMap((frame) => findLostUsage(system, frame)),
  ]
  const isThere = async () => {
    if (worker.process.exitCode !== null) throw new Error(`it ended with ${worker.process.exitCode}`)
    if (!worker.err().includes(REGISTERED_MESSAGE)) return false
    runs = await readRuns(system)
    if (findMissingExecutions(sent, whole, runs).length > 0) return false
    await readEvents(system, sent, seen)
    return findMissing().length === 0
  }
  await until('the worker to bring its reports', isThere, UNTIL_MS_MAX, POLL_EVERY_MS).catch(
    (error: Error) => {
      lost.push(`${error.message}: ${findMissing()}\n${worker.err().slice(-1_000)}`)
    },
  )
  lost.push(...findRepeatedExecutions(sent, whole, runs, seen))
  const published = findPublished(system, sent, whole)
  if (published.join() !== publishedBefore.join()) lost.push(`${publishedBefore} became ${published}`)
  lost.push(...findErrors(worker.err()))
  worker.process.kill('SIGKILL')
  await worker.exit
  return lost
}

/** Lists the damage that `switchyard check-data` names; a folder that is no data directory yet has none. */
async function findDamage(dataDir: string): Promise<string[]> {
  const found = await checkDataDir(dataDir, { random: realRandom }).catch(() => undefined)
  return (found?.damage ?? []).map(({ message }) => message)
}

const findErrors = (log: string): string[] => log.split('\n').filter((line) => ERROR.test(line))

// ---- the host --------------------------------------------------------------------------------------------------------

async function findLostOnHost({ system, sent, whole, movedTickets }: JudgedImage): Promise<string[]> {
  const lost: string[] = []
  const get = async <T>(path: string) => (await system.host.request(path)).body as T
  const runs = await readRuns(system)
  for (const id of sent.runIds) if (!runs.has(id)) lost.push(`the run ${id}`)
  for (const shown of sent.runs.values())
    lost.push(...findLostOfRun(shown, runs.get(shown.id), whole.runs.get(shown.id)))
  lost.push(...findLostExecutions(sent, whole, runs))
  for (const [leaseId, frame] of sent.settledUsage)
    if (sent.settled.has(leaseId))
      lost.push(...findLostUsage(system, frame).map((text) => `settled: ${text}`))
  for (const ticket of movedTickets)
    if (![...runs.values()].some((run) => run.ticket.identifier === ticket))
      lost.push(`${ticket} was moved and has no run`)
  const config = JSON.stringify(await get('/api/config'))
  for (const name of sent.patched) if (!config.includes(`"${name}"`)) lost.push(`the setting ${name}`)
  const { workers } = await get<FleetResponse>('/api/workers')
  if (sent.isEnrolled && workers.length === 0) lost.push('the enrolled worker')
  const events = new Map<string, string[]>()
  await readEvents(system, sent, events)
  for (const event of sent.events)
    if (events.get(event.runId)?.[event.index] !== JSON.stringify(event))
      lost.push(`event ${event.index} of ${event.runId}`)
  const memories = JSON.stringify(await get<MemoriesResponse>('/api/memories'))
  for (const [leaseId, frames] of sent.reported) {
    const seq = sent.acknowledged.get(leaseId) ?? 0
    const runId = sent.runOfLease.get(leaseId) ?? ''
    const acknowledged = [...frames.values()].filter((frame) => frame.seq <= seq)
    lost.push(...findMissing(acknowledged, events.get(runId) ?? []).map((text) => `acknowledged: ${text}`))
    lost.push(...(await findLostFiles(system, runId, acknowledged)))
    for (const frame of acknowledged)
      if (frame.type === 'run-memories')
        for (const fact of frame.facts) if (!memories.includes(fact)) lost.push(`the memory ${fact}`)
  }
  return lost
}

/** Costs may have come in since, and a follow-up may have begun whose end the recording shows. */
function findLostOfRun(shown: Run, stored: Run | undefined, last: Run | undefined): string[] {
  if (stored === undefined || shown.finishedAt === undefined) return []
  if (stored.finishedAt === undefined && last?.finishedAt !== shown.finishedAt) return []
  const end = ({ status, finishedAt, prUrl }: Run) => JSON.stringify({ status, finishedAt, prUrl })
  const costs = stored.costs.map((entry) => JSON.stringify(entry))
  const isSame = end(shown) === end(stored) && shown.costs.every((e) => costs.includes(JSON.stringify(e)))
  return isSame
    ? []
    : [`${shown.id} ended as ${end(shown)} for ${shown.costs.length} costs and is ${end(stored)}: ${costs}`]
}

async function readRuns(system: LocalSystem): Promise<Map<string, Run>> {
  const { body } = await system.host.request('/api/runs?limit=1000')
  return new Map((body as Run[]).map((run) => [run.id, run]))
}

/** Artifacts and archived usage. */
async function findLostFiles(
  system: LocalSystem,
  runId: string,
  acknowledged: readonly NumberedFrame[],
): Promise<string[]> {
  const lost: string[] = []
  const artifacts = new Map<string, Buffer[]>()
  for (const frame of acknowledged) {
    if (frame.type === 'run-usage-snapshot') lost.push(...findLostUsage(system, frame))
    if (frame.type !== 'run-artifact') continue
    const parts = [...(artifacts.get(frame.name) ?? []), Buffer.from(frame.data, 'base64')]
    artifacts.set(frame.name, parts)
    const path = join(system.dataDir, 'runs', runId, 'artifacts', frame.name)
    if (frame.final && readText(path) !== Buffer.concat(parts).toString('latin1'))
      lost.push(`the artifact ${frame.name}`)
  }
  return lost
}

function findLostUsage(
  { dataDir }: LocalSystem,
  { snapshot }: WorkerFrameOf<'run-usage-snapshot'>,
): string[] {
  const { projectKey, sessionId, subagentId, entries } = snapshot
  const name = subagentId === undefined ? `${sessionId}.json` : join(sessionId, `${subagentId}.json`)
  const text = readText(join(dataDir, 'usage', projectKey, name))
  return entries?.some(({ id }) => !text.includes(JSON.stringify(id))) ? [`the usage ${name}`] : []
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

// ---- events ----------------------------------------------------------------------------------------------------------

/** Reads the events of all runs with leases, and of all runs of which events were shown. */
async function readEvents(system: LocalSystem, sent: Statements, into: Map<string, string[]>): Promise<void> {
  for (const runId of new Set([...sent.runOfLease.values(), ...sent.events.map((event) => event.runId)])) {
    const { status, body } = await system.host.request(`/api/runs/${runId}/events`)
    into.set(runId, status === 200 ? (body as RunEvent[]).map((event) => JSON.stringify(event)) : [])
  }
}

function findUnresent(sent: Statements, events: ReadonlyMap<string, readonly string[]>): string[] {
  return [...sent.reported].flatMap(([leaseId, frames]) =>
    findMissing([...frames.values()], events.get(sent.runOfLease.get(leaseId) ?? '') ?? []),
  )
}

/** Returns the reported events that are not stored, or not in their order. */
function findMissing(frames: readonly NumberedFrame[], stored: readonly string[]): string[] {
  const events = stored.map((text) => {
    const { runId: _, index: __, ...event } = JSON.parse(text) as RunEvent
    return contentOf(event)
  })
  const missing: string[] = []
  let at = 0
  for (const frame of [...frames].sort((a, b) => a.seq - b.seq)) {
    if (frame.type !== 'run-event') continue
    const found = events.indexOf(contentOf(frame.event), at)
    if (found < 0) missing.push(`frame ${frame.seq}, ${JSON.stringify(frame.event).slice(0, 200)}`)
    else at = found + 1
  }
  return missing
}

/** The keys of both are in different orders. The host alone knows which execution of the run costs are of. */
const contentOf = (event: object): string =>
  JSON.stringify(
    Object.entries(event)
      .map(([key, value]) => [key, key === 'entry' ? { ...value, label: '' } : value])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
