/**
 * Finds the settings whose change gives power over the machine, and asks for their confirmation.
 *
 * A request changes such a setting only when it names exactly the changed ones, so a patch that was slipped in, or one
 * that reaches further than a person saw, changes nothing. Removing a repository's mapping gives no power. Edits of
 * the file need no confirmation: whoever may write it has that power already.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { no, type Result, yes } from '../result.ts'
import { isJsonEqual } from './json-equal.ts'

interface PowerfulKey {
  /** As people write it; `*` stands for the key of a repository. */
  readonly key: string
  /** The end of a sentence that begins with the key. */
  readonly decides: string
  /** Whether the new value allows more than the old one; absent: every change gives power. */
  readonly isWider?: (before: unknown, after: unknown) => boolean
}

const DESCRIBED_KEYS_MAX = 5
const SCRIPTS = 'which commands run in its sandboxes'

const POWERFUL_KEYS: readonly PowerfulKey[] = [
  { key: 'repos.*.cloneUrl', decides: 'where its code comes from and is pushed to' },
  { key: 'repos.*.setup', decides: SCRIPTS },
  { key: 'repos.*.hooks', decides: SCRIPTS },
  { key: 'repos.*.verify', decides: SCRIPTS },
  { key: 'repos.*.image', decides: 'which image its runs execute in' },
  { key: 'codehost.path', decides: 'in which folder of this machine repositories are read and written' },
  { key: 'tracker.path', decides: 'in which folder of this machine tickets are read and written' },
  { key: 'codehost.apiUrl', decides: 'which server is the code host' },
  { key: 'tracker.apiUrl', decides: 'which server is the tracker' },
  { key: 'connect.apiBase', decides: 'through which server accounts are connected' },
  { key: 'agent.commands', decides: 'which programs run as agents' },
  { key: 'sandbox.exposeCodehostToken', decides: 'whether agents can read the token of the code host' },
  { key: 'sandbox.network', decides: 'what a sandbox can reach', isWider: isWiderNetwork },
  { key: 'sandbox.allowedHosts', decides: 'which hosts a sandbox can reach', isWider: hasNewEntry },
  { key: 'server.allowedOrigins', decides: 'which web pages may call this service' },
  { key: 'notify', decides: 'which commands and addresses hear of events' },
]

/** The changed settings that give power over the machine, like `repos.web.setup`. */
export function findPowerfulChanges(before: ServiceConfig, after: ServiceConfig): string[] {
  return POWERFUL_KEYS.flatMap(({ key, isWider = () => true }) =>
    pathsFor(key, after)
      .filter((path) => {
        const [old, changed] = [readPath(before, path), readPath(after, path)]
        return !isJsonEqual(old, changed) && isWider(old, changed)
      })
      .map((path) => path.join('.')),
  )
}

/** Refuses as `conflict`, with the keys to confirm, unless `confirm` names exactly the powerful changes. */
export function requireConfirmation(
  before: ServiceConfig,
  after: ServiceConfig,
  confirm: readonly string[],
): Result<true> {
  const keys = findPowerfulChanges(before, after)
  const isExact = keys.every((key) => confirm.includes(key)) && confirm.every((key) => keys.includes(key))
  if (keys.length === 0 || isExact) return yes(true)
  const { refusal } = no(
    'conflict',
    `${describePower(keys)}; to change that, send the keys as "confirm" beside the patch`,
  )
  return { ok: false, refusal: { ...refusal, confirm: keys } }
}

/** A sentence without its full stop: `repos.web.setup decides which commands run in its sandboxes`. */
export function describePower(keys: readonly string[]): string {
  const named = keys.slice(0, DESCRIBED_KEYS_MAX).map((key) => `${key} decides ${decisionOf(key)}`)
  const others = keys.length - named.length
  return [...named, ...(others === 0 ? [] : [`${others} more keys decide the like`])].join(', and ')
}

function decisionOf(key: string): string {
  const isSame = (pattern: string) => {
    const [start = '', end] = pattern.split('*')
    return end === undefined ? key === pattern : key.startsWith(start) && key.endsWith(end)
  }
  return POWERFUL_KEYS.find(({ key: pattern }) => isSame(pattern))?.decides ?? 'what this machine does'
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

function hasNewEntry(before: unknown, after: unknown): boolean {
  const known: readonly unknown[] = Array.isArray(before) ? before : []
  return Array.isArray(after) && after.some((entry) => !known.includes(entry))
}
