/**
 * Starts the product as people run it: `dist/bin/switchyard.js serve`, a process of its own, on a data directory of
 * its own.
 */
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createConnection, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoredConfig } from '../protocol/config.ts'
import { type BenchProcess, type BenchResources, waitForSuccess } from './bench-resources.ts'

const HEALTHY_MS_MAX = 60_000
/** Interval of the health checks during a start; it limits the precision of the measurement. */
const POLL_EVERY_MS = 1

export interface ServedHost {
  readonly child: BenchProcess
  readonly port: number
  readonly token: string
  /** Time from starting the process to the first healthy answer. */
  readonly healthyAfterMs: number
}

/** Bundles the product unless its sources are unchanged. */
export async function buildProduct(resources: BenchResources): Promise<void> {
  const script = "import { build, isBuilt } from './build/build.mjs'; if (!isBuilt()) await build()"
  const child = resources.start(process.execPath, ['--input-type=module', '--eval', script])
  await waitForSuccess(child, 'the build of dist/')
}

/** `SWITCHYARD_BENCH_NODE='--cpu-prof --cpu-prof-dir=profile'` records where a measured host spends its time. */
export const NODE_ARGS = (process.env.SWITCHYARD_BENCH_NODE ?? '').split(' ').filter((arg) => arg !== '')

export async function startHost(
  resources: BenchResources,
  dataDir: string,
  config: StoredConfig = {},
  env: NodeJS.ProcessEnv = {},
): Promise<ServedHost> {
  const port = await freePort()
  writeHostConfig(dataDir, port, config)
  const program = join(resources.root, 'dist', 'bin', 'switchyard.js')
  const args = [...NODE_ARGS, program, 'serve', '--data-dir', dataDir, '--log-level', 'warn']
  const from = performance.now()
  const child = resources.start(process.execPath, args, { ...process.env, ...env })
  await waitUntilHealthy(child, port)
  const healthyAfterMs = performance.now() - from
  return { child, port, healthyAfterMs, token: await readLaunchToken(dataDir) }
}

/** A running host notices the change. */
export function writeHostConfig(dataDir: string, port: number, config: StoredConfig): void {
  const text = JSON.stringify({ worker: { local: false }, ...config, server: { port } })
  writeFileSync(join(dataDir, 'config.json'), text, { mode: 0o600 })
}

/** A port that was free a moment ago, because the host's port must be known before it starts. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise<void>((resolve) => server.close(() => resolve()))
  if (address === null || typeof address === 'string') throw new Error('no free port')
  return address.port
}

export async function waitUntilHealthy(
  child: BenchProcess,
  port: number,
  path = '/api/health',
): Promise<void> {
  const until = performance.now() + HEALTHY_MS_MAX
  let ended = false
  void child.ended.then(() => {
    ended = true
  })
  while (!(await answersHealthy(port, path))) {
    // Rejects with the reason of the end.
    if (ended) await child.readLine()
    if (performance.now() > until)
      throw new Error(`no healthy answer from port ${port} within ${HEALTHY_MS_MAX} ms`)
    await sleep(POLL_EVERY_MS)
  }
}

function answersHealthy(port: number, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port }, () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`)
    })
    socket.once('data', (bytes) => {
      resolve(bytes.toString('latin1').startsWith('HTTP/1.1 200 '))
      socket.destroy()
    })
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
  })
}

/** The host writes the file right after its listeners open, a moment later than the first answer. */
async function readLaunchToken(dataDir: string): Promise<string> {
  const until = performance.now() + HEALTHY_MS_MAX
  for (;;) {
    const text = await readFile(join(dataDir, 'launch.json'), 'utf8').catch(() => undefined)
    if (text !== undefined) return (JSON.parse(text) as { token: string }).token
    if (performance.now() > until) throw new Error('the host wrote no launch.json')
    await sleep(POLL_EVERY_MS)
  }
}
