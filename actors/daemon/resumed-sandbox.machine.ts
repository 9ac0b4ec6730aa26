/**
 * The retained sandbox of one run, booted for a person: from the wish to boot it until nothing of it is left.
 *
 * Its key is the run's id. Whatever has become of the views or of the line, it is looked at or it has a time by which
 * it closes; so a sandbox, and the credentials in it, never outlive the last person for long. It is not on disk: what
 * was booted is gone with the daemon.
 */
import { setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, closeOnCrash } from '../runtime/actor-kind.ts'
import { RESUMED_SANDBOX } from './daemon.names.ts'

export interface ResumedSandboxContext {
  readonly runId: string
}

export type ResumedSandboxInput = ResumedSandboxContext

export type ResumedSandboxEvent =
  | { readonly type: 'ready' }
  | { readonly type: 'refused' }
  /** Somebody wants it booted that is booted: a view will come. */
  | { readonly type: 'asked again' }
  | { readonly type: 'viewed' }
  | { readonly type: 'last view closed' }
  | { readonly type: 'line lost' }
  | { readonly type: 'session ended' }
  | { readonly type: 'release requested' }
  | { readonly type: 'time is up' }
  /** No process and no credential of it is left. */
  | { readonly type: 'closed' }

export type ResumedSandboxEffect =
  | { readonly type: 'booted.boot'; readonly runId: string }
  /** The time by which somebody has to come begins to run. */
  | { readonly type: ResumedSandboxWait; readonly runId: string }
  | { readonly type: 'booted.close'; readonly runId: string }
  | { readonly type: 'booted.over'; readonly runId: string }

export type ResumedSandboxWait =
  | 'booted.wait for a view'
  | 'booted.wait for a return'
  | 'booted.wait for the line'

const { recordEffect, endActor } = defineActions<
  ResumedSandboxContext,
  ResumedSandboxEvent,
  ResumedSandboxEffect
>()

const endTransitions = { 'release requested': 'closing', 'session ended': 'closing' } as const
const unviewedTransitions = { ...endTransitions, viewed: 'attended', 'time is up': 'closing' } as const

export const resumedSandboxMachine = setup({
  types: {} as { context: ResumedSandboxContext; events: ResumedSandboxEvent; input: ResumedSandboxInput },
  actions: {
    boot: recordEffect(({ context }) => ({ type: 'booted.boot', runId: context.runId })),
    awaitView: recordEffect(({ context }) => ({ type: 'booted.wait for a view', runId: context.runId })),
    awaitReturn: recordEffect(({ context }) => ({ type: 'booted.wait for a return', runId: context.runId })),
    awaitLine: recordEffect(({ context }) => ({ type: 'booted.wait for the line', runId: context.runId })),
    close: recordEffect(({ context }) => ({ type: 'booted.close', runId: context.runId })),
    tellOver: recordEffect(({ context }) => ({ type: 'booted.over', runId: context.runId })),
    end: endActor(),
  },
}).createMachine({
  id: 'booted',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ runId: input.runId }),
  initial: 'booting',
  states: {
    booting: {
      description: 'the retained sandbox is being readied',
      entry: 'boot',
      on: { ready: 'ready', refused: 'over', 'release requested': 'unwanted' },
    },
    unwanted: {
      description: 'nobody wants it any more, and it is still on its way',
      on: { ready: 'closing', refused: 'over' },
    },
    ready: {
      description: 'booted; nobody has come to look yet',
      entry: 'awaitView',
      on: {
        ...unviewedTransitions,
        'asked again': { target: 'ready', reenter: true },
        'line lost': 'adrift',
      },
    },
    attended: {
      description: 'somebody looks at it',
      on: { ...endTransitions, 'last view closed': 'left', 'line lost': 'adrift' },
    },
    left: {
      description: 'nobody looks at it any more; a page may only be loading anew',
      entry: 'awaitReturn',
      on: { ...unviewedTransitions, 'asked again': 'ready', 'line lost': 'adrift' },
    },
    adrift: {
      description: 'the line was lost, and its views with it; the host may come back with them',
      entry: 'awaitLine',
      // A line that breaks once more gives no more time.
      on: { ...unviewedTransitions, 'asked again': 'ready' },
    },
    closing: {
      description: 'whatever is in it is being ended',
      entry: 'close',
      on: { closed: 'over' },
    },
    over: {
      description: 'gone; its disk stays',
      entry: ['tellOver', 'end'],
    },
  },
})

export const resumedSandboxKind: ActorKind = {
  name: RESUMED_SANDBOX,
  logic: resumedSandboxMachine,
  supervision: {
    ...closeOnCrash,
    finalOutputs: (key) => [
      { is: 'effect', effect: { type: 'booted.close', runId: key } satisfies ResumedSandboxEffect },
    ],
  },
  diskless: true,
}
