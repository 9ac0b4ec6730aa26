/** The secrets of a run: what its job carries, and what the worker adds of its own. */
import type { Job, RunCredentials } from '../../protocol/frames.ts'
import { isObject, parseObject } from '../agents/json-lines.ts'
import { createSecretSearch, type NamedSecret, type SecretSearch } from './secret-search.ts'

/** Shorter than any credential. A login's short values are ordinary words. */
const LOGIN_VALUE_CHARS_MIN = 12
const LOGIN_VALUES_MAX = 20
const LOGIN_DEPTH_MAX = 4
/** A login's values that give nobody any power. */
const NOT_SECRET = /^(account_id|last_refresh|auth_mode|expiry_date|scope|token_type)$/

/** Addresses and instants stand in logins too; files and commits may name them. */
const ORDINARY_VALUE = /^(https?:\/\/\S+|[^@\s]+@[^@\s]+\.[a-z]+|\d{4}-\d\d-\d\dT[\d:.]+Z?)$/i

/** The worker's own secrets, which no sandbox holds. */
export type OwnSecrets = () => readonly NamedSecret[]

export function createRunSecretSearch(
  job: Pick<Job, 'credentials'>,
  ownSecrets: OwnSecrets = () => [],
): SecretSearch {
  return createSecretSearch([...secretsOfJob(job), ...ownSecrets()])
}

/**
 * The sentence with which a run ends. A place may be named by the agent, so its name is searched, too.
 *
 * @param place what holds the secret, such as "the file a.txt"
 * @param unnamed the same without its name
 */
export function explainFoundSecret(
  search: SecretSearch,
  secret: string,
  place: string,
  unnamed: string,
): string {
  const where = search.findIn(place) === undefined ? place : unnamed
  return `${where} holds ${secret}, so nothing was published; replace that credential, and try again`
}

export function secretsOfJob({ credentials }: Pick<Job, 'credentials'>): NamedSecret[] {
  const { agent, codehost, tracker } = credentials
  return [
    ...secretsOfCredential(agent?.value).map((value) => ({ name: 'the agent’s credential', value })),
    ...(codehost === undefined ? [] : [{ name: 'the code host’s token', value: codehost }]),
    ...(tracker === undefined ? [] : [{ name: 'the tracker’s key', value: tracker }]),
  ]
}

/** A login is a file with several secrets, each a long value; every other credential is one secret. */
export function secretsOfCredential(value: NonNullable<RunCredentials['agent']>['value'] = ''): string[] {
  const login = parseObject(value)
  if (login === undefined) return value === '' ? [] : [value]
  const values = stringsIn(login).map((text) => text.trim())
  return [...new Set(values)]
    .filter((text) => text.length >= LOGIN_VALUE_CHARS_MIN && !ORDINARY_VALUE.test(text))
    .slice(0, LOGIN_VALUES_MAX)
}

function stringsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value]
  if (!isObject(value) || depth > LOGIN_DEPTH_MAX) return []
  return Object.entries(value).flatMap(([name, member]) =>
    NOT_SECRET.test(name) ? [] : stringsIn(member, depth + 1),
  )
}
