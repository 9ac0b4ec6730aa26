/** Tells whether the host can open its ports, by opening and closing each of them. */
import { createServer } from 'node:net'
import { PORT_MAX } from '../../../protocol/limits.ts'
import { codeOf, messageOf } from '../../../store/errors.ts'
import { type Check, fail, type Judgement, ok } from '../finding.ts'
import { findPortHolder } from '../port-holder.ts'

interface Listener {
  readonly host: string
  readonly port: number
  /** The option of `switchyard serve` that chooses another port. */
  readonly option: string
}

export const portCheck: Check = {
  id: 'port',
  places: ['host'],
  async judge({ config, host }) {
    const [read, found] = await Promise.all([config(), host()])
    if (found.is === 'running') return [ok(`the host listens on ${found.url}`)]
    if (!read.ok || found.is === 'silent') return []
    const { server, fleet } = read.value
    const listeners: Listener[] = [{ host: server.host, port: server.port, option: '--port' }]
    if ((fleet.host ?? '') !== '')
      listeners.push({ host: fleet.host ?? '', port: fleet.port, option: '--fleet-port' })
    return await Promise.all(listeners.map(judge))
  },
}

async function judge({ host, port, option }: Listener): Promise<Judgement> {
  if (port === 0) return ok('the system chooses the port')
  const error = await tryToListen(host, port)
  if (error === undefined) return ok(`${port} is free`)
  const code = codeOf(error)
  if (code !== 'EADDRINUSE')
    return fail(
      `${host}:${port} cannot be opened: ${code ?? messageOf(error)}`,
      code === 'EACCES' ? `switchyard serve ${option} ${port + 8000}` : 'switchyard config edit',
    )
  const pid = await findPortHolder(port)
  const holder = pid === undefined ? 'another process' : `process ${pid}`
  return fail(`${port} is taken by ${holder}`, `switchyard serve ${option} ${await findFreePort(host, port)}`)
}

function tryToListen(host: string, port: number): Promise<Error | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', resolve)
    server.listen({ host: host.replace(/^\[|\]$/g, ''), port, exclusive: true }, () => {
      server.close(() => resolve(undefined))
    })
  })
}

const STEP = 10
const TRIES_MAX = 10

async function findFreePort(host: string, taken: number): Promise<number> {
  for (let port = taken + STEP, tries = 0; port <= PORT_MAX && tries < TRIES_MAX; port += STEP, tries += 1)
    if ((await tryToListen(host, port)) === undefined) return port
  return 0
}
