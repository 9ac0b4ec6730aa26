/**
 * Decides which stored credentials may be used: each belongs to the origin that it was checked for.
 *
 * A record holds the hash and the origin of each credential. A credential without a record (from an earlier version, or
 * written into the file by hand) belongs to the origin that is configured when the service first sees it. A credential
 * whose origin differs from the configured one stays in the file and is left out of the configuration that the service
 * uses, until a person checks it anew or changes the setting back. Another port is another origin.
 */
import { createHash } from 'node:crypto'
import type { ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS, TRACKER_FACTS } from '../../protocol/drivers.ts'
import { mergePatch } from '../../protocol/merge-patch.ts'
import { objectWith, valueAt } from './json-values.ts'

export interface CredentialRecord {
  readonly sha256: string
  /** The driver and the origin, like `linear at https://api.linear.app`. */
  readonly origin: string
}

/** By path, like `/tracker/apiKey`. */
export type CredentialRecords = Readonly<Record<string, CredentialRecord>>

export interface DisconnectedCredential {
  readonly path: string
  readonly checkedFor: string
  readonly configured: string
}

export interface BoundCredentials {
  /** The configuration without credentials of other origins. */
  readonly usable: ServiceConfig
  readonly records: CredentialRecords
  readonly disconnected: readonly DisconnectedCredential[]
}

interface OriginRule {
  readonly path: string
  /** The fields that are of no use without this credential, itself included. */
  readonly removes: readonly string[]
  readonly origin: (config: ServiceConfig) => string
}

const TRACKER_FIELDS = ['/tracker/apiKey', '/tracker/refreshToken', '/tracker/tokenExpiresAt']

const RULES: readonly OriginRule[] = [
  { path: '/tracker/apiKey', removes: TRACKER_FIELDS, origin: trackerOrigin },
  { path: '/tracker/refreshToken', removes: TRACKER_FIELDS, origin: refreshOrigin },
  { path: '/codehost/token', removes: ['/codehost/token'], origin: codeHostOrigin },
  {
    path: '/connect/trackerClientSecret',
    removes: ['/connect/trackerClientSecret'],
    origin: trackerOrigin,
  },
]

/** @param checked paths of credentials that were given and checked for the origins of this configuration just now */
export function bindCredentials(
  known: CredentialRecords,
  config: ServiceConfig,
  checked: readonly string[] = [],
): BoundCredentials {
  const records: Record<string, CredentialRecord> = {}
  const disconnected: DisconnectedCredential[] = []
  let usable: unknown = config
  for (const { path, removes, origin } of RULES) {
    const credential = valueAt(config, path)
    if (typeof credential !== 'string' || credential === '') continue
    const now = { sha256: createHash('sha256').update(credential).digest('hex'), origin: origin(config) }
    const old = Object.hasOwn(known, path) ? known[path] : undefined
    const record = old?.sha256 === now.sha256 && !checked.includes(path) ? old : now
    records[path] = record
    if (record.origin === now.origin) continue
    disconnected.push({ path, checkedFor: record.origin, configured: now.origin })
    for (const field of removes) usable = mergePatch(usable, objectWith(field, null))
  }
  // Optional fields were removed, so the type is unchanged.
  return { usable: usable as ServiceConfig, records, disconnected }
}

/** A sentence without its full stop; undefined while the tracker's own credential may be used. */
export function describeTrackerDisconnection(all: readonly DisconnectedCredential[]): string | undefined {
  const found = all.find(({ path }) => TRACKER_FIELDS.includes(path))
  if (found === undefined) return undefined
  const { checkedFor, configured } = found
  return `its credential was checked for ${checkedFor}, and is not sent to ${configured}; connect again, or change the setting back`
}

// ---- origins ---------------------------------------------------------------------------------------------------------

/** Names the receiver of the tracker's credential. */
export function trackerOrigin(config: ServiceConfig): string {
  return nameOrigin(config.tracker.driver, trackerAddress(config))
}

/** Undefined for a folder. Without an address of its own, a tracker of issues uses the code host's. */
export function trackerAddress({ tracker, codehost }: ServiceConfig): string | undefined {
  const isAtCodeHost = TRACKER_FACTS[tracker.driver].listsRepositoryIssues === true
  const usual = isAtCodeHost && tracker.driver === codehost.driver ? codehost.apiUrl : undefined
  return tracker.apiUrl ?? usual ?? TRACKER_FACTS[tracker.driver].publicApiUrl
}

/** A tracker without an address of its own uses the code host's. */
export function isTrackerAtCodeHost({ tracker, codehost }: ServiceConfig): boolean {
  if (TRACKER_FACTS[tracker.driver].listsRepositoryIssues !== true) return false
  if (tracker.driver !== codehost.driver) return false
  const { publicApiUrl } = CODE_HOST_FACTS[codehost.driver]
  const codeHostUrl = codehost.apiUrl ?? publicApiUrl
  return isSameAddress(tracker.apiUrl ?? codeHostUrl, codeHostUrl)
}

const isSameAddress = (a = '', b = ''): boolean => a.replace(/\/+$/, '') === b.replace(/\/+$/, '')

export function codeHostOrigin({ codehost }: ServiceConfig): string {
  return nameOrigin(codehost.driver, codehost.apiUrl ?? CODE_HOST_FACTS[codehost.driver].publicApiUrl)
}

/** A refresh token goes to the OAuth helper, or with a client id of the person's own to the tracker. */
function refreshOrigin(config: ServiceConfig): string {
  const { trackerClientId = '', apiBase = '' } = config.connect
  if (trackerClientId !== '') return trackerOrigin(config)
  return `${trackerOrigin(config)} through ${apiBase === '' ? 'the usual helper' : new URL(apiBase).origin}`
}

/** A driver that works on a folder has no origin, and the service validated every address. */
function nameOrigin(driver: string, address: string | undefined): string {
  return address === undefined ? driver : `${driver} at ${new URL(address).origin}`
}
