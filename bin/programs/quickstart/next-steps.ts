/**
 * Says what to do after the example: commands that work in the folder in which it was started.
 *
 * Commands are never cut; on a terminal they are folded at its width.
 */
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { Run } from '../../../protocol/run.ts'
import { wrapWords } from '../../output/text-width.ts'
import { nearPath } from '../../process/this-program.ts'

export interface NextStepsFacts {
  /** The words by which this program was started. */
  readonly program: readonly string[]
  readonly dataDir: string
  /** The folder in which the person is. */
  readonly cwd: string
  /** A link to the page; undefined where none is served. */
  readonly link?: string | undefined
  /** A run that has a pull request. */
  readonly run: Run | undefined
  /** The width of the terminal; undefined: lines stay whole. */
  readonly columns: number | undefined
}

/** `isKept`: the host goes on serving. */
export function describeNextSteps(facts: NextStepsFacts, isKept: boolean): string {
  const { program, dataDir, cwd, run, link, columns } = facts
  const command = (...args: string[]) => {
    const words = [...args, '--data-dir', nearPath(dataDir, cwd)].map(quoteWord)
    return foldCommand([...program, ...words], columns)
  }
  const where = `Everything lies in ${nearPath(dataDir, cwd)}`
  const place = columns === undefined ? [where] : wrapWords(where, columns)
  const name = run?.ticket.identifier
  const attach = name === undefined ? [] : [`  # talk to the agent of ${name}`, command('attach', name)]
  const merge =
    name === undefined ? [] : [`  # merge the pull request of ${name}`, command('pulls', 'merge', name)]
  if (isKept)
    return [
      'What next, in another terminal in this folder:',
      '  # see everything in a page, and act on it',
      command('dashboard'),
      '  # see what runs, what waits and what needs you',
      command('status'),
      ...attach,
      ...merge,
      'Serving until Ctrl-C.',
      ...place,
      ...(link === undefined ? [] : ['The page; this link is good once, for a minute:', `  ${link}`]),
    ].join('\n')
  return [
    'The host ends now. What next, in this folder:',
    '  # three more tickets, and go on serving',
    command('quickstart', '--keep'),
    '  # serve tickets of your own',
    command('serve'),
    ...attach.map((line) => line.replace(/^( {2}# .*)$/, '$1, while it serves')),
    ...place,
  ].join('\n')
}

const INDENT = '  '
const NEXT_INDENT = '    '
const JOINED_BY_SHELL = ' \\'

/**
 * Folds where a shell joins the lines again; some terminals copy a break that they made.
 *
 * @param words quoted for the shell; a word is never broken
 * @param columns undefined: the line stays whole
 */
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
