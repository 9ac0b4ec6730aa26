/**
 * Converts GitHub's pull requests and their parts into records of the API.
 *
 * Fields that GitHub may omit are optional: a deleted account, a deleted fork, the patch of a binary file. Items that
 * still make no valid record are left out of lists.
 */
import type { PullFacts } from '../../../core/ports/code-host.ts'
import { PATCH_CHARS_MAX, PATH_CHARS_MAX, PROSE_CHARS_MAX, TEXT_CHARS_MAX } from '../../../protocol/limits.ts'
import type { CodehostRepo, PullComment, PullCommit, PullFile, PullReview } from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import {
  asCount,
  asInstant,
  asLink,
  asPositiveInteger,
  asText,
  mayWrite,
  readLogin,
} from '../../github/fields.ts'
import { readField } from '../../http/reply-fields.ts'

/** Limit for all patches of a pull request; files beyond it have no patch, as with large files on GitHub. */
const PATCHES_CHARS_MAX = 8 * 1024 * 1024

export function readState(pull: unknown): PullState {
  if (typeof readField(pull, 'merged_at') === 'string' || readField(pull, 'merged') === true) return 'merged'
  if (readField(pull, 'state') === 'closed') return 'closed'
  return readField(pull, 'draft') === true ? 'draft' : 'open'
}

/** Undefined when the value is not a pull request. */
export function toPullFacts(pull: unknown): PullFacts | undefined {
  const number = asPositiveInteger(readField(pull, 'number'))
  const url = asLink(readField(pull, 'html_url'))
  const createdAt = asInstant(readField(pull, 'created_at'))
  if (number === undefined || url === undefined || createdAt === undefined) return undefined
  const mergedAt = asInstant(readField(pull, 'merged_at'))
  return {
    number,
    url,
    title: asText(readField(pull, 'title'), TEXT_CHARS_MAX),
    state: readState(pull),
    author: readLogin(readField(pull, 'user')),
    baseBranch: asText(readField(pull, 'base', 'ref')),
    headBranch: asText(readField(pull, 'head', 'ref')),
    createdAt,
    updatedAt: asInstant(readField(pull, 'updated_at')) ?? createdAt,
    ...(mergedAt === undefined ? {} : { mergedAt }),
  }
}

export function toRepo(repo: unknown): CodehostRepo | undefined {
  const fullName = asText(readField(repo, 'full_name'))
  const pushedAt = asInstant(readField(repo, 'pushed_at')) ?? asInstant(readField(repo, 'created_at'))
  if (fullName === '' || pushedAt === undefined) return undefined
  return {
    fullName,
    defaultBranch: asText(readField(repo, 'default_branch')),
    private: readField(repo, 'private') === true,
    description: asText(readField(repo, 'description'), TEXT_CHARS_MAX),
    pushedAt,
  }
}

/** Keeps the items that can be read. */
export function toRecords<T>(items: readonly unknown[], read: (item: unknown) => T | undefined): T[] {
  return items.flatMap((item) => read(item) ?? [])
}

// ---- conversation ---------------------------------------------------------------------------------------------------

/** `pullUrl`: address of a comment without one of its own. */
export function toComment(comment: unknown, pullUrl: string): PullComment | undefined {
  const id = readId(comment)
  const createdAt = asInstant(readField(comment, 'created_at'))
  if (id === undefined || createdAt === undefined) return undefined
  return {
    id,
    author: readLogin(readField(comment, 'user')),
    authorMayWrite: mayWrite(readField(comment, 'author_association')),
    body: asText(readField(comment, 'body'), PROSE_CHARS_MAX),
    createdAt,
    url: asLink(readField(comment, 'html_url')) ?? pullUrl,
  }
}

/** A pending review has no time, and is private to its author. */
export function toReview(review: unknown): PullReview | undefined {
  const id = readId(review)
  const submittedAt = asInstant(readField(review, 'submitted_at'))
  if (id === undefined || submittedAt === undefined) return undefined
  return {
    id,
    author: readLogin(readField(review, 'user')),
    authorMayWrite: mayWrite(readField(review, 'author_association')),
    state: asText(readField(review, 'state')),
    body: asText(readField(review, 'body'), PROSE_CHARS_MAX),
    submittedAt,
  }
}

/** Prefers the text id: numeric ids may exceed safe integers. */
function readId(item: unknown): string | undefined {
  const id = asText(readField(item, 'node_id'), 256) || String(asPositiveInteger(readField(item, 'id')) ?? '')
  return id === '' ? undefined : id
}

// ---- files and commits ----------------------------------------------------------------------------------------------

export function toFiles(items: readonly unknown[]): PullFile[] {
  let charsLeft = PATCHES_CHARS_MAX
  return items.flatMap((item) => {
    const file = toFile(item)
    if (file === undefined) return []
    const { patch, ...rest } = file
    if (patch === undefined || patch.length > charsLeft) return [rest]
    charsLeft -= patch.length
    return [file]
  })
}

function toFile(file: unknown): PullFile | undefined {
  const path = readField(file, 'filename')
  if (typeof path !== 'string') return undefined
  const [previous, patch] = [readField(file, 'previous_filename'), readField(file, 'patch')]
  return {
    path: asText(path, PATH_CHARS_MAX),
    ...(typeof previous === 'string' ? { previousPath: asText(previous, PATH_CHARS_MAX) } : {}),
    status: asText(readField(file, 'status')),
    additions: asCount(readField(file, 'additions')),
    deletions: asCount(readField(file, 'deletions')),
    ...(typeof patch === 'string' ? { patch: asText(patch, PATCH_CHARS_MAX) } : {}),
  }
}

export function toCommit(item: unknown): PullCommit | undefined {
  const sha = asText(readField(item, 'sha'))
  const commit = readField(item, 'commit')
  const committedAt =
    asInstant(readField(commit, 'committer', 'date')) ?? asInstant(readField(commit, 'author', 'date'))
  if (sha === '' || committedAt === undefined) return undefined
  const author = asText(readField(item, 'author', 'login')) || asText(readField(commit, 'author', 'name'))
  return { sha, message: asText(readField(commit, 'message'), PROSE_CHARS_MAX), author, committedAt }
}
