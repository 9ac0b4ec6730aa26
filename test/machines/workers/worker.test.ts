/** The worker machine: an enrolled worker from its enrollment to its revocation. */
import { type WorkerEvent, type WorkerInput, workerMachine } from '../../../actors/workers/worker.machine.ts'
import { trailTests } from '../trail-tests.ts'

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

trailTests<WorkerEvent>(workerMachine, input, [
  ['a worker that proves its credential is enrolled for good', [proven, seen]],
  ['a worker that never proves its credential is removed', [seen, unproven]],
  ['a worker may be renamed in every state', [renamed, proven, renamed, drained, renamed]],
  ['drained before the proof, the worker must still prove its credential', [drained, seen, unproven]],
  ['drained before the proof, which then arrives', [drained, proven, enabled, drained]],
  [
    'drained and enabled before the proof, the worker must still prove its credential',
    [drained, enabled, unproven],
  ],
  ['a second proof changes nothing', [proven, proven]],
  [
    'an ephemeral worker that stays away is removed at the first instant that was set',
    [proven, vacated, { ...vacated, until: Date.parse(T1) + 1 }, vacantTooLong],
    { input: ephemeral },
  ],
  [
    'an ephemeral worker that comes back in time stays, and its next absence counts anew',
    [proven, vacated, seen, drained, vacated, seen, vacated, vacantTooLong],
    { input: ephemeral },
  ],
  [
    'an ephemeral worker that left before its proof',
    [vacated, seen, vacated, vacantTooLong],
    { input: ephemeral },
  ],
  ['revoked right after the enrollment', [revoked]],
  ['revoked while active', [proven, revoked]],
  ['revoked while draining', [proven, drained, revoked]],
  ['a supervisor ends its own drain', [proven, drainedBySupervisor, drainedBySupervisor, released, released]],
  [
    'a supervisor that ends its drain leaves that of an operator, whoever was first',
    [proven, drainedBySupervisor, drained, released, drainedBySupervisor, released],
  ],
  [
    'an operator who enables a worker ends the drain of its supervisor too',
    [proven, drained, drainedBySupervisor, enabled, released],
  ],
  ['draining and enabling twice changes nothing', [proven, enabled, drained, drained, enabled]],
])
