/**
 * Whether a patch may become the configuration, and what the file then holds.
 *
 * The whole merged result is judged, never the patch alone. Yes is said only of a text that was read back and means
 * exactly what was decided, so that a change that was accepted cannot be one that the next start refuses.
 */
import { type CompletedConfig, CREDENTIAL_PATHS } from '../../protocol/config.ts'
import type { CredentialChange } from '../provider-ports.ts'
import { no, type Result, yes } from '../result.ts'
import { isJsonEqual } from './json-equal.ts'
import { checkJsonSafety } from './json-safety.ts'
import { isObject, mergePatch } from './merge.ts'
import { objectWith, valueAt } from './path.ts'
import { guardCredentials } from './protected-keys.ts'
import { readConfig } from './read.ts'
import { needsRestart } from './restart.ts'

export interface DecidedChange extends CompletedConfig {
  /** What the file holds from now on. */
  readonly text: string
  readonly applied: 'live' | 'restart'
  /** False when the patch says what was stored already; then there is nothing to write. */
  readonly changed: boolean
}

export function decideChange(current: CompletedConfig, patch: unknown): Result<DecidedChange> {
  if (!isObject(patch)) return no('invalid', '/patch: must be an object')
  const sound = checkJsonSafety(patch)
  if (!sound.ok) return prefixPatchPath(sound)
  const merged = mergePatch(current.stored, patch)
  const guarded = guardCredentials(current.stored, merged)
  return prefixPatchPath(guarded.ok ? completeChange(current, merged) : guarded)
}

/**
 * Credentials that were checked with their provider, in place of those that are stored; `null` removes one. Taken by
 * their paths, so that nothing else can come in with them.
 */
export function decideCredentials(current: CompletedConfig, change: CredentialChange): Result<DecidedChange> {
  const merged = CREDENTIAL_PATHS.reduce<unknown>((config, path) => {
    const value = valueAt(change, path)
    return value === undefined ? config : mergePatch(config, objectWith(path, value))
  }, current.stored)
  return completeChange(current, merged)
}

/** What was stored is sound, so whatever is wrong came with the patch: that is where the path starts. */
function prefixPatchPath<T>(answer: Result<T>): Result<T> {
  if (answer.ok || !answer.refusal.message.startsWith('/')) return answer
  return no(answer.refusal.kind, `/patch${answer.refusal.message.replace(/^\/(?=:)/, '')}`)
}

/** 2 spaces and a last newline: the file is edited by hand, too. */
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
