/** `switchyard pulls list`, `show`, `diff`, `checks` and `open`: reads pull requests. */
import type { PullCheck, PullDetail, PullFile, PullSummary, PullThread } from '../../protocol/pulls.ts'
import { findPull, formatPull } from '../client/pull-names.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { EXIT, ExitError } from '../exit.ts'
import type { StyledStream } from '../output/styled-stream.ts'
import type { TableColumn } from '../output/table.ts'
import { formatAgeOf } from '../output/times.ts'
import { openAddress } from './run-files.ts'

export interface PullListOptions extends ClientOptions {
  readonly repo?: string | undefined
  readonly state?: PullSummary['state'] | undefined
}

const NAME_COLUMNS = 10

export async function list({
  client,
  output,
  options,
  present,
}: CommandContext<PullListOptions>): Promise<void> {
  const { repo, state } = options
  const { pulls, errors } = await client.listPulls()
  const { now } = present()
  const shown = pulls
    .filter((pull) => repo === undefined || [pull.repo, pull.remote].includes(repo))
    .filter((pull) => state === undefined || pull.state === state)
  output.list({
    records: shown,
    json: { pulls: shown, errors },
    id: formatPull,
    columns: pullColumns(now),
    empty: 'No pull request. Next: switchyard runs',
  })
  for (const error of errors) output.warn(`${error.repo}: ${output.stderr.clean(error.message)}`)
}

const pullColumns = (now: number): TableColumn<PullSummary>[] => [
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
]

export async function show({ client, output }: CommandContext, words: readonly string[]): Promise<void> {
  const name = await findPull(client, words)
  const pull = await client.readPull(name)
  if (output.format === 'json') output.json(pull)
  else if (output.format === 'id') output.data(formatPull(name))
  else {
    for (const line of pullLines(output.stdout, pull)) output.data(line)
    if (pull.state === 'open') output.next(`switchyard pulls merge ${name.repo} ${name.number}`)
  }
}

function pullLines(stdout: StyledStream, pull: PullDetail): string[] {
  const { conversation, checks, additions, deletions } = pull
  const facts: readonly (readonly [string, string])[] = [
    ['address', pull.url],
    [
      'branch',
      `${pull.headBranch} into ${pull.baseBranch}, ${pull.commits.length} commits, ${pull.changedFiles} files`,
    ],
    ['checks', checks.map((check) => `${check.name} ${outcomeOf(check)}`).join(', ') || 'none'],
    ['reviews', conversation.reviews.map(({ author, state }) => `${author} ${state}`).join(', ') || 'none'],
    ...conversation.comments.map(({ author, body }) => ['comment', `${author}: ${body}`] as const),
    ...conversation.threads.map((thread) => ['thread', describeThread(thread)] as const),
  ]
  return [
    stdout.alignEnds(
      stdout.clean(`${formatPull(pull)}  ${pull.title}`),
      `${pull.state}, +${additions} -${deletions}`,
    ),
    ...facts.map(([heading, value]) =>
      stdout.truncate(`${heading.padEnd(NAME_COLUMNS)}${stdout.clean(value)}`),
    ),
  ]
}

function describeThread({ path, line, resolved, comments }: PullThread): string {
  const [first] = comments
  const opening = first === undefined ? '' : `  ${first.author}: ${first.body}`
  return `${path}${line === undefined ? '' : `:${line}`}, ${resolved ? 'resolved' : 'open'}${opening}`
}

const outcomeOf = ({ status, conclusion }: PullCheck): string => conclusion ?? status.replace('_', ' ')

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
    throw new ExitError(EXIT.refused, `no browser shows ${formatPull(name)}`, 'switchyard pulls show')
  openAddress(output, url)
}
