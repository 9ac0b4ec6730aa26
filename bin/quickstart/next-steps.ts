/**
 * Says what to do after the example: commands that work in the folder in which it was started.
 *
 * Commands are never cut; on a terminal they are folded at its width.
 */
import { isAbsolute, relative } from 'node:path'
import type { Run } from '../../protocol/run.ts'
import { wrapWords } from '../output/text-width.ts'
import { shellWords } from '../shell-command.ts'
import { foldCommand } from './fold-command.ts'

export interface NextStepsFacts {
  /** The file of the switchyard command. */
  readonly program: string
  readonly dataDir: string
  /** The folder in which the person is. */
  readonly cwd: string
  readonly url: string
  /** A run that has a pull request. */
  readonly run: Run | undefined
  /** The width of the terminal; undefined: lines stay whole. */
  readonly columns: number | undefined
}

/** `isKept`: the host goes on serving. */
export function describeNextSteps(facts: NextStepsFacts, isKept: boolean): string {
  const { dataDir, cwd, run, url, columns } = facts
  const command = (...args: string[]) => {
    const words = shellWords(nearPath(facts.program, cwd), ...args, '--data-dir', nearPath(dataDir, cwd))
    return foldCommand(words, columns)
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
      `Serving ${url} until Ctrl-C.`,
      ...place,
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

/** The path from the person's folder when it lies below, so that a command stays short. */
function nearPath(path: string, cwd: string): string {
  const near = relative(cwd, path)
  return near === '' || near.startsWith('..') || isAbsolute(near) ? path : near
}
