/**
 * The local code host as people use it: what GitHub would show and do, offline.
 *
 * What a pull request is called and what was said of it is in its file; what it changes is asked of git each time.
 * Merges are real ones. The order of a merge is branch first, file second: should the second be missing, the next look
 * makes up for it.
 */
import { relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Clock, Log } from '../../core/ports.ts'
import type {
  PullDetailFacts,
  PullFacts,
  PullHost,
  PullOrigin,
  PullPlace,
  Urgency,
} from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { PULLS_DONE_MAX, PULLS_OPEN_MAX } from '../../protocol/limits.ts'
import type {
  CodehostRepo,
  MergeRequest,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
} from '../../protocol/pulls.ts'
import type { PullState } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { mergePull, type Person } from './git-merge.ts'
import { instantAt, isRepository } from './git-repository.ts'
import { gitRunner, type RunGit } from './git-run.ts'
import { LocalCodeHost } from './local.ts'
import { personAt } from './local-author.ts'
import {
  closed,
  commented,
  type Deed,
  isOpen,
  merged,
  readied,
  reopened,
  replied,
  resolved,
  reviewed,
  stateOf,
} from './local-pull-actions.ts'
import type { DatedPull } from './local-pull-file.ts'
import { detailOf, endsOf, factsOf, type LocalRepository, type Sight, sightOf } from './local-pull-state.ts'
import { reposBelow } from './local-repos.ts'
import { type Found, mayMerge, mayReopen } from './local-rules.ts'
import { numberIn } from './pull-folder.ts'
import { isRemote, ownerOf } from './remote-name.ts'

export interface LocalPullParts {
  /** The folder; a relative one begins where the process was started. */
  readonly path: string
  readonly clock: Pick<Clock, 'now' | 'after'>
  /** Is told of files that cannot be read. */
  readonly log?: Log
  /** Where the person's git configuration is; absent: where this process has it. */
  readonly home?: Readonly<Record<string, string | undefined>>
}

/** How often a merge is made anew because the base branch was moved under it. */
const MERGE_TRIES_MAX = 3
const MERGED = 'Pull Request successfully merged'

export function localPullHost(parts: LocalPullParts): PullHost {
  return new LocalPulls(parts)
}

class LocalPulls implements PullHost {
  readonly #path: string
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #log: Log | undefined
  readonly #home: Readonly<Record<string, string | undefined>>
  readonly #host: LocalCodeHost
  readonly #runIn: (folder: string) => RunGit
  /** What the log has been told. */
  readonly #told = new Set<string>()

  constructor({ path, clock, log, home = process.env }: LocalPullParts) {
    this.#path = resolve(path)
    this.#clock = clock
    this.#log = log
    this.#home = home
    this.#host = new LocalCodeHost(this.#path, clock)
    this.#runIn = gitRunner(clock)
  }

  // ---- looking ---------------------------------------------------------------------------------------------------

  repos(): Promise<Result<readonly CodehostRepo[]>> {
    return reposBelow(this.#path, this.#runIn, this.#clock.now())
  }

  /** Nobody has to give way to anybody here. */
  async list(remote: string, _urgency: Urgency): Promise<Result<readonly PullFacts[]>> {
    const repository = await this.#repository(remote)
    if (!repository.ok) return repository
    const found = await repository.value.folder.look()
    if (!found.ok) return found
    this.#tell(remote, found.value.problems)
    const newest = [...found.value.pulls].sort(byActivity)
    const open = newest.filter(isOpen).slice(0, PULLS_OPEN_MAX)
    const sight = await sightOf(repository.value, open, this.#clock)
    if (!sight.ok) return sight
    const [still, settled] = [
      sight.value.pulls.filter(isOpen),
      sight.value.pulls.filter((pull) => !isOpen(pull)),
    ]
    const done = [...settled, ...newest.filter((pull) => !isOpen(pull))]
      .sort(byActivity)
      .slice(0, PULLS_DONE_MAX)
    const facts = [...still, ...done].map((pull) => this.#factsOf(repository.value, pull, sight.value))
    return yes(facts.sort(byActivity))
  }

  async detail(place: PullPlace): Promise<Result<PullDetailFacts>> {
    const found = await this.#find(place)
    if (!found.ok) return found
    const { repository, pull, refs } = found.value
    return detailOf(repository.run, pull, this.#factsOf(repository, pull, found.value), refs)
  }

  /** There are no forks here: its branch is beside the one that it goes into. */
  async origin(place: PullPlace): Promise<Result<PullOrigin>> {
    const found = await this.#find(place)
    if (!found.ok) return found
    const { pull, refs } = found.value
    const { baseBranch, headBranch } = pull
    return yes({ headRemote: place.remote, headBranch, headSha: endsOf(pull, refs).head ?? '', baseBranch })
  }

  async states(
    remote: string,
    numbers: readonly number[],
    _urgency: Urgency,
  ): Promise<Result<ReadonlyMap<number, PullState>>> {
    const repository = await this.#repository(remote)
    if (!repository.ok) return repository
    const read = await Promise.all(numbers.map((number) => repository.value.folder.read(number)))
    // What cannot be read just now has no state that could be told.
    const pulls = read.flatMap((one) => (one.ok ? [one.value] : []))
    if (!pulls.some(isOpen)) return yes(statesOf(pulls))
    const sight = await sightOf(repository.value, pulls, this.#clock)
    return sight.ok ? yes(statesOf(sight.value.pulls)) : sight
  }

  placeOf(url: string): PullPlace | undefined {
    const parts = relative(this.#path, fileIn(url) ?? sep).split(sep)
    const [owner = '', pulls = '', file = ''] = parts
    const number = numberIn(file)
    const remote = `${owner}/${pulls.replace(/\.pulls$/, '')}`
    if (parts.length !== 3 || !pulls.endsWith('.pulls') || number === undefined) return undefined
    return isRemote(remote) ? { remote, number } : undefined
  }

  // ---- its state -------------------------------------------------------------------------------------------------

  async merge(place: PullPlace, method: MergeRequest['method']): Promise<Result<string>> {
    for (let tries = 0; tries < MERGE_TRIES_MAX; tries++) {
      const found = await this.#find(place)
      if (!found.ok) return found
      const { run, folder } = found.value.repository
      const ends = await mayMerge(found.value)
      if (!ends.ok) return ends
      const [owner, at] = [ownerOf(place.remote), this.#clock.now()]
      const person = await this.#person(found.value.repository)
      const done = await mergePull(run, method, { ...found.value.pull, ...ends.value, owner, person, at })
      if (!done.ok) return done
      if (done.value === 'moved') continue
      // Its branch has it, so it is merged: should its file not say so now, the next look sees to it.
      await folder.change(place.number, (pull) => merged(pull, instantAt(at)), this.#clock)
      return yes(MERGED)
    }
    return no(
      'conflict',
      'the base branch is being moved all the time, or a crash has left a lock of git beside it; look at it, and try again',
    )
  }

  close(place: PullPlace): Promise<Result<void>> {
    return this.#change(place, (pull, { at }) => closed(pull, at))
  }

  async reopen(place: PullPlace): Promise<Result<void>> {
    const found = await this.#find(place)
    if (!found.ok) return found
    const may = found.value.pull.state === 'closed' ? await mayReopen(found.value) : yes(undefined)
    return may.ok ? this.#changeFound(found.value, (pull, { at }) => reopened(pull, at)) : may
  }

  ready(place: PullPlace): Promise<Result<void>> {
    return this.#change(place, (pull, { at }) => readied(pull, at))
  }

  // ---- the conversation ------------------------------------------------------------------------------------------

  comment(place: PullPlace, body: string): Promise<Result<void>> {
    return this.#change(place, (pull, deed) => commented(pull, body, deed))
  }

  review(place: PullPlace, review: ReviewRequest): Promise<Result<void>> {
    return this.#change(place, (pull, deed) => reviewed(pull, review, deed))
  }

  reply(place: PullPlace, reply: ReplyRequest): Promise<Result<void>> {
    return this.#change(place, (pull, deed) => replied(pull, reply, deed))
  }

  resolveThread(place: PullPlace, wish: ResolveThreadRequest): Promise<Result<void>> {
    return this.#change(place, (pull, { at }) => resolved(pull, wish, at))
  }

  // ---- how it is done --------------------------------------------------------------------------------------------

  async #change(
    place: PullPlace,
    edit: (pull: DatedPull, deed: Deed) => Result<DatedPull>,
  ): Promise<Result<void>> {
    const found = await this.#find(place)
    return found.ok ? this.#changeFound(found.value, edit) : found
  }

  async #changeFound(
    { repository, pull }: Found,
    edit: (pull: DatedPull, deed: Deed) => Result<DatedPull>,
  ): Promise<Result<void>> {
    const { name } = await this.#person(repository)
    const deed = { author: name, at: instantAt(this.#clock.now()), url: repository.urlOf(pull.number) }
    const changed = await repository.folder.change(pull.number, (now) => edit(now, deed), this.#clock)
    return changed.ok ? yes(undefined) : changed
  }

  async #find({ remote, number }: PullPlace): Promise<Result<Found>> {
    const repository = await this.#repository(remote)
    if (!repository.ok) return repository
    const read = await repository.value.folder.read(number)
    if (!read.ok) return read.refusal.kind === 'unknown' ? unknownPull(remote, number) : read
    const sight = await sightOf(repository.value, [read.value], this.#clock)
    if (!sight.ok) return sight
    const { pulls, refs } = sight.value
    return yes({ repository: repository.value, pull: pulls[0] ?? read.value, refs })
  }

  async #repository(remote: string): Promise<Result<LocalRepository>> {
    const folder = this.#host.pulls(remote)
    if (!folder.ok) return folder
    const address = this.#host.gitAddress(remote)
    if (!(await isRepository(address))) {
      return no(
        'unknown',
        `there is no repository ${remote} at ${printable(address)}; correct remote, or make it`,
      )
    }
    const urlOf = (number: number) => pathToFileURL(folder.value.pathOf(number)).href
    return yes({ folder: folder.value, run: this.#runIn(address), urlOf })
  }

  #person({ run }: LocalRepository): Promise<Person> {
    return personAt(run, this.#home)
  }

  #factsOf({ urlOf }: LocalRepository, pull: DatedPull, { refs }: Pick<Sight, 'refs'>): PullFacts {
    return factsOf(pull, refs, urlOf(pull.number), this.#clock.now())
  }

  /** Each once; those that are mended and broken again would be told again after a restart only. */
  #tell(remote: string, problems: readonly string[]): void {
    for (const problem of problems) {
      const words = `a pull request of ${remote} cannot be read: ${problem}`
      if (!this.#told.has(words)) this.#log?.warn({ remote }, words)
      this.#told.add(words)
    }
  }
}

function statesOf(pulls: readonly DatedPull[]): ReadonlyMap<number, PullState> {
  return new Map(pulls.map((pull) => [pull.number, stateOf(pull)]))
}

function byActivity(one: Pick<DatedPull, 'number' | 'updatedAt'>, other: typeof one): number {
  if (one.updatedAt === other.updatedAt) return other.number - one.number
  return one.updatedAt < other.updatedAt ? 1 : -1
}

function fileIn(url: string): string | undefined {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}

function unknownPull(remote: string, number: number) {
  return no('unknown', `${remote} has no pull request ${number}`)
}
