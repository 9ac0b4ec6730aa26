/**
 * One journey of a person's browser: to the tracker's consent page and back to the callback.
 *
 * What it brings back is exchanged once. Whoever comes back a second time waits for the same end, or is told how it
 * was. Any number of journeys may be under way, and none knows of the others; which of them counts in the end is
 * decided where credentials are saved. State, verifier, code and tokens lie in the room, never in here.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import type { ActorKind } from '../runtime/actor-kind.ts'
import { JOURNEY } from './connect.names.ts'
import { type ConnectCrashed, closedWithWord } from './crash-policy.ts'

export interface JourneyContext {
  readonly flow: string
  /** Wall milliseconds, both. */
  readonly consentUntil: number
  readonly keptUntil: number
  /** Whose account it is, or why there is none. */
  readonly word: string
}

export type JourneyInput = Omit<JourneyContext, 'word'>

export type JourneyEvent =
  /** `refusal`: what the tracker said instead of giving a code. */
  | { readonly type: 'came back'; readonly handle: number; readonly refusal: string | null }
  | { readonly type: 'exchanged' }
  | { readonly type: 'not exchanged'; readonly reason: string }
  | { readonly type: 'saved'; readonly detail: string }
  | { readonly type: 'not saved'; readonly reason: string }
  /** There are too many. */
  | { readonly type: 'crowded out' }
  /** The credential was set or removed in another way since. */
  | { readonly type: 'superseded'; readonly reason: string }
  | { readonly type: 'deadline.consent' }
  | { readonly type: 'deadline.memory' }

/** `handle`: only that one is answered; null: everybody who waits. */
export type JourneyEffect =
  | { readonly type: 'connect.exchange'; readonly flow: string; readonly handle: number }
  | { readonly type: 'connect.save journey'; readonly flow: string }
  | { readonly type: 'connect.say arrived'; readonly flow: string; readonly detail: string }
  | {
      readonly type: 'connect.say arrived before'
      readonly flow: string
      readonly handle: number
      readonly detail: string
    }
  | {
      readonly type: 'connect.say stranded'
      readonly flow: string
      readonly handle: number | null
      readonly reason: string
    }
  | { readonly type: 'connect.forget journey'; readonly flow: string }
  | ConnectCrashed

const EXPIRED = 'the consent page was left open for too long; connect the tracker again'

const { recordEffect, setDeadline, endActor } = defineActions<JourneyContext, JourneyEvent, JourneyEffect>()

export const journeyMachine = setup({
  types: {} as { context: JourneyContext; events: JourneyEvent; input: JourneyInput },
  guards: {
    wasRefused: ({ event }) => event.type === 'came back' && event.refusal !== null,
  },
  actions: {
    endConsentInTime: setDeadline(({ context }) => ({ name: 'consent', at: context.consentUntil })),
    forgetInTime: setDeadline(({ context }) => ({ name: 'memory', at: context.keptUntil })),
    exchange: recordEffect(({ context, event }) =>
      event.type === 'came back'
        ? { type: 'connect.exchange', flow: context.flow, handle: event.handle }
        : [],
    ),
    save: recordEffect(({ context }) => ({ type: 'connect.save journey', flow: context.flow })),
    sayArrived: recordEffect(({ context }) => ({
      type: 'connect.say arrived',
      flow: context.flow,
      detail: context.word,
    })),
    sayArrivedBefore: recordEffect(({ context, event }) =>
      event.type === 'came back'
        ? {
            type: 'connect.say arrived before',
            flow: context.flow,
            handle: event.handle,
            detail: context.word,
          }
        : [],
    ),
    sayStranded: recordEffect(({ context }) => ({
      type: 'connect.say stranded',
      flow: context.flow,
      handle: null,
      reason: context.word,
    })),
    sayStrandedBefore: recordEffect(({ context, event }) =>
      event.type === 'came back'
        ? {
            type: 'connect.say stranded',
            flow: context.flow,
            handle: event.handle,
            reason: context.word,
          }
        : [],
    ),
    forget: recordEffect(({ context }) => ({ type: 'connect.forget journey', flow: context.flow })),
    noteRefusal: assign(({ event }) =>
      event.type === 'came back' && event.refusal !== null ? { word: event.refusal } : {},
    ),
    noteReason: assign(({ event }) => ('reason' in event ? { word: event.reason } : {})),
    noteExpiry: assign({ word: EXPIRED }),
    noteAccount: assign(({ event }) => (event.type === 'saved' ? { word: event.detail } : {})),
    end: endActor(),
  },
}).createMachine({
  id: JOURNEY,
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, word: '' }),
  initial: 'awaiting',
  on: { 'crowded out': '.gone', 'deadline.memory': '.gone' },
  states: {
    awaiting: {
      description: 'the browser is at the consent page',
      entry: ['endConsentInTime', 'forgetInTime'],
      on: {
        'came back': [
          { guard: 'wasRefused', target: 'stranded', actions: 'noteRefusal' },
          { target: 'exchanging', actions: 'exchange' },
        ],
        'deadline.consent': { target: 'stranded', actions: 'noteExpiry' },
        superseded: { target: 'stranded', actions: 'noteReason' },
      },
    },
    exchanging: {
      description: 'the code is being exchanged for tokens, once',
      on: {
        exchanged: 'saving',
        'not exchanged': { target: 'stranded', actions: 'noteReason' },
      },
    },
    saving: {
      description:
        'the tokens are being checked and put on disk; whether they still may, the saving finds out',
      entry: 'save',
      on: {
        saved: { target: 'arrived', actions: 'noteAccount' },
        'not saved': { target: 'stranded', actions: 'noteReason' },
      },
    },
    arrived: {
      description: 'the tokens are on disk and work; who comes back again hears that',
      entry: 'sayArrived',
      on: {
        'came back': { actions: 'sayArrivedBefore' },
        superseded: { target: 'stranded', actions: 'noteReason' },
      },
    },
    stranded: {
      description: 'nothing comes of it any more; who comes back hears why',
      entry: 'sayStranded',
      on: { 'came back': { actions: 'sayStrandedBefore' } },
    },
    gone: { description: 'its state is a stranger’s from now on', entry: ['forget', 'end'] },
  },
})

export const journeyKind: ActorKind = {
  name: JOURNEY,
  logic: journeyMachine,
  supervision: closedWithWord,
  // It has nothing on disk, and its answers must not wait for one that is full.
  diskless: true,
}
