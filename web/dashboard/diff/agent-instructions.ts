/** Comments on lines as instructions for the agent: the place, the lines as they are now, and the words. */
import type { DiffLine } from './diff-rows.ts'

export interface LineComment {
  readonly path: string
  readonly side: 'LEFT' | 'RIGHT'
  /** The first of several lines. */
  readonly from?: number
  readonly line: number
  readonly body: string
}

/** More lines than this say no more, and instructions have a limit. */
const QUOTED_LINES_MAX = 40

export function instructionsOf(
  comments: readonly { readonly comment: LineComment; readonly lines: readonly DiffLine[] }[],
): string {
  return comments.map(({ comment, lines }) => instructionOf(comment, lines)).join('\n\n')
}

function instructionOf(comment: LineComment, lines: readonly DiffLine[]): string {
  const before = comment.side === 'LEFT' ? ' of the file before the change' : ''
  const quoted = lines.slice(0, QUOTED_LINES_MAX).map(({ text }) => `> ${text}`)
  if (lines.length > QUOTED_LINES_MAX) quoted.push(`> … ${lines.length - QUOTED_LINES_MAX} more lines`)
  return [`${comment.path}, ${lineWords(comment)}${before}:`, ...quoted, comment.body.trim()].join('\n')
}

/** `line 114`, `lines 112 to 114`. */
export const lineWords = ({ from, line }: Pick<LineComment, 'from' | 'line'>): string =>
  from === undefined || from === line ? `line ${line}` : `lines ${from} to ${line}`
