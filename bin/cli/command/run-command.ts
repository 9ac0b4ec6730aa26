/**
 * Runs a command that is a client of the host: opens the connection and the output, and reports how it ended.
 */
import { type Client, createClient, type OnAnswer, type RequestName } from '../../../client/client.ts'
import type { ClientConnection } from '../../../client/connection.ts'
import { createOutput, type Output, type PrintOptions } from '../../output/output.ts'
import { Questions } from '../../output/questions.ts'
import { localOffset, type Present } from '../../output/times.ts'
import { EXIT, ExitError } from '../../process/exit.ts'
import { connectToHost } from '../../process/host-connection.ts'
import { isUnexpected, reportError } from '../../process/report-error.ts'

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

/** The action of a command: loads the module that does it, only now, and calls it with the context and the arguments. */
export function clientAction<Module, O extends ClientOptions, Args extends unknown[]>(
  load: () => Promise<Module>,
  act: (module: Module, context: CommandContext<O>, ...args: Args) => ReturnType<ClientCommand<O>>,
) {
  return (...given: [...args: Args, options: O, command: unknown]): Promise<void> => {
    // Commander hands in the options and the command behind the arguments.
    const [args, options] = [given.slice(0, -2) as Args, given.at(-2) as O]
    return runCommand(options, async (context) => (await act(await load(), context, ...args)) ?? undefined)
  }
}

const ANSWERS_MAX = 16

/**
 * Keeps the last answers that a command has got. When the command fails over one that no host sends, because another
 * program uses the port, the person reads that in one sentence instead of the place in the code.
 */
class LastAnswers {
  readonly #answers: (readonly [RequestName, unknown])[] = []

  readonly keep: OnAnswer = (name, answer) => {
    this.#answers.push([name, answer])
    if (this.#answers.length > ANSWERS_MAX) this.#answers.shift()
  }

  /** The error for the person. */
  async explain(error: unknown): Promise<unknown> {
    if (!isUnexpected(error) || this.#answers.length === 0) return error
    const { answerFaults } = await import('./answer-faults.ts')
    const fault = await answerFaults(this.#answers)
    if (fault === undefined) return error
    return new ExitError(
      EXIT.unavailable,
      `what answers is no host of this version, or another program: ${fault}`,
      'restart the host, or name the right one with --data-dir',
    )
  }
}
