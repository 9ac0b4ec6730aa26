/**
 * The connect flows of the dashboard, storage, and the public helper that holds the client secrets.
 *
 * `r2` is a historical name that existing clients depend on. Every configuration in a response is masked.
 */
import Type, { type Static, type TSchema } from 'typebox'
import { AGENT_KEY_FIELDS, AGENT_PROVIDERS } from './agents/registry.ts'
import { ServiceConfig } from './config.ts'
import { CREDENTIAL_CHARS_MAX, OAUTH_STATE_CHARS_MAX, PASTED_CHARS_MAX, PORT_MAX } from './limits.ts'
import { Name, nonEmptyText, record, stringEnum, Text, text, Url } from './schema-helpers.ts'

export const CONNECT_PROVIDERS = ['tracker', 'codehost', ...AGENT_PROVIDERS] as const
export const ConnectProvider = stringEnum(CONNECT_PROVIDERS)
export type ConnectProvider = Static<typeof ConnectProvider>

const Seconds = Type.Number({ minimum: 0, maximum: 86_400 })

export const ConnectResponse = Type.Union(
  [
    record('Connected', {
      status: Type.Literal('connected'),
      provider: ConnectProvider,
      detail: Text,
      config: ServiceConfig,
    }),
    record('ConnectByDevice', {
      status: Type.Literal('device'),
      provider: Type.Literal('codehost'),
      userCode: Name,
      verificationUri: Url,
      interval: Seconds,
      expiresIn: Seconds,
    }),
    record('ConnectByRedirect', {
      status: Type.Literal('redirect'),
      provider: Type.Literal('tracker'),
      url: Url,
    }),
    record('ConnectByHand', {
      status: Type.Literal('manual'),
      provider: ConnectProvider,
      reason: Text,
    }),
  ],
  { title: 'ConnectResponse' },
)
export type ConnectResponse = Static<typeof ConnectResponse>

export const ConnectPollResponse = Type.Union(
  [
    record('PollPending', { status: Type.Literal('pending') }),
    record('PollConnected', { status: Type.Literal('connected'), detail: Text, config: ServiceConfig }),
    record('PollError', { status: Type.Literal('error'), detail: Text }),
  ],
  { title: 'ConnectPollResponse' },
)
export type ConnectPollResponse = Static<typeof ConnectPollResponse>

// ---- storage ---------------------------------------------------------------------------------------------------

export const StorageStatus = record('StorageStatus', {
  installed: Type.Boolean(),
  loggedIn: Type.Boolean(),
  account: Type.Optional(Name),
  bucket: Name,
  publicBaseUrl: Url,
  ready: Type.Boolean({
    description: 'Nothing is missing: installed, logged in, bucket and public address set.',
  }),
})
export type StorageStatus = Static<typeof StorageStatus>

export const StorageConnectResponse = Type.Union(
  [
    record('StorageConnected', { status: Type.Literal('connected'), r2: StorageStatus }),
    record('StorageLoginStarted', { status: Type.Literal('login-started'), detail: Text }),
    record('StorageUnavailable', { status: Type.Literal('unavailable'), reason: Text }),
  ],
  { title: 'StorageConnectResponse' },
)
export type StorageConnectResponse = Static<typeof StorageConnectResponse>

// ---- credentials -----------------------------------------------------------------------------------------------

/** Storage is connected by routes of its own. */
export type CredentialProvider = ConnectProvider | 'storage'

/** The credentials that a person may give by hand, and the provider of each. */
export const CREDENTIAL_PROVIDERS = {
  trackerApiKey: 'tracker',
  codehostToken: 'codehost',
  storageToken: 'storage',
  ...AGENT_KEY_FIELDS,
} as const satisfies Readonly<Record<string, CredentialProvider>>

function optionalFields<K extends string, S extends TSchema>(names: readonly K[], schema: S) {
  const field = Type.Optional(schema)
  return Object.fromEntries(names.map((name) => [name, field])) as Record<K, typeof field>
}

/** The provider checks the credential, so any text is accepted here; an empty one disconnects. */
const Credential = Type.String({ maxLength: CREDENTIAL_CHARS_MAX, 'x-secret': true })

export const CredentialsRequest = record(
  'CredentialsRequest',
  optionalFields(Object.keys(CREDENTIAL_PROVIDERS) as (keyof typeof CREDENTIAL_PROVIDERS)[], Credential),
)
export type CredentialsRequest = Static<typeof CredentialsRequest>

export const CredentialResult = record('CredentialResult', { ok: Type.Boolean(), detail: Text })
export type CredentialResult = Static<typeof CredentialResult>

export const CredentialsResponse = record('CredentialsResponse', {
  results: record('CredentialResults', optionalFields(Object.values(CREDENTIAL_PROVIDERS), CredentialResult)),
  config: ServiceConfig,
})
export type CredentialsResponse = Static<typeof CredentialsResponse>

// ---- the callback and the helper -------------------------------------------------------------------------------

/**
 * The query that the browser brings back. A refusal of the tracker arrives as `error` without a code. The limits are
 * those of a URL, because a person sees the response, whoever made the URL. Other parameters are allowed, because OAuth
 * (RFC 6749, section 4.1.2) lets a server add its own.
 */
export const TrackerCallbackQuery = Type.Object(
  {
    code: Type.Optional(Type.String({ maxLength: CREDENTIAL_CHARS_MAX, 'x-secret': true })),
    state: Type.Optional(Type.String({ maxLength: CREDENTIAL_CHARS_MAX, 'x-secret': true })),
    error: Type.Optional(text(CREDENTIAL_CHARS_MAX)),
    error_description: Type.Optional(text(CREDENTIAL_CHARS_MAX)),
  },
  { additionalProperties: true },
)
export type TrackerCallbackQuery = Static<typeof TrackerCallbackQuery>

/** The URL that the browser could not open, as it stands in its address bar. */
export const PasteRequest = record('PasteRequest', {
  address: Type.String({ minLength: 1, maxLength: PASTED_CHARS_MAX, 'x-secret': true }),
})
export type PasteRequest = Static<typeof PasteRequest>

const CallbackPort = Type.Integer({ minimum: 1, maximum: PORT_MAX })
const Code = Type.String({ minLength: 1, maxLength: CREDENTIAL_CHARS_MAX, 'x-secret': true })

export const HelperIndex = record('HelperIndex', {
  service: Name,
  docs: Url,
  endpoints: Type.Array(Name),
})
export type HelperIndex = Static<typeof HelperIndex>

export const HelperHealth = record('HelperHealth', { ok: Type.Literal(true) })
export type HelperHealth = Static<typeof HelperHealth>

export const TrackerAuthorizeQuery = Type.Object({
  state: nonEmptyText(OAUTH_STATE_CHARS_MAX),
  port: CallbackPort,
})
export type TrackerAuthorizeQuery = Static<typeof TrackerAuthorizeQuery>

export const TrackerTokenRequest = record('TrackerTokenRequest', { code: Code, port: CallbackPort })
export type TrackerTokenRequest = Static<typeof TrackerTokenRequest>

export const TrackerRefreshRequest = record('TrackerRefreshRequest', { refresh_token: Code })
export type TrackerRefreshRequest = Static<typeof TrackerRefreshRequest>

export const TrackerTokens = record('TrackerTokens', {
  access_token: Code,
  refresh_token: Type.Optional(Code),
  expires_in: Type.Optional(Type.Number({ minimum: 0 })),
})
export type TrackerTokens = Static<typeof TrackerTokens>

export const DeviceTokenRequest = record('DeviceTokenRequest', { device_code: Code })
export type DeviceTokenRequest = Static<typeof DeviceTokenRequest>

/** The code host's response, passed through; the named fields are the ones in use. */
export const DeviceCode = Type.Object(
  {
    device_code: Code,
    user_code: Name,
    verification_uri: Url,
    expires_in: Seconds,
    interval: Type.Optional(Seconds),
  },
  { title: 'DeviceCode' },
)
export type DeviceCode = Static<typeof DeviceCode>

/** A token, or `error` (`authorization_pending`, `slow_down`, …) while the person has not confirmed. */
export const DeviceToken = Type.Object(
  {
    access_token: Type.Optional(Code),
    token_type: Type.Optional(Name),
    scope: Type.Optional(Text),
    error: Type.Optional(Name),
    error_description: Type.Optional(Text),
    interval: Type.Optional(Seconds),
  },
  { title: 'DeviceToken' },
)
export type DeviceToken = Static<typeof DeviceToken>
