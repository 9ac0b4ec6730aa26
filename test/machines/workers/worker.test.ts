/** The worker machine: an enrolled worker from its enrollment to its revocation. */
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
const drained: WorkerEvent = { type: 'drained', by: 'operator' }
const drainedBySupervisor: WorkerEvent = { type: 'drained', by: 'supervisor' }
const released: WorkerEvent = { type: 'drain released', by: 'supervisor' }
const enabled: WorkerEvent = { type: 'enabled' }
const revoked: WorkerEvent = { type: 'revoked' }
const unproven: WorkerEvent = { type: 'proof timed out' }

const ephemeral: WorkerInput = { ...input, joinKey: 'jk-1', ephemeral: true }
const vacated: WorkerEvent = { type: 'vacated', until: Date.parse(T1) }
const vacantTooLong: WorkerEvent = { type: 'deadline.vacancy' }

const stories: readonly Story<WorkerEvent>[] = [
  {
    title: 'a worker that proves its credential is enrolled for good',
    input,
    events: [proven, seen],
  },
  {
    title: 'a worker that never proves its credential is removed',
    input,
    events: [seen, unproven],
  },
  {
    title: 'a worker may be renamed in every state',
    input,
    events: [renamed, proven, renamed, drained, renamed],
  },
  {
    title: 'drained before the proof, the worker must still prove its credential',
    input,
    events: [drained, seen, unproven],
  },
  {
    title: 'drained before the proof, which then arrives',
    input,
    events: [drained, proven, enabled, drained],
  },
  {
    title: 'drained and enabled before the proof, the worker must still prove its credential',
    input,
    events: [drained, enabled, unproven],
  },
  {
    title: 'a second proof changes nothing',
    input,
    events: [proven, proven],
  },
  {
    title: 'an ephemeral worker that stays away is removed at the first instant that was set',
    input: ephemeral,
    events: [proven, vacated, { ...vacated, until: Date.parse(T1) + 1 }, vacantTooLong],
  },
  {
    title: 'an ephemeral worker that comes back in time stays, and its next absence counts anew',
    input: ephemeral,
    events: [proven, vacated, seen, drained, vacated, seen, vacated, vacantTooLong],
  },
  {
    title: 'an ephemeral worker that left before its proof',
    input: ephemeral,
    events: [vacated, seen, vacated, vacantTooLong],
  },
  {
    title: 'revoked right after the enrollment',
    input,
    events: [revoked],
  },
  {
    title: 'revoked while active',
    input,
    events: [proven, revoked],
  },
  {
    title: 'revoked while draining',
    input,
    events: [proven, drained, revoked],
  },
  {
    title: 'a supervisor ends its own drain',
    input,
    events: [proven, drainedBySupervisor, drainedBySupervisor, released, released],
  },
  {
    title: 'a supervisor that ends its drain leaves that of an operator, whoever was first',
    input,
    events: [proven, drainedBySupervisor, drained, released, drainedBySupervisor, released],
  },
  {
    title: 'an operator who enables a worker ends the drain of its supervisor too',
    input,
    events: [proven, drained, drainedBySupervisor, enabled, released],
  },
  {
    title: 'draining and enabling twice changes nothing',
    input,
    events: [proven, enabled, drained, drained, enabled],
  },
]

testTrails(workerMachine, stories)
