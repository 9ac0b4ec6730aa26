/**
 * A real management listener over the fake host API, and two ways to run a client command against it: the function of
 * the command with streams in memory, and the real command in a process.
 */

import { PassThrough } from 'node:stream'
import type { ClientOptions, CommandContext } from '../../bin/cli/command/run-command.ts'
import { Output } from '../../bin/output/output.ts'
import { Questions } from '../../bin/output/questions.ts'
import { type Client, createClient } from '../../client/client.ts'
import type { ClientConnection } from '../../client/connection.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { runCommand } from './command-process.ts'
import type { FakeHostApi } from './fake-host-api.ts'
import { MemoryStream } from './memory-stream.ts'
import { openTestServer, TOKEN } from './test-resources.ts'

/** Half an hour after the instants of the fake host API. */
const NOW = Date.parse('2026-03-01T09:00:00.000Z')

export interface PrintedCommand {
  readonly code: number | NodeJS.Signals | undefined
  readonly out: string
  readonly err: string
}

export interface CommandSetup<O extends ClientOptions> {
  /** The width of the terminal; without one both streams are pipes. */
  readonly columns?: number
  readonly options?: O
  /** The text on standard input. */
  readonly input?: string
  /** Standard input is a terminal too. */
  readonly isTyped?: true
}

export interface CommandHost {
  readonly hostApi: FakeHostApi
  readonly client: Client
  /** Runs the function of a command in this process. An error that ends the command is thrown. */
  print<O extends ClientOptions>(
    command: (context: CommandContext<O>) => Promise<number | undefined> | Promise<void>,
    setup?: CommandSetup<O>,
  ): Promise<PrintedCommand>
  /** Runs the real command in a process. */
  run(...args: readonly string[]): Promise<PrintedCommand>
}

export async function openCommandHost(): Promise<CommandHost> {
  const { hostApi, url } = await openTestServer()
  const connection: ClientConnection = {
    address: () => ({ url, token: TOKEN }),
    send: sendByNode,
    dial: dialByNode,
  }
  const client = createClient(connection)
  return {
    hostApi,
    client,
    print: async (command, { columns, options, input = '', isTyped } = {}) => {
      const size = columns === undefined ? {} : { columns }
      const [stdout, stderr] = [new MemoryStream(size), new MemoryStream(size)]
      // Every option of a client command may be absent.
      const given = (options ?? {}) as NonNullable<typeof options>
      const format = given.json === true ? 'json' : given.output
      const env = { LANG: 'C.UTF-8', NO_COLOR: '1' }
      const { dataDir } = given
      const output = new Output({ stdout, stderr, env, platform: 'linux', exit: () => {}, format, dataDir })
      const stdin = Object.assign(new PassThrough(), { isTTY: isTyped === true })
      stdin.end(input)
      const questions = new Questions(stdin, output)
      const present = () => ({ now: NOW, offset: () => 60 })
      const code = await command({ connection, client, output, questions, options: given, present })
      return { code: code ?? 0, out: stdout.text, err: stderr.text }
    },
    run: async (...args) => {
      const { exit, out, err } = runCommand(args, '', { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: TOKEN })
      return { code: await exit, out: out(), err: err() }
    },
  }
}
