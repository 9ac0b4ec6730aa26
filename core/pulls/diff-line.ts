/** Finds a line of a pull request's diff, for a comment of a person on that line. */
import type { PullFile, ReviewLineComment } from '../../protocol/pulls.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { no, type Result, yes } from '../result.ts'

type DiffPlace = Pick<ReviewLineComment, 'path' | 'line' | 'side'>

const HUNK_HEAD = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/
const SIDES = { LEFT: 'old', RIGHT: 'new' } as const

/** Returns the hunk up to the line, as code hosts show it above a comment. */
export function findDiffHunk(files: readonly PullFile[], place: DiffPlace): Result<string> {
  const path = printable(place.path)
  const file = files.find((candidate) => candidate.path === place.path)
  if (file === undefined) return no('invalid', `${path} is not among the changed files`)
  if (file.patch === undefined)
    return no('invalid', `${path} has no diff whose lines could be shown; comment on the whole pull request`)
  const hunk = hunkUpTo(file.patch, place)
  return hunk === undefined
    ? no(
        'invalid',
        `line ${place.line} of the ${SIDES[place.side]} ${path} is not in the diff; choose a line that the diff shows`,
      )
    : yes(hunk)
}

/** Lines that did not change stand on both sides. */
function hunkUpTo(patch: string, { line, side }: DiffPlace): string | undefined {
  let [left, right] = [0, 0]
  let hunk: string[] = []
  for (const text of patch.split('\n')) {
    const head = HUNK_HEAD.exec(text)
    if (head !== null) {
      left = Number(head[1])
      right = Number(head[2])
      hunk = [text]
      continue
    }
    hunk.push(text)
    // A remark about the last line's end belongs to neither side.
    if (text.startsWith('\\')) continue
    const [isLeft, isRight] = [!text.startsWith('+'), !text.startsWith('-')]
    if (side === 'LEFT' ? isLeft && left === line : isRight && right === line) return hunk.join('\n')
    if (isLeft) left += 1
    if (isRight) right += 1
  }
  return undefined
}
