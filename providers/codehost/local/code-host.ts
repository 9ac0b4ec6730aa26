/**
 * Code host for a folder of bare repositories, without an account and without a network.
 *
 * A repository lies at `owner/name.git`, its pull requests lie beside it in `owner/name.pulls`. The URL of a pull
 * request is the URL of its file.
 */
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock } from '../../../core/ports/clock.ts'
import type { CodeHost, NewPullRequest, OpenPullRequest } from '../../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { KeptPull } from '../../../protocol/pulls.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { isRemote } from '../remote-name.ts'
import { addComment, withoutDuplicates } from './pull-actions.ts'
import type { DatedPull } from './pull-file.ts'
import { PullFolder } from './pull-folder.ts'

type LocalClock = Pick<Clock, 'now' | 'after'>

export interface LocalCodeHostOptions {
  /** Folder of the repositories; a relative path starts at the working directory of the process. */
  readonly path: string
  readonly clock: LocalClock
}

const SERVICE_AUTHOR = 'switchyard'

export function createLocalCodeHost({ path, clock }: LocalCodeHostOptions): LocalCodeHost {
  return new LocalCodeHost(resolve(path), clock)
}

export class LocalCodeHost implements CodeHost {
  readonly #path: string
  readonly #clock: LocalClock

  constructor(path: string, clock: LocalClock) {
    this.#path = path
    this.#clock = clock
  }

  gitAddress(remote: string): string {
    return join(this.#path, `${remote}.git`)
  }

  async findPull(remote: string, head: string, base: string): Promise<Result<OpenPullRequest | undefined>> {
    const folder = this.pullFolder(remote)
    if (!folder.ok) return folder
    const pull = await findOpenPull(folder.value, head, base)
    if (!pull.ok) return pull
    return yes(pull.value === undefined ? undefined : this.#toOpenPull(folder.value, pull.value))
  }

  /** When two callers open the same pull request at once, the higher number is withdrawn. */
  async openPull(request: NewPullRequest): Promise<Result<OpenPullRequest>> {
    const folder = this.pullFolder(request.remote)
    if (!folder.ok) return folder
    const existing = await findOpenPull(folder.value, request.head, request.base)
    if (!existing.ok) return existing
    if (existing.value !== undefined) return alreadyOpen(request, existing.value.number)
    const created = await folder.value.create((number) => this.#newPull(request, number))
    if (!created.ok) return created
    const first = await findOpenPull(folder.value, request.head, request.base)
    if (first.ok && first.value !== undefined && first.value.number < created.value.number) {
      await folder.value.withdraw(created.value.number)
      return alreadyOpen(request, first.value.number)
    }
    return yes(this.#toOpenPull(folder.value, created.value))
  }

  async hasComment(remote: string, number: number, text: string): Promise<Result<boolean>> {
    const folder = this.pullFolder(remote)
    const pull = folder.ok ? await folder.value.read(number) : folder
    if (!pull.ok) return pull
    return yes(pull.value.comments?.some(({ body }) => body.includes(text)) ?? false)
  }

  async comment(remote: string, number: number, body: string): Promise<Result<void>> {
    const folder = this.pullFolder(remote)
    if (!folder.ok) return folder
    const at = new Date(this.#clock.now()).toISOString()
    const url = pathToFileURL(folder.value.pathOf(number)).href
    const stamp = { author: SERVICE_AUTHOR, at, url }
    const changed = await folder.value.change(number, (pull) => addComment(pull, body, stamp), this.#clock)
    return changed.ok ? yes(undefined) : changed
  }

  async dropRepeats(remote: string, number: number, text: string): Promise<Result<number>> {
    const folder = this.pullFolder(remote)
    if (!folder.ok) return folder
    let dropped = 0
    const edit = (pull: DatedPull) => {
      const left = withoutDuplicates(pull, text)
      dropped = (pull.comments?.length ?? 0) - (left.comments?.length ?? 0)
      return yes(left)
    }
    const changed = await folder.value.change(number, edit, this.#clock)
    return changed.ok ? yes(dropped) : changed
  }

  /** Folder with the pull request files of a repository. */
  pullFolder(remote: string): Result<PullFolder> {
    if (isRemote(remote)) return yes(new PullFolder(join(this.#path, `${remote}.pulls`)))
    return no('invalid', `${printable(remote)} is not a repository name of the form owner/name`)
  }

  #toOpenPull(folder: PullFolder, pull: KeptPull): OpenPullRequest {
    const url = pathToFileURL(folder.pathOf(pull.number)).href
    return { number: pull.number, url, state: isDraft(pull) ? 'draft' : 'open' }
  }

  #newPull({ head, base, title, body, draft }: NewPullRequest, number: number): KeptPull {
    const now = new Date(this.#clock.now()).toISOString()
    return {
      number,
      title,
      body,
      author: SERVICE_AUTHOR,
      state: draft ? 'draft' : 'open',
      draft,
      baseBranch: base,
      headBranch: head,
      createdAt: now,
      updatedAt: now,
      comments: [],
      reviews: [],
      threads: [],
    }
  }
}

async function findOpenPull(
  folder: PullFolder,
  head: string,
  base: string,
): Promise<Result<KeptPull | undefined>> {
  const contents = await folder.readAll()
  if (!contents.ok) return contents
  const isWanted = (pull: KeptPull) => isOpen(pull) && pull.headBranch === head && pull.baseBranch === base
  return yes(contents.value.pulls.find(isWanted))
}

const isOpen = ({ state }: KeptPull): boolean => state === 'open' || state === 'draft'
const isDraft = ({ state, draft }: KeptPull): boolean => state === 'draft' || draft === true

function alreadyOpen({ head }: NewPullRequest, number: number) {
  return no('conflict', `a pull request of ${printable(head)} already exists: number ${number}`)
}
