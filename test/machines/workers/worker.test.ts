/** What becomes of an enrolled worker, from its credential to its revocation. */
import { type WorkerEvent, type WorkerInput, workerMachine } from '../../../actors/workers/worker.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

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
const unproven: WorkerEvent = { type: 'never proved' }

const stories: readonly Story<WorkerEvent>[] = [
  {
    title: 'a worker that shows that it has its credential is enrolled for good',
    input,
    events: [proven, seen],
    trail: [
      'start → enrolling',
      'proven → active : proven=true',
      'seen → active : maxConcurrency=4, lastSeenAt=2026-03-01T09:00:00.000Z',
    ],
  },
  {
    title: 'one that never shows it is forgotten',
    input,
    events: [seen, unproven],
    trail: [
      'start → enrolling',
      'seen → enrolling : maxConcurrency=4, lastSeenAt=2026-03-01T09:00:00.000Z',
      'never proved → revoked : over',
    ],
  },
  {
    title: 'it may be renamed whatever it does',
    input,
    events: [renamed, proven, renamed, drained, renamed],
    trail: [
      'start → enrolling',
      'renamed → enrolling : name=hammer',
      'proven → active : proven=true',
      'renamed → active',
      'drained → draining',
      'renamed → draining',
    ],
  },
  {
    title: 'drained before it has shown it, it must still show it',
    input,
    events: [drained, seen, unproven],
    trail: [
      'start → enrolling',
      'drained → draining',
      'seen → draining : maxConcurrency=4, lastSeenAt=2026-03-01T09:00:00.000Z',
      'never proved → revoked : over',
    ],
  },
  {
    title: 'drained before it has shown it, and then it does',
    input,
    events: [drained, proven, enabled, drained],
    trail: [
      'start → enrolling',
      'drained → draining',
      'proven → draining : proven=true',
      'enabled → active',
      'drained → draining',
    ],
  },
  {
    title: 'drained and enabled before it has shown it, it must still show it',
    input,
    events: [drained, enabled, unproven],
    trail: ['start → enrolling', 'drained → draining', 'enabled → active', 'never proved → revoked : over'],
  },
  {
    title: 'what it proves twice changes nothing',
    input,
    events: [proven, proven],
    trail: ['start → enrolling', 'proven → active : proven=true', 'proven → active'],
  },
  {
    title: 'revoked right after it was enrolled',
    input,
    events: [revoked],
    trail: ['start → enrolling', 'revoked → revoked : over'],
  },
  {
    title: 'revoked while it takes runs',
    input,
    events: [proven, revoked],
    trail: ['start → enrolling', 'proven → active : proven=true', 'revoked → revoked : over'],
  },
  {
    title: 'revoked while it drains',
    input,
    events: [proven, drained, revoked],
    trail: [
      'start → enrolling',
      'proven → active : proven=true',
      'drained → draining',
      'revoked → revoked : over',
    ],
  },
  {
    title: 'what is drained is drained, what is enabled is enabled',
    input,
    events: [proven, enabled, drained, drained, enabled],
    trail: [
      'start → enrolling',
      'proven → active : proven=true',
      'enabled → active',
      'drained → draining',
      'drained → draining',
      'enabled → active',
    ],
  },
]

tell(workerMachine, stories)
