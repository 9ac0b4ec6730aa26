/** The blockers of a run with their ends or states, `ENG-412 failed`: each leads to its run. */
import type { Run, RunStatus } from '../../../protocol/run.ts'
import { runAddress } from '../addresses.ts'
import { runs } from '../state/records.ts'

/** Empty while no run of a blocker is known, since the host's reason then says as much. */
export const knownBlockers = (run: Run): readonly Blocker[] => {
  const blockers = blockersOf(run, runs.value.values())
  return blockers.some((blocker) => blocker.run !== undefined) ? blockers : []
}

export function BlockerWords({ blockers }: { readonly blockers: readonly Blocker[] }) {
  return (
    <>
      {blockers.map(({ name, run, situation }, at) => (
        <span key={name}>
          {at > 0 && ', '}
          {run === undefined ? name : <a href={runAddress(run.id)}>{name}</a>}
          {situation !== undefined && ` ${situation}`}
        </span>
      ))}
    </>
  )
}

/** A ticket that a queued run waits for, with its newest run and what became of it. */
export interface Blocker {
  readonly name: string
  /** Undefined for a run that the page does not know. */
  readonly run: Run | undefined
  /** `failed`, `is running`; undefined without a run. */
  readonly situation: string | undefined
}

const SITUATIONS: Readonly<Record<RunStatus, string>> = {
  queued: 'is queued',
  preparing: 'is preparing',
  running: 'is running',
  finalizing: 'is finalizing',
  completed: 'is completed, but not closed',
  failed: 'failed',
  cancelled: 'was cancelled',
}

/** The host's reason names the open blockers; the ticket's own list may name closed ones too. */
const BLOCKED = /^waiting for (?!the tracker, )(.+?)(?: and \d+ more)?(?:; .*)?$/s

/** Blockers that a person must try again come first. */
export function blockersOf({ queueReason = '' }: Pick<Run, 'queueReason'>, runs: Iterable<Run>): Blocker[] {
  const names = BLOCKED.exec(queueReason)?.[1]?.split(', ') ?? []
  if (names.length === 0) return []
  const newest = new Map<string, Run>()
  for (const run of runs) {
    const known = newest.get(run.ticket.identifier)
    if (known === undefined || run.createdAt > known.createdAt) newest.set(run.ticket.identifier, run)
  }
  const blockers = names.map((name) => {
    const run = newest.get(name)
    return { name, run, situation: run && SITUATIONS[run.status] }
  })
  return [...blockers.filter(hasStopped), ...blockers.filter((blocker) => !hasStopped(blocker))]
}

const hasStopped = ({ run }: Blocker): boolean => run?.status === 'failed' || run?.status === 'cancelled'
