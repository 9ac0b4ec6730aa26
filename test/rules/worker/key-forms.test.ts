/** The forms of keys: what counts as one, and what only mentions or shows one. */
import { generateKeyPairSync } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type FoundValue, findKeys, KeyScan } from '../../../worker/secrets/key-forms.ts'
import { AWS_KEY, GITHUB_TOKEN, KEYS, PRIVATE_KEY } from '../../support/made-up-keys.ts'

const kindsIn = (text: string): string[] => findKeys(text).map(({ kind }) => kind)

test.each(Object.entries(KEYS))('%s is found, whatever stands around it', (kind, key) => {
  for (const text of [key, `token = "${key}"\n`, `a: ${key}, b`, `\\n${key}\\n`])
    expect(kindsIn(text)).toEqual([kind])
})

test.each([
  ['a header alone', '-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----'],
  ['a pattern for headers', '/-----BEGIN [A-Z ]*PRIVATE KEY-----/'],
  ['a public key', PRIVATE_KEY.replaceAll('PRIVATE', 'PUBLIC')],
  ['a certificate', PRIVATE_KEY.replaceAll('PRIVATE KEY', 'CERTIFICATE')],
  ['a key of one character', `-----BEGIN PRIVATE KEY-----\n${'A'.repeat(64)}\n`],
  ['a token with a wrong checksum', `${GITHUB_TOKEN.slice(0, -1)}${GITHUB_TOKEN.endsWith('a') ? 'b' : 'a'}`],
  ['the token of a document', 'gho_16C7e42F292c6912E7710c838347Ae178B4a'],
  ['a token that goes on', `${GITHUB_TOKEN}x`],
  ['a part of a name', `my${GITHUB_TOKEN}`],
  ['an access key alone', AWS_KEY],
  ['an access key beside a commit', `${AWS_KEY} 5f1d0c7a9be2436f81d0c7a9be2436f85f1d0c7a`],
  ['the access key of a document', 'AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'],
  ['a test key of Stripe', KEYS['a live Stripe key'].replace('_live_', '_test_')],
  ['a placeholder', 'xoxb-123456789012-123456789012-aBcDeFgHiJkLmNoPqRsTuVwX'],
  [
    'the address of a document',
    'https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX',
  ],
  ['what begins alike', 'sk-button npm_config_registry gho_ risk-taking AIza'],
])('%s is no key', (_, text) => {
  expect(kindsIn(text)).toEqual([])
})

test('a private key is found as programs write it down', () => {
  const lines = PRIVATE_KEY.split('\n')
  const forms = [
    JSON.stringify({ key: PRIVATE_KEY }),
    lines.map((line) => `    ${line}`).join('\n'),
    lines.map((line) => `'${line}\\n' +`).join('\n'),
    lines.map((line) => `# ${line}`).join('\r\n'),
  ]
  for (const text of forms) expect(kindsIn(text)).toEqual(['a private key'])
})

test('headers that end in no key are read in a moment', () => {
  const headers = `-----BEGIN PRIVATE KEY-----\n${'aaa:          '.repeat(60)}\n`
  const before = process.cpuUsage()
  expect(findKeys(headers.repeat(75))).toEqual([])
  expect(process.cpuUsage(before).user).toBeLessThan(500_000)
})

test('headers may stand before a key, also on the same line', () => {
  const [begin = '', ...lines] = PRIVATE_KEY.split('\n')
  const headers = ['Proc-Type: 4,ENCRYPTED', 'DEK-Info: AES-128-CBC,00', 'Comment: of  an old one']
  for (const join of ['\n', '\\n', ' '])
    expect(findKeys([begin, ...headers, '', ...lines].join(join)).map(({ kind }) => kind)).toEqual([
      'a private key',
    ])
})

describe('a content in pieces', () => {
  function scan(content: Buffer, pieceBytes: number): FoundValue[] {
    const found: FoundValue[] = []
    const keys = new KeyScan((key) => found.push(key))
    for (let at = 0; at < content.length; at += pieceBytes) keys.push(content.subarray(at, at + pieceBytes))
    keys.end()
    return found
  }

  test('each key is found once, with its line', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 5_000 }),
        fc.integer({ min: 0, max: 5_000 }),
        fc.integer({ min: 1, max: 9_000 }),
        (before, between, pieceBytes) => {
          const content = `${'line\n'.repeat(before)}${GITHUB_TOKEN}\n${'x\n'.repeat(between)}${PRIVATE_KEY}`
          expect(scan(Buffer.from(content), pieceBytes).map(({ kind, line }) => [kind, line])).toEqual([
            ['a GitHub token', before + 1],
            ['a private key', before + between + 2],
          ])
        },
      ),
      { numRuns: 60 },
    )
  })

  test('two keys of one kind have values that differ, so one does not hide the other', () => {
    const another = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    }).privateKey
    const [first, second] = scan(Buffer.from(`${PRIVATE_KEY}\n${another}`), 1_000)
    expect(first?.value).not.toEqual(second?.value)
  })
})
