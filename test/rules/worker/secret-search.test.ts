/** The search for secrets in what leaves a sandbox: every form that it promises, and what it does not find. */
import { Buffer } from 'node:buffer'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  createRunSecretSearch,
  explainFoundSecret,
  secretsOfCredential,
} from '../../../worker/secrets/run-secrets.ts'
import { createSecretSearch } from '../../../worker/secrets/secret-search.ts'

const KEY = 'npk-Ant_03+xZ/9qLmT7vB2nR5wK8dJ4sH1f=='
const search = createSecretSearch([{ name: 'the key', value: KEY }])
const hex = Buffer.from(KEY).toString('hex')
const eachByte = (write: (byte: number) => string) => [...Buffer.from(KEY)].map(write).join('')
const asHex = (byte: number) => byte.toString(16).padStart(2, '0')
const wrapped = (text: string, width: number, between = '\n') =>
  (text.match(new RegExp(`.{1,${width}}`, 'gs')) ?? []).join(between)
const base64After = (bytes: number) => Buffer.from(`${'x'.repeat(bytes)}${KEY}yy`).toString('base64')

describe('found', () => {
  test.each<[string, string | Buffer]>([
    ['as it is', `const key = '${KEY}'`],
    ['in upper case', KEY.toUpperCase()],
    ['backwards', [...KEY].reverse().join('')],
    ['in JSON', JSON.stringify({ nested: JSON.stringify({ key: KEY }) })],
    ['after an escaped line break', JSON.stringify({ text: `first\n${KEY}` })],
    ['in an address', `https://x.example/?k=${encodeURIComponent(KEY)}`],
    ['in a form', new URLSearchParams({ k: KEY }).toString()],
    ['every byte in percent', eachByte((byte) => `%${asHex(byte)}`)],
    ['base64', base64After(0)],
    ['base64 after one byte', base64After(1)],
    ['base64 after two bytes', base64After(2)],
    ['base64 for addresses', Buffer.from(`a${KEY}b`).toString('base64url')],
    ['base64 of 76 columns', wrapped(Buffer.from(`${'#'.repeat(31)}${KEY}`).toString('base64'), 76, '\r\n')],
    ['base64 of 64 columns', wrapped(Buffer.from(`${'#'.repeat(31)}${KEY}`).toString('base64'), 64)],
    ['base64 of 20 columns in a comment', wrapped(base64After(0), 20, '\n * ')],
    ['base64 of 60 columns in JSON', JSON.stringify(wrapped(base64After(1), 60))],
    ['hex', hex],
    ['hex in upper case', hex.toUpperCase()],
    ['hex of 60 columns', wrapped(hex, 60)],
    ['hex with colons', wrapped(hex, 2, ':')],
    ['hex of a string literal', eachByte((byte) => `\\x${asHex(byte)}`)],
    ['hex of an array', eachByte((byte) => `0x${asHex(byte)}, `)],
    ['escaped as unicode', eachByte((byte) => `\\u00${asHex(byte)}`)],
    ['a buffer in JSON', JSON.stringify(Buffer.from(KEY))],
    ['split into literals', `'${KEY.slice(0, 12)}' +\n  '${KEY.slice(12)}'`],
    ['in UTF-16', Buffer.from(KEY, 'utf16le')],
    ['quoted printable', wrapped(KEY, 10, '=\r\n')],
  ])('%s', (_, content) => {
    expect(search.findIn(content)).toBe('the key')
  })

  test('wherever the content is cut into pieces', () => {
    const content = Buffer.from(`${'before '.repeat(9)}${base64After(1)} after`)
    const scan = search.openScan()
    for (let at = 0; at <= content.length; at += 1) {
      scan.reset()
      scan.push(content.subarray(0, at))
      scan.push(content.subarray(at))
      expect(scan.found()).toBe('the key')
    }
    scan.reset()
    for (const byte of content) scan.push(Buffer.from([byte]))
    expect(scan.found()).toBe('the key')
  })

  test('across the border of what is searched at once', () => {
    for (const before of [65_500, 65_520, 65_536, 131_060]) {
      expect(search.findIn(`${'a'.repeat(before)}${KEY}`)).toBe('the key')
      expect(search.findIn(`${'\n'.repeat(before)}${KEY}`)).toBe('the key')
    }
  })

  test('a long secret, also when its beginning or its end is missing', () => {
    const login = Array.from({ length: 40 }, (_, n) => `${n * 7919}abcdef`).join('-')
    const long = createSecretSearch([{ name: 'a login', value: login }])
    for (const content of [
      login,
      login.slice(100),
      login.slice(0, -100),
      Buffer.from(`..${login}`).toString('base64'),
    ])
      expect(long.findIn(content)).toBe('a login')
  })

  test('one of many, and a secret with the letter of an escape behind a backslash', () => {
    const names = ['one', 'two', 'three']
    const many = createSecretSearch(names.map((name) => ({ name, value: `npm_${name}_${KEY}` })))
    for (const name of names) expect(many.findIn(`see \\npm_${name}_${KEY}`)).toBe(name)
  })
})

describe('not found', () => {
  test.each<[string, string]>([
    ['nothing', ''],
    ['a part', KEY.slice(0, -6)],
    ['another key', KEY.replace('9qLm', '9qLn')],
    ['ordinary text', 'The quick brown fox jumps over the lazy dog. '.repeat(2000)],
  ])('%s', (_, content) => {
    expect(search.findIn(content)).toBeUndefined()
  })

  test('a content does not go on in the next one', () => {
    const scan = search.openScan()
    scan.push(Buffer.from(KEY.slice(0, 20)))
    scan.reset()
    scan.push(Buffer.from(KEY.slice(20)))
    expect(scan.found()).toBeUndefined()
  })

  test('a secret that is too short, for it would match by accident', () => {
    expect(createSecretSearch([{ name: 'x', value: 'abc-12' }]).isEmpty).toBe(true)
    expect(createSecretSearch([]).findIn('anything')).toBeUndefined()
  })
})

describe('the secrets of a run', () => {
  const credentials = {
    agent: {
      kind: 'login' as const,
      value: JSON.stringify({ tokens: { access: `a-${KEY}`, account_id: 'x'.repeat(20) } }),
    },
    codehost: `c-${KEY}`,
    tracker: `t-${KEY}`,
  }
  const ofRun = createRunSecretSearch({ credentials }, () => [
    { name: 'the worker’s credential', value: `w-${KEY}` },
  ])

  test.each([
    [`a-${KEY}`, 'the agent’s credential'],
    [`c-${KEY}`, 'the code host’s token'],
    [`t-${KEY}`, 'the tracker’s key'],
    [`w-${KEY}`, 'the worker’s credential'],
  ])('%s', (value, name) => {
    expect(ofRun.findIn(`x ${value}`)).toBe(name)
  })

  test('a login has several, and only those that give power', () => {
    expect(secretsOfCredential(credentials.agent.value)).toEqual([`a-${KEY}`])
    const ordinary = {
      a: 'ada.lovelace@example.org',
      b: 'https://issuer.example/x',
      c: '2026-11-23T10:00:00.000Z',
    }
    expect(secretsOfCredential(JSON.stringify({ ...ordinary, key: KEY }))).toEqual([KEY])
    expect(secretsOfCredential('plain-key')).toEqual(['plain-key'])
    expect(secretsOfCredential()).toEqual([])
  })

  test('the sentence names the place, and never repeats a secret in it', () => {
    expect(explainFoundSecret(search, 'the key', 'the file a.txt', 'a file')).toBe(
      'the file a.txt holds the key, so nothing was published; replace that credential, and try again',
    )
    expect(explainFoundSecret(search, 'the key', `the file ${hex}`, 'a file')).toMatch(
      /^a file holds the key/,
    )
  })
})

/** The characters that services put into keys. */
const token = fc.string({ unit: fc.constantFrom(...'abcXYZ0189-_+/=.:nrt'), minLength: 16, maxLength: 300 })
const bytes = fc.uint8Array({ maxLength: 70 })
const ENCODINGS: readonly ((content: Buffer) => string | Buffer)[] = [
  (content) => content,
  (content) => content.toString('base64'),
  (content) => content.toString('base64url'),
  (content) => wrapped(content.toString('base64'), 64),
  (content) => JSON.stringify(wrapped(content.toString('base64'), 76, '\r\n')),
  (content) => content.toString('hex'),
  (content) => JSON.stringify(content),
  (content) => Buffer.from(content.toString('base64')).toString('base64'),
  (content) => wrapped(Buffer.from(`{"auth":"${content.toString('base64url')}"}`).toString('base64'), 76),
  (content) => Buffer.from(content.toString('base64')).toString('hex'),
]

test('any secret is found in any surroundings and encoding, however the content is split', () => {
  const property = fc.property(
    token,
    bytes,
    bytes,
    fc.constantFrom(...ENCODINGS),
    fc.nat(5_000),
    (secret, before, after, encode, split) => {
      const search = createSecretSearch([{ name: 'x', value: secret }])
      fc.pre(!search.isEmpty && secret.trim() === secret)
      const content = Buffer.from(encode(Buffer.concat([before, Buffer.from(secret), after])))
      const scan = search.openScan()
      scan.push(content.subarray(0, split % content.length))
      scan.push(content.subarray(split % content.length))
      return scan.found() === 'x'
    },
  )
  fc.assert(property, { numRuns: 2_000 })
})
