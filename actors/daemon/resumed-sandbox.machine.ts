/**
 * The state machine of one resumed sandbox: the retained sandbox of a run, booted for a person.
 *
 * The actor's key is the run id. In every state the sandbox either has a view or a time by which it closes, so the
 * sandbox and the credentials in it never outlive the last person for long. The actor is not stored, because a booted
 * sandbox ends with the daemon.
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
  | { readonly type: 'booted' }
  | { readonly type: 'boot failed' }
  /** A boot is requested for a sandbox that is booted already: a view will follow. */
  | { readonly type: 'boot requested again' }
  | { readonly type: 'view opened' }
  | { readonly type: 'last view closed' }
  | { readonly type: 'connection lost' }
  | { readonly type: 'session ended' }
  | { readonly type: 'release requested' }
  | { readonly type: 'timed out' }
  /** No process and no credential of the sandbox is left. */
  | { readonly type: 'closed' }

export type ResumedSandboxEffect =
  | { readonly type: 'sandbox.boot'; readonly runId: string }
  /** Starts the time limit within which a view has to open. */
  | { readonly type: ResumedSandboxWait; readonly runId: string }
  | { readonly type: 'sandbox.close'; readonly runId: string }
  | { readonly type: 'sandbox.clean up'; readonly runId: string }

export type ResumedSandboxWait =
  | 'sandbox.wait for a view'
  | 'sandbox.wait for a return'
  | 'sandbox.wait for the connection'

const { recordEffect, endActor } = defineActions<
  ResumedSandboxContext,
  ResumedSandboxEvent,
  ResumedSandboxEffect
>()

const endTransitions = { 'release requested': 'closing', 'session ended': 'closing' } as const
const unviewedTransitions = { ...endTransitions, 'view opened': 'viewed', 'timed out': 'closing' } as const

export const resumedSandboxMachine = setup({
  types: {} as { context: ResumedSandboxContext; events: ResumedSandboxEvent; input: ResumedSandboxInput },
  actions: {
    boot: recordEffect(({ context }) => ({ type: 'sandbox.boot', runId: context.runId })),
    awaitView: recordEffect(({ context }) => ({ type: 'sandbox.wait for a view', runId: context.runId })),
    awaitReturn: recordEffect(({ context }) => ({ type: 'sandbox.wait for a return', runId: context.runId })),
    awaitConnection: recordEffect(({ context }) => ({
      type: 'sandbox.wait for the connection',
      runId: context.runId,
    })),
    close: recordEffect(({ context }) => ({ type: 'sandbox.close', runId: context.runId })),
    cleanUp: recordEffect(({ context }) => ({ type: 'sandbox.clean up', runId: context.runId })),
    end: endActor(),
  },
}).createMachine({
  id: 'booted',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ runId: input.runId }),
  initial: 'booting',
  states: {
    booting: {
      description: 'the retained sandbox is being booted',
      entry: 'boot',
      on: { booted: 'ready', 'boot failed': 'over', 'release requested': 'releasedEarly' },
    },
    releasedEarly: {
      description: 'released while it is still being booted; closes as soon as the boot has ended',
      on: { booted: 'closing', 'boot failed': 'over' },
    },
    ready: {
      description: 'booted; no view has opened yet',
      entry: 'awaitView',
      on: {
        ...unviewedTransitions,
        'boot requested again': { target: 'ready', reenter: true },
        'connection lost': 'adrift',
      },
    },
    viewed: {
      description: 'at least one view is open',
      on: { ...endTransitions, 'last view closed': 'unviewed', 'connection lost': 'adrift' },
    },
    unviewed: {
      description: 'the last view has closed; a reload of the page may open it again',
      entry: 'awaitReturn',
      on: { ...unviewedTransitions, 'boot requested again': 'ready', 'connection lost': 'adrift' },
    },
    adrift: {
      description: 'the connection was lost, and the views with it; the host may open them again',
      entry: 'awaitConnection',
      // Another lost connection does not extend the time limit.
      on: { ...unviewedTransitions, 'boot requested again': 'ready' },
    },
    closing: {
      description: 'the processes in the sandbox are being ended',
      entry: 'close',
      on: { closed: 'over' },
    },
    over: {
      description: 'closed; the disk of the sandbox is retained',
      entry: ['cleanUp', 'end'],
    },
  },
})

export const resumedSandboxKind: ActorKind = {
  name: RESUMED_SANDBOX,
  logic: resumedSandboxMachine,
  supervision: {
    ...closeOnCrash,
    finalOutputs: (key) => [
      { is: 'effect', effect: { type: 'sandbox.close', runId: key } satisfies ResumedSandboxEffect },
    ],
  },
  diskless: true,
}
