/**
 * The whole worker daemon's life: it serves, drains when it is asked to, and one day ends.
 *
 * Whatever goes wrong, it ends in `stopped`, and says how. How much it still has is counted by whoever follows the
 * executions, and told after each change.
 */
import { assign, setup } from 'xstate'
import { interruptionError } from '../../core/run/interruption.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, fatalOnCrash } from '../runtime/actor-kind.ts'
import { DAEMON } from './daemon.names.ts'
import type { DaemonEnd } from './daemon-dependencies.ts'

export interface DaemonContext {
  readonly end: DaemonEnd
}

export type DaemonEvent =
  | { readonly type: 'drain requested' }
  /** It ends soon; whoever else has room carries on. */
  | { readonly type: 'hand back requested' }
  | { readonly type: 'stop requested' }
  /** The link will not come back. */
  | { readonly type: 'link ended'; readonly end: DaemonEnd }
  /** Its disk takes no more, or something inside is broken. */
  | { readonly type: 'broken'; readonly reason: string }
  /** Executions of which something runs, or is not told on disk; those that only wait for the host's word. */
  | { readonly type: 'counted'; readonly running: number; readonly unacknowledged: number }
  | { readonly type: 'time is up' }
  | { readonly type: 'flushed' }

export type DaemonEffect =
  | { readonly type: 'daemon.go' }
  /** The bound of a drain begins to run. */
  | { readonly type: 'daemon.drain' }
  /** Nothing runs any more; the host gets a little time to take note of what is finished. */
  | { readonly type: 'daemon.wait for host' }
  | { readonly type: 'daemon.hand back'; readonly reason: string }
  | { readonly type: 'daemon.abandon'; readonly how: 'interrupt' | 'kill'; readonly reason: string }
  | { readonly type: 'daemon.kill'; readonly reason: string }
  | { readonly type: 'daemon.count' }
  | { readonly type: 'daemon.flush' }
  | { readonly type: 'daemon.finish'; readonly end: DaemonEnd }

const { recordEffect } = defineActions<DaemonContext, DaemonEvent, DaemonEffect>()

/** The host has no use for what it runs: these leases are others' by now, or nobody's. */
const ENDS_WITHOUT_LEASES: readonly DaemonEnd['is'][] = ['revoked', 'unauthorized', 'replaced']

const endTransitions = {
  'stop requested': 'stopping',
  'link ended': [
    { guard: 'isForsaken', target: 'forsaken', actions: 'noteEnd' },
    { target: 'stopping', actions: 'noteEnd' },
  ],
  broken: { target: 'stopping', actions: 'noteBroken' },
} as const

export const daemonMachine = setup({
  types: {} as { context: DaemonContext; events: DaemonEvent },
  guards: {
    isForsaken: ({ event }) => event.type === 'link ended' && ENDS_WITHOUT_LEASES.includes(event.end.is),
    nothingLeft: ({ event }) => event.type === 'counted' && event.running === 0 && event.unacknowledged === 0,
    nothingRuns: ({ event }) => event.type === 'counted' && event.running === 0,
  },
  actions: {
    go: recordEffect(() => ({ type: 'daemon.go' })),
    boundDrain: recordEffect(() => ({ type: 'daemon.drain' })),
    waitForHost: recordEffect(() => ({ type: 'daemon.wait for host' })),
    handBack: recordEffect(() => ({
      type: 'daemon.hand back',
      reason: 'the worker ends, and does not wait for it',
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
    noteEnd: assign(({ event }) => (event.type === 'link ended' ? { end: event.end } : {})),
    noteBroken: assign(({ event }) =>
      event.type === 'broken' ? { end: { is: 'broken' as const, detail: event.reason } } : {},
    ),
  },
}).createMachine({
  id: 'daemon',
  options: { maxIterations: 100 },
  context: { end: { is: 'stopped', detail: 'it was asked to stop' } },
  initial: 'serving',
  states: {
    serving: {
      description: 'takes runs, and calls the host whenever there is no line',
      entry: 'go',
      on: { ...endTransitions, 'drain requested': 'draining', 'hand back requested': 'handingBack' },
    },
    draining: {
      description: 'takes no new runs; those it has go on to their end',
      entry: ['boundDrain', 'count'],
      on: {
        ...endTransitions,
        counted: [
          { guard: 'nothingLeft', target: 'closing' },
          { guard: 'nothingRuns', target: 'reporting' },
        ],
        'hand back requested': 'handingBack',
        'time is up': 'handingBack',
      },
    },
    reporting: {
      description: 'nothing runs any more; what is finished waits a little for the word of the host',
      entry: 'waitForHost',
      on: {
        ...endTransitions,
        counted: { guard: 'nothingLeft', target: 'closing' },
        // It is on disk, and told when the worker is started again.
        'hand back requested': 'closing',
        'time is up': 'closing',
      },
    },
    handingBack: {
      description:
        'what runs is killed; once it is gone it is not claimed any more, and the host queues it again',
      entry: ['handBack', 'count'],
      on: {
        ...endTransitions,
        counted: { guard: 'nothingRuns', target: 'closing' },
        'time is up': 'stopping',
      },
    },
    forsaken: {
      description: 'its leases are not its own any more; its runs are ended and nobody is told',
      entry: ['abandon', 'count'],
      on: {
        'stop requested': 'stopping',
        broken: { target: 'stopping', actions: 'noteBroken' },
        counted: { guard: 'nothingRuns', target: 'closing' },
        'time is up': 'stopping',
      },
    },
    stopping: {
      description: 'everything is killed; how far it came is put on disk, to be told later',
      entry: ['kill', 'count'],
      on: {
        broken: { actions: 'noteBroken' },
        counted: { guard: 'nothingRuns', target: 'closing' },
        'time is up': 'closing',
      },
    },
    closing: {
      description: 'the last is written, and said if there is a line',
      entry: 'flush',
      on: {
        flushed: 'stopped',
        broken: { target: 'stopped', actions: 'noteBroken' },
        'time is up': 'stopped',
      },
    },
    stopped: {
      description: 'over',
      entry: 'finish',
    },
  },
})

export const daemonKind: ActorKind = {
  name: DAEMON,
  logic: daemonMachine,
  supervision: fatalOnCrash,
  diskless: true,
}
