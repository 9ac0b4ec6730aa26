/** Performs the changes of the configuration that a plan names, and takes them back. */
import { parseJson } from '../../protocol/parse.ts'
import { CONFIG_TEXT } from './host-machine.ts'
import { graceSecondsOf, type SettingChange, type SettingChangeKind } from './settings-plan.ts'
import type { World } from './world.ts'

/** Stands in every patch that the host must refuse, so that nobody may ever find it in the file. */
export const UNFIT = 'never-to-be-written'
/** Longer than an editor takes to save a file. */
const HALF_SAVED_MS_MAX = 8_000

type Patch = Record<string, unknown>

interface Change {
  readonly patch: Patch
  readonly undo: Patch
}

const PATCHES: Readonly<Partial<Record<SettingChangeKind, (size: number) => Change>>> = {
  'pause dispatching': () => ({ patch: { policy: { paused: true } }, undo: { policy: { paused: false } } }),
  'unmap the repository': () => ({
    patch: { repos: { web: null } },
    undo: { repos: { web: { remote: 'o/web' } } },
  }),
  'change the default branch': (size) => ({
    patch: { repos: { web: { defaultBranch: `b${Math.floor(size * 10)}` } } },
    undo: { repos: { web: { defaultBranch: null } } },
  }),
  'change the grace period': (size) => ({
    patch: { fleet: { reconnectGraceSeconds: graceSecondsOf({ size }) } },
    undo: { fleet: { reconnectGraceSeconds: null } },
  }),
  'allow no ticket': () => ({
    patch: { tracker: { eligible: { states: ['Nowhere'] } } },
    undo: { tracker: { eligible: null } },
  }),
  'change the started state': (size) => ({
    patch: { tracker: { startedState: size < 0.5 ? null : 'Elsewhere' } },
    undo: { tracker: { startedState: 'Started' } },
  }),
}

const UNFIT_PATCHES: Readonly<Partial<Record<SettingChangeKind, Patch>>> = {
  'ask for an invalid value': { codehost: { apiUrl: UNFIT }, sandbox: { maxLogMib: -1 } },
  'ask for power without confirming it': { repos: { web: { setup: UNFIT } } },
}

export function scheduleSettingChanges(world: World): void {
  for (const change of world.plan.changes ?? []) world.time.at(change.at, () => perform(world, change))
}

/** A person edits the file back to the configuration of the start. */
export function restoreSettings(world: World): void {
  if (world.disk.config !== CONFIG_TEXT) world.disk.editConfig(CONFIG_TEXT)
}

function perform(world: World, { id, kind, ms, size }: SettingChange): void {
  world.note(`${id} ${kind}`)
  const unfit = UNFIT_PATCHES[kind]
  const change = PATCHES[kind]?.(size)
  if (unfit !== undefined)
    world.callHost({ operation: 'unfit change' }, (hostApi) => hostApi.changeSettings(unfit))
  else if (change === undefined) edit(world, kind, size)
  else {
    request(world, change.patch)
    const undoAt = Math.min(world.time.now + ms, world.plan.faultsEndMs - 1)
    world.time.at(undoAt, () => request(world, change.undo))
  }
}

function request(world: World, patch: Patch): void {
  world.callHost({ operation: 'change settings' }, (hostApi) => hostApi.changeSettings(patch))
}

/**
 * The person edits what stands in the file, and changes no more than the interval of the polls. An editor that finds half
 * of a file, which another one is still saving, changes nothing.
 */
function edit(world: World, kind: SettingChangeKind, size: number): void {
  const save = () => {
    if (world.time.now < world.plan.faultsEndMs) world.disk.editConfig(text)
  }
  const before = parseJson(world.disk.config ?? '{}')
  if (!before.ok) return
  const { tracker } = { tracker: {}, ...Object(before.value) }
  const changed = {
    ...Object(before.value),
    tracker: { ...tracker, pollSeconds: 20 + Math.floor(size * 20) },
  }
  const text = JSON.stringify(changed, null, 4)
  const isHalf = kind === 'save half of the file first'
  if (isHalf) world.disk.editConfig(text.slice(0, Math.floor(text.length * size)))
  world.time.in(isHalf ? size * HALF_SAVED_MS_MAX : 0, save)
}
