/** `switchyard connect`: connects an account, waits for the person to confirm it, and lists what is connected. */
import { setTimeout as pause } from 'node:timers/promises'
import { agentName } from '../../client/agent-names.ts'
import { connectionsOf } from '../../client/connections.ts'
import { type TokenPage, tokenPageOf } from '../../client/token-pages.ts'
import type { ConnectPollResponse, ConnectProvider, ConnectResponse } from '../../protocol/connect.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { whileWatching } from '../client/watching.ts'
import { EXIT, ExitError } from '../exit.ts'
import { formatAge } from '../output/times.ts'
import { openAddress } from './run-files.ts'

export interface ConnectOptions extends ClientOptions {
  /** Give a token by hand, instead of logging in elsewhere. */
  readonly token?: true | undefined
}

type ConnectContext = CommandContext<ConnectOptions>

export async function listConnections({ client, output }: CommandContext): Promise<undefined> {
  const [config, tracker, storage] = await Promise.all([
    client.readConfig(),
    client.readTrackerStatus(),
    client.readStorage(),
  ])
  output.list({
    records: connectionsOf({ config, tracker, storage }),
    id: ({ provider }) => agentName(provider),
    columns: [
      { heading: 'PROVIDER', cell: ({ provider }) => agentName(provider) },
      { heading: 'STATE', cell: ({ state }) => state },
      { heading: 'ACCOUNT', cell: ({ account }) => account },
    ],
  })
  return undefined
}

export async function connect(
  context: ConnectContext,
  provider: ConnectProvider | 'storage',
): Promise<number | undefined> {
  const { output, options, questions } = context
  if (provider === 'storage') return await connectStorage(context)
  if (options.token === true) return await giveToken(context, provider, await requirePage(context, provider))
  const answer = await context.client.connectProvider({ provider })
  if (answer.status === 'connected') return printConnected(context, provider, answer)
  if (answer.status !== 'manual') output.note(`Or give a token: ${tokenCommand(provider)}`)
  if (answer.status === 'device') return await confirmDevice(context, answer)
  if (answer.status === 'redirect') {
    output.note('Allow the access in a browser; the host keeps what comes back:')
    openAddress(output, answer.url)
    return undefined
  }
  const page = tokenPageOf(provider, await context.client.readConfig())
  if (page === undefined) throw new ExitError(EXIT.refused, answer.reason)
  if (!questions.mayAsk) throw new ExitError(EXIT.refused, answer.reason, `${tokenCommand(provider)} < FILE`)
  output.note(output.stderr.clean(answer.reason))
  return await giveToken(context, provider, page)
}

// ---- by hand -------------------------------------------------------------------------------------------------------

const tokenCommand = (provider: ConnectProvider): string =>
  `switchyard connect ${agentName(provider)} --token`

async function requirePage({ client }: ConnectContext, provider: ConnectProvider): Promise<TokenPage> {
  const config = await client.readConfig()
  const page = tokenPageOf(provider, config)
  if (page !== undefined) return page
  const driver = provider === 'tracker' ? config.tracker.driver : config.codehost.driver
  throw new ExitError(
    EXIT.usage,
    `the ${provider} ${driver} takes no token of its own`,
    driver === 'local' ? undefined : tokenCommand('codehost'),
  )
}

/** The host checks the token with its service, and keeps it only when it works. */
async function giveToken(
  context: ConnectContext,
  provider: ConnectProvider,
  { field, what, url, rights }: TokenPage,
): Promise<undefined> {
  const { client, output, questions } = context
  if (questions.mayAsk) {
    output.writeError(`Make one: ${output.stderr.colors.address(url)}\n`)
    output.note(`Rights: ${rights}.`)
  }
  const token = await questions.askSecret(what)
  const { results } = await client.changeCredentials({ body: { [field]: token } })
  const result = results[provider]
  if (result?.ok === true) return printConnected(context, provider, result)
  const refused = result?.detail ?? 'the host has not answered for it'
  throw new ExitError(EXIT.refused, `${what} was not kept: ${refused}`, tokenCommand(provider))
}

function printConnected(
  { output }: CommandContext,
  provider: string,
  answer: { readonly detail: string },
): undefined {
  if (output.format === 'json') output.json(answer)
  else if (output.format === 'id') output.data(agentName(provider))
  else output.data(output.stdout.clean(`${agentName(provider)} connected: ${answer.detail}`))
  return undefined
}

async function confirmDevice(
  context: CommandContext,
  { userCode, verificationUri, interval, expiresIn }: Extract<ConnectResponse, { status: 'device' }>,
): Promise<number | undefined> {
  const { client, output } = context
  const { stderr } = output
  output.writeError(`${stderr.clean(`Open   ${verificationUri}`)}\n`)
  output.writeError(stderr.clean(`Code   ${userCode}         (expires in ${formatAge(expiresIn * 1000)})`))
  output.writeError('\n')
  const until = performance.now() + expiresIn * 1000
  return await whileWatching(context, 'the code stays valid for a while', async (signal) => {
    while (performance.now() < until) {
      await pause(interval * 1000, undefined, { signal })
      const polled: ConnectPollResponse = await client.pollCodehost()
      if (polled.status === 'connected') return printConnected(context, 'codehost', polled)
      if (polled.status === 'error')
        throw new ExitError(EXIT.refused, polled.detail, 'switchyard connect codehost')
    }
    throw new ExitError(EXIT.refused, 'nobody confirmed the code in time', 'switchyard connect codehost')
  })
}

async function connectStorage(context: CommandContext): Promise<undefined> {
  const answer = await context.client.connectStorage()
  if (answer.status === 'unavailable')
    throw new ExitError(EXIT.refused, answer.reason, 'switchyard config get storage')
  const detail = answer.status === 'connected' ? answer.r2.bucket : answer.detail
  if (answer.status === 'connected') return printConnected(context, 'storage', { detail })
  context.output.data(context.output.stdout.clean(detail))
  return undefined
}
