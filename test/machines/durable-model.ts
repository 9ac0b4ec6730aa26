/** Stored actors in each state that may be on disk, for tests of restarts and snapshots. */

import type { EventObject } from 'xstate'
import {
  type ExecutionEvent,
  type ExecutionInput,
  executionKind,
} from '../../actors/daemon/execution.machine.ts'
import { type LeaseEvent, type LeaseInput, leaseKind } from '../../actors/leases/lease.machine.ts'
import { type RunInput, type RunMachineEvent, runKind } from '../../actors/runs/run.machine.ts'
import { type ActorKind, kindName } from '../../actors/runtime/actor-kind.ts'
import { ActorSystem, type SystemModules } from '../../actors/runtime/actor-system.ts'
import { type WorkerEvent, type WorkerInput, workerKind } from '../../actors/workers/worker.machine.ts'
import { newRun } from '../../core/run/run-transitions.ts'
import { DEFAULT_SANDBOX_PROVIDER } from '../../protocol/config.ts'
import { aTicket, T0, T1 } from '../rules/run/runs.ts'
import { CrashDatabase } from '../support/crash-database.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { createRecordingLog, noMeters } from '../support/recording-log.ts'

/** An actor and the events that bring it into one state. */
export interface ActorPose {
  readonly kind: ActorKind
  readonly key: string
  readonly state: string
  readonly input: object
  readonly events: readonly EventObject[]
}

const LEASE_INPUT: LeaseInput = {
  id: 'ls-1',
  runId: 'run-1',
  workerId: 'wk-1',
  termMs: 165_000,
  grantedAt: T0,
}
const RUN_INPUT: RunInput = {
  // Older hosts recorded no sandbox provider in a new run.
  run: { ...newRun('run-1', aTicket, DEFAULT_SANDBOX_PROVIDER, T0), sandbox: {} },
  job: 'run',
  woken: null,
  earlier: null,
  attempts: 0,
}
const FOLLOW_UP: RunInput = {
  ...RUN_INPUT,
  job: 'follow-up',
  woken: 'completed',
  earlier: { result: { summary: 'done before', artifacts: [] }, startedAt: T0, finishedAt: T0 },
  attempts: 1,
  followUp: { id: 'fu-1', number: 2 },
}
const WORKER_INPUT: WorkerInput = {
  id: 'wk-1',
  name: 'anvil',
  hash: 'a'.repeat(64),
  enrolledAt: T0,
  local: false,
  capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 2, version: '0.1.0' },
}

const EXECUTION_INPUT: ExecutionInput = {
  leaseId: 'ls-1',
  runId: 'run-1',
  workerId: 'wk-1',
  expiresAt: T1,
  retentionHours: 24,
}

const accepted: LeaseEvent = { type: 'accepted', at: T1 }
const lost: LeaseEvent = { type: 'worker lost' }
const cancel: LeaseEvent = { type: 'cancel requested', reason: 'cancelled by a person' }
const granted: RunMachineEvent = { type: 'granted', leaseId: 'ls-1' }
const taken: RunMachineEvent = { type: 'accepted', leaseId: 'ls-1', workerId: 'wk-1', at: T1 }
const running: RunMachineEvent = {
  type: 'patched to running',
  workerId: 'wk-1',
  patch: { status: 'running', agentSessionId: 'session-1', sandbox: { id: 'sb-1' } },
}
const finalizing: RunMachineEvent = {
  type: 'patched to finalizing',
  workerId: 'wk-1',
  patch: { status: 'finalizing', prUrl: 'https://codehost.example/pr/1' },
}
const unpublished: RunMachineEvent = {
  type: 'ended failed',
  leaseId: 'ls-1',
  workerId: 'wk-1',
  at: T1,
  outcome: {
    status: 'failed',
    failure: 'publish',
    error: 'a rule refused the push',
    costs: [],
    result: { summary: 'done', artifacts: ['unpublished.bundle'] },
    sandbox: { id: 'sb-1', unpublished: true },
  },
  retentionHours: 24,
}
const proven: WorkerEvent = { type: 'proven' }
const drained: WorkerEvent = { type: 'drained', by: 'operator' }
const vacated: WorkerEvent = { type: 'vacated', until: Date.parse(T1) }

const lease = (state: string, ...events: LeaseEvent[]): ActorPose => ({
  kind: leaseKind,
  key: 'ls-1',
  state,
  input: LEASE_INPUT,
  events,
})
const run = (state: string, ...events: RunMachineEvent[]): ActorPose => ({
  kind: runKind,
  key: 'run-1',
  state,
  input: RUN_INPUT,
  events,
})
const worker = (state: string, ...events: WorkerEvent[]): ActorPose => ({
  kind: workerKind,
  key: 'wk-1',
  state,
  input: WORKER_INPUT,
  events,
})

const execution = (state: string, ...events: ExecutionEvent[]): ActorPose => ({
  kind: executionKind,
  key: 'ls-1',
  state,
  input: EXECUTION_INPUT,
  events,
})

/** Final states are missing, because an actor leaves the disk with its last transition. */
export const leases = [
  lease('offered'),
  lease('unconfirmed', lost),
  lease('held', accepted),
  lease('adrift', accepted, lost),
  lease('cancelling', accepted, cancel),
]
export const runs = [
  run('queued'),
  run('preparing', granted, taken),
  run('running', granted, taken, running),
  run('finalizing', granted, taken, running, finalizing),
  { ...run('running', granted, taken, running), input: FOLLOW_UP },
  run('queued', granted, taken, running, unpublished),
]
export const workers = [
  worker('enrolling'),
  worker('active', proven),
  worker('draining', proven, drained),
  worker('draining', drained),
  { ...worker('active', proven, vacated), input: { ...WORKER_INPUT, joinKey: 'jk-1', ephemeral: true } },
]

const cleared: ExecutionEvent = { type: 'older execution gone' }
const prepared: ExecutionEvent = { type: 'prepared', progress: { sandbox: { id: 'sb-1' } } }
const published: ExecutionEvent = {
  type: 'progressed',
  progress: {
    agentSessionId: 'session-1',
    branch: 'switchyard/eng-12',
    pushed: 'c0ffee',
    prUrl: 'https://codehost.example/pr/1',
    prState: 'draft',
  },
}
const spent: ExecutionEvent = {
  type: 'costs reported',
  costs: [
    {
      label: 'run',
      provider: 'agentA',
      inputTokens: 1,
      outputTokens: 2,
      cacheReadTokens: 3,
      cacheWriteTokens: 4,
      costUsd: 0.5,
      estimated: true,
    },
  ],
}
const worked: ExecutionEvent = { type: 'agent ended', agent: { verdict: 'done' } }
const ended: ExecutionEvent = {
  type: 'ended',
  outcome: { status: 'completed', result: { summary: 'done', artifacts: [] }, costs: [] },
}
const cancelled: ExecutionEvent = { type: 'cancel requested', reason: 'cancelled by a person' }
const gone: ExecutionEvent = { type: 'lease lost', how: 'kill', reason: 'the lease is lost' }
const restarted: ExecutionEvent = { type: 'daemon restarted', reason: 'interrupted: the worker daemon ended' }

export const executions = [
  execution('accepted'),
  execution('preparing', cleared),
  execution('working', cleared, prepared, published, spent),
  execution('finishing', cleared, prepared, worked),
  execution('stopping', cleared, prepared, cancelled),
  execution('abandoned', cleared, prepared, gone),
  execution('recovering', cleared, prepared, published, restarted),
  execution('finished', cleared, prepared, published, spent, worked, ended),
]

/** A system of these kinds only. Events to other kinds are dropped, and effects are recorded. */
export function createIsolatedSystem(
  database = new CrashDatabase(),
  clock = new ManualClock(Date.parse(T1)),
  more: Partial<SystemModules> = {},
) {
  const done: string[] = []
  const system = new ActorSystem({
    clock,
    database,
    log: createRecordingLog(),
    meters: noMeters,
    kinds: [leaseKind, runKind, workerKind, executionKind],
    modules: () => ({ runEffect: ({ type }) => void done.push(type), ...more }),
    onFatal: (reason) => void done.push(`fatal: ${reason}`),
  })
  const flush = async () => {
    await clock.settle()
    while (database.inFlight > 0) {
      database.flush()
      await clock.settle()
    }
  }
  const pose = ({ kind, key, input, events }: ActorPose) => {
    system.spawn(kindName(kind.name), key, input)
    for (const event of events) system.send(kindName(kind.name), key, event)
  }
  return { system, database, clock, done, flush, pose }
}
