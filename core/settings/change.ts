/**
 * Decides whether a patch or a hand edit may become the configuration, and what the file then contains.
 *
 * The whole merged configuration is checked, not the patch alone. A change is accepted only after its text was parsed
 * again and means exactly what was decided, and only with listeners that the next start opens, unless the machine then
 * lacks an address, a port or a file.
 */
import {
  type CompletedConfig,
  CREDENTIAL_PATHS,
  RESTART_PATHS,
  type ServiceConfig,
} from '../../protocol/config.ts'
import { isObject, mergePatch } from '../../protocol/merge-patch.ts'
import type { CredentialChange } from '../ports/accounts.ts'
import { no, type Result, yes } from '../result.ts'
import { checkJsonSafety, isJsonEqual, objectWith, valueAt } from './json-values.ts'
import { type FindTlsFault, requireOpenListeners } from './listeners.ts'
import { readConfig } from './read.ts'

export interface DecidedChange extends CompletedConfig {
  /** The new text of the file. */
  readonly text: string
  readonly applied: 'live' | 'restart'
  /** False when the patch changes nothing; then nothing has to be written. */
  readonly changed: boolean
}

export function decideChange(
  current: CompletedConfig,
  patch: unknown,
  findTlsFault: FindTlsFault,
): Result<DecidedChange> {
  if (!isObject(patch)) return no('invalid', '/patch: must be an object')
  const sound = checkJsonSafety(patch)
  if (!sound.ok) return prefixPatchPath(sound)
  const merged = mergePatch(current.stored, patch)
  const guarded = guardCredentials(current.stored, merged)
  const decided = guarded.ok ? completeChange(current, merged) : guarded
  if (!decided.ok) return prefixPatchPath(decided)
  const openable = requireOpenListeners(current.effective, decided.value.effective, findTlsFault)
  return openable.ok ? decided : prefixPatchPath(openable)
}

/**
 * Replaces stored credentials by credentials that were checked with their provider; `null` removes one. Only the
 * credential paths are copied, so nothing else can change.
 */
export function decideCredentials(current: CompletedConfig, change: CredentialChange): Result<DecidedChange> {
  const merged = CREDENTIAL_PATHS.reduce<unknown>((config, path) => {
    const value = valueAt(change, path)
    return value === undefined ? config : mergePatch(config, objectWith(path, value))
  }, current.stored)
  return completeChange(current, merged)
}

export interface AdoptedEdit extends CompletedConfig {
  /** A changed setting is bound once at start, so the change needs a restart. */
  readonly restartNeeded: boolean
}

/**
 * Decides what a hand edit of the configuration file means for a running service.
 *
 * The person may change everything that start-up accepts, credentials included. A text that start-up would refuse is
 * refused here with the same words, so a running service and a restarted one always agree.
 *
 * @param text the current text of the file; undefined when the file is gone, which never means "use every default"
 */
export function adoptEdit(
  current: CompletedConfig,
  text: string | undefined,
  findTlsFault: FindTlsFault,
): Result<AdoptedEdit> {
  if (text === undefined)
    return no('invalid', '/: is gone; what was loaded last stays in force until the file is back')
  const read = readConfig(text)
  if (!read.ok) return read
  const openable = requireOpenListeners(current.effective, read.value.effective, findTlsFault)
  if (!openable.ok) return openable
  return yes({ ...read.value, restartNeeded: needsRestart(current.effective, read.value.effective) })
}

/**
 * Refuses a settings change that touches a credential.
 *
 * Credentials are written by the flows that check them with their provider, never by a patch. The values before and
 * after are compared, not the paths of the patch: a change that sets, replaces or removes a credential in any way is
 * refused as a whole. No value enters the message. The tracker's client secret is not a credential in this sense;
 * `completeConfig` refuses the mask as a secret.
 */
export function guardCredentials(current: unknown, merged: unknown): Result<true> {
  const touched = CREDENTIAL_PATHS.find((path) => !isJsonEqual(valueAt(current, path), valueAt(merged, path)))
  if (touched === undefined) return yes(true)
  return no('invalid', `${touched}: is a credential; use PUT /api/settings/credentials or a connect flow`)
}

/**
 * Tells whether a change affects a setting that is bound once at start. Effective values are compared, so writing
 * down a default changes nothing.
 */
export function needsRestart(before: ServiceConfig, after: ServiceConfig): boolean {
  return RESTART_PATHS.some((path) => !isJsonEqual(valueAt(before, path), valueAt(after, path)))
}

/** Two spaces and a final newline, because people edit the file by hand too. */
export function renderConfig(stored: unknown): string {
  return `${JSON.stringify(stored, undefined, 2)}\n`
}

function completeChange(current: CompletedConfig, merged: unknown): Result<DecidedChange> {
  const text = renderConfig(merged)
  const read = readConfig(text)
  if (!read.ok) return read
  if (!isJsonEqual(read.value.stored, merged)) return no('failed', '/: does not read back as it was written')
  return yes({
    ...read.value,
    text,
    applied: needsRestart(current.effective, read.value.effective) ? 'restart' : 'live',
    changed: !isJsonEqual(read.value.stored, current.stored),
  })
}

/** The stored configuration is valid, so every fault comes from the patch and its path starts there. */
function prefixPatchPath<T>(answer: Result<T>): Result<T> {
  if (answer.ok || !answer.refusal.message.startsWith('/')) return answer
  return no(answer.refusal.kind, `/patch${answer.refusal.message.replace(/^\/(?=:)/, '')}`)
}
