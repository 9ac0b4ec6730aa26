/**
 * Hosts for the benches of the worker channel: ours with a past, and bare ones that speak the same frames.
 */
import type { StoredConfig } from '../protocol/config.ts'
import { type Child, completed, type Workshop } from './bench-resources.ts'
import { dataDirWithHistory } from './history.ts'
import { type Served, serve } from './served-host.ts'
import { Crew } from './worker-load.ts'

export interface Yard {
  readonly child: Child
  readonly port: number
  readonly crew: Crew
  leave(): Promise<void>
}

export interface OurYard extends Yard {
  readonly served: Served
  readonly folder: string
}

export interface Past {
  readonly finished?: number | 'history'
  readonly held?: number
  readonly waiting?: number
}

/** Every run goes to one repository, and only the crew works. */
export const WORKING: StoredConfig = {
  repos: { main: { remote: 'owner/name' } },
  worker: { local: false },
}

export async function ourYard(
  workshop: Workshop,
  past: Past,
  config: StoredConfig = WORKING,
): Promise<OurYard> {
  const folder = await dataDirWith(workshop, past)
  const served = await serve(workshop, folder, config)
  const { port, token, child } = served
  const crew = new Crew(workshop, { port, token })
  return {
    served,
    folder,
    child,
    port,
    crew,
    async leave() {
      await crew.leave()
      await child.stop()
      workshop.removeFolder(folder)
    },
  }
}

export async function dataDirWith(workshop: Workshop, past: Past): Promise<string> {
  const { finished = 0, held = 0, waiting = 0 } = past
  const folder = finished === 'history' ? await dataDirWithHistory(workshop) : workshop.folder('yard')
  const counts = [finished === 'history' ? 0 : finished, held, waiting]
  if (counts.some((count) => count > 0))
    await completed(workshop.script('bench/raw/fill-store.ts', folder, ...counts.map(String)), 'seeding')
  return folder
}

/** A server of bench/raw that says its port. It is given a folder, and whatever else it wants to know. */
export async function bareYard(
  workshop: Workshop,
  script: string,
  ...args: readonly string[]
): Promise<Yard> {
  const folder = workshop.folder('bare')
  const child = workshop.script(`bench/raw/${script}.ts`, folder, ...args)
  const port = Number(await child.line())
  const crew = new Crew(workshop, { port })
  return {
    child,
    port,
    crew,
    async leave() {
      await crew.leave()
      await child.stop()
      workshop.removeFolder(folder)
    },
  }
}
