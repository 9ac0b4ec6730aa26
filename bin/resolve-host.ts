/**
 * `resolveHost` checks the worker's options for its host, and creates the dialer that connects to it.
 */
import type { Dialer } from '../core/daemon/ports.ts'
import type { Log } from '../core/ports.ts'
import { createDialer } from '../worker/dialer.ts'
import { type HostUrl, parseHostUrl } from '../worker/host-url.ts'
import { realClock } from './clock.ts'
import type { WorkerOptions } from './commands/worker-options.ts'
import { EXIT, ExitError, unwrapOrExit } from './exit.ts'
import { readAuthorities, readProxies } from './network.ts'

export function resolveHost(
  options: WorkerOptions,
  log: Log,
): { readonly url: string; readonly dialer: Dialer } {
  if (options.host === undefined) {
    throw new ExitError(
      EXIT.usage,
      '--host is missing: the address of the host, like https://host.example:4401, or http://127.0.0.1:4400 for this machine',
    )
  }
  const host = unwrapOrExit(parseHostUrl(options.host, options.insecure === true))
  if (host.exposed)
    log.warn(
      { url: host.url },
      'the connection to the host is NOT encrypted: anybody on the network path can read the credentials of every run; use https:// as soon as you can',
    )
  return { url: host.url, dialer: createHostDialer(host, options, log) }
}

function createHostDialer({ url, loopback }: HostUrl, { caFile }: WorkerOptions, log: Log): Dialer {
  const trusted = url.startsWith('wss:')
    ? { authorities: unwrapOrExit(readAuthorities(caFile, process.env)) }
    : {}
  const proxySettings = loopback ? undefined : unwrapOrExit(readProxies(process.env))
  const proxies = proxySettings === undefined ? {} : { proxies: proxySettings }
  return createDialer({ url: () => url, clock: realClock, log, ...trusted, ...proxies })
}
