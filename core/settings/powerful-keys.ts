/**
 * Finds the settings whose change gives power over the machine, and asks for their confirmation.
 *
 * A request changes such a setting only when it names exactly the changed ones, so a patch that was slipped in, or one
 * that reaches further than a person saw, changes nothing. Removing a repository's mapping gives no power. Edits of
 * the file need no confirmation: whoever may write it has that power already.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { describePower, POWERFUL_KEYS } from '../../protocol/powerful-keys.ts'
import { no, type Result, yes } from '../result.ts'
import { isJsonEqual } from './json-values.ts'

/** Whether the new value allows more than the old one; of all other keys every change gives power. */
const IS_WIDER: Readonly<Record<string, (before: unknown, after: unknown) => boolean>> = {
  'repos.*.allowWorkflows': isAllowedNow,
  'repos.*.orders': hasNewEntry,
  'agent.keyInSandbox': isAllowedNow,
  'agent.maxCostUsd': isHigherLimit,
  'agent.serverTools': hasNewEntry,
  'agent.models': isWiderChoice,
  'sandbox.network': isWiderNetwork,
  'sandbox.allowedHosts': hasNewEntry,
}

/** Keys of repositories that have unfinished runs or open pull requests of ours; asked only where that counts. */
export type ReposInUse = () => ReadonlySet<string>

/** The changed settings that give power over the machine, like `repos.web.setup`. */
export function findPowerfulChanges(
  before: ServiceConfig,
  after: ServiceConfig,
  reposInUse: ReposInUse,
): string[] {
  return POWERFUL_KEYS.flatMap(({ key }) =>
    pathsFor(key, after)
      .filter((path) => {
        const [old, changed] = [readPath(before, path), readPath(after, path)]
        if (isJsonEqual(old, changed)) return false
        if (key === 'repos.*.remote') return old !== undefined && reposInUse().has(path[1] ?? '')
        return IS_WIDER[key]?.(old, changed) ?? true
      })
      .map((path) => path.join('.')),
  )
}

/** Refuses as `conflict`, with the keys to confirm, unless `confirm` names exactly the powerful changes. */
export function requireConfirmation(
  before: ServiceConfig,
  after: ServiceConfig,
  confirm: readonly string[],
  reposInUse: ReposInUse,
): Result<true> {
  const keys = findPowerfulChanges(before, after, reposInUse)
  const isExact = keys.every((key) => confirm.includes(key)) && confirm.every((key) => keys.includes(key))
  if (keys.length === 0 || isExact) return yes(true)
  const { refusal } = no(
    'conflict',
    `${describePower(keys)}; to change that, send the keys as "confirm" beside the patch`,
  )
  return { ok: false, refusal: { ...refusal, confirm: keys } }
}

// ---- values ----------------------------------------------------------------------------------------------------------

/** The key of a repository may hold dots, so a setting is named by its parts. */
function pathsFor(key: string, config: ServiceConfig): (readonly string[])[] {
  const parts = key.split('.')
  if (!parts.includes('*')) return [parts]
  return Object.keys(config.repos).map((repo) => parts.map((part) => (part === '*' ? repo : part)))
}

function readPath(config: ServiceConfig, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, part) => (Object.hasOwn(Object(value), part) ? Reflect.get(Object(value), part) : undefined),
    config,
  )
}

const NETWORKS: readonly unknown[] = [
  'none',
  'allowlist',
  'open',
] satisfies ServiceConfig['sandbox']['network'][]

function isWiderNetwork(before: unknown, after: unknown): boolean {
  return NETWORKS.indexOf(after) > NETWORKS.indexOf(before)
}

/** Without a value there is no limit. */
function isHigherLimit(before: unknown, after: unknown): boolean {
  return typeof before === 'number' && (typeof after !== 'number' || after > before)
}

/** Without a list the choice is another one, and not a part of any. */
function isWiderChoice(before: unknown, after: unknown): boolean {
  return !Array.isArray(before) || !Array.isArray(after) || hasNewEntry(before, after)
}

function isAllowedNow(_before: unknown, after: unknown): boolean {
  return after === true
}

function hasNewEntry(before: unknown, after: unknown): boolean {
  const known: readonly unknown[] = Array.isArray(before) ? before : []
  return Array.isArray(after) && after.some((entry) => !known.includes(entry))
}
