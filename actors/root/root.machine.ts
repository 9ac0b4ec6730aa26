/**
 * The whole host's life: it wakes, remembers, opens its doors, and one day closes them.
 *
 * Whatever goes wrong, it ends in `stopped` with an exit code that says how.
 */
import { assign, setup } from 'xstate'
import { DRAIN_MS_MAX } from '../../protocol/limits.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, fatalOnCrash } from '../runtime/actor-kind.ts'

export interface RootContext {
  readonly exitCode: number
  readonly reason: string
}

export type RootEvent =
  | { readonly type: 'records read' }
  | { readonly type: 'records refused'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'doors open' }
  | { readonly type: 'doors refused'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'doors closed' }
  /** Somebody asked for it, or nothing else is left to do (`exitCode` ≠ 0). */
  | {
      readonly type: 'stop requested'
      readonly at: number
      readonly exitCode: number
      readonly reason: string
    }
  | { readonly type: 'deadline.drain' }

/** What it asks of the world; `root.effects.ts` does it. */
export type RootEffect =
  | { readonly type: 'root.read records' }
  | { readonly type: 'root.open doors' }
  | { readonly type: 'root.close doors' }
  | { readonly type: 'root.finish'; readonly exitCode: number; readonly reason: string }

const { recordEffect, setDeadline, cancelDeadline } = defineActions<RootContext, RootEvent, RootEffect>()

export const rootMachine = setup({
  types: {} as { context: RootContext; events: RootEvent },
  actions: {
    noteEnd: assign(({ event }) =>
      'exitCode' in event ? { exitCode: event.exitCode, reason: event.reason } : {},
    ),
    readRecords: recordEffect(() => ({ type: 'root.read records' })),
    openDoors: recordEffect(() => ({ type: 'root.open doors' })),
    closeDoors: recordEffect(() => ({ type: 'root.close doors' })),
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
      description: 'the store is open; every stored life is being brought back',
      entry: 'readRecords',
      on: {
        'records read': 'recovering',
        'records refused': { target: 'stopped', actions: 'noteEnd' },
        'stop requested': { target: 'stopped', actions: 'noteEnd' },
      },
    },
    recovering: {
      description: 'lives are back; what their states imply is being done, and the doors are being opened',
      entry: 'openDoors',
      on: {
        'doors open': 'serving',
        'doors refused': { target: 'stopped', actions: 'noteEnd' },
        'stop requested': { target: 'draining', actions: 'noteEnd' },
      },
    },
    serving: {
      description: 'doors open',
      on: { 'stop requested': { target: 'draining', actions: 'noteEnd' } },
    },
    draining: {
      description: 'no new work; the doors are closing and the last answers going out',
      entry: ['closeDoors', 'startDrainDeadline'],
      exit: 'cancelDrainDeadline',
      on: { 'doors closed': 'stopped', 'deadline.drain': 'stopped' },
    },
    stopped: {
      description: 'everything that was acknowledged is on disk',
      entry: 'finish',
    },
  },
})

/** There is one; its key is its name. */
export const ROOT = 'root'

export const rootKind: ActorKind = {
  name: ROOT,
  singleton: true,
  logic: rootMachine,
  supervision: fatalOnCrash,
  diskless: true,
}
