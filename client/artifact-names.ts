/**
 * The names of a run's artifacts: those of its result, and of a run whose finished work waits to be published those of
 * its log. Such a run is queued and has no result yet, and the bundle of its commits is there already.
 */
import type { Run, RunEvent } from '../protocol/run.ts'
import { hasEnded } from './run-events.ts'

export const waitsToPublish = (run: Run): boolean => run.sandbox.unpublished === true && !hasEnded(run)

/** `events`: the last ones of the run's log. */
export function artifactNames(run: Run, events: readonly RunEvent[]): string[] {
  const named = run.result?.artifacts ?? []
  if (!waitsToPublish(run)) return [...named]
  return [
    ...new Set([...named, ...events.flatMap((event) => (event.type === 'artifact' ? [event.name] : []))]),
  ]
}
