/** `switchyard pulls list`, `show`, `diff`, `checks` and `open`: reads pull requests. */
import type { Client } from '../../../client/client.ts'
import { runInCommand } from '../../../core/run/name-in-commands.ts'
import { verdictOf } from '../../../protocol/pull-concerns.ts'
import type { PullDetail, PullFile, PullSummary } from '../../../protocol/pulls.ts'
import type { StyledStream } from '../../output/styled-stream.ts'
import type { TableCell, TableColumn } from '../../output/table.ts'
import { formatAgeOf } from '../../output/times.ts'
import { refusedError } from '../../process/exit.ts'
import { findRemote } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { openAddress } from '../runs/run-files.ts'
import { outcomeOf, pullLines } from './pull-lines.ts'
import { findPull, formatPull } from './pull-names.ts'

export interface PullListOptions extends ClientOptions {
  readonly repo?: string | undefined
  readonly state?: PullSummary['state'] | undefined
}

export async function list({
  client,
  output,
  options,
  present,
}: CommandContext<PullListOptions>): Promise<void> {
  const { repo, state } = options
  const { pulls, errors } = await client.listPulls()
  const { now } = present()
  const ofRepo = pulls.filter((pull) => repo === undefined || [pull.repo, pull.remote].includes(repo))
  // A repository without pull requests is known all the same.
  if (repo !== undefined && ofRepo.length === 0) await findRemote(client, repo)
  const shown = ofRepo.filter((pull) => state === undefined || pull.state === state)
  for (const error of errors) output.warn(`${error.repo}: ${output.stderr.clean(error.message)}`)
  output.list({
    records: shown,
    json: { pulls: shown, errors },
    id: formatPull,
    columns: pullColumns(output.stdout, now),
    empty: errors.length === 0 ? 'No pull request. Next: switchyard runs' : 'No pull request elsewhere.',
  })
}

/** On a narrow terminal the columns that give way leave first; a fact that is not known is `-`. */
const pullColumns = (stdout: StyledStream, now: number): TableColumn<PullSummary>[] => [
  { heading: 'PULL', cell: formatPull },
  { heading: 'TITLE', cell: ({ title }) => title, shrinksTo: 12, shrinks: 'end' },
  { heading: 'STATE', cell: ({ state }) => state },
  { heading: 'CHECKS', cell: ({ checksState }) => paintedChecks(stdout, checksState), givesWay: 4 },
  { heading: 'SIZE', cell: formatSize, givesWay: 3 },
  {
    heading: 'COMMENTS',
    cell: ({ commentCount }) => String(commentCount ?? '-'),
    align: 'right',
    givesWay: 0,
  },
  { heading: 'AUTHOR', cell: ({ author }) => author, givesWay: 1 },
  {
    heading: 'UPDATED',
    cell: ({ updatedAt }) => `${formatAgeOf(updatedAt, now)} ago`,
    plain: ({ updatedAt }) => updatedAt,
    givesWay: 2,
  },
  { heading: 'TICKET', cell: ({ run }) => run?.ticket ?? '-', givesWay: 5 },
]

function paintedChecks({ colors }: StyledStream, checks: PullSummary['checksState']): TableCell {
  const paint = checks === 'failed' ? colors.bad : checks === 'passed' ? colors.good : undefined
  return { text: checks ?? '-', ...(paint === undefined ? {} : { paint }) }
}

function formatSize({ additions, deletions, changedFiles }: PullSummary): string {
  if (additions === undefined || deletions === undefined || changedFiles === undefined) return '-'
  return `+${additions} -${deletions}, ${changedFiles} ${changedFiles === 1 ? 'file' : 'files'}`
}

export async function show({ client, output }: CommandContext, words: readonly string[]): Promise<void> {
  const name = await findPull(client, words)
  const pull = await client.readPull(name)
  if (output.format === 'json') output.json(pull)
  else if (output.format === 'id') output.data(formatPull(name))
  else {
    for (const line of pullLines(output.stdout, pull)) output.data(line)
    if (pull.state === 'open') output.next(...(await nextCommands(client, pull)))
  }
}

/** The commands that help with an open pull request, named by its ticket where that means this one. */
async function nextCommands(client: Client, pull: PullDetail): Promise<string[]> {
  const { run } = pull
  const byNumber = `${pull.repo} ${pull.number}`
  if (run === undefined) return [`switchyard pulls merge ${byNumber}`]
  const [newest] = await client.listRuns({ ticket: run.ticket, limit: 1 })
  const name = newest?.id === run.id ? runInCommand(newest) : undefined
  const merge = `switchyard pulls merge ${name ?? byNumber}`
  return asksForWork(pull) ? [`switchyard followup ${name ?? run.id}`, merge] : [merge]
}

const asksForWork = (pull: PullDetail): boolean =>
  verdictOf(pull) !== undefined || pull.conversation.threads.some(({ resolved }) => !resolved)

export async function checks({ client, output }: CommandContext, words: readonly string[]): Promise<void> {
  const { checks, checksLookupFailed } = await client.readPull(await findPull(client, words))
  output.list({
    records: checks,
    id: ({ name }) => name,
    columns: [
      { heading: 'CHECK', cell: ({ name }) => name },
      { heading: 'OUTCOME', cell: outcomeOf },
      { heading: 'ADDRESS', cell: ({ url }) => url ?? '-', givesWay: 1 },
    ],
    empty: 'The pull request has no checks.',
  })
  if (checksLookupFailed === true) output.warn('some checks could not be read')
}

export async function diff({ client, output }: CommandContext, words: readonly string[]): Promise<void> {
  const { files } = await client.readPull(await findPull(client, words))
  if (output.format === 'json') output.json(files)
  else
    for (const file of files)
      printFile(output.stdout, file, output.format === 'id', (line) => output.data(line))
}

function printFile(
  stdout: StyledStream,
  { path, previousPath, additions, deletions, patch }: PullFile,
  isNameOnly: boolean,
  print: (line: string) => void,
): void {
  const from = previousPath === undefined ? '' : ` (was ${previousPath})`
  print(stdout.clean(isNameOnly ? path : `${path}${from}  +${additions} -${deletions}`))
  if (isNameOnly || patch === undefined) return
  for (const line of patch.replace(/\n$/, '').split('\n')) {
    const text = stdout.truncate(stdout.clean(line))
    print(paintOf(stdout, line)(text))
  }
}

/** Diffs have the colours of git. */
function paintOf({ colors }: StyledStream, line: string): (text: string) => string {
  if (line.startsWith('+')) return colors.good
  if (line.startsWith('-')) return colors.bad
  return line.startsWith('@@') ? colors.dim : (text) => text
}

export async function open({ client, output }: CommandContext, words: readonly string[]): Promise<void> {
  const name = await findPull(client, words)
  const { url } = await client.readPull(name)
  if (!/^https?:/.test(url))
    throw refusedError(
      `no browser shows ${formatPull(name)}`,
      `switchyard pulls show ${name.repo} ${name.number}`,
    )
  openAddress(output, url)
}
