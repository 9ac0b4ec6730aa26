/**
 * Settings as clients name, read and change them: dotted keys like `repos.api.setup`, patches, and the settings that
 * are secrets.
 */
import { AGENT_KEY_FIELDS, AGENTS } from '../protocol/agents/registry.ts'
import type { CredentialsRequest } from '../protocol/connect.ts'
import { HostRefusal } from './errors.ts'

/** The field of a credentials request. */
export type CredentialRequestField = keyof CredentialsRequest

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

/** A text as it is, everything else as JSON, so that `config set` reads what `config get` printed. */
export const formatSetting = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)

/** The keys whose change gives power over the machine, when the host refused a patch for lack of their confirmation. */
export function keysToConfirm(error: unknown): string[] | undefined {
  if (!(error instanceof HostRefusal) || error.status !== 409) return undefined
  const keys: unknown = Reflect.get(Object(error.body), 'confirm')
  return Array.isArray(keys) ? keys.map(String) : undefined
}

export interface SettingRefusal {
  /** The dotted key of the setting that the host names. */
  readonly key: string | undefined
  readonly sentence: string
}

/** The host writes `/sandbox/concurrency: must be at most 64`. */
export function refusalOf(message: string): SettingRefusal {
  const found = /^\/(?:patch\/)?([^:\s]+): ([\s\S]+)$/.exec(message)
  if (found === null) return { key: undefined, sentence: message }
  const [, pointer = '', sentence = ''] = found
  const parts = pointer.split('/').map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  return { key: parts.join('.'), sentence }
}

/** The refusal in one sentence, with the setting as people write it: `sandbox.concurrency: must be at most 64`. */
export function settingSentence(message: string): string {
  const { key, sentence } = refusalOf(message)
  return key === undefined || key === '' ? sentence : `${key}: ${sentence}`
}

// ---- secrets -------------------------------------------------------------------------------------------------------

/** The credentials that a person may give by hand; the host checks each with its provider before it keeps it. */
export const CREDENTIALS_BY_HAND: Readonly<Record<string, CredentialRequestField>> = {
  'tracker.apiKey': 'trackerApiKey',
  'codehost.token': 'codehostToken',
  'storage.token': 'storageToken',
  // The names are those of the fields of a request.
  ...Object.fromEntries(
    Object.keys(AGENT_KEY_FIELDS).map((field) => [`agent.${field}`, field as CredentialRequestField]),
  ),
}

/** Secrets that only connecting an account may write, with the provider of each. */
export const CREDENTIALS_BY_FLOW: Readonly<Record<string, string>> = {
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

/** The setting that holds the credential of a provider that a person gives by hand; agentB has none. */
export const KEY_SETTINGS: Readonly<Record<string, string>> = {
  tracker: 'tracker.apiKey',
  codehost: 'codehost.token',
  storage: 'storage.token',
  ...Object.fromEntries(
    Object.entries(AGENT_KEY_FIELDS).map(([field, provider]) => [provider, `agent.${field}`]),
  ),
}
