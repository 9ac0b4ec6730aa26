/** `switchyard connect`: connects an account, waits for the person to confirm it, and lists what is connected. */

import { setTimeout as pause } from 'node:timers/promises'
import { agentName } from '../../../client/agent-names.ts'
import { connectionsOf, type TokenPage, tokenPageOf } from '../../../client/connections.ts'
import type { ConnectPollResponse, ConnectResponse, CredentialProvider } from '../../../protocol/connect.ts'
import { isFolder, TRACKER_FACTS } from '../../../protocol/drivers.ts'
import { formatAge } from '../../output/times.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import { whileWatching } from '../../process/watching.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { openAddress } from '../runs/run-files.ts'

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
  provider: CredentialProvider,
): Promise<number | undefined> {
  const { output, options, questions } = context
  if (options.token === true) return await giveToken(context, provider, await requirePage(context, provider))
  if (provider === 'storage') return await connectStorage(context)
  const answer = await context.client.connectProvider({ provider })
  if (answer.status === 'connected') return printConnected(context, provider, answer)
  if (answer.status !== 'manual') output.note(`Or give a token: ${tokenCommand(provider)}`)
  if (answer.status === 'device') return await confirmDevice(context, answer)
  if (answer.status === 'redirect') {
    output.note('Allow the access in a browser; the host keeps what comes back:')
    openAddress(output, answer.url)
    return undefined
  }
  const config = await context.client.readConfig()
  const page = tokenPageOf(provider, config)
  if (page === undefined) {
    const needsAccount = provider === 'tracker' && !isFolder(TRACKER_FACTS[config.tracker.driver])
    if (needsAccount) return await useCodeHostAccount(context, answer.reason)
    throw refusedError(answer.reason)
  }
  if (!questions.mayAsk) throw refusedError(answer.reason, `${tokenCommand(provider)} < FILE`)
  output.note(output.stderr.clean(answer.reason))
  return await giveToken(context, provider, page)
}

/** A tracker without a token of its own works with that of the code host. */
async function useCodeHostAccount(context: ConnectContext, reason: string): Promise<undefined> {
  const { state } = await context.client.readTrackerStatus()
  if (state !== 'connected') throw refusedError(reason, 'switchyard connect codehost')
  return printConnected(context, 'tracker', { detail: 'with the account of the code host' })
}

// ---- by hand -------------------------------------------------------------------------------------------------------

const tokenCommand = (provider: CredentialProvider): string =>
  `switchyard connect ${agentName(provider)} --token`

async function requirePage({ client }: ConnectContext, provider: CredentialProvider): Promise<TokenPage> {
  const config = await client.readConfig()
  const page = tokenPageOf(provider, config)
  if (page !== undefined) return page
  const driver = provider === 'tracker' ? config.tracker.driver : config.codehost.driver
  throw usageError(
    `the ${provider} ${driver} takes no token of its own`,
    driver === 'local' ? undefined : tokenCommand('codehost'),
  )
}

/** The host checks the token with its service, and keeps it only when it works. */
async function giveToken(
  context: ConnectContext,
  provider: CredentialProvider,
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
  throw refusedError(`${what} was not kept: ${refused}`, tokenCommand(provider))
}

function printConnected(
  { output }: CommandContext,
  provider: string,
  answer: { readonly detail: string },
): undefined {
  output.outcome(answer, agentName(provider), `${agentName(provider)} connected: ${answer.detail}`)
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
      if (polled.status === 'error') throw refusedError(polled.detail, 'switchyard connect codehost')
    }
    throw refusedError('nobody confirmed the code in time', 'switchyard connect codehost')
  })
}

async function connectStorage(context: CommandContext): Promise<undefined> {
  const answer = await context.client.connectStorage()
  if (answer.status === 'unavailable') throw refusedError(answer.reason, 'switchyard config get storage')
  const detail = answer.status === 'connected' ? answer.r2.bucket : answer.detail
  if (answer.status === 'connected') return printConnected(context, 'storage', { detail })
  context.output.note(`Or give a token: ${tokenCommand('storage')}`)
  context.output.data(context.output.stdout.clean(detail))
  return undefined
}
