/** Builds the commit messages of merges, and the refusals of merges that are not possible. */
import { no } from '../../../core/result.ts'
import { NAMES_LISTED_MAX } from '../../../protocol/limits.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { GitCommit } from './git-repository.ts'

/** The pull request that a message names. */
export interface MergeSubject {
  readonly number: number
  readonly title: string
  readonly owner: string
  readonly headBranch: string
  readonly baseBranch: string
}

const COAUTHORS_MAX = 20
const SQUASHED_MESSAGE_CHARS_MAX = 64 * 1024
/** Limit for the name of one conflicting file. */
const FILE_NAME_CHARS_MAX = 200

export function mergeMessage({ number, owner, headBranch, title }: MergeSubject): string {
  return `Merge pull request #${number} from ${owner}/${headBranch}\n\n${toOneLine(title)}\n`
}

/** Follows GitHub: the body of a single commit is kept, several commits are listed, and all authors are credited. */
export function squashMessage({ title, number }: MergeSubject, commits: readonly GitCommit[]): string {
  const [first, ...others] = commits
  const subject = `${toOneLine(title)} (#${number})`
  const body =
    others.length === 0
      ? messageBody(first)
      : commits.map(({ message }) => `* ${subjectLine(message)}`).join('\n')
  const trailers = coauthorTrailers(commits)
  const parts = [subject, body.slice(0, SQUASHED_MESSAGE_CHARS_MAX), trailers].map((part) => part.trim())
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

const subjectLine = (message: string): string => toOneLine(message.split('\n', 1)[0] ?? '')
const messageBody = (commit: GitCommit | undefined): string =>
  commit?.message.split('\n').slice(1).join('\n') ?? ''

function coauthorTrailers(commits: readonly GitCommit[]): string {
  const [first, ...others] = commits.map(({ author: { name, email } }) => `${name} <${email}>`)
  const names = [...new Set(others)].filter((name) => name !== first)
  return names
    .slice(0, COAUTHORS_MAX)
    .map((name) => `Co-authored-by: ${name}`)
    .join('\n')
}

export const toOneLine = (text: string): string => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()

export function refuseConflicts({ baseBranch }: MergeSubject, files: readonly string[]) {
  const shown = files.slice(0, NAMES_LISTED_MAX).map((name) => printable(name).slice(0, FILE_NAME_CHARS_MAX))
  const named = shown.join(', ')
  const more = files.length > NAMES_LISTED_MAX ? ` and ${files.length - NAMES_LISTED_MAX} more` : ''
  return no(
    'conflict',
    `the pull request has conflicts with ${printable(baseBranch)} in ${named}${more}; resolve them on its branch, then merge again`,
  )
}

export function refuseNothingToMerge({
  headBranch,
  baseBranch,
}: Pick<MergeSubject, 'headBranch' | 'baseBranch'>) {
  return no(
    'conflict',
    `there is nothing to merge: ${printable(baseBranch)} contains all commits of ${printable(headBranch)}`,
  )
}

export function refuseSecondRoot({ headBranch }: MergeSubject) {
  return no(
    'conflict',
    `${printable(headBranch)} contains a second root commit, which cannot be rebased; use merge or squash`,
  )
}

export function refuseTooManyCommits({ headBranch }: MergeSubject, countMax: number) {
  return no(
    'conflict',
    `${printable(headBranch)} has more than ${countMax} commits, too many to rebase; use merge or squash`,
  )
}
