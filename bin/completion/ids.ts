/** Asks the host for the ids that complete a command line. */
import type { CallOptions, Client } from '../../client/client.ts'
import { shortId } from '../output/short-ids.ts'
import type { Candidate, Completion, IdKind } from './line.ts'

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
    ticket: () => readTickets(client, options),
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

async function readTickets(client: Client, options: CallOptions): Promise<Candidate[]> {
  const tickets = await client.listTickets({}, options)
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
