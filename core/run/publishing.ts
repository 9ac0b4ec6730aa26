/**
 * Rules of a run whose agent is done and whose work could not be published.
 *
 * The work waits in the sandbox of its worker, which publishes it again after 1, 2, 4 … 60 minutes for as long as the
 * sandbox is kept. No agent is asked meanwhile, so no work is paid twice. When the sandbox is lost, the run fails, and a
 * bundle of its commits stays among its artifacts.
 */
import type { RunFields } from '../../protocol/actor-snapshots.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { bundleAmong, isBundle, UNPUBLISHED_BUNDLE } from '../../protocol/kept-bundle.ts'
import { PUBLISH_AGAIN_MS_MIN, RUN_ARTIFACTS_MAX, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run, RunOptions, RunResult } from '../../protocol/run.ts'
import { truncate } from '../safe-text.ts'
import { sandboxHolder } from './follow-up.ts'
import { heldReason, withoutFoundKeys } from './found-keys.ts'
import { isInterruption } from './interruption.ts'
import { hasInstructions } from './run-options.ts'
import { markSandboxDiscarded, requeueRun } from './run-transitions.ts'

const PUBLISH_AGAIN_MS_MAX = 3_600_000
/** Refused tries to publish, of all runs with the same cause together, from which on a person is asked. */
const PUBLISH_TRIES_ATTENTION_MIN = 3

export type Publishing = NonNullable<RunFields['publishing']>
/** A person says that work is published although it holds the keys that they were shown. */
export type PublishWord = Pick<Publishing, 'anyway' | 'shownKeys'>

/** Whether the worker says that finished work waits in the sandbox to be published. */
export const isUnpublished = ({ status, failure }: RunOutcome): boolean =>
  status === 'failed' && failure === 'publish'

export const publishAgainMs = (tries: number): number =>
  Math.min(PUBLISH_AGAIN_MS_MIN * 2 ** (tries - 1), PUBLISH_AGAIN_MS_MAX)

/** Whether the next try lies further ahead than any pause, because the wall clock was set back since. */
export const isBeyondPause = (publishing: Publishing | null, now: number): boolean =>
  Date.parse(publishing?.nextAt ?? '') - now > PUBLISH_AGAIN_MS_MAX

export const publishingReason = (nextAt: string, why: string): string =>
  truncate(`publishing again at ${nextAt}: ${why}`, TEXT_CHARS_MAX)

/**
 * Queues a run again after its work could not be published.
 *
 * @param ended the record as the failed execution left it
 * @param result the result that the queued record keeps, which only a follow-up has
 */
export function waitToPublish(
  { error: _, result: reported, ...ended }: Run,
  result: RunResult | undefined,
  { before, why, now }: { readonly before: Publishing | null; readonly why: string; readonly now: string },
): { readonly run: Run; readonly publishing: Publishing } {
  const { foundKeys } = ended
  // A worker that ended meanwhile says nothing about the code host.
  const isOfCodeHost = !isInterruption(why)
  const isRefused = isOfCodeHost && foundKeys === undefined
  const tries = (before?.tries ?? 0) + (isRefused ? 1 : 0)
  const cause = isOfCodeHost || before === null || before.tries === 0 ? why : before.why
  const tryAt = new Date(Date.parse(now) + (isRefused ? publishAgainMs(tries) : 0)).toISOString()
  const nextAt = foundKeys === undefined ? tryAt : null
  const queued = requeueRun(
    result === undefined ? ended : { ...ended, result },
    foundKeys === undefined ? publishingReason(tryAt, cause) : heldReason(foundKeys),
    now,
  )
  return {
    run: queued,
    publishing: {
      tries,
      nextAt,
      why: cause,
      // The word was for other keys than those that are found now.
      ...(foundKeys === undefined && before !== null ? wordOf(before) : {}),
      startedAt: before?.startedAt ?? ended.startedAt ?? null,
      // Without an outcome the record is that of before.
      result: mergeResults(before?.result, reported === result ? undefined : reported) ?? null,
    },
  }
}

export const wordOf = ({ anyway, shownKeys }: PublishWord): PublishWord => ({
  ...(anyway === undefined ? {} : { anyway }),
  ...(anyway === undefined || shownKeys === undefined ? {} : { shownKeys }),
})

/** Runs whose finished work could not be published for the same cause. */
export interface RefusedWork {
  readonly cause: string
  readonly runs: readonly Run[]
}

/** A single refusal may be over a minute later; several are for a person, be they of one run or of several. */
export function refusedWork(
  waiting: Iterable<Pick<RunFields, 'publishing' | 'place'> & { readonly run: Run }>,
): RefusedWork[] {
  const found = new Map<string, { tries: number; runs: Run[] }>()
  for (const { run, publishing, place } of waiting) {
    // Such a run waits for a person's word, and nothing is refused.
    if (publishing === null || run.foundKeys !== undefined) continue
    // Each run pushes a branch of its own for the same cause.
    const branch = place?.branch ?? run.pull?.branch
    const cause = branch === undefined ? publishing.why : publishing.why.replaceAll(`${branch} `, '')
    const { tries, runs } = found.get(cause) ?? { tries: 0, runs: [] }
    found.set(cause, { tries: tries + publishing.tries, runs: [...runs, run] })
  }
  return [...found].flatMap(([cause, { tries, runs }]) =>
    tries < PUBLISH_TRIES_ATTENTION_MIN ? [] : [{ cause, runs }],
  )
}

/** An agent begins in a new checkout, a follow-up saves what it finds, or the sandbox is lost. */
export function dropUnpublished(run: Run): Run {
  const kept = withoutFoundKeys(run)
  if (kept.sandbox.unpublished === undefined) return kept
  const { unpublished: _, ...sandbox } = kept.sandbox
  return { ...kept, sandbox }
}

export interface PublishAgainFacts {
  /** Wall milliseconds; undefined while the wall clock counts as wrong. */
  readonly now: number | undefined
  /** The run's last worker, if it is enrolled. */
  readonly holder: { readonly publishes?: boolean | undefined } | undefined
}

/** Whether a retry publishes first: an agent is asked with instructions only, or when the work is gone. */
export function mayPublishAgain(run: Run, options: RunOptions, { now, holder }: PublishAgainFacts): boolean {
  if (run.status === 'completed' || run.sandbox.unpublished !== true || hasInstructions(options)) return false
  return holder?.publishes === true && sandboxHolder(run, now) !== undefined
}

/** A person retries an ended run that has unpublished work. The log says that no agent is asked. */
export function publishAgain(
  queued: Run,
  { result, startedAt }: Run,
  nextAt: string,
): { readonly run: Run; readonly publishing: Publishing } {
  const why = 'it has not been tried again yet'
  return {
    run: { ...queued, queueReason: publishingReason(nextAt, why) },
    publishing: { tries: 0, nextAt, why, startedAt: startedAt ?? null, result: result ?? null },
  }
}

/** Adds the artifacts of a later execution to those of an earlier one, whose summary stays unless there is a new one. */
export function mergeResults(
  earlier: RunResult | null | undefined,
  later: RunResult | undefined,
): RunResult | undefined {
  if (earlier == null || later === undefined) return later ?? earlier ?? undefined
  const { artifacts: before, summary } = earlier
  const artifacts = [...new Set([...before, ...later.artifacts])].slice(0, RUN_ARTIFACTS_MAX)
  return { ...(summary === undefined ? {} : { summary }), ...later, artifacts }
}

export const withoutBundle = (result: RunResult, bundle: string): RunResult => ({
  ...result,
  artifacts: result.artifacts.filter((name) => name !== bundle),
})

/** `reported`: the artifacts of a follow-up that failed, of which the bundles stay. */
export function withBundles(result: RunResult, reported: RunResult | null | undefined): RunResult {
  const bundles = (reported?.artifacts ?? []).filter(isBundle)
  if (bundles.length === 0) return result
  const others = result.artifacts.filter((name) => !bundles.includes(name))
  return { ...result, artifacts: [...others.slice(0, RUN_ARTIFACTS_MAX - bundles.length), ...bundles] }
}

/** The bundles that the record of a completed run names no more, because their commits are published. */
export function publishedBundles(
  publishing: Publishing | null | undefined,
  { status, result }: Run,
): string[] {
  const known = status === 'completed' ? (publishing?.result?.artifacts ?? []) : []
  return known.filter((name) => isBundle(name) && result?.artifacts.includes(name) !== true)
}

/** The end of a run whose sandbox with unpublished work is lost. `why`: a sentence. */
export function unpublishedError(why: string, result: RunResult | null | undefined, bundle: string): string {
  // Workers of earlier versions give all bundles of a run one name.
  const kept = [bundle, UNPUBLISHED_BUNDLE].find((name) => result?.artifacts.includes(name))
  const words =
    kept === undefined
      ? 'its commits are not among its artifacts'
      : `its commits are kept as the artifact ${kept} until you publish or discard them`
  return explainedBy(why, `; ${words}`)
}

/** The words before the place of the work; a discard replaces the rest. */
const KEPT_IN_SANDBOX = '; its work is kept in the sandbox on worker '

/** The error of an ended run whose work is not published and in its sandbox still. */
export function keptWorkError({ sandbox }: Run, why: string): string {
  const { workerName, workerId = '', retainedUntil = '' } = sandbox
  const place = `${KEPT_IN_SANDBOX}${workerName ?? workerId} until ${retainedUntil}`
  return explainedBy(
    why,
    `${place}: a retry publishes it, and a retry with instructions asks the agent again`,
  )
}

/** A long reason does not hide where the work is. */
const explainedBy = (why: string, place: string): string =>
  `${truncate(why, TEXT_CHARS_MAX - place.length)}${place}`

/** The record of an ended run whose sandbox was discarded. */
export const afterDiscard = (run: Run, now: string): Run =>
  afterWorkLost(markSandboxDiscarded(run, now), 'its sandbox was discarded')

/** The record of an ended run whose sandbox is lost: a retry does not publish its work any more. `lost`: a sentence. */
export function afterWorkLost(run: Run, lost: string): Run {
  const { error, result } = run
  const end = error?.lastIndexOf(KEPT_IN_SANDBOX) ?? -1
  if (error === undefined || end === -1) return dropUnpublished(run)
  const kept = bundleAmong(result?.artifacts)
  const words =
    kept === undefined
      ? 'and its work with it; a retry asks the agent again'
      : `and its commits are kept as the artifact ${kept}`
  return { ...dropUnpublished(run), error: explainedBy(error.slice(0, end), `; ${lost}, ${words}`) }
}
