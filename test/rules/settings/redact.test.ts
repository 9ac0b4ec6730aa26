/** Tests that no configuration leaves the process with a secret. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { valueAt } from '../../../core/settings/json-values.ts'
import { redactConfig, secretsOf } from '../../../core/settings/redact.ts'
import { MASK, SECRET_PATHS } from '../../../protocol/config.ts'
import {
  anySecretPaths,
  anyStoredConfig,
  createConfig,
  secretFor,
  withSecrets,
} from '../../support/sample-configs.ts'

test('set secrets become the mask, absent ones stay absent, and the rest is unchanged', () => {
  const { effective } = createConfig(
    withSecrets({ server: { port: 4500 } }, ['/tracker/apiKey', '/connect/trackerClientSecret']),
  )
  const shown = redactConfig(effective)
  expect(shown.tracker.apiKey).toBe(MASK)
  expect(shown.connect.trackerClientSecret).toBe(MASK)
  expect(shown.codehost).toEqual({ driver: 'github' })
  expect(shown.server).toEqual(effective.server)
})

test('an empty credential stays empty', () => {
  expect(redactConfig(createConfig({ codehost: { token: '' } }).effective).codehost.token).toBe('')
})

test('no secret survives in the result, at whatever path', () => {
  fc.assert(
    fc.property(anyStoredConfig, anySecretPaths, (stored, paths) => {
      const shown = redactConfig(createConfig(withSecrets(stored, paths)).effective)
      const text = JSON.stringify(shown)
      for (const path of SECRET_PATHS) {
        expect(text).not.toContain(secretFor(path))
        expect(valueAt(shown, path)).toBe(paths.includes(path) ? MASK : undefined)
      }
    }),
  )
})

test('a value of any type at the path of a secret is masked', () => {
  fc.assert(
    fc.property(fc.constantFrom(...SECRET_PATHS), fc.jsonValue(), (path, value) => {
      const [, section = '', key = ''] = path.split('/')
      const { effective } = createConfig()
      const odd = { ...effective, [section]: { [key]: ['planted', value] } }
      expect(JSON.stringify(redactConfig(odd))).not.toContain('planted')
    }),
  )
})

test('the result is a copy: changing it changes nothing else', () => {
  const { effective } = createConfig(withSecrets({ repos: { web: { remote: 'o/web' } } }, SECRET_PATHS))
  const before = JSON.stringify(effective)
  const shown = redactConfig(effective)
  shown.tracker.eligible.states.push('spoiled')
  shown.repos.web = { remote: 'o/other' }
  shown.server.port = 1
  expect(JSON.stringify(effective)).toBe(before)
})

test('redacting twice equals redacting once', () => {
  fc.assert(
    fc.property(anyStoredConfig, anySecretPaths, (stored, paths) => {
      const once = redactConfig(createConfig(withSecrets(stored, paths)).effective)
      expect(redactConfig(once)).toEqual(once)
    }),
  )
})

test('secretsOf returns exactly the secrets that are set', () => {
  expect(secretsOf(createConfig({ codehost: { token: '' } }).effective)).toEqual([])
  fc.assert(
    fc.property(anyStoredConfig, anySecretPaths, (stored, paths) => {
      const { effective } = createConfig(withSecrets(stored, paths))
      expect(secretsOf(effective).sort()).toEqual(paths.map(secretFor).sort())
    }),
  )
})
