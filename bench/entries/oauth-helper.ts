/**
 * What the OAuth helper adds to asking the tracker and the code host oneself: requests a second beside the barest proxy
 * of the same upstream.
 *
 * Both are processes of their own, get the same load in turn, and ask the same third one. Ours checks what comes and
 * what comes back, counts by address, sets deadlines and puts its secret in; the bare one does none of it.
 */
import { join } from 'node:path'
import type { Child, Workshop } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import type { Figure, Target } from '../figures.ts'
import { type Aim, generator } from '../load.ts'
import { buildProduct, freePort, healthy, NODE_ARGS } from '../served-host.ts'
import { race } from './http.ts'

/** The most that may be allowed to one address: all of the load comes from one. */
const REQUESTS_PER_MINUTE = 1_000_000

interface Question {
  readonly name: string
  readonly path: string
  readonly body?: string
  readonly target: Target
}

const questions: readonly Question[] = [
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
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const upstream = workshop.script('bench/raw/token-server.ts')
    const behind = await upstream.line()
    const bare = workshop.script('bench/raw/bare-proxy.ts', behind)
    const barePort = Number(await bare.line())
    const ours = await started(workshop, `http://127.0.0.1:${behind}`)
    const load = generator(workshop)
    const figures: Figure[] = []
    for (const { name, target, ...question } of questions) {
      const aims = {
        ours: { ...question, expect: 200, port: ours.port, pid: ours.child.pid },
        raw: { ...question, expect: 200, port: barePort, pid: bare.pid },
      } satisfies Record<string, Aim>
      figures.push(await race(name, load, aims, effort, target))
    }
    await Promise.all([ours.child.stop(), bare.stop(), upstream.stop()])
    return figures
  },
}

async function started(workshop: Workshop, upstream: string): Promise<{ child: Child; port: number }> {
  const port = await freePort()
  const program = join(workshop.root, 'dist', 'bin', 'switchyard.js')
  const args = ['--port', String(port), '--requests-per-minute', String(REQUESTS_PER_MINUTE)]
  const child = workshop.start(
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
  await healthy(child, port, '/health')
  return { child, port }
}
