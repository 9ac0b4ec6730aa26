/**
 * CollectedMemory is the memory of a process after a forced collection, so that garbage does not count.
 *
 * The process must start with `env`, which loads a preload that collects on a signal.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type { BenchResources } from './bench-resources.ts'
import { residentMemory } from './process-usage.ts'

const COLLECTION_MS_MAX = 10_000
const POLL_EVERY_MS = 10

export interface CollectedKib {
  /** The process's own resident memory, without mapped files. */
  readonly own: number
  /** Objects on the heap, and buffers beside it. */
  readonly objects: number
}

export class CollectedMemory {
  readonly env: NodeJS.ProcessEnv
  readonly #file: string

  constructor(resources: BenchResources) {
    this.#file = join(resources.createFolder('memory'), 'usage.json')
    const preload = pathToFileURL(join(resources.root, 'bench/raw/collect-on-signal.mjs')).href
    this.env = { NODE_OPTIONS: `--import ${preload}`, SWITCHYARD_BENCH_MEMORY: this.#file }
  }

  async measure(pid: number): Promise<CollectedKib> {
    rmSync(this.#file, { force: true })
    process.kill(pid, 'SIGUSR2')
    const until = performance.now() + COLLECTION_MS_MAX
    while (!existsSync(this.#file)) {
      if (performance.now() > until) throw new Error(`process ${pid} did not collect its garbage`)
      await sleep(POLL_EVERY_MS)
    }
    const { heapUsed, external } = JSON.parse(readFileSync(this.#file, 'utf8')) as NodeJS.MemoryUsage
    return { own: residentMemory(pid).ownMib * 1024, objects: (heapUsed + external) / 1024 }
  }
}
