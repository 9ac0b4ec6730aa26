/**
 * Finds the run, the worker or the ticket that a person means: by its id, by the name people use, or by the beginning
 * of its id.
 *
 * A ticket's identifier names its newest run. A beginning that fits several things is wrong usage, and the message
 * lists them.
 */
import type { Client } from '../../../client/client.ts'
import { HostRefusal } from '../../../client/errors.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { RUN_DIGITS, shortenIds } from '../../output/short-names.ts'
import { type ExitError, refusedError, usageError } from '../../process/exit.ts'

const RUN_ID = /^run-[0-9a-f]{32}$/
const RUN_BEGINNING = /^(?:run-)?([0-9a-f]{1,32})$/
/** So many candidates are named, and more are counted as more. */
const CANDIDATES_MAX = 5
/** Sorts after every digit of an id. */
const AFTER_DIGITS = 'g'

export async function findRun(client: Client, name: string): Promise<Run> {
  requireName(name, 'run', 'switchyard runs --all')
  if (RUN_ID.test(name)) return await readRun(client, name)
  const [byTicket, byBeginning] = await Promise.all([
    client.listRuns({ ticket: name, limit: 1 }),
    runsBeginningWith(client, name),
  ])
  const [newest] = byTicket
  if (newest !== undefined) return newest
  const [run, ...others] = byBeginning
  if (run === undefined) throw noRun(name)
  if (others.length === 0) return run
  const short = shortenIds(
    byBeginning.map(({ id }) => id),
    RUN_DIGITS,
  )
  const identifiers = new Set(byBeginning.map(({ ticket }) => ticket.identifier))
  throw ambiguous(
    name,
    byBeginning.map(({ id, ticket }) => `${short.get(id)} (${ticket.identifier})`),
    identifiers.size === byBeginning.length ? run.ticket.identifier : (short.get(run.id) ?? run.id),
  )
}

async function readRun(client: Client, id: string): Promise<Run> {
  try {
    return await client.readRun({ id })
  } catch (error) {
    throw error instanceof HostRefusal && error.status === 404 ? noRun(id) : error
  }
}

/** Ids begin with the time, so all that share a beginning stand together. */
async function runsBeginningWith(client: Client, name: string): Promise<readonly Run[]> {
  const digits = RUN_BEGINNING.exec(name)?.[1]
  if (digits === undefined) return []
  const before = `run-${digits}${AFTER_DIGITS}`
  const found = await client.listRuns({ before, limit: CANDIDATES_MAX + 1 })
  return found.filter(({ id }) => id.startsWith(`run-${digits}`))
}

const noRun = (name: string): ExitError =>
  refusedError(`no run or ticket is called ${name}`, 'switchyard runs --all')

/** The runs that are meant, each once. */
export async function findRuns(client: Client, names: readonly string[]): Promise<Run[]> {
  const runs = new Map<string, Run>()
  for (const name of names) {
    const run = await findRun(client, name)
    runs.set(run.id, run)
  }
  return [...runs.values()]
}

export async function findWorker(client: Client, name: string): Promise<WorkerView> {
  requireName(name, 'worker', 'switchyard workers')
  const { workers } = await client.listWorkers()
  const exact = workers.find(({ id }) => id === name)
  if (exact !== undefined) return exact
  const namesakes = workers.filter((each) => each.name === name)
  const fitting =
    namesakes.length > 0
      ? namesakes
      : workers.filter(({ id }) => id.startsWith(name) || id.startsWith(`wk-${name}`))
  const [worker] = fitting
  if (worker === undefined) throw refusedError(`no worker is called ${name}`, 'switchyard workers')
  if (fitting.length === 1) return worker
  throw ambiguous(
    name,
    fitting.map((each) => `${each.id.slice('wk-'.length)} (${each.name}, ${each.connection})`),
    namesakes.length > 0 ? worker.id : worker.name,
  )
}

/** A ticket that is eligible now, or that has a run. */
export async function findTicket(client: Client, name: string): Promise<Ticket> {
  requireName(name, 'ticket', 'switchyard tickets')
  // The host finds one ticket among all of them; its list may be megabytes.
  const { ticket } = await client.explainTicket({ id: name }).catch((error) => {
    throw error instanceof HostRefusal && error.status === 404 ? noTicket(name) : error
  })
  if (ticket === undefined) throw noTicket(name)
  return ticket
}

const noTicket = (name: string): ExitError =>
  refusedError(`no ticket is called ${name}`, 'switchyard tickets')

/** Refuses the name of a repository that is not configured. @returns its `owner/name` */
export async function findRemote(client: Client, name: string): Promise<string> {
  const { repos } = await client.readConfig()
  const mapped = Object.hasOwn(repos, name) ? repos[name]?.remote : undefined
  if (mapped !== undefined) return mapped
  if (Object.values(repos).some(({ remote }) => remote === name)) return name
  throw refusedError(
    `${name} is not a key under repos, nor the owner/name of one`,
    'switchyard config get repos',
  )
}

/** An empty text, such as a variable of a script that is not set, is the beginning of every id. */
export function requireName(name: string, what: string, cure: string): void {
  if (name.trim() === '') throw usageError(`the name of the ${what} is empty`, cure)
}

/** @param example a name that is not ambiguous */
function ambiguous(name: string, candidates: readonly string[], example: string): ExitError {
  const named = candidates.slice(0, CANDIDATES_MAX)
  const more = candidates.length > named.length ? ', or another' : ''
  return usageError(
    `${name} may be ${named.join(' or ')}${more}`,
    commandWith(name, example, process.argv.slice(2)),
  )
}

/** The command line that was typed, with another name. */
function commandWith(name: string, example: string, typed: readonly string[]): string {
  if (!typed.includes(name)) return `write more of it, or ${example}`
  return ['switchyard', ...typed.map((word) => quoteWord(word === name ? example : word))].join(' ')
}
