/**
 * The settings machine applies requested changes one at a time and gives the configuration file the last word.
 *
 * A change overwrites only the text that it was decided on. When the file holds other text (an edit by hand that the
 * host has not read yet), the machine reads the file first and then decides the change again. Patches and file
 * contents stay outside the machine: its context holds request handles only.
 */
import { assign, setup } from 'xstate'
import { SETTINGS_CHANGES_WAITING_MAX } from '../../protocol/limits.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, kindName, restartOrFatal } from '../runtime/actor-kind.ts'

/** How often a patch is decided again because a hand edit changed the file meanwhile. */
const SETTINGS_TRIES_MAX = 5

interface WaitingChange {
  readonly handle: number
  /** How many attempts failed because the file had changed in between. */
  readonly tries: number
}

export interface SettingsContext {
  readonly current: WaitingChange | null
  readonly waiting: readonly WaitingChange[]
  readonly isFileOutdated: boolean
}

export type SettingsEvent =
  | { readonly type: 'change requested'; readonly handle: number }
  | { readonly type: 'file changed' }
  | { readonly type: 'change written' }
  | { readonly type: 'change refused' }
  /** The file does not hold the text that the change was decided on. */
  | { readonly type: 'file differs' }
  | { readonly type: 'file unchanged' }
  | { readonly type: 'edit adopted' }
  | { readonly type: 'edit refused' }

/** Effects of the settings machine; `settings/module.ts` carries them out. */
export type SettingsEffect =
  | { readonly type: 'settings.apply change'; readonly handle: number }
  | { readonly type: 'settings.read file' }
  | { readonly type: 'settings.answer'; readonly handle: number }
  | { readonly type: 'settings.refuse overload'; readonly handle: number }
  | { readonly type: 'settings.refuse unstable file'; readonly handle: number }
  | { readonly type: 'settings.publish' }

const { recordEffect } = defineActions<SettingsContext, SettingsEvent, SettingsEffect>()

export const settingsMachine = setup({
  types: {} as { context: SettingsContext; events: SettingsEvent },
  guards: {
    mayWait: ({ context }) => context.waiting.length < SETTINGS_CHANGES_WAITING_MAX,
    isChangeWaiting: ({ context }) => context.waiting.length > 0,
    isFileOutdated: ({ context }) => context.isFileOutdated,
    mayRetry: ({ context }) => (context.current?.tries ?? 0) + 1 < SETTINGS_TRIES_MAX,
  },
  actions: {
    enqueue: assign(({ context, event }) =>
      event.type === 'change requested'
        ? { waiting: [...context.waiting, { handle: event.handle, tries: 0 }] }
        : {},
    ),
    refuseOverload: recordEffect(({ event }) =>
      event.type === 'change requested' ? { type: 'settings.refuse overload', handle: event.handle } : [],
    ),
    markFileOutdated: assign({ isFileOutdated: true }),
    startNext: assign(({ context }) => ({
      current: context.waiting[0] ?? null,
      waiting: context.waiting.slice(1),
    })),
    applyChange: recordEffect(({ context }) =>
      context.current === null ? [] : { type: 'settings.apply change', handle: context.current.handle },
    ),
    readFile: recordEffect(() => ({ type: 'settings.read file' })),
    markFileRead: assign({ isFileOutdated: false }),
    publishAndAnswer: recordEffect(({ context }) => [
      { type: 'settings.publish' },
      ...(context.current === null
        ? []
        : [{ type: 'settings.answer', handle: context.current.handle } as const]),
    ]),
    answer: recordEffect(({ context }) =>
      context.current === null ? [] : { type: 'settings.answer', handle: context.current.handle },
    ),
    publish: recordEffect(() => ({ type: 'settings.publish' })),
    requeueAndReread: assign(({ context }) => ({
      current: null,
      isFileOutdated: true,
      waiting:
        context.current === null
          ? context.waiting
          : [{ handle: context.current.handle, tries: context.current.tries + 1 }, ...context.waiting],
    })),
    refuseUnstableFile: recordEffect(({ context }) =>
      context.current === null
        ? []
        : { type: 'settings.refuse unstable file', handle: context.current.handle },
    ),
    dropAndReread: assign({ current: null, isFileOutdated: true }),
    clearCurrent: assign({ current: null }),
  },
}).createMachine({
  id: 'settings',
  options: { maxIterations: 100 },
  context: { current: null, waiting: [], isFileOutdated: false },
  initial: 'idle',
  on: {
    'change requested': [{ guard: 'mayWait', actions: 'enqueue' }, { actions: 'refuseOverload' }],
    'file changed': { actions: 'markFileOutdated' },
  },
  states: {
    idle: {
      description: 'no change is in progress; the configuration in force is what the file says',
      always: [
        { guard: 'isFileOutdated', target: 'reading file' },
        { guard: 'isChangeWaiting', target: 'applying change' },
      ],
    },
    'reading file': {
      description: 'the file is being read, because it may have been edited',
      entry: ['markFileRead', 'readFile'],
      on: {
        'file unchanged': 'idle',
        'edit adopted': { target: 'idle', actions: 'publish' },
        'edit refused': 'idle',
      },
    },
    'applying change': {
      description: 'one change is being decided and written to the file',
      entry: ['startNext', 'applyChange'],
      on: {
        'change written': { target: 'idle', actions: ['publishAndAnswer', 'clearCurrent'] },
        'change refused': { target: 'idle', actions: ['answer', 'clearCurrent'] },
        'file differs': [
          { guard: 'mayRetry', target: 'idle', actions: 'requeueAndReread' },
          { target: 'idle', actions: ['refuseUnstableFile', 'dropAndReread'] },
        ],
      },
    },
  },
})

/** The kind has one actor, whose key is the name of the kind. */
export const SETTINGS = kindName<SettingsContext, SettingsEvent>('settings')

export const settingsKind: ActorKind = {
  name: SETTINGS,
  singleton: true,
  logic: settingsMachine,
  supervision: restartOrFatal,
}
