/** A supervisor that ends either ends its drain, or names what does. */
import { expect, test } from '@jest/globals'
import { SupervisionEffects } from '../../../actors/worker-supervisor/create-worker-supervisor.ts'
import type { DemandRequest, OwnDemand } from '../../../core/fleet/supervision.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

const random = { fraction: () => 0, bytes: (count: number) => new Uint8Array(count) }

const drained: OwnDemand = {
  queuedRuns: 0,
  wanted: 0,
  activeRuns: 0,
  connectedWorkers: 1,
  spareCapacity: 0,
  worker: {
    id: 'wk-1',
    connected: true,
    state: 'draining',
    drainedBy: ['supervisor'],
    activeRuns: 0,
    attachSessions: 0,
  },
}

test.each([
  ['ends its own drain', false, ['read', 'lift'], []],
  ['keeps it while a stop may be under way, and names what ends it', true, ['read'], ['warn']],
])('it %s', async (_what, stopPending, requests, levels) => {
  const asked: DemandRequest[] = []
  const log = createRecordingLog()
  const driver = {
    ownsWorker: false,
    start: async () => ({ is: 'done' }) as const,
    stop: async () => ({ is: 'done' }) as const,
  }
  const demand = {
    ask: async (request: DemandRequest) => {
      asked.push(request)
      return { is: 'answered', demand: drained } as const
    },
  }
  const ports = { clock: new ManualClock(), random, log, demand, driver, pollMs: 1_000 }
  await new Promise<void>((resolve) => {
    const effects = new SupervisionEffects(
      ports,
      ({ type }) => {
        if (type === 'released') resolve()
        else effects.run({ type: 'supervision.release worker', stopPending })
      },
      () => {},
    )
    effects.run({ type: 'supervision.ask', request: 'read' })
  })
  expect(asked).toEqual(requests)
  const warnings = log.lines.filter(({ level }) => level === 'warn')
  expect(warnings.map(({ level }) => level)).toEqual(levels)
  for (const { message } of warnings) expect(message).toContain('switchyard workers enable')
})
