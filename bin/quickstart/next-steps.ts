/**
 * Says what to do after the example: commands that work in the folder in which it was started.
 *
 * Commands are never cut; on a terminal they are folded at its width. The token reaches `curl` by its standard input,
 * because other users can read the arguments of a process.
 */
import { isAbsolute, relative } from 'node:path'
import { quoteWord } from '../../core/quote-word.ts'
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
  /** The key of the repository in the configuration. */
  readonly repo: string
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
  const attach =
    run === undefined ? [] : [`  # talk to the agent of ${run.ticket.identifier}`, command('attach', run.id)]
  if (isKept)
    return [
      'What next, in another terminal in this folder:',
      ...attach,
      ...mergeSteps(facts),
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

function mergeSteps({ run, url, repo, dataDir, cwd, columns }: NextStepsFacts): string[] {
  if (run?.pull === undefined) return []
  const launch = quoteWord(nearPath(`${dataDir}/launch.json`, cwd))
  const header = ['sed', '-n', `'s/.*"token": "\\(.*\\)".*/Authorization: Bearer \\1/p'`, launch]
  const request = ['-H @-', `-H 'Content-Type: application/json'`, `-d '{"method":"merge"}'`]
  const address = `${url}/api/pulls/${repo}/${run.pull.number}/merge`
  return [
    `  # merge the pull request of ${run.ticket.identifier}`,
    foldCommand([...header, '|', 'curl', '-sS', ...request, address], columns),
  ]
}

/** The path from the person's folder when it lies below, so that a command stays short. */
function nearPath(path: string, cwd: string): string {
  const near = relative(cwd, path)
  return near === '' || near.startsWith('..') || isAbsolute(near) ? path : near
}
