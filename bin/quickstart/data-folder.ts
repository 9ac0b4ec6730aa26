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
import { EXIT, ExitError } from '../exit.ts'
import { shellCommand } from '../shell-command.ts'
import { createSampleRepository, REMOTE, readBaseFile } from './sample-repository.ts'
import { type ExampleTicket, nextTickets, ticketFile } from './tickets.ts'

export interface ExampleFolder {
  readonly dataDir: string
  readonly config: string
  readonly tickets: string
  readonly code: string
  readonly hostLog: string
}

export function exampleFolder(dataDir: string): ExampleFolder {
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
export async function prepareFolder(folder: ExampleFolder): Promise<void> {
  for (const path of [folder.dataDir, folder.tickets, folder.code]) await makeFolder(path)
  const text = await readFile(folder.config, 'utf8').catch(() => undefined)
  if (text === undefined)
    await createFile(folder.config, `${JSON.stringify(configFor(folder), undefined, 2)}\n`)
  else refuseForeignConfig(folder, text)
  await createSampleRepository(folder.code)
}

/** `announced` hears of them before the first is there to be found. Each file appears whole. */
export async function writeTickets(
  { tickets, code }: ExampleFolder,
  announced: (tickets: readonly ExampleTicket[]) => void,
): Promise<void> {
  const next = await nextTickets(await readdir(tickets), (path) => readBaseFile(code, path))
  announced(next)
  for (const ticket of next) {
    await replaceFile(join(tickets, `${ticket.identifier}.md`), ticketFile(ticket))
  }
}

function configFor({ tickets, code }: ExampleFolder) {
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

function refuseForeignConfig(folder: ExampleFolder, text: string): void {
  const read = readConfig(text)
  if (!read.ok)
    throw new ExitError(EXIT.config, `${folder.config} does not validate: ${read.refusal.message}`)
  const { tracker, codehost, repos, agent } = read.value.effective
  const own = configFor(folder)
  const isOwn =
    tracker.path === own.tracker.path &&
    codehost.path === own.codehost.path &&
    repos.example?.remote === REMOTE &&
    agent.commands.agentA === own.agent.commands.agentA
  if (isOwn) return
  throw new ExitError(
    EXIT.config,
    `${folder.config} is no longer that of the example, so the example leaves it alone. Serve it as it is with "${shellCommand(process.argv[1] ?? '', 'serve', '--data-dir', folder.dataDir)}", or name another folder with --data-dir.`,
  )
}
