/** Runs another command of this program in the foreground of the person's terminal. */
import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { ClientConnection } from '../../client/connection.ts'
import type { ClientOptions } from '../client/run-command.ts'

export interface ForegroundCommand {
  readonly child: ChildProcess
  /** The exit code; a signal counts as in shells. */
  readonly exit: Promise<number>
}

/** Shells add the number of the signal. */
const SIGNAL_EXIT_CODE_BASE = 128

/** @param words the command and its arguments */
export async function startForegroundCommand(
  connection: ClientConnection,
  { dataDir, color }: Pick<ClientOptions, 'dataDir' | 'color'>,
  words: readonly string[],
): Promise<ForegroundCommand> {
  const hasColor = words[0] !== 'attach' && color !== undefined
  const options = [
    ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
    ...(hasColor ? ['--color', color] : []),
  ]
  const args = [...process.execArgv, process.argv[1] ?? '', ...words, ...options]
  const env = { ...process.env, ...(await addressIn(connection)) }
  const child = spawn(process.execPath, args, { stdio: 'inherit', env })
  const exit = new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code, signal) =>
      resolve(code ?? SIGNAL_EXIT_CODE_BASE + constants.signals[signal ?? 'SIGTERM']),
    )
  })
  return { child, exit }
}

/** The token that this process has taken out of its environment; the other command takes it out of its own, too. */
async function addressIn(connection: ClientConnection): Promise<NodeJS.ProcessEnv> {
  const at = await Promise.resolve(connection.address()).catch(() => undefined)
  // A file with the token is named by a variable, which the other command inherits.
  if (at?.tokenFrom !== 'SWITCHYARD_TOKEN' || at.token === undefined) return {}
  return { SWITCHYARD_URL: at.url, SWITCHYARD_TOKEN: at.token }
}
