/** The connection of a client command to its host: by the environment, or by the `launch.json` of a data directory. */
import { hasMark } from '../../client/answer-marks.ts'
import type { ClientConnection, HostAddress } from '../../client/connection.ts'
import { findHost } from '../../client/find-host.ts'
import { KeptConnections, sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { type NamedSource, SOURCE_HEADER } from '../../protocol/audit.ts'
import { resolveDataDir } from './data-dir.ts'

/**
 * A restarted host has another port and another token, so the address is looked up again after a while; the requests
 * of one moment share it.
 */
const ADDRESS_MS_MAX = 100

/**
 * Takes the token out of the environment, because no process that a command starts may inherit it. The user goes into
 * it, because commands that a command starts ask the same host.
 *
 * @param hostUser whose program the host of `SWITCHYARD_URL` is
 * @param source how the host's trail of actions names this program
 */
export function connectToHost(
  dataDir: string | undefined,
  env: NodeJS.ProcessEnv,
  hostUser?: string,
  source: NamedSource = 'command',
): ClientConnection {
  const folder = resolveDataDir(dataDir)
  const { SWITCHYARD_URL, SWITCHYARD_TOKEN, SWITCHYARD_TOKEN_FILE } = env
  if (hostUser !== undefined) env.SWITCHYARD_HOST_USER = hostUser
  const { SWITCHYARD_HOST_USER } = env
  const named = { SWITCHYARD_URL, SWITCHYARD_TOKEN, SWITCHYARD_TOKEN_FILE, SWITCHYARD_HOST_USER }
  delete env.SWITCHYARD_TOKEN
  const kept = new KeptConnections()
  let found: Promise<HostAddress> | undefined
  let until = 0
  return {
    address() {
      // Loading `performance` takes longer than finding the address.
      const now = 1_000 * process.uptime()
      if (found === undefined || now > until) {
        found = findHost(folder, named).then((at) => ({ ...at, headers: { [SOURCE_HEADER]: source } }))
        until = now + ADDRESS_MS_MAX
      }
      return found
    },
    send: (request) => sendByNode(request, kept),
    dial: dialByNode,
    isAnswer: hasMark,
  }
}
