/**
 * The provision machine sets up one machine as a worker over SSH, step by step.
 *
 * Steps before the copy change nothing on the target. A step that fails after that leads to the undoing of everything
 * that this provisioning has done; an earlier good version of the worker is then in use again. The effects hold the
 * connection and the pairing token; this context never does. Nothing is stored: a host that stops undoes what it can.
 */
import { assign, setup } from 'xstate'
import type { ProvisionStep } from '../../core/provision/step-lines.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, closeOnCrash, kindName } from '../runtime/actor-kind.ts'

export const PROVISION = kindName<ProvisionContext, ProvisionEvent, ProvisionInput>('provision')

export interface ProvisionContext {
  readonly provision: string
  /** The target has no worker of this host; otherwise its worker is upgraded or repaired. */
  readonly isNew: boolean
}

export interface ProvisionInput {
  readonly provision: string
}

/** `message` is for people; no event holds a secret. */
export type ProvisionEvent =
  | { readonly type: 'step done'; readonly message: string }
  | { readonly type: 'checked'; readonly message: string; readonly isNew: boolean }
  | { readonly type: 'step failed'; readonly message: string }
  | { readonly type: 'undone' }
  /** The host stops. */
  | { readonly type: 'interrupted' }

interface Numbered {
  readonly provision: string
}

export type ProvisionEffect =
  | (Numbered & { readonly type: 'provision.perform'; readonly step: ProvisionStep })
  | (Numbered & {
      readonly type: 'provision.report'
      readonly status: 'done' | 'failed'
      readonly message: string
    })
  | (Numbered & { readonly type: 'provision.undo' })
  | (Numbered & { readonly type: 'provision.end'; readonly isDone: boolean })
  | (Numbered & { readonly type: 'provision.crashed' })

const { recordEffect, endActor } = defineActions<ProvisionContext, ProvisionEvent, ProvisionEffect>()

const messageOf = (event: ProvisionEvent): string => ('message' in event ? event.message : '')
const INTERRUPTED = 'the host is stopping'

const onFailure = (target: 'undoing' | 'failed') =>
  ({
    'step failed': { target, actions: 'reportFailed' },
    interrupted: { target, actions: 'reportInterrupted' },
  }) as const

export const provisionMachine = setup({
  types: {} as { context: ProvisionContext; events: ProvisionEvent; input: ProvisionInput },
  guards: {
    isNew: ({ context }) => context.isNew,
  },
  actions: {
    perform: recordEffect<{ readonly step: ProvisionStep }>(({ context }, { step }) => ({
      type: 'provision.perform',
      provision: context.provision,
      step,
    })),
    reportDone: recordEffect(({ context, event }) => ({
      type: 'provision.report',
      provision: context.provision,
      status: 'done',
      message: messageOf(event),
    })),
    reportFailed: recordEffect(({ context, event }) => ({
      type: 'provision.report',
      provision: context.provision,
      status: 'failed',
      message: messageOf(event),
    })),
    reportInterrupted: recordEffect(({ context }) => ({
      type: 'provision.report',
      provision: context.provision,
      status: 'failed',
      message: INTERRUPTED,
    })),
    notePlan: assign(({ event }) => (event.type === 'checked' ? { isNew: event.isNew } : {})),
    undo: recordEffect(({ context }) => ({ type: 'provision.undo', provision: context.provision })),
    reportSuccess: recordEffect(({ context }) => ({
      type: 'provision.end',
      provision: context.provision,
      isDone: true,
    })),
    reportFailure: recordEffect(({ context }) => ({
      type: 'provision.end',
      provision: context.provision,
      isDone: false,
    })),
    end: endActor(),
  },
}).createMachine({
  id: PROVISION,
  options: { maxIterations: 100 },
  context: ({ input }) => ({ provision: input.provision, isNew: true }),
  initial: 'connecting',
  states: {
    connecting: {
      description: 'the host connects by SSH and verifies the key of the machine',
      entry: { type: 'perform', params: { step: 'connect' } },
      on: { 'step done': { target: 'checking', actions: 'reportDone' }, ...onFailure('failed') },
    },
    checking: {
      description: 'the machine is asked whether a worker can run there; nothing is changed yet',
      entry: { type: 'perform', params: { step: 'check' } },
      on: { checked: { target: 'copying', actions: ['notePlan', 'reportDone'] }, ...onFailure('failed') },
    },
    copying: {
      description: 'the worker package is copied beside an earlier version',
      entry: { type: 'perform', params: { step: 'copy' } },
      on: {
        'step done': [
          { guard: 'isNew', target: 'installing', actions: 'reportDone' },
          { target: 'draining', actions: 'reportDone' },
        ],
        ...onFailure('undoing'),
      },
    },
    draining: {
      description: 'an earlier version of the worker gets no new runs, and its runs end',
      entry: { type: 'perform', params: { step: 'drain' } },
      on: { 'step done': { target: 'installing', actions: 'reportDone' }, ...onFailure('undoing') },
    },
    installing: {
      description: 'the new version takes the place of the earlier one, with its service',
      entry: { type: 'perform', params: { step: 'install' } },
      on: {
        'step done': [
          { guard: 'isNew', target: 'pairing', actions: 'reportDone' },
          { target: 'starting', actions: 'reportDone' },
        ],
        ...onFailure('undoing'),
      },
    },
    pairing: {
      description: 'the worker starts with a pairing token and redeems it',
      entry: { type: 'perform', params: { step: 'pair' } },
      on: { 'step done': { target: 'starting', actions: 'reportDone' }, ...onFailure('undoing') },
    },
    starting: {
      description: 'the worker connects to the host',
      entry: { type: 'perform', params: { step: 'online' } },
      on: { 'step done': { target: 'succeeded', actions: 'reportDone' }, ...onFailure('undoing') },
    },
    undoing: {
      description: 'what this provisioning has done is undone',
      entry: 'undo',
      on: { undone: 'failed' },
    },
    succeeded: { description: 'the worker is online', entry: ['reportSuccess', 'end'] },
    failed: { description: 'the machine is as it was before', entry: ['reportFailure', 'end'] },
  },
})

export const provisionKind: ActorKind = {
  name: PROVISION,
  logic: provisionMachine,
  supervision: {
    ...closeOnCrash,
    finalOutputs: (provision) => {
      const effect: ProvisionEffect = { type: 'provision.crashed', provision }
      return [{ is: 'effect', effect }]
    },
  },
  // The actor stores nothing on disk.
  diskless: true,
}
