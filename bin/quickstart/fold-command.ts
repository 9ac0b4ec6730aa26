/**
 * Folds a command line at the width of a terminal, where a shell joins the lines again.
 *
 * A line that the terminal wraps by itself breaks in the middle of a word, and some terminals copy the break with it.
 */

const INDENT = '  '
const NEXT_INDENT = '    '
const JOINED_BY_SHELL = ' \\'

/** @param words quoted for the shell; a word is never broken. @param columns undefined: the line stays whole */
export function foldCommand(words: readonly string[], columns: number | undefined): string {
  const lines: string[] = []
  let line = ''
  for (const [at, word] of words.entries()) {
    const isLast = at === words.length - 1
    const longer = line === '' ? INDENT + word : `${line} ${word}`
    const needed = longer.length + (isLast ? 0 : JOINED_BY_SHELL.length)
    if (line === '' || columns === undefined || needed <= columns) line = longer
    else {
      lines.push(line)
      line = NEXT_INDENT + word
    }
  }
  return [...lines, line].join(`${JOINED_BY_SHELL}\n`)
}
