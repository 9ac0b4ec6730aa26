/**
 * Decides whether a patch may become the configuration, and what the file then contains.
 *
 * The whole merged configuration is checked, not the patch alone. A change is accepted only after its text was parsed
 * again and means exactly what was decided, and only with listeners that the next start opens, unless the machine then
 * lacks an address, a port or a file.
 */
import { type CompletedConfig, CREDENTIAL_PATHS } from '../../protocol/config.ts'
import { isObject, mergePatch } from '../../protocol/merge-patch.ts'
import type { CredentialChange } from '../provider-ports.ts'
import { no, type Result, yes } from '../result.ts'
import { isJsonEqual } from './json-equal.ts'
import { checkJsonSafety } from './json-safety.ts'
import { type FindTlsFault, requireOpenListeners } from './listeners.ts'
import { objectWith, valueAt } from './path.ts'
import { guardCredentials } from './protected-keys.ts'
import { readConfig } from './read.ts'
import { needsRestart } from './restart.ts'

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

/** The stored configuration is valid, so every fault comes from the patch and its path starts there. */
function prefixPatchPath<T>(answer: Result<T>): Result<T> {
  if (answer.ok || !answer.refusal.message.startsWith('/')) return answer
  return no(answer.refusal.kind, `/patch${answer.refusal.message.replace(/^\/(?=:)/, '')}`)
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
