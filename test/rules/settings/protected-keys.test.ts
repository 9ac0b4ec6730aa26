/** Credentials do not change by patch, however the patch is spelled. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { guardCredentials } from '../../../core/settings/change.ts'
import { objectWith, valueAt } from '../../../core/settings/json-values.ts'
import { CREDENTIAL_PATHS } from '../../../protocol/config.ts'
import { mergePatch } from '../../../protocol/merge-patch.ts'
import { secretFor, withSecrets } from '../../support/sample-configs.ts'

const stored = withSecrets({ tracker: { pollSeconds: 5 }, server: { port: 1 } }, [
  '/tracker/apiKey',
  '/agent/agentBLogin',
])

const verdict = (current: unknown, patch: unknown): string => {
  const answer = guardCredentials(current, mergePatch(current, patch))
  return answer.ok ? 'fine' : (answer.refusal.message.split(':')[0] ?? '')
}

describe('by example', () => {
  test.each<[string, unknown, string]>([
    ['another section', { server: { port: 2 } }, 'fine'],
    ['beside it', { tracker: { pollSeconds: 9 } }, 'fine'],
    ['set', { codehost: { token: 'new' } }, '/codehost/token'],
    ['set to nothing', { codehost: { token: '' } }, '/codehost/token'],
    ['changed', { tracker: { apiKey: 'new' } }, '/tracker/apiKey'],
    ['changed to the mask', { tracker: { apiKey: '***' } }, '/tracker/apiKey'],
    ['changed to another kind of value', { tracker: { apiKey: { a: 1 } } }, '/tracker/apiKey'],
    ['removed', { tracker: { apiKey: null } }, '/tracker/apiKey'],
    ['removed with its section', { tracker: null }, '/tracker/apiKey'],
    ['removed by a list in place of the section', { agent: [] }, '/agent/agentBLogin'],
    [
      'its expiry changed',
      { tracker: { tokenExpiresAt: '2030-01-01T00:00:00.000Z' } },
      '/tracker/tokenExpiresAt',
    ],
    ['the same again', { tracker: { apiKey: secretFor('/tracker/apiKey') } }, 'fine'],
    ['a section without credentials removed', { server: null, codehost: null }, 'fine'],
    ['the one secret that a patch may set', { connect: { trackerClientSecret: 'new' } }, 'fine'],
  ])('%s', (_, patch, expected) => {
    expect(verdict(stored, patch)).toBe(expected)
  })

  test('the refusal names the alternatives', () => {
    const answer = guardCredentials({}, { codehost: { token: 'ghp_hidden' } })
    expect(answer).toEqual({
      ok: false,
      refusal: {
        kind: 'invalid',
        message: '/codehost/token: is a credential; use PUT /api/settings/credentials or a connect flow',
      },
    })
  })
})

test('a change is accepted exactly when every credential stays the same', () => {
  const anyValue = fc.oneof(fc.constantFrom('one', 'two', null), fc.jsonValue({ maxDepth: 1 }))
  const anyPatch = fc
    .array(fc.tuple(fc.constantFrom(...CREDENTIAL_PATHS, '/tracker', '/agent', '/server/port'), anyValue), {
      maxLength: 3,
    })
    .map((parts) =>
      parts.reduce<unknown>((patch, [path, value]) => mergePatch(patch, objectWith(path, value)), {}),
    )
  fc.assert(
    fc.property(fc.subarray([...CREDENTIAL_PATHS]), anyPatch, (paths, patch) => {
      const current = withSecrets({}, paths)
      const merged = mergePatch(current, patch)
      const view = (value: unknown): string =>
        JSON.stringify(CREDENTIAL_PATHS.map((path) => valueAt(value, path) ?? null))
      expect(verdict(current, patch) === 'fine').toBe(view(current) === view(merged))
    }),
  )
})
