/** What merges say: in the commits that they make, and to people for whom they make none. */
import { no } from '../../core/result.ts'
import { NAMES_LISTED_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { GitCommit } from './git-repository.ts'

/** What is spoken of. */
export interface Spoken {
  readonly number: number
  readonly title: string
  readonly owner: string
  readonly headBranch: string
  readonly baseBranch: string
}

const COAUTHORS_MAX = 20
const SQUASHED_MESSAGE_CHARS_MAX = 64 * 1024
/** Of the name of a file that stands in the way. */
const FILE_NAME_CHARS_MAX = 200

export function mergeMessage({ number, owner, headBranch, title }: Spoken): string {
  return `Merge pull request #${number} from ${owner}/${headBranch}\n\n${oneLine(title)}\n`
}

/** As code hosts have it: one commit speaks for itself, of several each is named, and nobody who worked is forgotten. */
export function squashedMessage({ title, number }: Spoken, commits: readonly GitCommit[]): string {
  const [first, ...others] = commits
  const subject = `${oneLine(title)} (#${number})`
  const body =
    others.length === 0 ? bodyOf(first) : commits.map(({ message }) => `* ${subjectOf(message)}`).join('\n')
  const helpers = coauthors(commits)
  const parts = [subject, body.slice(0, SQUASHED_MESSAGE_CHARS_MAX), helpers].map((part) => part.trim())
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

const subjectOf = (message: string): string => oneLine(message.split('\n', 1)[0] ?? '')
const bodyOf = (one: GitCommit | undefined): string => one?.message.split('\n').slice(1).join('\n') ?? ''

function coauthors(commits: readonly GitCommit[]): string {
  const [first, ...others] = commits.map(({ author: { name, email } }) => `${name} <${email}>`)
  const names = [...new Set(others)].filter((name) => name !== first)
  return names
    .slice(0, COAUTHORS_MAX)
    .map((name) => `Co-authored-by: ${name}`)
    .join('\n')
}

export const oneLine = (text: string): string => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()

export function conflictsIn({ baseBranch }: Spoken, files: readonly string[]) {
  const shown = files.slice(0, NAMES_LISTED_MAX).map((name) => printable(name).slice(0, FILE_NAME_CHARS_MAX))
  const named = shown.join(', ')
  const more = files.length > NAMES_LISTED_MAX ? ` and ${files.length - NAMES_LISTED_MAX} more` : ''
  return no(
    'conflict',
    `the pull request has conflicts with ${printable(baseBranch)} in ${named}${more}; resolve them on its branch, then merge again`,
  )
}

export function nothingToMerge({ headBranch, baseBranch }: Pick<Spoken, 'headBranch' | 'baseBranch'>) {
  return no(
    'conflict',
    `there is nothing to merge: ${printable(baseBranch)} has everything that ${printable(headBranch)} has`,
  )
}

export function beginsAnew({ headBranch }: Spoken) {
  return no(
    'conflict',
    `${printable(headBranch)} holds a history that begins anew, which cannot be rebased; merge or squash it`,
  )
}

export function tooMany({ headBranch }: Spoken, countMax: number) {
  return no(
    'conflict',
    `${printable(headBranch)} has more than ${countMax} commits, too many to rebase; merge or squash it`,
  )
}
