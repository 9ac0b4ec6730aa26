/**
 * Join keys: secrets with which many machines enroll as workers.
 *
 * The answer to the creation contains the key, and nothing else does.
 */
import Type, { type Static } from 'typebox'
import { JOIN_KEY_NAME_CHARS_MAX, JOIN_KEYS_MAX, WORKERS_MAX } from './limits.ts'
import { boundedList, Count, Id, Instant, Name, nonEmptyText, record } from './schema-helpers.ts'
import { CertificateFingerprint, FleetPort, HostUser } from './worker.ts'

const MaxWorkers = Type.Integer({
  minimum: 1,
  maximum: WORKERS_MAX,
  description: 'How many workers may be enrolled with the key at once.',
})

export const JoinKeyRequest = record('JoinKeyRequest', {
  name: nonEmptyText(JOIN_KEY_NAME_CHARS_MAX),
  expiresAt: Type.Optional(Instant),
  maxWorkers: Type.Optional(MaxWorkers),
  ephemeral: Type.Optional(Type.Boolean()),
})
export type JoinKeyRequest = Static<typeof JoinKeyRequest>

const joinKeyFields = {
  id: Id,
  name: Name,
  expiresAt: Type.Optional(Instant),
  maxWorkers: Type.Optional(MaxWorkers),
  ephemeral: Type.Boolean({ description: 'Its workers are removed by themselves after they left.' }),
}

/** The only answer that contains the key: the host stores its hash. */
export const JoinKeyResponse = record('JoinKeyResponse', {
  ...joinKeyFields,
  key: Name,
  fingerprint: CertificateFingerprint,
  hostUser: HostUser,
  fleetPort: FleetPort,
})
export type JoinKeyResponse = Static<typeof JoinKeyResponse>

export const JoinKey = record('JoinKey', {
  ...joinKeyFields,
  createdAt: Instant,
  /** The workers that are enrolled with the key now. */
  workers: Count,
})
export type JoinKey = Static<typeof JoinKey>

export const JoinKeysResponse = record('JoinKeysResponse', {
  joinKeys: boundedList(JoinKey, JOIN_KEYS_MAX),
})
export type JoinKeysResponse = Static<typeof JoinKeysResponse>
