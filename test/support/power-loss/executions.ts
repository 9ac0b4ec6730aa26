/**
 * These rules judge what a power loss left of the executions of runs.
 *
 * The costs of an execution count once, also when they were reported behind the end of its lease. A follow-up that the
 * host had named is there, and no execution that the worker has reported to its end begins again.
 */
import type { CostEntry } from '../../../protocol/cost.ts'
import type { Run } from '../../../protocol/run.ts'
import { isOver, type LocalSystem } from '../local-system.ts'
import type { Statements } from './statements.ts'

export type StoredRuns = ReadonlyMap<string, Run>
/** The texts of stored events, by run. */
export type StoredEvents = ReadonlyMap<string, readonly string[]>

/** Returns what the host lacks although it has acknowledged or shown it. */
export function findLostExecutions(sent: Statements, whole: Statements, stored: StoredRuns): string[] {
  const lost: string[] = []
  for (const [id, end] of sent.earlierEnds)
    if (stored.get(id)?.finishedAt === end) lost.push(`the follow-up of ${id}`)
  for (const leaseId of sent.settled)
    if (!isCharged(leaseId, sent.settlements.get(leaseId), sent, stored))
      lost.push(`the settlement of ${leaseId}`)
  for (const [leaseId, seq] of sent.acknowledged)
    if (seq === Number.POSITIVE_INFINITY && !hasEnded(leaseId, sent, whole, stored))
      lost.push(`the completion of ${leaseId}`)
  return lost
}

/** Returns what the host lacks although the worker has reported it. */
export function findMissingExecutions(sent: Statements, whole: Statements, stored: StoredRuns): string[] {
  const missing: string[] = []
  for (const [leaseId, costs] of sent.settlements)
    if (!isCharged(leaseId, costs, sent, stored)) missing.push(`the settlement of ${leaseId}`)
  for (const leaseId of sent.reported.keys())
    if (!hasEnded(leaseId, sent, whole, stored)) missing.push(`the completion of ${leaseId}`)
  return missing
}

/** Whether the costs of an execution that the worker has reported to its end count, and its run is over. */
function hasEnded(leaseId: string, sent: Statements, whole: Statements, stored: StoredRuns): boolean {
  const completion = sent.completionOf(leaseId)
  if (completion === undefined) return true
  const run = stored.get(sent.runOfLease.get(leaseId) ?? '')
  const isLast = whole.leasesOf(run?.id ?? '').at(-1) === leaseId
  const isAtEnd = !isLast || (run !== undefined && isOver(run))
  return isAtEnd && isCharged(leaseId, completion.outcome.costs, sent, stored)
}

function isCharged(
  leaseId: string,
  costs: readonly CostEntry[] = [],
  sent: Statements,
  stored: StoredRuns,
): boolean {
  const number = sent.followUps.get(leaseId)?.number
  const charged = stored.get(sent.runOfLease.get(leaseId) ?? '')?.costs ?? []
  return costs.every(({ label, ...spent }) =>
    charged.some(
      (entry) =>
        Object.entries(spent).every(([key, value]) => isEqual(value, { ...entry }[key])) &&
        (number === undefined || entry.label === `follow-up ${number}`),
    ),
  )
}

/** Returns what has happened twice: costs of one execution, or an execution that had been reported. */
export function findRepeatedExecutions(
  sent: Statements,
  whole: Statements,
  stored: StoredRuns,
  events: StoredEvents,
): string[] {
  const twice: string[] = []
  for (const { id, costs } of stored.values()) {
    const labels = costs.map(({ label }) => label)
    if (new Set(labels).size < labels.length) twice.push(`${id} is charged for ${labels}`)
    const leases = sent.leasesOf(id)
    const last = whole.leasesOf(id).at(-1)
    const isReported = last !== undefined && sent.completionOf(last) !== undefined
    const begun = (events.get(id) ?? []).filter((text) => BEGIN.test(text)).length
    // An execution that was cut off begins again, and so does one whose dispatch was not sent.
    if (begun > leases.length + (isReported ? 0 : 1))
      twice.push(`${id} has begun ${begun} times for ${leases.length} leases`)
  }
  return twice
}

const BEGIN = /"type":"status".*"to":"preparing"/

/** Returns what the code host has of each run whose last execution the worker has reported. */
export function findPublished(system: LocalSystem, sent: Statements, whole: Statements): string[] {
  const [pushes, pulls] = [system.pushes('plain'), system.pulls('plain')]
  return [...whole.runs.values()].flatMap(({ id, result, prUrl }) => {
    if (sent.completionOf(whole.leasesOf(id).at(-1) ?? '') === undefined) return []
    const pushed = pushes.filter((ref) => ref === `refs/heads/${result?.branch}`).length
    const pull = pulls.find(({ number }) => prUrl?.endsWith(`/${number}.json`))
    return [`${id}: ${pushed} pushes, ${pull?.comments?.length} comments`]
  })
}

const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
