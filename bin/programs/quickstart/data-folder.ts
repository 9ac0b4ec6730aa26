/**
 * Prepares the example's data directory: a configuration with local folders as providers, a repository, tickets.
 *
 * The configuration is written once and belongs to the person afterwards. If it is not the example's any more, nothing
 * is changed, because the tickets and repositories in it are real.
 */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { settingSentence } from '../../../client/settings.ts'
import { readConfig } from '../../../core/settings/read.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { makeOwnerOnly } from '../../../store/data-folder.ts'
import { createFile, makeFolder, replaceFile } from '../../../store/files/atomic.ts'
import { EXIT, ExitError } from '../../process/exit.ts'
import { inDataDir } from '../../process/store-exit-code.ts'
import { startedAs } from '../../process/this-program.ts'
import { createSampleRepository, REMOTE, readBaseFile } from './sample-repository.ts'
import { type ExampleTicket, nextTickets, ticketFile } from './tickets.ts'

/** The repository's key in the configuration: its name on the code host, so that its pull requests have one name. */
export const EXAMPLE_REPO = 'greeter'

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

/** Prepares everything except the tickets, which are written when the host is running. */
export async function prepareFolder(folder: ExampleFolder): Promise<void> {
  const text = await readFile(folder.config, 'utf8').catch(() => undefined)
  if (text !== undefined) refuseForeignConfig(folder, text)
  // Refuses a folder of others before anything is written; with a configuration in it the host would accept it.
  await inDataDir(folder.dataDir, () => makeOwnerOnly(folder.dataDir, ['state', 'config.json']))
  for (const path of [folder.tickets, folder.code]) await makeFolder(path)
  if (text === undefined)
    await createFile(folder.config, `${JSON.stringify(configFor(folder), undefined, 2)}\n`)
  await createSampleRepository(folder.code)
}

/** Writes the next tickets, each file atomically. @param announced called before the first file exists */
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
    // Any free port, so that two examples do not conflict.
    server: { port: 0 },
    sandbox: { network: 'none', concurrency: 3 },
    agent: { commands: { agentA: 'scripted-agent' } },
    tracker: { driver: 'local', path: tickets, startedState: 'In Progress', reviewState: 'In Review' },
    codehost: { driver: 'local', path: code },
    repos: { [EXAMPLE_REPO]: { remote: REMOTE } },
  }
}

const serveCommand = (dataDir: string): string =>
  [...startedAs(), 'serve', '--data-dir', quoteWord(dataDir)].join(' ')

function refuseForeignConfig(folder: ExampleFolder, text: string): void {
  const read = readConfig(text)
  if (!read.ok)
    throw new ExitError(
      EXIT.config,
      `${folder.config} does not validate: ${settingSentence(read.refusal.message)}`,
    )
  const { tracker, codehost, repos, agent } = read.value.effective
  const own = configFor(folder)
  const isOwn =
    tracker.path === own.tracker.path &&
    codehost.path === own.codehost.path &&
    Object.values(repos).some(({ remote }) => remote === REMOTE) &&
    agent.commands.agentA === own.agent.commands.agentA
  if (isOwn) return
  throw new ExitError(
    EXIT.config,
    `${folder.config} is not the example's configuration any more, so it is not changed. Serve it unchanged with "${serveCommand(folder.dataDir)}", or name another folder with --data-dir.`,
  )
}
