/**
 * A folder of bare repositories as a code host: `owner/name.git`, and beside it the pull requests in
 * `owner/name.pulls`. It needs no account and no network.
 *
 * The address of a pull request is that of its file.
 */
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock, CodeHost, NewPullRequest, OpenPullRequest } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { KeptPull } from '../../protocol/pulls.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { commented, withoutRepeats } from './local-pull-actions.ts'
import type { DatedPull } from './local-pull-file.ts'
import { PullFolder } from './pull-folder.ts'
import { isRemote } from './remote-name.ts'

type LocalClock = Pick<Clock, 'now' | 'after'>

export interface LocalParts {
  /** The folder; a relative one begins where the process was started. */
  readonly path: string
  readonly clock: LocalClock
}

const AUTHOR = 'switchyard'

export function localCodeHost({ path, clock }: LocalParts): LocalCodeHost {
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
    const folder = this.pulls(remote)
    if (!folder.ok) return folder
    const pull = await firstOpen(folder.value, head, base)
    if (!pull.ok) return pull
    return yes(pull.value === undefined ? undefined : this.#openPullOf(folder.value, pull.value))
  }

  /** Of two at the same time, the one with the higher number steps back, as if it had come later. */
  async openPull(order: NewPullRequest): Promise<Result<OpenPullRequest>> {
    const folder = this.pulls(order.remote)
    if (!folder.ok) return folder
    const there = await firstOpen(folder.value, order.head, order.base)
    if (!there.ok) return there
    if (there.value !== undefined) return alreadyThere(order, there.value.number)
    const made = await folder.value.create((number) => this.#pullOf(order, number))
    if (!made.ok) return made
    const first = await firstOpen(folder.value, order.head, order.base)
    if (first.ok && first.value !== undefined && first.value.number < made.value.number) {
      await folder.value.withdraw(made.value.number)
      return alreadyThere(order, first.value.number)
    }
    return yes(this.#openPullOf(folder.value, made.value))
  }

  async hasComment(remote: string, number: number, text: string): Promise<Result<boolean>> {
    const folder = this.pulls(remote)
    const pull = folder.ok ? await folder.value.read(number) : folder
    if (!pull.ok) return pull
    return yes(pull.value.comments?.some(({ body }) => body.includes(text)) ?? false)
  }

  async comment(remote: string, number: number, body: string): Promise<Result<void>> {
    const folder = this.pulls(remote)
    if (!folder.ok) return folder
    const at = new Date(this.#clock.now()).toISOString()
    const url = pathToFileURL(folder.value.pathOf(number)).href
    const deed = { author: AUTHOR, at, url }
    const changed = await folder.value.change(number, (pull) => commented(pull, body, deed), this.#clock)
    return changed.ok ? yes(undefined) : changed
  }

  async dropRepeats(remote: string, number: number, text: string): Promise<Result<number>> {
    const folder = this.pulls(remote)
    if (!folder.ok) return folder
    let dropped = 0
    const edit = (pull: DatedPull) => {
      const left = withoutRepeats(pull, text)
      dropped = (pull.comments?.length ?? 0) - (left.comments?.length ?? 0)
      return yes(left)
    }
    const changed = await folder.value.change(number, edit, this.#clock)
    return changed.ok ? yes(dropped) : changed
  }

  /** The pull requests of a repository, as their files have them. */
  pulls(remote: string): Result<PullFolder> {
    if (isRemote(remote)) return yes(new PullFolder(join(this.#path, `${remote}.pulls`)))
    return no('invalid', `${printable(remote)} is no repository as owner/name`)
  }

  #openPullOf(folder: PullFolder, pull: KeptPull): OpenPullRequest {
    const url = pathToFileURL(folder.pathOf(pull.number)).href
    return { number: pull.number, url, state: isDraft(pull) ? 'draft' : 'open' }
  }

  #pullOf({ head, base, title, body, draft }: NewPullRequest, number: number): KeptPull {
    const now = new Date(this.#clock.now()).toISOString()
    return {
      number,
      title,
      body,
      author: AUTHOR,
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

async function firstOpen(
  folder: PullFolder,
  head: string,
  base: string,
): Promise<Result<KeptPull | undefined>> {
  const found = await folder.look()
  if (!found.ok) return found
  const isWanted = (pull: KeptPull) => isOpen(pull) && pull.headBranch === head && pull.baseBranch === base
  return yes(found.value.pulls.find(isWanted))
}

const isOpen = ({ state }: KeptPull): boolean => state === 'open' || state === 'draft'
const isDraft = ({ state, draft }: KeptPull): boolean => state === 'draft' || draft === true

function alreadyThere({ head }: NewPullRequest, number: number) {
  return no('conflict', `a pull request of ${printable(head)} already exists: number ${number}`)
}
