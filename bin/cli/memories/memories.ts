/** `switchyard memories`: the facts that runs have learnt about repositories; list, keep, forget, clear. */
import type { Client } from '../../../client/client.ts'
import type { RepoMemory } from '../../../protocol/run.ts'
import { formatAgeOf } from '../../output/times.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import { findRemote } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'

export interface MemoryOptions extends ClientOptions {
  readonly repo?: string | undefined
}

/** A fact beside the repository that it is about. */
interface ListedMemory extends RepoMemory {
  readonly repo: string
}

export async function list({
  client,
  output,
  options,
  present,
}: CommandContext<MemoryOptions>): Promise<void> {
  const { repos } = await client.listMemories()
  // Facts outlast the mapping of their repository.
  const isKept = options.repo !== undefined && Object.hasOwn(repos, options.repo)
  const remote = options.repo === undefined || isKept ? options.repo : await findRemote(client, options.repo)
  const shown = Object.entries(repos).filter(([repo]) => remote === undefined || repo === remote)
  const { now } = present()
  output.list({
    records: memoriesOf(shown),
    json: { repos: Object.fromEntries(shown) },
    id: ({ id }) => id,
    columns: [
      { heading: 'REPO', cell: ({ repo }) => repo, givesWay: 3, shrinksTo: 12, shrinks: 'middle' },
      { heading: 'FACT', cell: ({ text }) => text, shrinksTo: 20, shrinks: 'end' },
      { heading: 'STATE', cell: ({ state = 'kept' }) => state, givesWay: 4 },
      { heading: 'SEEN', cell: ({ hits }) => String(hits), align: 'right', givesWay: 2 },
      {
        heading: 'AGE',
        cell: ({ updatedAt }) => formatAgeOf(updatedAt, now),
        plain: ({ updatedAt }) => updatedAt,
        align: 'right',
        givesWay: 1,
      },
      { heading: 'ID', cell: ({ id }) => id },
    ],
    empty: `No run has learnt anything${remote === undefined ? '' : ` about ${remote}`} yet.`,
  })
}

const memoriesOf = (repos: readonly [string, readonly RepoMemory[]][]): ListedMemory[] =>
  repos.flatMap(([repo, memories]) => memories.map((memory) => ({ ...memory, repo })))

/** The key of a repository mapping stands for its `owner/name`, by which facts are kept. */
async function remoteOf(client: Client, repo: string): Promise<string> {
  const { repos } = await client.readConfig()
  return (Object.hasOwn(repos, repo) ? repos[repo]?.remote : undefined) ?? repo
}

async function findMemory(client: Client, id: string): Promise<ListedMemory> {
  const { repos } = await client.listMemories()
  const fitting = memoriesOf(Object.entries(repos)).filter((memory) => memory.id.startsWith(id))
  const [memory] = fitting.filter((each) => each.id === id).concat(fitting)
  if (memory === undefined) throw refusedError(`no fact is called ${id}`, 'switchyard memories')
  if (memory.id !== id && fitting.length > 1)
    throw usageError(`${id} may be ${fitting.map((each) => each.id).join(' or ')}`)
  return memory
}

export async function keep({ client, output }: CommandContext, id: string): Promise<void> {
  const memory = await findMemory(client, id)
  const all = await client.keepMemory({ repo: memory.repo, body: { id: memory.id } })
  output.outcome(all, memory.id, `Kept: ${memory.text}`)
}

export async function forget({ client, output }: CommandContext, id: string): Promise<void> {
  const memory = await findMemory(client, id)
  const left = await client.forgetMemory({ repo: memory.repo, body: { id: memory.id } })
  output.outcome(left, memory.id, `Forgotten: ${memory.text}`)
}

export async function clear({
  client,
  output,
  questions,
  options,
}: CommandContext<MemoryOptions>): Promise<void> {
  const name = options.repo ?? ''
  const repo = await remoteOf(client, name)
  const { repos } = await client.listMemories()
  const count = Object.hasOwn(repos, repo) ? (repos[repo]?.length ?? 0) : 0
  if (count === 0) throw refusedError(`nothing is known about ${repo}`, 'switchyard memories')
  const facts = count === 1 ? '1 fact' : `${count} facts`
  await questions.confirmLoss({
    loss: `this deletes ${facts} about ${repo}`,
    yes: options.yes,
    command: `switchyard memories clear --repo ${name}`,
  })
  const left = await client.clearMemories({ repo })
  output.outcome(left, repo, `${facts} about ${repo} deleted.`)
}
