/**
 * Starts hosts for the benches of worker connections: the product with stored runs, and bare servers that speak the
 * same frames.
 */
import type { StoredConfig } from '../protocol/config.ts'
import { type BenchProcess, type BenchResources, waitForSuccess } from './bench-resources.ts'
import { dataDirWithHistory } from './history.ts'
import { REST_CHECKS_WITHOUT_TIMERS, type Rest, waitForRest } from './process-usage.ts'
import { type ServedHost, startHost } from './served-host.ts'
import { WorkerLoad } from './worker-load.ts'

export interface BenchHost {
  readonly child: BenchProcess
  readonly port: number
  readonly workerLoad: WorkerLoad
  /** Waits until it has nothing left to do. */
  waitForRest(): Promise<Rest>
  stop(): Promise<void>
}

export interface ProductHost extends BenchHost {
  readonly served: ServedHost
  readonly folder: string
}

export interface StoredRunCounts {
  readonly finished?: number | 'history'
  readonly held?: number
  readonly waiting?: number
}

/** All runs use one repository, and only simulated workers execute them. */
export const WORKING_CONFIG: StoredConfig = {
  repos: { main: { remote: 'owner/name' } },
  worker: { local: false },
}

export async function startProductHost(
  resources: BenchResources,
  past: StoredRunCounts,
  config: StoredConfig = WORKING_CONFIG,
  env: NodeJS.ProcessEnv = {},
): Promise<ProductHost> {
  const folder = await createDataDir(resources, past)
  const served = await startHost(resources, folder, config, env)
  const { port, token, child } = served
  const workerLoad = new WorkerLoad(resources, { port, token })
  return {
    served,
    folder,
    child,
    port,
    workerLoad,
    waitForRest: () => waitForRest(child.pid),
    async stop() {
      await workerLoad.stop()
      await child.stop()
      resources.removeFolder(folder)
    },
  }
}

export async function createDataDir(resources: BenchResources, past: StoredRunCounts): Promise<string> {
  const { finished = 0, held = 0, waiting = 0 } = past
  const folder = finished === 'history' ? await dataDirWithHistory(resources) : resources.createFolder('host')
  const counts = [finished === 'history' ? 0 : finished, held, waiting]
  if (counts.some((count) => count > 0))
    await waitForSuccess(
      resources.startScript('bench/raw/fill-store.ts', folder, ...counts.map(String)),
      'seeding',
    )
  return folder
}

/** Starts a server of bench/raw, which prints its port. The script receives a folder and `args`. */
export function startBareHost(
  resources: BenchResources,
  script: string,
  ...args: readonly string[]
): Promise<BenchHost> {
  return startBareHostWith(resources, {}, script, ...args)
}

export async function startBareHostWith(
  resources: BenchResources,
  env: NodeJS.ProcessEnv,
  script: string,
  ...args: readonly string[]
): Promise<BenchHost> {
  const folder = resources.createFolder('bare')
  const child = resources.startScriptWith(env, `bench/raw/${script}.ts`, folder, ...args)
  const port = Number(await child.readLine())
  const workerLoad = new WorkerLoad(resources, { port })
  return {
    child,
    port,
    workerLoad,
    waitForRest: () => waitForRest(child.pid, REST_CHECKS_WITHOUT_TIMERS),
    async stop() {
      await workerLoad.stop()
      await child.stop()
      resources.removeFolder(folder)
    },
  }
}
