/** `switchyard connect`: connects an account, waits for the person to confirm it, and lists what is connected. */
import { setTimeout as pause } from 'node:timers/promises'
import { connectionsOf } from '../../client/connections.ts'
import { KEY_SETTINGS } from '../../client/settings.ts'
import type { ConnectPollResponse, ConnectProvider, ConnectResponse } from '../../protocol/connect.ts'
import type { CommandContext } from '../client/run-command.ts'
import { loginCure } from '../client/setting-keys.ts'
import { whileWatching } from '../client/watching.ts'
import { EXIT, ExitError } from '../exit.ts'
import { formatAge } from '../output/times.ts'
import { openAddress } from './run-files.ts'

export async function listConnections({ client, output }: CommandContext): Promise<undefined> {
  const [config, tracker, storage] = await Promise.all([
    client.readConfig(),
    client.readTrackerStatus(),
    client.readStorage(),
  ])
  output.list({
    records: connectionsOf({ config, tracker, storage }),
    id: ({ provider }) => provider,
    columns: [
      { heading: 'PROVIDER', cell: ({ provider }) => provider },
      { heading: 'STATE', cell: ({ state }) => state },
      { heading: 'ACCOUNT', cell: ({ account }) => account },
    ],
  })
  return undefined
}

export async function connect(
  context: CommandContext,
  provider: ConnectProvider | 'storage',
): Promise<number | undefined> {
  if (provider === 'storage') return await connectStorage(context)
  const answer = await context.client.connectProvider({ provider })
  if (answer.status === 'connected') return printConnected(context, provider, answer)
  if (answer.status === 'device') return await confirmDevice(context, answer)
  if (answer.status === 'redirect') {
    context.output.note('Allow the access in a browser; the host keeps what comes back:')
    openAddress(context.output, answer.url)
    return undefined
  }
  // A folder on this machine takes no credential.
  const { tracker, codehost } = await context.client.readConfig()
  const drivers: Readonly<Record<string, string>> = { tracker: tracker.driver, codehost: codehost.driver }
  const isFolder = drivers[provider] === 'local'
  throw new ExitError(EXIT.refused, answer.reason, isFolder ? undefined : cureOf(provider))
}

/** An agent that takes no key by hand is connected by its own login alone. */
function cureOf(provider: ConnectProvider): string {
  const setting = KEY_SETTINGS[provider]
  return setting === undefined ? loginCure(provider) : `switchyard config set ${setting} < FILE`
}

function printConnected(
  { output }: CommandContext,
  provider: string,
  answer: { readonly detail: string },
): undefined {
  if (output.format === 'json') output.json(answer)
  else if (output.format === 'id') output.data(provider)
  else output.data(output.stdout.clean(`${provider} connected: ${answer.detail}`))
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
