/**
 * The example's data directory: a configuration whose neighbours are folders, a repository, tickets.
 *
 * The configuration is written once and is the person's from then on. Where it no longer is the example's, nothing is
 * touched: somebody's own tickets and repositories are not for playing with.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readConfig } from '../../core/settings/read.ts'
import { createFile, makeFolder, replaceFile } from '../../store/files/atomic.ts'
import { Ending, EXIT } from '../exit.ts'
import { commandLine } from '../shell-command.ts'
import { fileOnBase, makeGreeter, REMOTE } from './sample-repository.ts'
import { type ExampleTicket, nextTickets, ticketFile } from './tickets.ts'

export interface Place {
  readonly dataDir: string
  readonly config: string
  readonly tickets: string
  readonly code: string
  readonly hostLog: string
}

export function placeIn(dataDir: string): Place {
  const inside = (name: string) => join(dataDir, name)
  return {
    dataDir,
    config: inside('config.json'),
    tickets: inside('tickets'),
    code: inside('code'),
    hostLog: inside('host.log'),
  }
}

/** Everything but the tickets, which are for a host that is there to see them. */
export async function prepare(place: Place): Promise<void> {
  for (const folder of [place.dataDir, place.tickets, place.code]) await makeFolder(folder)
  const text = await readFile(place.config, 'utf8').catch(() => undefined)
  if (text === undefined)
    await createFile(place.config, `${JSON.stringify(configFor(place), undefined, 2)}\n`)
  else refuseStrangers(place, text)
  await makeGreeter(place.code)
}

/** `announced` hears of them before the first is there to be found. Each file appears whole. */
export async function writeTickets(
  { tickets, code }: Place,
  announced: (tickets: readonly ExampleTicket[]) => void,
): Promise<void> {
  const next = await nextTickets(await readdir(tickets), (path) => fileOnBase(code, path))
  announced(next)
  for (const ticket of next) {
    await replaceFile(join(tickets, `${ticket.identifier}.md`), ticketFile(ticket))
  }
}

function configFor({ tickets, code }: Place) {
  return {
    // Any free port: two checkouts must not stand in each other's way.
    server: { port: 0 },
    sandbox: { network: 'none', concurrency: 3 },
    agent: { commands: { agentA: 'scripted-agent' } },
    tracker: { driver: 'local', path: tickets, startedState: 'In Progress', reviewState: 'In Review' },
    codehost: { driver: 'local', path: code },
    repos: { example: { remote: REMOTE } },
  }
}

function refuseStrangers(place: Place, text: string): void {
  const read = readConfig(text)
  if (!read.ok) throw new Ending(EXIT.config, `${place.config} does not validate: ${read.refusal.message}`)
  const { tracker, codehost, repos, agent } = read.value.effective
  const own = configFor(place)
  const isOwn =
    tracker.path === own.tracker.path &&
    codehost.path === own.codehost.path &&
    repos.example?.remote === REMOTE &&
    agent.commands.agentA === own.agent.commands.agentA
  if (isOwn) return
  throw new Ending(
    EXIT.config,
    `${place.config} is no longer that of the example, so the example leaves it alone. Serve it as it is with "${commandLine(process.argv[1] ?? '', 'serve', '--data-dir', place.dataDir)}", or name another folder with --data-dir.`,
  )
}
