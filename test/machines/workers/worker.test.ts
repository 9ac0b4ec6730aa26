/** What becomes of an enrolled worker, from its credential to its revocation. */
import { type WorkerEvent, type WorkerInput, workerMachine } from '../../../actors/workers/worker.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const T0 = '2026-03-01T08:00:00.000Z'
const T1 = '2026-03-01T09:00:00.000Z'
const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 2, version: '1' }
const input: WorkerInput = {
  id: 'wk-1',
  name: 'anvil',
  hash: 'a'.repeat(64),
  enrolledAt: T0,
  local: false,
  capabilities,
}

const seen: WorkerEvent = { type: 'seen', at: T1, capabilities: { ...capabilities, maxConcurrency: 4 } }
const proven: WorkerEvent = { type: 'proven' }
const renamed: WorkerEvent = { type: 'renamed', name: 'hammer' }
const drained: WorkerEvent = { type: 'drained' }
const enabled: WorkerEvent = { type: 'enabled' }
const revoked: WorkerEvent = { type: 'revoked' }
const unproven: WorkerEvent = { type: 'proof timed out' }

const stories: readonly Story<WorkerEvent>[] = [
  {
    title: 'a worker that shows that it has its credential is enrolled for good',
    input,
    events: [proven, seen],
  },
  {
    title: 'one that never shows it is forgotten',
    input,
    events: [seen, unproven],
  },
  {
    title: 'it may be renamed whatever it does',
    input,
    events: [renamed, proven, renamed, drained, renamed],
  },
  {
    title: 'drained before it has shown it, it must still show it',
    input,
    events: [drained, seen, unproven],
  },
  {
    title: 'drained before it has shown it, and then it does',
    input,
    events: [drained, proven, enabled, drained],
  },
  {
    title: 'drained and enabled before it has shown it, it must still show it',
    input,
    events: [drained, enabled, unproven],
  },
  {
    title: 'what it proves twice changes nothing',
    input,
    events: [proven, proven],
  },
  {
    title: 'revoked right after it was enrolled',
    input,
    events: [revoked],
  },
  {
    title: 'revoked while it takes runs',
    input,
    events: [proven, revoked],
  },
  {
    title: 'revoked while it drains',
    input,
    events: [proven, drained, revoked],
  },
  {
    title: 'what is drained is drained, what is enabled is enabled',
    input,
    events: [proven, enabled, drained, drained, enabled],
  },
]

testTrails(workerMachine, stories)
