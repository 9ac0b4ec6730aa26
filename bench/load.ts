/**
 * Sends requests over open connections and counts the responses.
 *
 * Uses `wrk` where it is installed: written in C, it costs a third of the server's time. Otherwise uses raw
 * sockets, which cost about as much as the server; with two cores both then reach their limit, and rates look too
 * good. The server's own processor time per request is free of that.
 */
import { spawnSync } from 'node:child_process'
import type { BenchResources } from './bench-resources.ts'
import { cpuMs } from './process-usage.ts'

export const CONNECTIONS = 50
/** How many requests each connection sends at once in a load of batches. */
export const BATCH = 8

export interface LoadTarget {
  readonly port: number
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** A JSON body to post; without it the request is a GET. */
  readonly body?: string
  readonly expect: number
  /** The process whose processor time is counted. */
  readonly pid: number
}

export interface LoadResult {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** The server's processor time per request; undefined where the system does not report it. */
  readonly cpuMicros: number | undefined
  /** The generator's own processor time per request; wrk does not report it. */
  readonly generatorMicros?: number
}

type Counted = Omit<LoadResult, 'cpuMicros'>
type SendLoad = (resources: BenchResources, target: LoadTarget, ms: number) => Promise<Counted>

export interface LoadGenerator {
  readonly name: string
  run(aim: LoadTarget, ms: number): Promise<LoadResult>
}

export function createLoadGenerator(resources: BenchResources): LoadGenerator {
  const found = spawnSync('wrk', ['--version'], { stdio: 'ignore' }).error === undefined
  return found
    ? createGenerator(resources, 'wrk', runWrk)
    : createGenerator(resources, 'own sockets', sendByOwnSockets(1))
}

/**
 * Sends batches of requests over each connection, which costs the generator far less than the server. The server reads
 * and writes a batch at once, so mainly the work of its program remains.
 */
export function createBatchLoadGenerator(resources: BenchResources): LoadGenerator {
  return createGenerator(resources, `own sockets, batches of ${BATCH}`, sendByOwnSockets(BATCH))
}

function createGenerator(resources: BenchResources, name: string, send: SendLoad): LoadGenerator {
  return {
    name,
    async run(target, ms) {
      const before = cpuMs(target.pid)
      const counted = await send(resources, target, ms)
      const after = cpuMs(target.pid)
      const spent = before === undefined || after === undefined ? undefined : after - before
      const requests = counted.perSecond * (ms / 1000)
      return { ...counted, cpuMicros: spent === undefined ? undefined : (spent * 1000) / requests }
    },
  }
}

/** wrk measures whole seconds only and distinguishes only 2xx and 3xx from other responses. */
async function runWrk(
  resources: BenchResources,
  { port, path, headers = {}, body, expect }: LoadTarget,
  ms: number,
): Promise<Counted> {
  const seconds = Math.max(1, Math.round(ms / 1000))
  const asHeaders = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const args = ['-t1', `-c${CONNECTIONS}`, `-d${seconds}s`, '--latency', ...asHeaders]
  const [script, words] =
    body === undefined
      ? [[], []]
      : [
          ['-s', 'bench/raw/post.lua'],
          ['--', body],
        ]
  const url = `http://127.0.0.1:${port}${path}`
  const child = resources.start('wrk', [...args, ...script, url, ...words])
  const report = await readAllLines(child.readLine)
  return readWrk(report, expect)
}

async function readAllLines(line: () => Promise<string>): Promise<string> {
  const lines: string[] = []
  for (;;) {
    const next = await line().catch(() => undefined)
    if (next === undefined) return lines.join('\n')
    lines.push(next)
  }
}

export function readWrk(report: string, expect: number): Counted {
  const number = (pattern: RegExp): number => Number(pattern.exec(report)?.[1] ?? Number.NaN)
  const requests = number(/(\d+) requests in/)
  const refused = number(/Non-2xx or 3xx responses: (\d+)/)
  const wanted = expect < 400 ? Number.isNaN(refused) : refused === requests
  const broken = /Socket errors: .*/.exec(report)?.[0]
  if (!wanted || broken !== undefined || Number.isNaN(requests)) throw new Error(`wrk failed:\n${report}`)
  return {
    perSecond: number(/Requests\/sec:\s+([\d.]+)/),
    p50Ms: readMs(/50%\s+([\d.]+)(us|ms|s)/.exec(report)),
    p99Ms: readMs(/99%\s+([\d.]+)(us|ms|s)/.exec(report)),
  }
}

const MS_IN = { us: 0.001, ms: 1, s: 1000 } as const

function readMs(found: RegExpExecArray | null): number {
  return Number(found?.[1]) * MS_IN[(found?.[2] ?? 'ms') as keyof typeof MS_IN]
}

const sendByOwnSockets =
  (batch: number): SendLoad =>
  async (resources, { port, path, headers = {}, body, expect }, ms) => {
    const order = { port, path, headers, body, expect, ms, connections: CONNECTIONS, batch }
    const child = resources.startScript('bench/raw/load.ts', JSON.stringify(order))
    const counted = JSON.parse(await child.readLine()) as Counted
    await child.ended
    return counted
  }
