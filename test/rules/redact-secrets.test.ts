/** A repeated secret is unreadable afterwards in every form, and other text stays unchanged. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { redactSecrets } from '../../core/redact-secrets.ts'

const SECRET = 'lin_oauth_0123456789abcdef/+%7E"\\=&p'

const FORMS: readonly (readonly [string, string])[] = [
  ['as it is', SECRET],
  ['in JSON', JSON.stringify({ token: SECRET })],
  ['in JSON within JSON', JSON.stringify({ body: JSON.stringify({ token: SECRET }) })],
  ['in an address', `https://x.example/?code=${encodeURIComponent(SECRET)}&y=1`],
  ['in a form', new URLSearchParams({ refresh_token: SECRET, grant_type: 'refresh_token' }).toString()],
  ['in base64', Buffer.from(SECRET).toString('base64')],
  ['behind a user in base64', Buffer.from(`x-access-token:${SECRET}`).toString('base64')],
  ['in base64 of an address', Buffer.from(`ab:${SECRET}:c`).toString('base64url')],
]

test.each(FORMS)('a secret that is repeated %s is redacted', (_, text) => {
  const redacted = redactSecrets(text, [SECRET])
  expect(redacted).toContain('***')
  expect(redacted).not.toContain('0123456789')
  expect(Buffer.from(redacted, 'base64').toString()).not.toContain('0123456789')
})

test('a secret that is a prefix of another leaves no remainder', () => {
  expect(
    redactSecrets('a planted-secret-long b planted-secret c', ['planted-secret', 'planted-secret-long']),
  ).toBe('a *** b *** c')
})

test('a secret that is too short or not set redacts nothing', () => {
  expect(redactSecrets('a b c', ['a', '', null, undefined])).toBe('a b c')
})

test('no text keeps a secret in any form, and text without it stays unchanged', () => {
  const secrets = fc.string({ minLength: 12, maxLength: 80, unit: 'grapheme-ascii' })
  fc.assert(
    fc.property(secrets, fc.string(), fc.string(), (secret, before, after) => {
      const text = `${before}${secret}${after}${encodeURIComponent(secret)}${JSON.stringify(secret)}`
      expect(redactSecrets(text, [secret]).includes(secret)).toBe(false)
      fc.pre(!before.includes(secret))
      if (redactSecrets(before, [secret]) !== before) throw new Error('text without the secret was changed')
    }),
  )
})
