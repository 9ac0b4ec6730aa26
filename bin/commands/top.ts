/** `switchyard top`: a live board of runs and workers, for terminals that can be redrawn. */
import { ReadStream, WriteStream } from 'node:tty'
import type { CommandContext } from '../client/run-command.ts'
import { EXIT, ExitError } from '../exit.ts'
import { LiveBoard } from '../top/live-board.ts'

const INSTEAD = 'switchyard status --watch'

export async function top(context: CommandContext): Promise<number> {
  if (context.output.format !== 'table')
    throw new ExitError(EXIT.usage, 'top draws a board and prints no records', `${INSTEAD} --json`)
  const { stdin, stdout, env } = process
  // A process whose stream is a terminal has these classes.
  if (!(stdin instanceof ReadStream && stdout instanceof WriteStream))
    throw new ExitError(EXIT.usage, 'top needs a terminal', INSTEAD)
  if (env.TERM === 'dumb')
    throw new ExitError(EXIT.usage, 'top needs a terminal that can be redrawn, and TERM is dumb', INSTEAD)
  return await new LiveBoard(context, stdin, stdout).run()
}
