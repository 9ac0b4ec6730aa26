/**
 * Measures requests per second through the OAuth helper, compared with a minimal proxy of the same upstream.
 *
 * Both are processes of their own, get the same load in turn, and call the same upstream. The helper checks
 * requests and responses, counts per address, sets deadlines and adds its secret; the minimal proxy does none of
 * that.
 */
import { join } from 'node:path'
import type { BenchProcess, BenchResources } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import type { Figure, Target } from '../figures.ts'
import { createLoadGenerator, type LoadTarget } from '../load.ts'
import { buildProduct, freePort, NODE_ARGS, waitUntilHealthy } from '../served-host.ts'
import { compareRequests } from './http.ts'

/** The highest allowed limit for one address, because all load comes from one address. */
const REQUESTS_PER_MINUTE = 1_000_000

interface HelperCase {
  readonly name: string
  readonly path: string
  readonly body?: string
  readonly target: Target
}

const cases: readonly HelperCase[] = [
  {
    name: 'helper refresh',
    path: '/oauth/tracker/refresh',
    body: JSON.stringify({ refresh_token: `lin_refresh_${'r'.repeat(64)}` }),
    target: { of: 'ratio', is: 'at least', bound: 0.5 },
  },
  {
    name: 'helper device poll',
    path: '/oauth/codehost/device/token',
    body: JSON.stringify({ device_code: 'd'.repeat(40) }),
    target: { of: 'ratio', is: 'at least', bound: 0.5 },
  },
  { name: 'helper health', path: '/health', target: { of: 'ratio', is: 'at least', bound: 0.7 } },
]

export const helper: Entry = {
  name: 'helper',
  about: 'requests/s through the OAuth helper / a bare uWebSockets.js and undici proxy',
  async measure(effort, resources) {
    await buildProduct(resources)
    const upstream = resources.startScript('bench/raw/token-server.ts')
    const behind = await upstream.readLine()
    const bare = resources.startScript('bench/raw/bare-proxy.ts', behind)
    const barePort = Number(await bare.readLine())
    const ours = await startHelper(resources, `http://127.0.0.1:${behind}`)
    const load = createLoadGenerator(resources)
    const figures: Figure[] = []
    for (const { name, target, ...request } of cases) {
      const targets = {
        ours: { ...request, expect: 200, port: ours.port, pid: ours.child.pid },
        raw: { ...request, expect: 200, port: barePort, pid: bare.pid },
      } satisfies Record<string, LoadTarget>
      figures.push(await compareRequests(name, load, targets, effort, target))
    }
    await Promise.all([ours.child.stop(), bare.stop(), upstream.stop()])
    return figures
  },
}

async function startHelper(
  resources: BenchResources,
  upstream: string,
): Promise<{ child: BenchProcess; port: number }> {
  const port = await freePort()
  const program = join(resources.root, 'dist', 'bin', 'switchyard.js')
  const args = ['--port', String(port), '--requests-per-minute', String(REQUESTS_PER_MINUTE)]
  const child = resources.start(
    process.execPath,
    [...NODE_ARGS, program, 'oauth-helper', ...args, '--log-level', 'warn'],
    {
      ...process.env,
      CODEHOST_CLIENT_ID: 'codehost-client',
      TRACKER_CLIENT_ID: 'tracker-client',
      TRACKER_CLIENT_SECRET: 'tracker-secret',
      SWITCHYARD_TRACKER_URL: upstream,
      SWITCHYARD_CODEHOST_URL: upstream,
    },
  )
  await waitUntilHealthy(child, port, '/health')
  return { child, port }
}
