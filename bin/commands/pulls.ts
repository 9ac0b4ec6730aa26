/** `switchyard pulls list`, `show`, `diff`, `checks` and `open`: reads pull requests. */
import type { Client } from '../../client/client.ts'
import { runInCommand } from '../../core/run/name-in-commands.ts'
import { verdictOf } from '../../protocol/pull-concerns.ts'
import type { PullDetail, PullFile, PullSummary } from '../../protocol/pulls.ts'
import type { Run } from '../../protocol/run.ts'
import { findRemote } from '../client/names.ts'
import { findPull, formatPull } from '../client/pull-names.ts'
import { findRunsOfPulls, RUNS_PAGE } from '../client/pull-runs.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { EXIT, ExitError } from '../exit.ts'
import type { StyledStream } from '../output/styled-stream.ts'
import type { TableColumn } from '../output/table.ts'
import { formatAgeOf } from '../output/times.ts'
import { outcomeOf, pullLines } from './pull-lines.ts'
import { openAddress } from './run-files.ts'

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
  const isTable = output.format === 'table'
  const [{ pulls, errors }, newestRuns] = await Promise.all([
    client.listPulls(),
    isTable ? client.listRuns({ limit: RUNS_PAGE }) : [],
  ])
  const { now } = present()
  const ofRepo = pulls.filter((pull) => repo === undefined || [pull.repo, pull.remote].includes(repo))
  // A repository without pull requests is known all the same.
  if (repo !== undefined && ofRepo.length === 0) await findRemote(client, repo)
  const shown = ofRepo.filter((pull) => state === undefined || pull.state === state)
  const runs = isTable ? await findRunsOfPulls(client, shown, newestRuns) : new Map()
  for (const error of errors) output.warn(`${error.repo}: ${output.stderr.clean(error.message)}`)
  output.list({
    records: shown,
    json: { pulls: shown, errors },
    id: formatPull,
    columns: pullColumns(now, runs),
    empty: errors.length === 0 ? 'No pull request. Next: switchyard runs' : 'No pull request elsewhere.',
  })
}

const pullColumns = (now: number, runs: ReadonlyMap<string, Run>): TableColumn<PullSummary>[] => [
  { heading: 'PULL', cell: formatPull },
  { heading: 'TITLE', cell: ({ title }) => title, shrinksTo: 12, shrinks: 'end' },
  { heading: 'STATE', cell: ({ state }) => state },
  { heading: 'AUTHOR', cell: ({ author }) => author, givesWay: 1 },
  {
    heading: 'UPDATED',
    cell: ({ updatedAt }) => `${formatAgeOf(updatedAt, now)} ago`,
    plain: ({ updatedAt }) => updatedAt,
    givesWay: 2,
  },
  { heading: 'TICKET', cell: ({ url }) => runs.get(url)?.ticket.identifier ?? '-', givesWay: 3 },
]

export async function show({ client, output }: CommandContext, words: readonly string[]): Promise<void> {
  const name = await findPull(client, words)
  const pull = await client.readPull(name)
  if (output.format === 'json') output.json(pull)
  else if (output.format === 'id') output.data(formatPull(name))
  else {
    const run = (await findRunsOfPulls(client, [pull])).get(pull.url)
    for (const line of pullLines(output.stdout, pull, run)) output.data(line)
    if (pull.state === 'open') output.next(...(await nextCommands(client, pull, run)))
  }
}

/** The commands that help with an open pull request, named by its ticket where that means this one. */
async function nextCommands(client: Client, pull: PullDetail, run: Run | undefined): Promise<string[]> {
  const byNumber = `${pull.repo} ${pull.number}`
  if (run === undefined) return [`switchyard pulls merge ${byNumber}`]
  const [newest] = await client.listRuns({ ticket: run.ticket.identifier, limit: 1 })
  const isNewest = newest?.id === run.id
  const merge = `switchyard pulls merge ${isNewest ? runInCommand(run) : byNumber}`
  return asksForWork(pull) ? [`switchyard followup ${isNewest ? runInCommand(run) : run.id}`, merge] : [merge]
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
    throw new ExitError(
      EXIT.refused,
      `no browser shows ${formatPull(name)}`,
      `switchyard pulls show ${name.repo} ${name.number}`,
    )
  openAddress(output, url)
}
