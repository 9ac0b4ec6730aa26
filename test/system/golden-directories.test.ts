/**
 * The current code opens data directories of earlier versions: finished runs are unchanged, queued runs execute, and
 * runs that were interrupted by a kill of host and worker begin again.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import type { MemoriesResponse, Run, RunEvent } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { type CommandProcess, runCommand, serve } from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const ARCHIVES = join(dirname(fileURLToPath(import.meta.url)), 'golden')
const OVER = ['completed', 'failed', 'cancelled']
const END_MS_MAX = 60_000

interface Answers {
  /** The path at which the directories were recorded; the configuration contains it. */
  readonly folder: string
  readonly all: readonly Run[]
  readonly memories: MemoriesResponse
  readonly workers: FleetResponse
  /** The events of the completed run. */
  readonly events: readonly RunEvent[]
  /** By ticket, the events of other runs. */
  readonly logs?: Readonly<Record<string, readonly RunEvent[]>>
}

async function unpack(archive: string): Promise<{ folder: string; answers: Answers; fleetPort: number }> {
  const folder = tempFolder()
  execFileSync('tar', ['xzf', join(ARCHIVES, archive), '-C', folder])
  const answers: Answers = JSON.parse(readFileSync(join(folder, 'answers.json'), 'utf8'))
  const path = join(folder, 'host', 'config.json')
  const config = JSON.parse(readFileSync(path, 'utf8').replaceAll(answers.folder, folder))
  const fleetPort = await freePort()
  config.server.port = 0
  config.fleet.port = fleetPort
  writeFileSync(path, JSON.stringify(config))
  return { folder, answers, fleetPort }
}

const runsOf = async (host: CommandProcess): Promise<Run[]> => (await host.request('/api/runs')).body as Run[]

const find = (runs: readonly Run[], identifier: string): Run => {
  const found = runs.find(({ ticket }) => ticket.identifier === identifier)
  if (found === undefined) throw new Error(`there is no run of ${identifier}`)
  return found
}

test.each(readdirSync(ARCHIVES).filter((name) => name.endsWith('.tgz')))(
  'the directory of %s opens, and its runs come to their end',
  async (archive) => {
    const { folder, answers, fleetPort } = await unpack(archive)
    const host = serve(join(folder, 'host'))
    await host.waitForLaunch()

    const runs = await runsOf(host)
    expect(runs.map(({ id }) => id).sort()).toEqual(answers.all.map(({ id }) => id).sort())
    for (const identifier of ['GOLD-1', 'GOLD-2']) {
      const { prState: _, ...before } = find(answers.all, identifier)
      expect(find(runs, identifier)).toMatchObject(before)
    }
    expect(find(runs, 'GOLD-3').status).toBe('running')
    expect(find(runs, 'GOLD-4')).toMatchObject({ status: 'queued' })
    for (const { id, status } of runs) {
      const listed = (await host.request(`/api/runs?status=${status}`)).body as Run[]
      expect(listed.map((run) => run.id)).toContain(id)
    }
    expect((await host.request('/api/memories')).body).toEqual(answers.memories)
    const completed = find(runs, 'GOLD-1')
    expect((await host.request(`/api/runs/${completed.id}/events`)).body).toEqual(answers.events)
    for (const [identifier, events] of Object.entries(answers.logs ?? {})) {
      const { id } = find(runs, identifier)
      expect((await host.request(`/api/runs/${id}/events`)).body).toEqual(events)
    }
    const artifact = join(folder, 'host', 'runs', completed.id, 'artifacts', 'proof.txt')
    expect(existsSync(artifact)).toBe(true)

    runCommand(
      [
        'worker',
        '--host',
        `http://127.0.0.1:${fleetPort}`,
        '--data-dir',
        join(folder, 'worker1'),
        '--concurrency',
        '1',
        // The worker's repositories lie here; a worker of today uses only folders that it is told.
        '--local-repos',
        join(folder, 'code'),
      ],
      join(folder, 'worker1'),
    )
    // Its agent works for as long as it may.
    const interrupted = find(runs, 'GOLD-3').id
    const hasBegunAgain = async () => {
      const events = (await host.request(`/api/runs/${interrupted}/events`)).body as RunEvent[]
      const queuedAt = events.findLastIndex((event) => event.type === 'status' && event.to === 'queued')
      expect(events[queuedAt]).toMatchObject(queuedAt === 0 ? {} : { reason: /^interrupted: / })
      return queuedAt > 0 && events.slice(queuedAt).some((event) => event.type === 'agent')
    }
    await until('the interrupted run has begun again', hasBegunAgain, END_MS_MAX)
    await host.request(`/api/runs/${interrupted}/cancel`, { method: 'POST' })
    const isOver = async () => (await runsOf(host)).every(({ status }) => OVER.includes(status))
    await until('every run is over', isOver, END_MS_MAX)
    const ends = await runsOf(host)
    expect(find(ends, 'GOLD-3').status).toBe('cancelled')
    expect(find(ends, 'GOLD-4')).toMatchObject({ status: 'completed', costs: [{ label: 'run' }] })
  },
  END_MS_MAX + 30_000,
)
