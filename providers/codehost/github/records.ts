/**
 * GitHub's pull requests, and what belongs to them, as the service's own records.
 *
 * Nothing that GitHub may leave out is needed: an account that is gone, a fork that was deleted, a binary's patch. What
 * even so makes no record is left out of lists.
 */
import type { PullFacts } from '../../../core/provider-ports.ts'
import { PATCH_CHARS_MAX, PATH_CHARS_MAX, PROSE_CHARS_MAX, TEXT_CHARS_MAX } from '../../../protocol/limits.ts'
import type {
  CodehostRepo,
  PullCheck,
  PullComment,
  PullCommit,
  PullFile,
  PullReview,
} from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import { countOf, fieldOf, instantOf, linkOf, loginOf, numberOf, textOf } from './fields.ts'

/** Of all files of one pull request together; beyond it they come without, as GitHub does with large ones. */
const PATCHES_CHARS_MAX = 8 * 1024 * 1024
const CHECK_STATES = new Set(['queued', 'in_progress', 'completed'])

export function stateOf(pull: unknown): PullState {
  if (typeof fieldOf(pull, 'merged_at') === 'string' || fieldOf(pull, 'merged') === true) return 'merged'
  if (fieldOf(pull, 'state') === 'closed') return 'closed'
  return fieldOf(pull, 'draft') === true ? 'draft' : 'open'
}

/** undefined: it is no pull request. */
export function pullFactsOf(pull: unknown): PullFacts | undefined {
  const number = numberOf(fieldOf(pull, 'number'))
  const url = linkOf(fieldOf(pull, 'html_url'))
  const createdAt = instantOf(fieldOf(pull, 'created_at'))
  if (number === undefined || url === undefined || createdAt === undefined) return undefined
  const mergedAt = instantOf(fieldOf(pull, 'merged_at'))
  return {
    number,
    url,
    title: textOf(fieldOf(pull, 'title'), TEXT_CHARS_MAX),
    state: stateOf(pull),
    author: loginOf(fieldOf(pull, 'user')),
    baseBranch: textOf(fieldOf(pull, 'base', 'ref')),
    headBranch: textOf(fieldOf(pull, 'head', 'ref')),
    createdAt,
    updatedAt: instantOf(fieldOf(pull, 'updated_at')) ?? createdAt,
    ...(mergedAt === undefined ? {} : { mergedAt }),
  }
}

export function repoOf(repo: unknown): CodehostRepo | undefined {
  const fullName = textOf(fieldOf(repo, 'full_name'))
  const pushedAt = instantOf(fieldOf(repo, 'pushed_at')) ?? instantOf(fieldOf(repo, 'created_at'))
  if (fullName === '' || pushedAt === undefined) return undefined
  return {
    fullName,
    defaultBranch: textOf(fieldOf(repo, 'default_branch')),
    private: fieldOf(repo, 'private') === true,
    description: textOf(fieldOf(repo, 'description'), TEXT_CHARS_MAX),
    pushedAt,
  }
}

/** Each of them that is one. */
export function recordsOf<T>(items: readonly unknown[], read: (item: unknown) => T | undefined): T[] {
  return items.flatMap((item) => read(item) ?? [])
}

// ---- the conversation --------------------------------------------------------------------------------------------

/** `pullUrl`: where people find it when it has no address of its own. */
export function commentOf(comment: unknown, pullUrl: string): PullComment | undefined {
  const id = idOf(comment)
  const createdAt = instantOf(fieldOf(comment, 'created_at'))
  if (id === undefined || createdAt === undefined) return undefined
  return {
    id,
    author: loginOf(fieldOf(comment, 'user')),
    body: textOf(fieldOf(comment, 'body'), PROSE_CHARS_MAX),
    createdAt,
    url: linkOf(fieldOf(comment, 'html_url')) ?? pullUrl,
  }
}

/** What somebody still writes has no time, and is nobody else's business. */
export function reviewOf(review: unknown): PullReview | undefined {
  const id = idOf(review)
  const submittedAt = instantOf(fieldOf(review, 'submitted_at'))
  if (id === undefined || submittedAt === undefined) return undefined
  return {
    id,
    author: loginOf(fieldOf(review, 'user')),
    state: textOf(fieldOf(review, 'state')),
    body: textOf(fieldOf(review, 'body'), PROSE_CHARS_MAX),
    submittedAt,
  }
}

/** The numbers may be too large to be exact. */
function idOf(item: unknown): string | undefined {
  const id = textOf(fieldOf(item, 'node_id'), 256) || String(numberOf(fieldOf(item, 'id')) ?? '')
  return id === '' ? undefined : id
}

// ---- the work ----------------------------------------------------------------------------------------------------

export function filesOf(items: readonly unknown[]): PullFile[] {
  let room = PATCHES_CHARS_MAX
  return items.flatMap((item) => {
    const file = fileOf(item)
    if (file === undefined) return []
    const { patch, ...rest } = file
    if (patch === undefined || patch.length > room) return [rest]
    room -= patch.length
    return [file]
  })
}

function fileOf(file: unknown): PullFile | undefined {
  const path = fieldOf(file, 'filename')
  if (typeof path !== 'string') return undefined
  const [previous, patch] = [fieldOf(file, 'previous_filename'), fieldOf(file, 'patch')]
  return {
    path: textOf(path, PATH_CHARS_MAX),
    ...(typeof previous === 'string' ? { previousPath: textOf(previous, PATH_CHARS_MAX) } : {}),
    status: textOf(fieldOf(file, 'status')),
    additions: countOf(fieldOf(file, 'additions')),
    deletions: countOf(fieldOf(file, 'deletions')),
    ...(typeof patch === 'string' ? { patch: textOf(patch, PATCH_CHARS_MAX) } : {}),
  }
}

export function commitOf(item: unknown): PullCommit | undefined {
  const sha = textOf(fieldOf(item, 'sha'))
  const commit = fieldOf(item, 'commit')
  const committedAt =
    instantOf(fieldOf(commit, 'committer', 'date')) ?? instantOf(fieldOf(commit, 'author', 'date'))
  if (sha === '' || committedAt === undefined) return undefined
  const author = textOf(fieldOf(item, 'author', 'login')) || textOf(fieldOf(commit, 'author', 'name'))
  return { sha, message: textOf(fieldOf(commit, 'message'), PROSE_CHARS_MAX), author, committedAt }
}

// ---- checks ------------------------------------------------------------------------------------------------------

/** What waits for a rule, a person or a machine has not begun. */
export function checkRunOf(run: unknown): PullCheck | undefined {
  const name = textOf(fieldOf(run, 'name'))
  if (name === '') return undefined
  const status = textOf(fieldOf(run, 'status'))
  const conclusion = textOf(fieldOf(run, 'conclusion'))
  const url = linkOf(fieldOf(run, 'html_url')) ?? linkOf(fieldOf(run, 'details_url'))
  return {
    name,
    // Only these three are let through.
    status: CHECK_STATES.has(status) ? (status as PullCheck['status']) : 'queued',
    ...(conclusion === '' ? {} : { conclusion }),
    ...(url === undefined ? {} : { url }),
    source: 'check-run',
  }
}

/** Without any, the whole is `pending` all the same: only the single ones count. */
export function statusOf(status: unknown): PullCheck | undefined {
  const name = textOf(fieldOf(status, 'context'))
  const state = textOf(fieldOf(status, 'state'))
  if (name === '' || state === '') return undefined
  const url = linkOf(fieldOf(status, 'target_url'))
  return {
    name,
    ...(state === 'pending' ? { status: 'in_progress' } : { status: 'completed', conclusion: state }),
    ...(url === undefined ? {} : { url }),
    source: 'status',
  }
}
