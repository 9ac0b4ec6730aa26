/**
 * Checks project keys, session ids and subagent ids, which become file names: plain words that are safe on every file
 * system. No leading dot, so a name is never `.`, `..` or a draft; no `.json` suffix, so no session's folder has the
 * name of another session's file; a limited length.
 */
import type { UsageKey } from '../../core/ports.ts'

export const USAGE_NAME_CHARS_MAX = 200
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/

export function isUsageName(name: string): boolean {
  return name.length <= USAGE_NAME_CHARS_MAX && NAME.test(name) && !name.endsWith('.json')
}

/** Returns a unique text for each key. Throws when a part is not a plain word. */
export function usageKeyText({ projectKey, sessionId, subagentId }: UsageKey): string {
  for (const part of [projectKey, sessionId, subagentId ?? 'none']) {
    if (!isUsageName(part))
      throw new TypeError(`not a usable name for a usage snapshot: ${JSON.stringify(part.slice(0, 80))}`)
  }
  return subagentId === undefined ? `${projectKey}/${sessionId}` : `${projectKey}/${sessionId}/${subagentId}`
}

/** Sorts by session, the session itself before its subagents. */
export function compareUsageKeys(a: UsageKey, b: UsageKey): number {
  return usageKeyText(a) < usageKeyText(b) ? -1 : 1
}
