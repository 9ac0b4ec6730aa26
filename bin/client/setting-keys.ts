/**
 * Dotted keys of the configuration, like `repos.api.setup`, and the settings that are secrets.
 *
 * The key of a repository may hold dots itself, so a part of a key is the longest one that the configuration has.
 */
import { AGENT_KEY_FIELDS, AGENTS } from '../../protocol/agents/registry.ts'
import type { CredentialsRequest } from '../../protocol/connect.ts'
import { EXIT, ExitError } from '../exit.ts'

/** The field of a credentials request. */
export type CredentialRequestField = keyof CredentialsRequest

/** Splits a key along the configuration as it is; parts that are not there end at the next dot. */
export function splitKey(config: unknown, key: string): string[] {
  const words = key.split('.')
  if (words.some((word) => word === ''))
    throw new ExitError(EXIT.usage, `${key} is no key of a setting`, 'switchyard config get')
  const parts: string[] = []
  let value = config
  for (let at = 0; at < words.length; ) {
    const [part, count] = longestPart(value, words.slice(at))
    parts.push(part)
    value = Reflect.get(Object(value), part)
    at += count
  }
  return parts
}

function longestPart(value: unknown, words: readonly string[]): [part: string, count: number] {
  for (let count = words.length; count > 1; count -= 1) {
    const part = words.slice(0, count).join('.')
    if (Object.hasOwn(Object(value), part)) return [part, count]
  }
  return [words[0] ?? '', 1]
}

/** Undefined for a setting that is not set. */
export function readSetting(config: unknown, parts: readonly string[]): unknown {
  return parts.reduce(
    (value: unknown, part) =>
      Object.hasOwn(Object(value), part) ? Reflect.get(Object(value), part) : undefined,
    config,
  )
}

/** The patch that puts a value at a key. */
export function patchOf(parts: readonly string[], value: unknown): Record<string, unknown> {
  const [last = '', ...others] = [...parts].reverse()
  return others.reduce<Record<string, unknown>>((inner, part) => ({ [part]: inner }), { [last]: value })
}

/** The settings below a value, each with its dotted key. A list is one setting. */
export function listSettings(value: unknown, parts: readonly string[]): [key: string, value: unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[parts.join('.'), value]]
  return Object.entries(value).flatMap(([part, inner]) => listSettings(inner, [...parts, part]))
}

// ---- secrets -------------------------------------------------------------------------------------------------------

/** The credentials that a person may give by hand; the host checks each with its provider before it keeps it. */
const CREDENTIALS: Readonly<Record<string, CredentialRequestField>> = {
  'tracker.apiKey': 'trackerApiKey',
  'codehost.token': 'codehostToken',
  // The names are those of the fields of a request.
  ...Object.fromEntries(
    Object.keys(AGENT_KEY_FIELDS).map((field) => [`agent.${field}`, field as CredentialRequestField]),
  ),
}

/** Secrets that only connecting an account may write, with the provider of each. */
const FLOW_SECRETS: Readonly<Record<string, string>> = {
  'tracker.refreshToken': 'tracker',
  'tracker.tokenExpiresAt': 'tracker',
  ...Object.fromEntries(
    Object.values(AGENTS).flatMap(({ provider, credentials }) =>
      credentials
        .filter(({ isGivenByHand }) => isGivenByHand !== true)
        .map(({ field }) => [`agent.${field}`, provider]),
    ),
  ),
}

export type SettingKind =
  | { readonly is: 'plain' }
  | { readonly is: 'secret' }
  | { readonly is: 'credential'; readonly field: CredentialRequestField }

/** Throws for a secret that nobody sets by hand. */
export function kindOfSetting(key: string): SettingKind {
  const field = CREDENTIALS[key]
  if (field !== undefined) return { is: 'credential', field }
  const provider = FLOW_SECRETS[key]
  if (provider !== undefined)
    throw new ExitError(
      EXIT.usage,
      `${key} is written by connecting an account`,
      `switchyard connect ${provider}`,
    )
  return { is: key === 'connect.trackerClientSecret' ? 'secret' : 'plain' }
}
