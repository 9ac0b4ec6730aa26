/**
 * A run's way out, as an execution asks for it: the socket to show inside, the variables that lead programs to it,
 * and the command with its bridge in front.
 *
 * Programs speak to a TCP port of their own loopback; the bridge behind it passes everything on to the socket. It is
 * started before the command, and the command only once the bridge listens. The shell that does so then becomes the
 * command: what the command reads, how it is signalled and how it ends is its own, and the bridge is nobody's child.
 */
import { join } from 'node:path'
import type { Clock } from '../../../core/ports.ts'
import { EGRESS_SOCKET } from '../arguments.ts'
import { type EgressProxy, type EgressProxyOptions, openEgressProxy } from './egress-proxy.ts'
import type { SocketOwner } from './listen.ts'

export interface SandboxEgressOptions extends Pick<EgressProxyOptions, 'resolve' | 'mayReach'> {
  readonly network: 'open' | 'allowlist' | 'none'
  readonly allowedHosts: readonly string[]
  /** The run's own folder on the host. */
  readonly folder: string
  /** Whom the sandbox runs as, when that is not the worker itself: nobody else may connect. */
  readonly owner?: SocketOwner
  readonly log: (line: string) => void
  readonly clock: Clock
}

export interface SandboxEgress {
  /** On the host; belongs at EGRESS_SOCKET inside. */
  readonly socketPath?: string
  readonly environment: Readonly<Record<string, string>>
  wrapCommand(command: readonly string[]): readonly string[]
  close(): Promise<void>
}

/** Where things are inside. */
export const EGRESS_BRIDGE = '/opt/switchyard/egress-bridge.js'
/** Above the ports that systems give out by themselves, and none that people choose for their servers. */
export const EGRESS_PORT = 61_080

/** Rejects when the folder can't take a socket. */
export async function openSandboxEgress({
  network,
  folder,
  ...rest
}: SandboxEgressOptions): Promise<SandboxEgress> {
  if (network === 'none') return NO_EGRESS
  const socketPath = join(folder, 'egress.sock')
  const proxy = await openEgressProxy({ network, socketPath, ...rest })
  return { socketPath, environment, wrapCommand, close: () => closeAndLog(proxy, rest.log) }
}

const NO_EGRESS: SandboxEgress = { environment: {}, wrapCommand: (command) => command, close: async () => {} }

const PROXY_URL = `http://127.0.0.1:${EGRESS_PORT}`
const NOT_PROXIED = 'localhost,127.0.0.1,::1'

/** Some programs read the one case, some the other. Node reads any only when told to, and not before version 24. */
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

/** EX_UNAVAILABLE, as sysexits.h has it. */
const NOT_OPENED = 69

/**
 * The bridge says `listening`, or what is wrong, and then lets go of its output, which ends the substitution. The shell
 * in between ended before that, so the bridge is a child of the sandbox's init and not of the command.
 */
const SCRIPT = `
bridge=$("\${SWITCHYARD_NODE:-node}" "$1" "$2" "$3" </dev/null 2>&1 &)
if [ "$bridge" != listening ]; then
  echo "switchyard: the way out of the sandbox could not be opened: $bridge" >&2
  exit ${NOT_OPENED}
fi
unset bridge
shift 3
exec "$@"`

function wrapCommand(command: readonly string[]): readonly string[] {
  return ['/bin/sh', '-c', SCRIPT, 'sh', EGRESS_BRIDGE, String(EGRESS_PORT), EGRESS_SOCKET, ...command]
}

async function closeAndLog(proxy: EgressProxy, log: (line: string) => void): Promise<void> {
  await proxy.close()
  const { allowed, refused, failed, bytesOut, bytesIn } = proxy.totals()
  if (allowed + refused + failed === 0) return
  log(
    `egress: closed after ${allowed} connections, ${bytesOut} bytes out, ${bytesIn} bytes in; ${refused} refused, ${failed} failed`,
  )
}
