/** Setting up a machine as a worker over SSH: the request, its answer, and the steps as dashboards see them. */
import Type, { type Static } from 'typebox'
import {
  PATH_CHARS_MAX,
  PORT_MAX,
  PROSE_CHARS_MAX,
  TEXT_CHARS_MAX,
  WORKER_CONCURRENCY_MAX,
} from './limits.ts'
import { Count, Milliseconds, Name, nonEmptyText, record, stringEnum, text } from './schema-helpers.ts'

export const ProvisionRequest = record('ProvisionRequest', {
  host: nonEmptyText(255),
  user: nonEmptyText(64),
  port: Type.Optional(Type.Integer({ minimum: 1, maximum: PORT_MAX })),
  identityFile: Type.Optional(
    nonEmptyText(PATH_CHARS_MAX, 'A private key file; without one the SSH agent is asked.'),
  ),
  name: Type.Optional(text(TEXT_CHARS_MAX)),
  concurrency: Type.Optional(Type.Integer({ minimum: 1, maximum: WORKER_CONCURRENCY_MAX })),
  hostKeySha256: Type.Optional(
    nonEmptyText(128, "The machine's key fingerprint, when known_hosts lacks it."),
  ),
})
export type ProvisionRequest = Static<typeof ProvisionRequest>

export const ProvisionResponse = record('ProvisionResponse', {
  ok: Type.Literal(true),
  output: text(PROSE_CHARS_MAX),
})
export type ProvisionResponse = Static<typeof ProvisionResponse>

/** A step of a provisioning begins or ends. */
export const ProvisionPush = record('ProvisionPush', {
  type: Type.Literal('provision'),
  id: text(TEXT_CHARS_MAX, 'The target, such as `ann@forge`, or `ann@forge:2222` at another port.'),
  step: Name,
  status: stringEnum(['running', 'done', 'failed']),
  message: text(PROSE_CHARS_MAX, 'What the step has found or done; empty while it runs.'),
  number: Count,
  count: Count,
  ms: Milliseconds,
})
export type ProvisionPush = Static<typeof ProvisionPush>
