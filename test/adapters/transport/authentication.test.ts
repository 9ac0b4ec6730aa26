/** The authentication checks, as tables. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { completeConfig } from '../../../protocol/config.ts'
import { LAUNCH_TOKEN_CHARS_MAX } from '../../../protocol/limits.ts'
import {
  createSecretCheck,
  isLoopbackHost,
  isTrustedOrigin,
  readBearer,
} from '../../../transport/request-checks.ts'

const hosts: readonly (readonly [string, boolean])[] = [
  ['localhost', true],
  ['localhost:4400', true],
  ['LocalHost:4400', true],
  ['127.0.0.1', true],
  ['127.0.0.1:1', true],
  ['127.255.255.254:65535', true],
  ['[::1]', true],
  ['[::1]:4400', true],
  ['', false],
  ['localhost.', false],
  ['localhost:', false],
  ['localhost:65536', false],
  ['localhost:044', false],
  ['localhost:4400:1', false],
  ['localhost.evil.example', false],
  ['evil.example', false],
  ['evil.localhost', false],
  ['127.0.0.1.evil.example', false],
  ['127.0.0.1.nip.io', false],
  ['127.0.0.256', false],
  ['127.0.0.01', false],
  ['127.1', false],
  ['2130706433', false],
  ['0x7f.0.0.1', false],
  ['0.0.0.0', false],
  ['192.168.0.1', false],
  ['::1', false],
  ['[::1', false],
  ['[0:0:0:0:0:0:0:1]', false],
  ['[::ffff:127.0.0.1]', false],
  ['user@localhost', false],
  ['localhost, localhost', false],
  ['localhost evil', false],
  ['localhost\tx', false],
  [`localhost${'0'.repeat(10_000)}`, false],
]

describe('only an exact loopback name is accepted as Host', () => {
  for (const [host, ok] of hosts) {
    test(`${ok ? 'accepts' : 'refuses'} ${JSON.stringify(host.slice(0, 40))}`, () => {
      expect(isLoopbackHost(host)).toBe(ok)
    })
  }
})

test('every address that the configuration allows to listen on is accepted as Host', () => {
  const octet = fc.oneof(fc.stringMatching(/^[0-9]{1,3}$/), fc.nat({ max: 300 }).map(String))
  const address = fc.tuple(octet, octet, octet).map((octets) => `127.${octets.join('.')}`)
  const name = fc.constantFrom('localhost', '::1', '[::1]', 'localhost.', '0.0.0.0', '127.1')
  fc.assert(
    fc.property(fc.oneof({ weight: 9, arbitrary: address }, name), (host) => {
      const listens = completeConfig({ server: { host } }).ok
      expect([host, isLoopbackHost(host === '::1' ? '[::1]' : host)]).toEqual([host, listens])
    }),
    { numRuns: 1000 },
  )
})

const listed = ['https://dash.example', 'https://ünicode.example']
const origins: readonly (readonly [string, boolean])[] = [
  ['http://localhost', true],
  ['http://localhost:5173', true],
  ['http://127.0.0.1:4400', true],
  ['http://[::1]:4400', true],
  ['file://', true],
  ['app://', true],
  ['app://-', true],
  ['app://bundle.switchyard', true],
  ['https://dash.example', true],
  ['', false],
  ['null', false],
  ['https://localhost', false],
  ['HTTP://localhost', false],
  ['http://localhost.', false],
  ['http://localhost/', false],
  ['http://localhost.evil.example', false],
  ['http://evil.example', false],
  ['http://evil.example#http://localhost', false],
  ['https://dash.example.evil.example', false],
  ['https://dash.example:444', false],
  ['https://ünicode.example', false],
  ['file://host', false],
  ['app://x/../y', false],
  ['apps://x', false],
  ['chrome-extension://abcdef', false],
  ['http://user@localhost', false],
  ['*', false],
]

describe('only a loopback page, the desktop shell or a listed page is a trusted Origin', () => {
  for (const [origin, ok] of origins) {
    test(`${ok ? 'trusts' : 'refuses'} ${JSON.stringify(origin)}`, () => {
      expect(isTrustedOrigin(origin, listed)).toBe(ok)
    })
  }
  test('null is trusted once it is listed', () => {
    expect(isTrustedOrigin('null', ['null'])).toBe(true)
  })
})

describe('a bearer token is read from its header', () => {
  const headers: readonly (readonly [string, string | undefined])[] = [
    ['Bearer abc', 'abc'],
    ['bearer abc', 'abc'],
    ['Bearer   abc', 'abc'],
    ['Bearer abc!@', 'abc!@'],
    ['', undefined],
    ['abc', undefined],
    ['Bearer', undefined],
    ['Bearer ', undefined],
    ['Bearer a b', undefined],
    ['Basic abc', undefined],
    [`Bearer   ${'a'.repeat(LAUNCH_TOKEN_CHARS_MAX)}`, 'a'.repeat(LAUNCH_TOKEN_CHARS_MAX)],
    [`Bearer ${'a'.repeat(LAUNCH_TOKEN_CHARS_MAX + 1)}`, undefined],
  ]
  for (const [header, token] of headers) {
    test(`${JSON.stringify(header.slice(0, 30))}, ${header.length} characters`, () => {
      expect(readBearer(header)).toBe(token)
    })
  }
})

test('a secret check accepts only the secret itself', () => {
  const isSecret = createSecretCheck('s3cret')
  expect(isSecret('s3cret')).toBe(true)
  for (const text of [undefined, '', 's3cre', 's3cret ', 'S3cret', 's3crets'])
    expect(isSecret(text)).toBe(false)
  // A missing secret does not count as an empty one.
  expect(createSecretCheck('')(undefined)).toBe(false)
})
