/**
 * Runs a command that is a client of the host: opens the connection and the output, and reports how it ended.
 */
import { type Client, createClient } from '../../client/client.ts'
import type { ClientConnection } from '../../client/connection.ts'
import { createOutput, type PrintOptions } from '../output/create-output.ts'
import type { Output } from '../output/output.ts'
import { Questions } from '../output/questions.ts'
import { localOffset, type Present } from '../output/times.ts'
import { reportError } from '../report-error.ts'
import { connectToHost } from './host-connection.ts'
import { LastAnswers } from './last-answers.ts'

/** The options of every client command. */
export interface ClientOptions extends PrintOptions {
  readonly yes?: boolean | undefined
  readonly debug?: boolean | undefined
  /** The user whose program the host of `SWITCHYARD_URL` is. */
  readonly hostUser?: string | undefined
}

export interface CommandContext<O extends ClientOptions = ClientOptions> {
  readonly connection: ClientConnection
  readonly client: Client
  readonly output: Output
  readonly questions: Questions
  readonly options: O
  readonly present: () => Present
}

/** Returns the exit code; nothing is 0. */
export type ClientCommand<O extends ClientOptions> = (
  context: CommandContext<O>,
) => Promise<number | undefined> | Promise<void>

export async function runCommand<O extends ClientOptions>(
  options: O,
  command: ClientCommand<O>,
): Promise<void> {
  const output = createOutput(options)
  const answers = new LastAnswers()
  try {
    const connection = connectToHost(options.dataDir, process.env, options.hostUser)
    const client = createClient(connection, (name, answer) => answers.keep(name, answer))
    const present = () => ({ now: Date.now(), offset: localOffset })
    const code = await command({
      connection,
      client,
      output,
      // Opening standard input takes longer than most commands that ask nothing have to spare.
      get questions() {
        return new Questions(process.stdin, output)
      },
      options,
      present,
    })
    process.exitCode = code ?? 0
  } catch (error) {
    process.exitCode = reportError(await answers.explain(error), output, options.debug)
  }
}
