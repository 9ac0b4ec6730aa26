/**
 * The state machine of the whole host: restore the actors, open the listeners, serve, stop.
 *
 * Every path ends in `stopped`, with an exit code that names the reason.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, fatalOnCrash, kindName } from '../runtime/actor-kind.ts'

/** The part of `STOP_MS_MAX` in which the host's own worker ends, and then the listeners close. */
export const DRAIN_MS_MAX = 3_800

export interface RootContext {
  readonly exitCode: number
  readonly reason: string
}

export type RootEvent =
  | { readonly type: 'records read' }
  | { readonly type: 'records refused'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'listeners open' }
  | { readonly type: 'listeners refused'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'listeners closed' }
  /** A person or the system requested the stop (`exitCode` 0), or an error forces it. */
  | {
      readonly type: 'stop requested'
      readonly at: number
      readonly exitCode: number
      readonly reason: string
    }
  | { readonly type: 'deadline.drain' }

export type RootEffect =
  | { readonly type: 'root.read records' }
  | { readonly type: 'root.open listeners' }
  | { readonly type: 'root.close listeners' }
  | { readonly type: 'root.finish'; readonly exitCode: number; readonly reason: string }

const { recordEffect, setDeadline, cancelDeadline } = defineActions<RootContext, RootEvent, RootEffect>()

export const rootMachine = setup({
  types: {} as { context: RootContext; events: RootEvent },
  actions: {
    noteEnd: assign(({ event }) =>
      'exitCode' in event ? { exitCode: event.exitCode, reason: event.reason } : {},
    ),
    readRecords: recordEffect(() => ({ type: 'root.read records' })),
    openListeners: recordEffect(() => ({ type: 'root.open listeners' })),
    closeListeners: recordEffect(() => ({ type: 'root.close listeners' })),
    startDrainDeadline: setDeadline(({ event }) => ({
      name: 'drain',
      at: ('at' in event ? event.at : 0) + DRAIN_MS_MAX,
    })),
    cancelDrainDeadline: cancelDeadline('drain'),
    finish: recordEffect(({ context }) => ({
      type: 'root.finish',
      exitCode: context.exitCode,
      reason: context.reason,
    })),
  },
}).createMachine({
  id: 'root',
  options: { maxIterations: 100 },
  context: { exitCode: 0, reason: 'running' },
  initial: 'booting',
  states: {
    booting: {
      description: 'the store is open; the stored actors are being restored',
      entry: 'readRecords',
      on: {
        'records read': 'recovering',
        'records refused': { target: 'stopped', actions: 'noteEnd' },
        'stop requested': { target: 'stopped', actions: 'noteEnd' },
      },
    },
    recovering: {
      description: 'the actors are restored and their implied effects run; the listeners are being opened',
      entry: 'openListeners',
      on: {
        'listeners open': 'serving',
        'listeners refused': { target: 'stopped', actions: 'noteEnd' },
        'stop requested': { target: 'draining', actions: 'noteEnd' },
      },
    },
    serving: {
      description: 'the listeners are open',
      on: { 'stop requested': { target: 'draining', actions: 'noteEnd' } },
    },
    draining: {
      description: 'no new work; the listeners are closing and the last replies are being sent',
      entry: ['closeListeners', 'startDrainDeadline'],
      exit: 'cancelDrainDeadline',
      on: { 'listeners closed': 'stopped', 'deadline.drain': 'stopped' },
    },
    stopped: {
      description: 'the host has ended; everything that was acknowledged is on disk',
      entry: 'finish',
    },
  },
})

/** The kind's name, and the key of its only actor. */
export const ROOT = kindName<RootContext, RootEvent>('root')

export const rootKind: ActorKind = {
  name: ROOT,
  singleton: true,
  logic: rootMachine,
  supervision: fatalOnCrash,
  diskless: true,
}
