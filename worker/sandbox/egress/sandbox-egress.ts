/**
 * The network access of one sandbox: the proxy's socket to mount, the proxy variables, and the command with a bridge.
 *
 * Programs connect to a TCP port on the sandbox's loopback; the bridge forwards each connection to the socket. A shell
 * starts the bridge, waits until it listens, and then becomes the command by `exec`. So the command's input, signals
 * and exit code are its own, and the bridge is a child of the sandbox's init.
 */
import { join } from 'node:path'
import type { Clock } from '../../../core/ports/clock.ts'
import { EGRESS_SOCKET } from '../inside-paths.ts'
import { type EgressProxy, type EgressProxyOptions, openEgressProxy } from './egress-proxy.ts'
import type { SocketOwner } from './listen.ts'

export interface SandboxEgressOptions extends Pick<EgressProxyOptions, 'resolve' | 'mayReach'> {
  readonly network: 'open' | 'allowlist' | 'none'
  readonly allowedHosts: readonly string[]
  /** The run's folder on the host; the socket is created there. */
  readonly folder: string
  /** The sandbox's user when it is not the worker's own; only this user may connect. */
  readonly owner?: SocketOwner
  readonly log: (line: string) => void
  readonly clock: Clock
}

export interface SandboxEgress {
  /** Host path of the socket; mount it at EGRESS_SOCKET. */
  readonly socketPath?: string
  readonly environment: Readonly<Record<string, string>>
  /** `more`: further ports of the sandbox's loopback that the bridge connects. */
  wrapCommand(command: readonly string[], more?: readonly SocketForward[]): readonly string[]
  /** Allows further hosts, for connections from now on; does nothing without a network or with an open one. */
  allow(entries: readonly string[]): void
  close(): Promise<void>
}

/** A port of the sandbox's loopback, and the path inside of the socket that its connections go to. */
export interface SocketForward {
  readonly port: number
  readonly socket: string
}

/** Paths inside the sandbox. */
export const EGRESS_BRIDGE = '/opt/switchyard/egress-bridge.js'
/** Above the ephemeral ports of common systems, and unusual for servers. */
export const EGRESS_PORT = 61_080

/** Rejects when no socket can be created in the folder. */
export async function openSandboxEgress({
  network,
  folder,
  ...rest
}: SandboxEgressOptions): Promise<SandboxEgress> {
  if (network === 'none') return NO_EGRESS
  const socketPath = join(folder, 'egress.sock')
  const proxy = await openEgressProxy({ network, socketPath, ...rest })
  return {
    socketPath,
    environment,
    wrapCommand: (command, more = []) => withBridge(command, [EGRESS_FORWARD, ...more]),
    allow: (entries) => proxy.allow(entries),
    close: () => closeAndLog(proxy, rest.log),
  }
}

const EGRESS_FORWARD: SocketForward = { port: EGRESS_PORT, socket: EGRESS_SOCKET }
const NO_EGRESS: SandboxEgress = {
  environment: {},
  wrapCommand: (command, more = []) => withBridge(command, more),
  allow: () => {},
  close: async () => {},
}

const PROXY_URL = `http://127.0.0.1:${EGRESS_PORT}`
const NOT_PROXIED = 'localhost,127.0.0.1,::1'

/**
 * Programs differ in which case they read. Node reads the variables only with NODE_USE_ENV_PROXY, from version 24 on.
 */
const environment = {
  HTTP_PROXY: PROXY_URL,
  http_proxy: PROXY_URL,
  HTTPS_PROXY: PROXY_URL,
  https_proxy: PROXY_URL,
  ALL_PROXY: PROXY_URL,
  all_proxy: PROXY_URL,
  NO_PROXY: NOT_PROXIED,
  no_proxy: NOT_PROXIED,
  NODE_USE_ENV_PROXY: '1',
}

/** EX_UNAVAILABLE of sysexits.h. */
const NOT_OPENED = 69

/**
 * The bridge prints `listening` or an error and then closes its output, which ends the command substitution. The
 * subshell exited before, so the bridge is a child of the sandbox's init and not of the command.
 */
const SCRIPT = `
bridge=$("\${SWITCHYARD_NODE:-node}" "$1" $2 </dev/null 2>&1 &)
if [ "$bridge" != listening ]; then
  echo "switchyard: the network access of the sandbox could not be opened: $bridge" >&2
  exit ${NOT_OPENED}
fi
unset bridge
shift 2
exec "$@"`

/** The script splits the ports and sockets at the spaces, and the paths have none. */
function withBridge(command: readonly string[], forwards: readonly SocketForward[]): readonly string[] {
  if (forwards.length === 0) return command
  const words = forwards.flatMap(({ port, socket }) => [String(port), socket]).join(' ')
  return ['/bin/sh', '-c', SCRIPT, 'sh', EGRESS_BRIDGE, words, ...command]
}

async function closeAndLog(proxy: EgressProxy, log: (line: string) => void): Promise<void> {
  await proxy.close()
  const { allowed, refused, failed, bytesOut, bytesIn } = proxy.totals()
  if (allowed + refused + failed === 0) return
  log(
    `egress: closed after ${allowed} connections, ${bytesOut} bytes out, ${bytesIn} bytes in; ${refused} refused, ${failed} failed`,
  )
}
