/**
 * Decides which pull request is a run's: a worker may name any address, and the code host confirms.
 *
 * An address counts only when it is of the repository in the job that the worker received. The host uses a pull request
 * for follow-ups, comments and links once the code host has confirmed that its head is the run's branch. The host
 * completes a run without its worker only when the pull request also holds the marker of one of the run's leases.
 */
import type { RunOutcome, RunPatch } from '../../protocol/frames.ts'
import type { PullState, Run, RunPull } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { PullIdentity, PullReference } from '../ports/code-host.ts'
import { printableTexts } from '../printable-output.ts'
import { no, type Result, yes } from '../result.ts'
import { isSameName } from '../tickets/names.ts'

/** The repository and the branch that a job names. */
export type JobPlace = Pick<RunPull, 'remote' | 'branch'>

export type ParsePullUrl = (url: string) => PullReference | undefined

// ---- the address that a worker reports ---------------------------------------------------------------------------

/** A report without the addresses that are not the run's. */
export interface ScreenedReport<R extends RunPatch | RunOutcome> {
  readonly report: R
  readonly pull?: RunPull
  /** Why the address was dropped, for people. */
  readonly refusal?: string
}

/**
 * Drops every address but the run's own, and the state in any case: the code host alone knows the state. How the worker
 * opened the pull request stays beside it until then. Texts become printable, because a worker that is not ours may not
 * have made them so.
 */
export function screenReport<R extends RunPatch | RunOutcome>(
  reported: R,
  judge: (url: string) => Result<RunPull>,
): ScreenedReport<R> {
  const { prState, ...report } = printableTexts(reported)
  const result = 'result' in reported ? printableTexts(reported.result) : undefined
  const url = report.prUrl ?? result?.prUrl
  // The cast holds because only the optional state is missing.
  if (url === undefined) return { report: report as R }
  const pull = judge(url)
  if (pull.ok && (result?.prUrl ?? url) === url)
    return { report: report as R, pull: withOpening(pull.value, prState) }
  const { prUrl: _, ...kept } = report
  const { prUrl: __, ...keptResult } = { prUrl: undefined, ...result }
  // The cast holds because only optional fields are missing.
  const clean = (result === undefined ? kept : { ...kept, result: keptResult }) as R
  const refusal = pull.ok ? 'the report names two pull requests' : pull.refusal.message
  return { report: clean, refusal: `the pull request ${printable(url)} was not kept: ${refusal}` }
}

const withOpening = (pull: RunPull, state: PullState | undefined): RunPull =>
  !pull.confirmed && (state === 'open' || state === 'draft') ? { ...pull, openedAs: state } : pull

/** Returns the pull request that a new run's worker reports, not confirmed yet. */
export function judgeAddress(url: string, parse: ParsePullUrl, place: JobPlace): Result<RunPull> {
  const found = isPlainAddress(url) ? parse(url) : undefined
  if (found === undefined) return no('invalid', 'it is not an address at the code host that is configured')
  if (isSameName(found.remote, place.remote)) return yes({ ...found, branch: place.branch, confirmed: false })
  return no('invalid', `it is not of ${place.remote}, the repository of the run`)
}

/** An address is shown to people, so it must lead nowhere but to the pull request. */
function isPlainAddress(url: string): boolean {
  if (!URL.canParse(url)) return false
  // Every part that is refused begins or ends with one of these.
  if (!/[?#@]/.test(url)) return true
  const { username, password, search, hash } = new URL(url)
  return username === '' && password === '' && search === '' && hash === ''
}

/** Whether a report names the pull request that the run has already, perhaps with another spelling of the address. */
export function isKnownPull(
  run: Pick<Run, 'prUrl' | 'pull'>,
  url: string,
  pull: RunPull | undefined,
): boolean {
  if (run.pull === undefined || run.prUrl === undefined) return false
  if (url === run.prUrl) return true
  return pull !== undefined && isSamePull(pull, run.pull) && isSameSite(url, run.prUrl)
}

/** After a move to another code host the same repository and number are another pull request. */
function isSameSite(left: string, right: string): boolean {
  return URL.canParse(left) && URL.canParse(right) && new URL(left).origin === new URL(right).origin
}

// ---- the answer of the code host ---------------------------------------------------------------------------------

/** Returns why the pull request is not of the run's branch; undefined when it is. */
export function findPullMismatch({ branch, remote }: RunPull, identity: PullIdentity): string | undefined {
  const { headRemote, headBranch } = identity
  if (headRemote === undefined) return 'the repository of its branch is gone'
  if (headBranch !== branch) return `its branch is ${printable(headBranch)} and not ${printable(branch)}`
  if (isSameName(headRemote, remote)) return undefined
  return `its branch is in ${printable(headRemote)} and not in ${remote}`
}

/** Whether a lease of the run has opened the pull request. */
export function isOpenedByRun(
  runId: string,
  { body }: PullIdentity,
  isLeaseOfRun: (leaseId: string) => boolean,
): boolean {
  return leasesInMarkers(body, runId).some(isLeaseOfRun)
}

/** Stores what the code host answers about the run's pull request, its own spelling of the address included. */
export function confirmPull(
  run: Run,
  pull: RunPull,
  answer: { readonly url: string; readonly state: PullState },
): Run {
  const { result } = run
  const { openedAs: _, ...confirmed } = pull
  const isResult = result?.prUrl !== undefined && result.prUrl === run.prUrl
  return {
    ...run,
    prUrl: answer.url,
    prState: answer.state,
    pull: { ...confirmed, confirmed: true },
    ...(isResult ? { result: { ...result, prUrl: answer.url } } : {}),
  }
}

/** Removes a pull request that is not the run's. */
export function dropPull({ prUrl: url, prState: _, pull: __, ...run }: Run): Run {
  if (run.result === undefined || run.result.prUrl !== url) return run
  const { prUrl: ___, ...result } = run.result
  return { ...run, result }
}

// ---- use ---------------------------------------------------------------------------------------------------------

/**
 * Returns where the run's pull request is, for every request to the code host. Refused until the code host has
 * confirmed it. Runs of earlier versions have an address only: `isRemoteOf` tells whether it is of the run's repository.
 */
export function confirmedPull(
  { id, prUrl, pull }: Pick<Run, 'id' | 'prUrl' | 'pull'>,
  parse: ParsePullUrl,
  isRemoteOf: (remote: string) => boolean,
): Result<PullReference> {
  if (prUrl === undefined) return no('unknown', `${id} has no pull request`)
  const found = parse(prUrl)
  const isElsewhere = found === undefined || (pull !== undefined && !isSamePull(found, pull))
  if (isElsewhere)
    return no('invalid', `the pull request of ${id} is not at the code host that is connected now`)
  if (pull?.confirmed === false)
    return no('conflict', `the code host has not confirmed the pull request of ${id} yet; try again later`)
  if (pull !== undefined) return yes({ remote: pull.remote, number: pull.number })
  return isRemoteOf(found.remote)
    ? yes(found)
    : no('invalid', `the pull request of ${id} is not of ${id}'s repository, so nothing is sent to it`)
}

export function isSamePull(left: PullReference, right: PullReference): boolean {
  return left.number === right.number && isSameName(left.remote, right.remote)
}

// ---- the marker --------------------------------------------------------------------------------------------------

/**
 * The marker at the end of a pull request's description, which names the run and the lease that opened it.
 *
 * The host adopts a pull request only when the marker names a lease that the host has granted to the run.
 */
export function runMarker({ runId, leaseId }: { readonly runId: string; readonly leaseId: string }): string {
  return `<!-- switchyard run=${runId} lease=${leaseId} -->`
}

/** A description that people edit may hold a few markers; more are ignored. */
const MARKERS_MAX = 10
const MARKER = /^<!-- switchyard run=([\w-]{1,100}) lease=([\w-]{1,100}) -->\s*$/gm

/** Returns the leases that the markers in a description name for this run. */
function leasesInMarkers(body: string, runId: string): string[] {
  return [...body.matchAll(MARKER)]
    .slice(0, MARKERS_MAX)
    .flatMap(([, run, lease = '']) => (run === runId ? [lease] : []))
}
