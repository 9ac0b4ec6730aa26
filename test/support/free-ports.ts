/**
 * Chooses ports for processes that restart at the same address.
 *
 * The ports lie below the range from which the operating system assigns ports, so no other process receives them in
 * between. Each test process holds a range for as long as it lives, by listening at the range's first port.
 */
import { createServer, type Server } from 'node:net'

/** Operating systems usually assign ports from 32768 on. */
const FIRST_PORT = 10_000
const RANGES = 400
const PORTS_PER_RANGE = 50

let chosen = 0
let range: Promise<number> | undefined

export async function freePort(): Promise<number> {
  range ??= holdRange()
  const first = await range
  for (let tries = 0; tries < PORTS_PER_RANGE; tries++) {
    const port = first + (chosen++ % PORTS_PER_RANGE)
    if (await isFree(port)) return port
  }
  throw new Error(`no free port among the ${PORTS_PER_RANGE} ports from ${first} on`)
}

/** Returns the first port after the one that is held. */
async function holdRange(): Promise<number> {
  for (let tries = 0; tries < RANGES; tries++) {
    const first = FIRST_PORT + ((process.pid + tries) % RANGES) * (PORTS_PER_RANGE + 1)
    const holder = await listenAt(first)
    if (holder === undefined) continue
    holder.unref()
    return first + 1
  }
  throw new Error('every range of ports is held by another test process')
}

async function isFree(port: number): Promise<boolean> {
  const server = await listenAt(port)
  if (server !== undefined) await new Promise((resolve) => server.close(resolve))
  return server !== undefined
}

async function listenAt(port: number): Promise<Server | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
