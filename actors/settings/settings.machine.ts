/**
 * The settings: one change at a time, whoever asks for it, and the file always has the last word.
 *
 * A change is written only over the very text it was decided on. When the file turns out to hold something else (a
 * hand edit nobody had looked at yet), that edit is looked at first and the change decided anew. What the patches and
 * the file say never comes in here: the life knows handles, and that somebody touched the file.
 */
import { assign, setup } from 'xstate'
import { SETTINGS_CHANGES_WAITING_MAX, SETTINGS_TRIES_MAX } from '../../protocol/limits.ts'
import { defineActions } from '../runtime/actions.ts'

interface WaitingChange {
  readonly handle: number
  /** How often the file changed under it. */
  readonly tries: number
}

export interface SettingsContext {
  readonly current: WaitingChange | null
  readonly waiting: readonly WaitingChange[]
  readonly isFileOutdated: boolean
}

export type SettingsEvent =
  | { readonly type: 'patch arrived'; readonly handle: number }
  | { readonly type: 'file touched' }
  | { readonly type: 'change written' }
  | { readonly type: 'change refused' }
  | { readonly type: 'file differs' }
  | { readonly type: 'file unchanged' }
  | { readonly type: 'edit adopted' }
  | { readonly type: 'edit refused' }

/** What it asks of the world; `settings.effects.ts` does it. */
export type SettingsEffect =
  | { readonly type: 'settings.change'; readonly handle: number }
  | { readonly type: 'settings.look' }
  | { readonly type: 'settings.answer'; readonly handle: number }
  | { readonly type: 'settings.refuse crowd'; readonly handle: number }
  | { readonly type: 'settings.refuse restless'; readonly handle: number }
  | { readonly type: 'settings.announce' }

const { recordEffect } = defineActions<SettingsContext, SettingsEvent, SettingsEffect>()

export const settingsMachine = setup({
  types: {} as { context: SettingsContext; events: SettingsEvent },
  guards: {
    hasRoom: ({ context }) => context.waiting.length < SETTINGS_CHANGES_WAITING_MAX,
    someoneWaits: ({ context }) => context.waiting.length > 0,
    fileWasTouched: ({ context }) => context.isFileOutdated,
    mayTryAgain: ({ context }) => (context.current?.tries ?? 0) + 1 < SETTINGS_TRIES_MAX,
  },
  actions: {
    waitInLine: assign(({ context, event }) =>
      event.type === 'patch arrived'
        ? { waiting: [...context.waiting, { handle: event.handle, tries: 0 }] }
        : {},
    ),
    refuseCrowd: recordEffect(({ event }) =>
      event.type === 'patch arrived' ? { type: 'settings.refuse crowd', handle: event.handle } : [],
    ),
    noteTouch: assign({ isFileOutdated: true }),
    takeNext: assign(({ context }) => ({
      current: context.waiting[0] ?? null,
      waiting: context.waiting.slice(1),
    })),
    decideAndWrite: recordEffect(({ context }) =>
      context.current === null ? [] : { type: 'settings.change', handle: context.current.handle },
    ),
    lookAtFile: recordEffect(() => ({ type: 'settings.look' })),
    forgetTouch: assign({ isFileOutdated: false }),
    answerAndAnnounce: recordEffect(({ context }) => [
      { type: 'settings.announce' },
      ...(context.current === null
        ? []
        : [{ type: 'settings.answer', handle: context.current.handle } as const]),
    ]),
    answer: recordEffect(({ context }) =>
      context.current === null ? [] : { type: 'settings.answer', handle: context.current.handle },
    ),
    announce: recordEffect(() => ({ type: 'settings.announce' })),
    lookAndTryAgain: assign(({ context }) => ({
      current: null,
      isFileOutdated: true,
      waiting:
        context.current === null
          ? context.waiting
          : [{ handle: context.current.handle, tries: context.current.tries + 1 }, ...context.waiting],
    })),
    refuseRestless: recordEffect(({ context }) =>
      context.current === null ? [] : { type: 'settings.refuse restless', handle: context.current.handle },
    ),
    lookAndGiveUp: assign({ current: null, isFileOutdated: true }),
    done: assign({ current: null }),
  },
}).createMachine({
  id: 'settings',
  options: { maxIterations: 100 },
  context: { current: null, waiting: [], isFileOutdated: false },
  initial: 'settled',
  on: {
    'patch arrived': [{ guard: 'hasRoom', actions: 'waitInLine' }, { actions: 'refuseCrowd' }],
    'file touched': { actions: 'noteTouch' },
  },
  states: {
    settled: {
      description: 'nothing is being written; the live configuration is what the file says',
      always: [
        { guard: 'fileWasTouched', target: 'looking' },
        { guard: 'someoneWaits', target: 'changing' },
      ],
    },
    looking: {
      description: 'reading the file after somebody may have edited it',
      entry: ['forgetTouch', 'lookAtFile'],
      on: {
        'file unchanged': 'settled',
        'edit adopted': { target: 'settled', actions: 'announce' },
        'edit refused': 'settled',
      },
    },
    changing: {
      description: 'one patch is being decided and written',
      entry: ['takeNext', 'decideAndWrite'],
      on: {
        'change written': { target: 'settled', actions: ['answerAndAnnounce', 'done'] },
        'change refused': { target: 'settled', actions: ['answer', 'done'] },
        'file differs': [
          { guard: 'mayTryAgain', target: 'settled', actions: 'lookAndTryAgain' },
          { target: 'settled', actions: ['refuseRestless', 'lookAndGiveUp'] },
        ],
      },
    },
  },
})
