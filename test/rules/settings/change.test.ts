/** Tests of settings patches: what is refused, the resulting file, and whether a restart is needed. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { no } from '../../../core/result.ts'
import { type DecidedChange, decideChange, renderConfig } from '../../../core/settings/change.ts'
import { isJsonEqual, valueAt } from '../../../core/settings/json-values.ts'
import { readConfig } from '../../../core/settings/read.ts'
import { CREDENTIAL_PATHS, configDefaults, RESTART_PATHS } from '../../../protocol/config.ts'
import { mergePatch } from '../../../protocol/merge-patch.ts'
import {
  anySecretPaths,
  anyStoredConfig,
  createConfig,
  secretFor,
  withSecrets,
} from '../../support/sample-configs.ts'

const current = createConfig(
  withSecrets({ server: { port: 4500 }, repos: { web: { remote: 'o/web' }, api: { remote: 'o/api' } } }, [
    '/tracker/apiKey',
  ]),
)

const noFault = () => undefined

function decided(patch: unknown, from = current): DecidedChange {
  const answer = decideChange(from, patch, noFault)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

function refusal(patch: unknown): string {
  const answer = decideChange(current, patch, noFault)
  if (answer.ok) throw new Error('was accepted')
  expect(answer.refusal.kind).toBe('invalid')
  return answer.refusal.message
}

describe('accepted', () => {
  test('a mapping is removed with null, and the merged configuration is written', () => {
    const { stored, text, changed } = decided({ repos: { web: null } })
    expect(stored.repos).toEqual({ api: { remote: 'o/api' } })
    expect(JSON.parse(text)).toEqual(stored)
    expect(text).toMatch(/^\{\n {2}"server": \{\n {4}"port": 4500\n {2}\},\n/)
    expect(text.endsWith('}\n')).toBe(true)
    expect(changed).toBe(true)
  })

  test('defaults are in effect but never written down', () => {
    const { effective, stored } = decided({ sandbox: { concurrency: 4 } })
    expect(effective.sandbox).toEqual({ ...configDefaults.sandbox, concurrency: 4 })
    expect(stored.sandbox).toEqual({ concurrency: 4 })
  })

  test('removing a key brings its default back', () => {
    expect(decided({ server: null }).effective.server.port).toBe(4400)
  })

  test('a patch that changes nothing is accepted as live', () => {
    for (const patch of [{}, { server: {} }, { server: { port: 4500 } }, { fleet: null }]) {
      expect(decided(patch)).toMatchObject({ changed: false, applied: 'live', stored: current.stored })
    }
  })

  test("the tracker's client secret may be set and deleted", () => {
    const set = decided({ connect: { trackerClientSecret: 'new' } })
    expect(set.effective.connect.trackerClientSecret).toBe('new')
    expect(decided({ connect: { trackerClientSecret: null } }, set).effective.connect).toEqual({})
  })

  test.each<[unknown, 'live' | 'restart']>([
    [{ server: { port: 4501 } }, 'restart'],
    [{ server: { host: 'localhost' } }, 'restart'],
    [{ fleet: { host: '127.0.0.1' } }, 'restart'],
    [{ fleet: { port: 5000 } }, 'restart'],
    [{ fleet: { tls: { certFile: '/cert.pem', keyFile: '/key.pem' } } }, 'restart'],
    [{ server: null }, 'restart'],
    [{ fleet: { port: 4401 } }, 'live'],
    [{ server: { host: '127.0.0.1' } }, 'live'],
    [{ server: { allowedOrigins: ['https://example.org'] } }, 'live'],
    [{ fleet: { heartbeatTimeoutSeconds: 30 } }, 'live'],
  ])('%j applies: %s', (patch, applied) => {
    expect(decided(patch).applied).toBe(applied)
  })
})

describe('refused', () => {
  test.each<[unknown, string]>([
    [null, '/patch: must be an object'],
    ['port', '/patch: must be an object'],
    [[], '/patch: must be an object'],
    [JSON.parse('{"__proto__": {"polluted": true}}'), '/patch/__proto__: is a key that is never accepted'],
    [
      JSON.parse('{"repos": {"constructor": {"remote": "o/n"}}}'),
      '/patch/repos/constructor: is a key that is never accepted',
    ],
    [JSON.parse('{"repos": {"prototype": null}}'), '/patch/repos/prototype: is a key that is never accepted'],
    [JSON.parse('{"agent": {"maxCostUsd": 1e999}}'), '/patch/agent/maxCostUsd: is a number out of range'],
    [
      { agent: { orchestratorModel: '\ud800' } },
      '/patch/agent/orchestratorModel: holds half of a surrogate pair',
    ],
    [
      { tracker: null },
      '/patch/tracker/apiKey: is a credential; use PUT /api/settings/credentials or a connect flow',
    ],
    [
      { tracker: { apiKey: '***' } },
      '/patch/tracker/apiKey: is a credential; use PUT /api/settings/credentials or a connect flow',
    ],
  ])('%j', (patch, expected) => {
    expect(refusal(patch)).toBe(expected)
  })

  test.each<[unknown, string]>([
    [{ server: { port: 70_000 } }, '/patch/server/port: '],
    [{ server: { port: '4400' } }, '/patch/server/port: '],
    [{ server: { hots: 'x' } }, '/patch/server/hots: '],
    [{ repos: { web: { remote: null } } }, '/patch/repos/web/remote: '],
    [{ storage: { publicBaseUrl: 'ftp://example.org' } }, '/patch/storage/publicBaseUrl: '],
    [{ connect: { trackerClientSecret: '***' } }, '/patch/connect/trackerClientSecret: '],
    [{ server: 5 }, '/patch/server: '],
  ])('%j, with the field first', (patch, start) => {
    expect(refusal(patch).slice(0, start.length)).toBe(start)
  })

  test('listeners that the next start would not open, with the field first', () => {
    const [certFile, keyFile] = ['/cert.pem', '/key.pem']
    const refused = decideChange(current, { fleet: { host: '::', tls: { certFile, keyFile } } }, (files) =>
      Object.values(files).join(' and '),
    )
    expect(refused).toEqual(no('invalid', '/patch/fleet/tls: /cert.pem and /key.pem'))
    expect(refusal({ fleet: { host: '0.0.0.0' } })).toMatch(
      /^\/patch\/fleet\/host: 0\.0\.0\.0 lets other machines/,
    )
    expect(refusal({ server: { port: 4401 }, fleet: { host: '127.0.0.1' } })).toMatch(
      /^\/patch\/fleet\/port: 4401 is /,
    )
  })

  test('a patch that is nested too deep', () => {
    const deep = JSON.parse(`${'{"repos":'.repeat(40)}1${'}'.repeat(40)}`)
    expect(refusal(deep)).toContain('is nested deeper than 32 levels')
  })

  test('a change that makes the file too large', () => {
    const instructions = 'x'.repeat(9_000)
    const repos = Object.fromEntries(
      Array.from({ length: 200 }, (_, at) => [`r${at}`, { remote: 'o/n', instructions }]),
    )
    expect(refusal({ repos })).toMatch(/^\/patch: must have at most 1048576 bytes/)
  })

  test('a refusal contains no secret, neither the old nor the new one', () => {
    for (const path of CREDENTIAL_PATHS) {
      const [, section = '', key = ''] = path.split('/')
      const from = createConfig(withSecrets({}, [path]))
      const answer = decideChange(from, { [section]: { [key]: 'offered-secret' } }, noFault)
      const message = answer.ok ? '' : answer.refusal.message
      expect(message.startsWith(`/patch${path}: `)).toBe(true)
      expect(message).not.toContain('offered-secret')
      expect(message).not.toContain(secretFor(path))
    }
  })
})

describe('properties', () => {
  const anyStart = fc
    .tuple(anyStoredConfig, anySecretPaths)
    .map(([stored, paths]) => createConfig(withSecrets(stored, paths)))
  const anyPatch = fc.oneof(
    anyStoredConfig,
    fc.tuple(anyStoredConfig, anyStoredConfig).map(([a, b]) => without(a, b)),
  )

  test('an accepted change reads back as exactly the merged configuration', () => {
    fc.assert(
      fc.property(anyStart, anyPatch, (start, patch) => {
        const answer = decideChange(start, patch, noFault)
        if (!answer.ok) return
        const { stored, effective, text } = answer.value
        expect(readConfig(text)).toEqual({ ok: true, value: { stored, effective } })
        expect(stored).toEqual(mergePatch(start.stored, patch))
        expect(text).toBe(renderConfig(stored))
      }),
    )
  })

  test('a repeated change changes nothing and is live', () => {
    fc.assert(
      fc.property(anyStart, anyPatch, (start, patch) => {
        const first = decideChange(start, patch, noFault)
        if (!first.ok) return
        const again = decided(patch, first.value)
        expect(again).toMatchObject({ changed: false, applied: 'live', text: first.value.text })
      }),
    )
  })

  test('an accepted change changes no credential, and `restart` means that a bound setting changed', () => {
    fc.assert(
      fc.property(anyStart, anyPatch, (start, patch) => {
        const answer = decideChange(start, patch, noFault)
        if (!answer.ok) return
        const { stored, effective, applied } = answer.value
        const differs = (path: string): boolean =>
          !isJsonEqual(valueAt(effective, path), valueAt(start.effective, path))
        expect(CREDENTIAL_PATHS.map((path) => valueAt(stored, path))).toEqual(
          CREDENTIAL_PATHS.map((path) => valueAt(start.stored, path)),
        )
        expect(applied).toBe(RESTART_PATHS.some(differs) ? 'restart' : 'live')
      }),
    )
  })

  test('any JSON gets a result, and the current configuration is not changed', () => {
    fc.assert(
      fc.property(
        anyStart,
        fc.oneof(
          fc.jsonValue(),
          fc.dictionary(fc.constantFrom('server', 'repos', 'tracker', '__proto__'), fc.jsonValue()),
        ),
        (start, patch) => {
          const before = JSON.stringify(start)
          const answer = decideChange(start, patch, noFault)
          if (!answer.ok) expect(answer.refusal.message).toMatch(/^\/.*: /)
          expect(JSON.stringify(start)).toBe(before)
        },
      ),
    )
  })
})

/** Builds a patch that sets the keys of `patch` and deletes the sections that only `gone` has. */
function without(patch: object, gone: object): unknown {
  const deletions = Object.keys(gone).map((key) => [key, null])
  return { ...Object.fromEntries(deletions), ...patch }
}
