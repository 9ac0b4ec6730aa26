/**
 * Finds out whether the host of this data directory runs, and reads what it says of itself, its workers and its tracker.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '../../client/client.ts'
import { ForeignPeer, HostNotFound, HostRefusal, HostUnreachable } from '../../client/errors.ts'
import type { AttentionItem } from '../../protocol/attention.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { HealthResponse, WorkerView } from '../../protocol/worker.ts'
import { messageOf } from '../../store/errors.ts'
import { type FoundOwner, findOwner } from '../../store/lock.ts'
import type { CommandContext } from '../client/run-command.ts'

export interface AnsweringHost {
  readonly is: 'running'
  readonly url: string
  readonly health: HealthResponse
  readonly tracker: TrackerStatus
  readonly workers: readonly WorkerView[]
  readonly attention: readonly AttentionItem[]
  /** Prometheus text. */
  readonly metrics: string
}

export type FoundHost =
  | AnsweringHost
  /** `staleLaunch`: a host that was killed left its launch.json. `foreign`: another user has its port now. */
  | { readonly is: 'none'; readonly staleLaunch?: string; readonly foreign?: ForeignPeer }
  /** A process holds the data directory, or an address is given, and no useful answer comes. */
  | { readonly is: 'silent'; readonly reason: string; readonly owner?: FoundOwner }
  | { readonly is: 'refusing'; readonly reason: string; readonly cure?: string }

/** A host answers within milliseconds. */
const ANSWER_MS_MAX = 5_000

export async function findRunningHost(context: CommandContext, dataDir: string): Promise<FoundHost> {
  const { client, connection } = context
  try {
    const { url } = await connection.address()
    return { is: 'running', url, ...(await readHost(client)) }
  } catch (error) {
    // Another program may use the port of a host that was killed.
    const isOther = error instanceof HostRefusal && error.status === 401 && ownerOf(dataDir) === undefined
    const isForeign = error instanceof ForeignPeer && ownerOf(dataDir) === undefined
    const isGone = (isOther || isForeign) && (process.env.SWITCHYARD_URL ?? '') === ''
    if ((error instanceof HostRefusal || error instanceof ForeignPeer) && !isGone)
      return {
        is: 'refusing',
        reason: error.message,
        ...(error.cure === undefined ? {} : { cure: error.cure }),
      }
    const isSilence = error instanceof HostNotFound || error instanceof HostUnreachable
    if (!isSilence && !(error instanceof HostRefusal)) throw error
    return await explainSilence(error, dataDir)
  }
}

async function readHost(client: Client): Promise<Omit<AnsweringHost, 'is' | 'url'>> {
  const options = { timeoutMs: ANSWER_MS_MAX }
  const [health, tracker, { workers }, { items: attention }, metrics] = await Promise.all([
    client.health({}, options),
    client.readTrackerStatus({}, options),
    client.listWorkers({}, options),
    // An older host may lack these routes.
    client.readAttention({}, options).catch(() => ({ items: [] })),
    client.readMetrics({}, options).catch(() => ''),
  ])
  return { health, tracker, workers, attention, metrics }
}

async function explainSilence(error: Error, dataDir: string): Promise<FoundHost> {
  const reason = messageOf(error)
  const owner = ownerOf(dataDir)
  if (owner !== undefined) return { is: 'silent', reason, owner }
  if ((process.env.SWITCHYARD_URL ?? '') !== '') return { is: 'silent', reason }
  const launch = join(dataDir, 'launch.json')
  const isStale = await readFile(launch).then(
    () => true,
    () => false,
  )
  return {
    is: 'none',
    ...(isStale ? { staleLaunch: launch } : {}),
    ...(error instanceof ForeignPeer ? { foreign: error } : {}),
  }
}

/** A folder that cannot be read has a finding of its own. */
function ownerOf(dataDir: string): FoundOwner | undefined {
  try {
    return findOwner(dataDir)
  } catch {
    return undefined
  }
}
