/** Tests of the secrets between host and worker. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  hashSecret,
  isSameHash,
  newCredential,
  newPairingToken,
  newWorkerId,
} from '../../../core/fleet/token.ts'

test('each secret is its prefix and all of its bytes', () => {
  const bytes = new Uint8Array(32).map((_, n) => n)
  const base64url = Buffer.from(bytes).toString('base64url')
  expect(newPairingToken(bytes)).toBe(`wp-${base64url}`)
  expect(newCredential(bytes)).toBe(`wc-${base64url}`)
  expect(newWorkerId(bytes)).toBe('wk-0001020304050607')
})

test('too few random bytes throw', () => {
  for (const make of [newPairingToken, newCredential])
    expect(() => make(new Uint8Array(31))).toThrow(RangeError)
  expect(() => newWorkerId(new Uint8Array(7))).toThrow(RangeError)
})

test('a hash is SHA-256 as hex', () => {
  expect(hashSecret('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

test('two hashes are the same exactly when their texts are the same, whatever their length', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      expect(isSameHash(a, b)).toBe(a === b)
      expect(isSameHash(hashSecret(a), hashSecret(a))).toBe(true)
    }),
  )
})
