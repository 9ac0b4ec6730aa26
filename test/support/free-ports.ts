/**
 * Ports for whoever comes back at the same address: chosen before anybody listens there, and free while nobody does.
 *
 * The system gives out others by itself, to every listener at port 0 and to every connection; one of those could be
 * somebody else's by the time that it is wanted, or wanted again. Each process of tests has a stretch of its own.
 */
import { createServer } from 'node:net'

/** Below what systems give out: from 32768 on, mostly. */
const FIRST_PORT = 10_000
const RANGES = 200
const PORTS_PER_RANGE = 50

let chosen = 0

export async function freePort(): Promise<number> {
  const first = FIRST_PORT + (process.pid % RANGES) * PORTS_PER_RANGE
  for (let tries = 0; tries < PORTS_PER_RANGE; tries++) {
    const port = first + (chosen++ % PORTS_PER_RANGE)
    if (await isFree(port)) return port
  }
  throw new Error(`somebody listens at every port from ${first} on`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const listens = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => resolve(true))
  })
  if (listens) await new Promise((resolve) => server.close(resolve))
  return listens
}
