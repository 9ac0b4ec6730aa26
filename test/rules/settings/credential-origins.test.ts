/** Tests of the origins of credentials: which stored credential the service may use. */
import { describe, expect, test } from '@jest/globals'
import { bindCredentials } from '../../../core/settings/credential-origins.ts'
import { valueAt } from '../../../core/settings/json-values.ts'
import { createConfig } from '../../support/sample-configs.ts'

const SECRETS = {
  tracker: { apiKey: 'key', refreshToken: 'refresh', tokenExpiresAt: '2031-01-01T00:00:00.000Z' },
  codehost: { token: 'token' },
  connect: { trackerClientSecret: 'client-secret', apiBase: 'https://helper.example' },
}

const withSecrets = (change: Record<string, object> = {}) =>
  createConfig({
    ...change,
    tracker: { ...SECRETS.tracker, ...change.tracker },
    codehost: { ...SECRETS.codehost, ...change.codehost },
    connect: { ...SECRETS.connect, ...change.connect },
  }).effective

const { records } = bindCredentials({}, withSecrets())

/** The credentials that are still in use after the change. */
function usedAfter(change: Record<string, object>, checked: readonly string[] = []): string[] {
  const { usable } = bindCredentials(records, withSecrets(change), checked)
  const paths = [
    '/tracker/apiKey',
    '/tracker/refreshToken',
    '/codehost/token',
    '/connect/trackerClientSecret',
  ]
  return paths.filter((path) => valueAt(usable, path) !== undefined).map((path) => path.split('/')[2] ?? '')
}

const ALL = ['apiKey', 'refreshToken', 'token', 'trackerClientSecret']

describe('a change leaves in use', () => {
  test.each<[string, Record<string, object>, string[]]>([
    ['everything, when no origin changed', { tracker: { pollSeconds: 60 } }, ALL],
    [
      'everything, when the usual address is written down',
      { tracker: { apiUrl: 'https://api.linear.app/graphql' } },
      ALL,
    ],
    [
      'everything, when the same origin is written in another way',
      {
        tracker: { apiUrl: 'HTTPS://API.Linear.App:443/graphql/' },
        connect: { apiBase: 'https://HELPER.example:443' },
      },
      ALL,
    ],
    ...[
      'https://api.linear.app.',
      'https://api.linear.app.evil.example',
      'https://evil.example/api.linear.app',
      'https://evil.example#@api.linear.app',
      'https://evil.example\\@api.linear.app',
    ].map((apiUrl): [string, Record<string, object>, string[]] => [
      `the code host, when the tracker is at ${apiUrl}`,
      { tracker: { apiUrl } },
      ['token'],
    ]),
    [
      'no refreshed login, when the helper has a final dot',
      { connect: { apiBase: 'https://helper.example.' } },
      ['token', 'trackerClientSecret'],
    ],
    ['the code host, when the tracker moved', { tracker: { apiUrl: 'https://evil.example' } }, ['token']],
    [
      'the code host, when only the port is another',
      { tracker: { apiUrl: 'https://api.linear.app:8443' } },
      ['token'],
    ],
    ['the code host, when the driver of the tracker changed', { tracker: { driver: 'github' } }, ['token']],
    [
      'the tracker, when the code host moved',
      { codehost: { apiUrl: 'http://127.0.0.1:1' } },
      ['apiKey', 'refreshToken', 'trackerClientSecret'],
    ],
    [
      'the tracker, when the code host is a folder',
      { codehost: { driver: 'local', path: '/x' } },
      ['apiKey', 'refreshToken', 'trackerClientSecret'],
    ],
    [
      'no refreshed login, when the helper changed',
      { connect: { apiBase: 'https://helper.example:8443' } },
      ['token', 'trackerClientSecret'],
    ],
    [
      'no refreshed login, when the tracker itself refreshes',
      { connect: { trackerClientId: 'own' } },
      ['token', 'trackerClientSecret'],
    ],
  ])('%s', (_, change, used) => {
    expect(usedAfter(change)).toEqual(used)
  })

  test('a key without a refresh token, when the helper changed', () => {
    const noRefresh = { tracker: { refreshToken: undefined }, connect: { apiBase: 'https://other.example' } }
    expect(usedAfter(noRefresh)).toEqual(['apiKey', 'token', 'trackerClientSecret'])
  })
})

test('the key for issues of the code host belongs to the address of the code host', () => {
  const at = (apiUrl: string) => withSecrets({ tracker: { driver: 'github' }, codehost: { apiUrl } })
  const first = bindCredentials({}, at('https://code.example/api/v3'))
  expect(first.records['/tracker/apiKey']?.origin).toBe('github at https://code.example')
  const { disconnected } = bindCredentials(first.records, at('https://evil.example/api/v3'))
  expect(disconnected.map(({ path }) => path)).toEqual(
    expect.arrayContaining(['/tracker/apiKey', '/codehost/token']),
  )
})

test('a credential that was checked anew, and one that was replaced, belong to the configured origin', () => {
  const moved = { codehost: { apiUrl: 'http://127.0.0.1:1' } }
  expect(usedAfter(moved, ['/codehost/token'])).toEqual(ALL)
  expect(usedAfter({ codehost: { ...moved.codehost, token: 'another' } })).toEqual(ALL)
})

test('a change back connects again, and a removed credential is forgotten', () => {
  const away = bindCredentials(records, withSecrets({ codehost: { apiUrl: 'http://127.0.0.1:1' } }))
  expect(away.disconnected).toEqual([
    {
      path: '/codehost/token',
      checkedFor: 'github at https://api.github.com',
      configured: 'github at http://127.0.0.1:1',
    },
  ])
  expect(bindCredentials(away.records, withSecrets()).disconnected).toEqual([])
  const removed = bindCredentials(records, createConfig({}).effective)
  expect(removed.records).toEqual({})
})

test('no record holds a credential', () => {
  for (const secret of ['key', 'refresh', 'token', 'client-secret'])
    expect(Object.values(records).map(({ sha256 }) => sha256)).not.toContain(secret)
})
