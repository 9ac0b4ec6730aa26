/**
 * `whileAnswering` ends a git command whose remote answers no connection.
 *
 * Git waits two minutes and more for a host that drops its packets, and the run holds its slot meanwhile. A command that
 * has not ended after `DOUBT_MS` is one reason to try another connection; a host that refuses it answers, too.
 */
import { connect } from 'node:net'
import type { Clock } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import { originOf } from '../../protocol/git-address.ts'
import type { ProxySettings } from '../../providers/http/http-types.ts'
import { selectProxy } from '../../providers/http/proxy-selection.ts'
import type { RemoteAccess } from './remote-policy.ts'

type NetworkAccess = Exclude<RemoteAccess, { readonly protocol: 'file' }>

interface SilentHostPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly proxies?: ProxySettings
}

const DOUBT_MS = 10_000
const CONNECT_MS_MAX = 10_000

/** Refuses with `unavailable` when the remote is silent. @param run gets the signal at which the command must end */
export async function whileAnswering<T>(
  access: RemoteAccess | undefined,
  signal: AbortSignal | undefined,
  { clock, proxies }: SilentHostPorts,
  run: (signal: AbortSignal | undefined) => Promise<Result<T>>,
): Promise<Result<T>> {
  if (access === undefined || access.protocol === 'file' || hasProxy(access, proxies)) return run(signal)
  const silence = new AbortController()
  const cancel = clock.after(DOUBT_MS, async () => {
    if (await isSilent(access)) silence.abort()
  })
  const both = signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal])
  const ended = await run(both)
  cancel()
  if (ended.ok || !silence.signal.aborted || signal?.aborted === true) return ended
  const address = originOf(access.host, access.port)
  return no('unavailable', `Failed to connect to ${address}: Connection timed out`)
}

function hasProxy({ protocol, host, port }: NetworkAccess, proxies: ProxySettings | undefined): boolean {
  if (protocol === 'ssh') return false
  const proxy = selectProxy(new URL(`${protocol}://${originOf(host, port)}/`), proxies)
  return proxy.ok && proxy.value !== undefined
}

async function isSilent({ host, port, addresses = [host] }: NetworkAccess): Promise<boolean> {
  const answers = await Promise.all(addresses.map((address) => isAnswering(address, port)))
  return !answers.includes(true)
}

function isAnswering(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_MS_MAX })
    const settle = (isAnswered: boolean) => {
      socket.destroy()
      resolve(isAnswered)
    }
    socket.on('connect', () => settle(true))
    socket.on('error', () => settle(true))
    socket.on('timeout', () => settle(false))
  })
}
