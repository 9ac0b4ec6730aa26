/**
 * The state machine of a whole worker daemon: serving, draining, and every way to its end.
 *
 * Every path ends in `stopped` with the reason of the end. The machine does not count executions itself: it receives
 * `counted` after each change.
 */
import { assign, setup } from 'xstate'
import { interruptionError } from '../../core/run/interruption.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, fatalOnCrash } from '../runtime/actor-kind.ts'
import { DAEMON } from './daemon.names.ts'
import type { DaemonEnd } from './daemon-context.ts'

export interface DaemonMachineContext {
  readonly end: DaemonEnd
}

export type DaemonEvent =
  | { readonly type: 'drain requested' }
  /** A worker that takes one run has accepted it. */
  | { readonly type: 'only run began' }
  /** The worker had nothing to do for as long as it waits for work. */
  | { readonly type: 'idle for long' }
  /** The daemon ends soon; the host dispatches its runs to other workers. */
  | { readonly type: 'hand back requested' }
  | { readonly type: 'stop requested' }
  /** The daemon will not connect to the host again. */
  | { readonly type: 'host connection ended'; readonly end: DaemonEnd }
  /** The disk cannot be written any more, another process owns the data directory, or a bug stopped the actors. */
  | { readonly type: 'fatal error'; readonly end: DaemonEnd }
  /**
   * `running`: executions that still run, or whose outcome is not on disk. `unacknowledged`: finished executions whose
   * completion the host has not acknowledged.
   */
  | { readonly type: 'counted'; readonly running: number; readonly unacknowledged: number }
  | { readonly type: 'timed out' }
  | { readonly type: 'flushed' }

export type DaemonEffect =
  | { readonly type: 'daemon.connect' }
  | { readonly type: 'daemon.start drain timer' }
  /** The host learns that this worker takes no more runs. */
  | { readonly type: 'daemon.announce end' }
  /** The only run is done; the host gets an hour to acknowledge it. */
  | { readonly type: 'daemon.wait for the only acknowledgement' }
  /** Nothing runs any more; the host gets 30 seconds to acknowledge the completions. */
  | { readonly type: 'daemon.wait for acknowledgements' }
  /** `unbegun`: only those whose agents have not begun. */
  | { readonly type: 'daemon.hand back'; readonly what: 'all' | 'unbegun'; readonly reason: string }
  | { readonly type: 'daemon.abandon'; readonly how: 'interrupt' | 'kill'; readonly reason: string }
  | { readonly type: 'daemon.kill'; readonly reason: string }
  | { readonly type: 'daemon.count' }
  | { readonly type: 'daemon.flush' }
  | { readonly type: 'daemon.finish'; readonly end: DaemonEnd }

const { recordEffect } = defineActions<DaemonMachineContext, DaemonEvent, DaemonEffect>()

const UNREPORTED =
  'the host has not acknowledged the run of this worker; the report is on disk and is sent when the worker starts again'

/** After these ends the leases belong to another worker or to none, so the results are of no use to the host. */
const ENDS_WITHOUT_LEASES: readonly DaemonEnd['is'][] = ['revoked', 'unauthorized', 'replaced']

const endTransitions = {
  'stop requested': 'stopping',
  'host connection ended': [
    { guard: 'areLeasesLost', target: 'abandoning', actions: 'noteEnd' },
    { target: 'stopping', actions: 'noteEnd' },
  ],
  'fatal error': { target: 'stopping', actions: 'noteEnd' },
} as const

export const daemonMachine = setup({
  types: {} as { context: DaemonMachineContext; events: DaemonEvent },
  guards: {
    areLeasesLost: ({ event }) =>
      event.type === 'host connection ended' && ENDS_WITHOUT_LEASES.includes(event.end.is),
    isEverythingAcknowledged: ({ event }) =>
      event.type === 'counted' && event.running === 0 && event.unacknowledged === 0,
    isNothingRunning: ({ event }) => event.type === 'counted' && event.running === 0,
  },
  actions: {
    connect: recordEffect(() => ({ type: 'daemon.connect' })),
    startDrainTimer: recordEffect(() => ({ type: 'daemon.start drain timer' })),
    announceEnd: recordEffect(() => ({ type: 'daemon.announce end' })),
    waitForOnlyAcknowledgement: recordEffect(() => ({ type: 'daemon.wait for the only acknowledgement' })),
    waitForAcknowledgements: recordEffect(() => ({ type: 'daemon.wait for acknowledgements' })),
    handBack: recordEffect(() => ({
      type: 'daemon.hand back',
      what: 'all',
      reason: 'the worker ends before the run is done',
    })),
    handBackUnbegun: recordEffect(() => ({
      type: 'daemon.hand back',
      what: 'unbegun',
      reason: 'the worker ends before the agent began',
    })),
    abandon: recordEffect(({ context }) => ({
      type: 'daemon.abandon',
      how: context.end.is === 'replaced' ? 'kill' : 'interrupt',
      reason: context.end.detail,
    })),
    kill: recordEffect(() => ({ type: 'daemon.kill', reason: interruptionError('the worker was stopped') })),
    count: recordEffect(() => ({ type: 'daemon.count' })),
    flush: recordEffect(() => ({ type: 'daemon.flush' })),
    finish: recordEffect(({ context }) => ({ type: 'daemon.finish', end: context.end })),
    noteDone: assign({ end: { is: 'stopped' as const, detail: 'its only run is over' } }),
    noteIdle: assign({ end: { is: 'stopped' as const, detail: 'there was nothing to do' } }),
    noteUnreported: assign({ end: { is: 'unreported' as const, detail: UNREPORTED } }),
    noteEnd: assign(({ event }) => ('end' in event ? { end: event.end } : {})),
  },
}).createMachine({
  id: 'daemon',
  options: { maxIterations: 100 },
  context: { end: { is: 'stopped', detail: 'it was asked to stop' } },
  initial: 'serving',
  states: {
    serving: {
      description: 'accepts runs, and reconnects whenever the connection to the host is lost',
      entry: 'connect',
      on: {
        ...endTransitions,
        'drain requested': 'draining',
        'hand back requested': 'handingBack',
        'only run began': 'finishing',
        'idle for long': { target: 'draining', actions: 'noteIdle' },
      },
    },
    finishing: {
      description: 'the only run of this worker continues to its end; no other is accepted',
      entry: ['announceEnd', 'count'],
      on: {
        ...endTransitions,
        counted: [
          { guard: 'isEverythingAcknowledged', target: 'closing', actions: 'noteDone' },
          { guard: 'isNothingRunning', target: 'reportingOnly' },
        ],
        'drain requested': 'draining',
        'hand back requested': 'handingBack',
      },
    },
    reportingOnly: {
      description: 'the only run is done; the daemon waits until the host has acknowledged it',
      entry: 'waitForOnlyAcknowledgement',
      on: {
        ...endTransitions,
        counted: { guard: 'isEverythingAcknowledged', target: 'closing', actions: 'noteDone' },
        'drain requested': 'reporting',
        'hand back requested': 'closing',
        'timed out': { target: 'closing', actions: 'noteUnreported' },
      },
    },
    draining: {
      description:
        'accepts no new runs; those whose agents have not begun are given back, the others continue to their end',
      entry: ['startDrainTimer', 'announceEnd', 'handBackUnbegun', 'count'],
      on: {
        ...endTransitions,
        counted: [
          { guard: 'isEverythingAcknowledged', target: 'closing' },
          { guard: 'isNothingRunning', target: 'reporting' },
        ],
        'hand back requested': 'handingBack',
        'timed out': 'handingBack',
      },
    },
    reporting: {
      description:
        'nothing runs any more; the daemon waits a short time for the host to acknowledge completions',
      entry: 'waitForAcknowledgements',
      on: {
        ...endTransitions,
        counted: { guard: 'isEverythingAcknowledged', target: 'closing' },
        // The completions are on disk, and the worker sends them after its next start.
        'hand back requested': 'closing',
        'timed out': 'closing',
      },
    },
    handingBack: {
      description:
        'running executions are killed, and the host queues their runs again once they are gone; finished work is published in the time that is left',
      entry: ['handBack', 'count'],
      on: {
        ...endTransitions,
        counted: { guard: 'isNothingRunning', target: 'closing' },
        'timed out': 'stopping',
      },
    },
    abandoning: {
      description: 'the leases are lost; the executions are ended without a report to the host',
      entry: ['abandon', 'count'],
      on: {
        'stop requested': 'stopping',
        'fatal error': { target: 'stopping', actions: 'noteEnd' },
        counted: { guard: 'isNothingRunning', target: 'closing' },
        'timed out': 'stopping',
      },
    },
    stopping: {
      description: 'everything is killed; the progress is written to disk and reported after the next start',
      entry: ['kill', 'count'],
      on: {
        'fatal error': { actions: 'noteEnd' },
        counted: { guard: 'isNothingRunning', target: 'closing' },
        'timed out': 'closing',
      },
    },
    closing: {
      description: 'the last commits are awaited; the host receives a final heartbeat if connected',
      entry: 'flush',
      on: {
        flushed: 'stopped',
        'fatal error': { target: 'stopped', actions: 'noteEnd' },
        'timed out': 'stopped',
      },
    },
    stopped: {
      description: 'the daemon has ended',
      entry: 'finish',
    },
  },
})

export const daemonKind: ActorKind = {
  name: DAEMON,
  singleton: true,
  logic: daemonMachine,
  supervision: fatalOnCrash,
  diskless: true,
}
