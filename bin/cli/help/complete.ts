/**
 * `switchyard complete -- WORD…`: prints what may stand in place of the last word, for the shells' completion.
 *
 * Each line is a value, a tab and what it is; the last line says whether files complete it too. Ids come from the
 * host when it answers in time. Nothing else is ever printed: a shell would write an error into the line.
 */
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { type CallOptions, type Client, createClient } from '../../../client/client.ts'
import { shortId } from '../../output/short-names.ts'
import { cleanLine, truncateEnd } from '../../output/text-width.ts'
import { connectToHost } from '../../process/host-connection.ts'
import { type Candidate, type Completion, type IdKind, readLine } from './completion-line.ts'

/** From the start of this process to its end. */
const COMPLETION_MS_MAX = 300
/** For what comes after the last answer. */
const PRINTING_MS = 20
const ABOUT_COLUMNS_MAX = 60
/** No shell reads anything else into these values, so no text of others becomes a command. */
const PLAIN = /^[\w-][\w.+/@%-]*$/

/** The numbers that the library's scripts know. */
const DIRECTIVE = { files: 0, noFiles: 4 } as const

export async function complete(tree: CommandUnknownOpts, typed: readonly string[]): Promise<void> {
  const completion = readLine(tree, typed)
  const candidates = [...completion.words, ...(await readIdsInTime(completion))]
  const lines = new Map<string, string>()
  for (const { value, about } of candidates)
    if (value.startsWith(completion.beginning) && PLAIN.test(value) && !lines.has(value))
      lines.set(value, `${value}\t${describe(about)}`)
  const directive = completion.areFilesWanted ? DIRECTIVE.files : DIRECTIVE.noFiles
  process.stdout.write(`${[...lines.values(), `:${directive}`].join('\n')}\n`)
}

async function readIdsInTime(completion: Completion): Promise<Candidate[]> {
  const leftMs = COMPLETION_MS_MAX - PRINTING_MS - process.uptime() * 1000
  if (completion.ids.length === 0 || leftMs <= 0) return []
  try {
    const { dataDir, hostUser } = completion
    const client = createClient(connectToHost(dataDir, process.env, hostUser))
    return await readIds(client, completion, { signal: AbortSignal.timeout(Math.ceil(leftMs)) })
  } catch {
    return []
  }
}

const describe = (about: string): string => truncateEnd(cleanLine(about), ABOUT_COLUMNS_MAX, '...')

// ---- ids of the host -----------------------------------------------------------------------------------------------

/** A longer list helps nobody. */
const IDS_MAX = 200

/** Ids of all kinds that fit, each once. Throws like every function of the client. */
export async function readIds(
  client: Client,
  { ids, args, beginning }: Completion,
  options: CallOptions,
): Promise<Candidate[]> {
  const readers: Readonly<Record<IdKind, () => Promise<Candidate[]>>> = {
    run: () => readRuns(client, beginning, options),
    ticket: () => readTickets(client, beginning, options),
    worker: () => readWorkers(client, options),
    repo: () => readRepos(client, options),
    pull: () => readPulls(client, args, options),
    setting: () => readSettings(client, options),
    memory: () => readMemories(client, options),
  }
  return (await Promise.all(ids.map((kind) => readers[kind]()))).flat()
}

/** People name a run by its ticket; its own id is offered to those who have begun to write one. */
async function readRuns(client: Client, beginning: string, options: CallOptions): Promise<Candidate[]> {
  const runs = await client.listRuns({ limit: IDS_MAX }, options)
  return runs.flatMap(({ id, ticket, status }) => {
    const about = `${status}, ${ticket.title}`
    const byId = beginning.startsWith('run-') ? id : shortId(id)
    const byTicket = { value: ticket.identifier, about }
    return beginning === ''
      ? [byTicket]
      : [byTicket, { value: byId, about: `${ticket.identifier}, ${about}` }]
  })
}

async function readTickets(client: Client, beginning: string, options: CallOptions): Promise<Candidate[]> {
  const named = beginning.trim() === '' ? {} : { q: beginning }
  const tickets = await client.listTickets({ ...named, limit: IDS_MAX }, options)
  return tickets.map(({ identifier, title }) => ({ value: identifier, about: title }))
}

async function readWorkers(client: Client, options: CallOptions): Promise<Candidate[]> {
  const { workers } = await client.listWorkers({}, options)
  return workers.map(({ name, connection }) => ({ value: name, about: connection }))
}

async function readRepos(client: Client, options: CallOptions): Promise<Candidate[]> {
  const { repos } = await client.readConfig({}, options)
  return Object.keys(repos).map((value) => ({ value, about: 'repository' }))
}

/** `REPO NUMBER`, or the ticket. */
async function readPulls(
  client: Client,
  [repo]: readonly string[],
  options: CallOptions,
): Promise<Candidate[]> {
  if (repo === undefined) {
    const [repos, runs] = await Promise.all([readRepos(client, options), readRuns(client, '', options)])
    return [...repos, ...runs]
  }
  const { pulls } = await client.listPulls({}, options)
  return pulls
    .filter((pull) => pull.repo === repo)
    .map(({ number, title }) => ({ value: String(number), about: title }))
}

async function readSettings(client: Client, options: CallOptions): Promise<Candidate[]> {
  return keysOf(await client.readConfig({}, options), [])
}

/** The section before its keys, as `config get` takes both. */
function keysOf(value: unknown, path: readonly string[]): Candidate[] {
  const own = path.length === 0 ? [] : [{ value: path.join('.'), about: '' }]
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return own
  return [...own, ...Object.entries(value).flatMap(([key, inner]) => keysOf(inner, [...path, key]))]
}

async function readMemories(client: Client, options: CallOptions): Promise<Candidate[]> {
  const { repos } = await client.listMemories({}, options)
  return Object.values(repos)
    .flat()
    .map(({ id, text }) => ({ value: id, about: text }))
}
