/**
 * RunPulls knows which pull request is a run's: it screens the addresses that workers report, and tells every caller of
 * the code host where the confirmed pull request is.
 */
import type { PullReference, PullRequestApi } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { branchFor } from '../../core/run/branch.ts'
import {
  confirmedPull,
  isSamePull,
  type JobPlace,
  judgeAddress,
  type ParsePullUrl,
  type ScreenedReport,
  screenReport,
} from '../../core/run/run-pull.ts'
import { isSameName } from '../../core/tickets/names.ts'
import { chooseRepo } from '../../core/tickets/repo.ts'
import type { RunOutcome, RunPatch } from '../../protocol/frames.ts'
import type { Run, RunPull } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { RunContext } from './run.machine.ts'
import { RUN } from './run.machine.ts'

export class RunPulls {
  readonly #context: HostContext

  constructor(context: HostContext) {
    this.#context = context
  }

  /** The repository and the branch for a new run, as the configuration says now. */
  placeOf({ ticket }: Run): Result<JobPlace> {
    const repo = chooseRepo(ticket, this.#context.config().repos)
    if (!repo.ok) return repo
    const { remote, defaultBranch } = repo.value.mapping
    return yes({ remote, branch: branchFor(ticket, defaultBranch ?? 'main') })
  }

  /**
   * Takes every address out of a worker's report that is not the run's. The reported state is dropped: when it differs
   * from the known one, the code host is asked at once.
   */
  screen<R extends RunPatch | RunOutcome>(runId: string, reported: R): ScreenedReport<R> {
    const context = this.#context.system.peek(RUN, runId)?.context
    const screened = screenReport(reported, (url) =>
      context === undefined ? no('unknown', 'the run is no more') : this.#judge(context, url),
    )
    if (context?.run.pull?.confirmed === true && isNewState(reported, context.run))
      this.#context.publish({ view: 'pull state hint', key: runId })
    return screened
  }

  #judge({ job, run, place }: RunContext, url: string): Result<RunPull> {
    const { parsePullUrl } = this.#context
    const at = place === null ? this.placeOf(run) : yes(place)
    if (job === 'run') return at.ok ? judgeAddress(url, parsePullUrl, at.value) : at
    const own = this.confirmed(run, parsePullUrl)
    if (!own.ok) return own
    const found = judgeAddress(url, parsePullUrl, { remote: own.value.remote, branch: '' })
    if (!found.ok) return found
    if (!isSamePull(found.value, own.value))
      return no('invalid', 'it is not the pull request of the follow-up')
    return yes({ ...found.value, ...run.pull, confirmed: true })
  }

  /** Returns the reported pull request, which the code host is to confirm; also for a run of an earlier version. */
  reported({ run, place }: Pick<RunContext, 'run' | 'place'>): Result<RunPull> {
    if (run.pull !== undefined) return yes(run.pull)
    const at = place === null ? this.placeOf(run) : yes(place)
    return at.ok ? judgeAddress(run.prUrl ?? '', this.#context.parsePullUrl, at.value) : at
  }

  /** Returns where the run's confirmed pull request is; refused while there is none. */
  confirmed(run: Run, parse: ParsePullUrl): Result<PullReference> {
    return confirmedPull(run, parse, (remote) => this.#isRemoteOf(run, remote))
  }

  confirmedAt(run: Run, codeHost: PullRequestApi): Result<PullReference> {
    return this.confirmed(run, (url) => codeHost.parseUrl(url))
  }

  /** A ticket that fits no repository any more cannot tell, so every repository of the configuration counts then. */
  #isRemoteOf({ ticket }: Run, remote: string): boolean {
    const { repos } = this.#context.config()
    const own = chooseRepo(ticket, repos)
    if (own.ok) return isSameName(own.value.mapping.remote, remote)
    return Object.values(repos).some((mapping) => isSameName(mapping.remote, remote))
  }
}

const isNewState = ({ prState }: RunPatch | RunOutcome, run: Run): boolean =>
  prState !== undefined && prState !== run.prState
