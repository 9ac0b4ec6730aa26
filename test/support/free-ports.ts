/**
 * Chooses ports for processes that restart at the same address.
 *
 * The ports lie below the range from which the operating system assigns ports, so no other process receives them in
 * between. Each test process uses a separate range.
 */
import { createServer } from 'node:net'

/** Operating systems usually assign ports from 32768 on. */
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
  throw new Error(`no free port among the ${PORTS_PER_RANGE} ports from ${first} on`)
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
