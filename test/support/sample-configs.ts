/** Configurations for tests: small explicit ones, and arbitrary valid ones. */
import fc from 'fast-check'
import { renderConfig } from '../../core/settings/change.ts'
import { objectWith } from '../../core/settings/json-values.ts'
import { readConfig } from '../../core/settings/read.ts'
import { type CompletedConfig, SECRET_PATHS, type StoredConfig } from '../../protocol/config.ts'
import { mergePatch } from '../../protocol/merge-patch.ts'

/** Returns the configuration as the service reads it from such a file. */
export function createConfig(stored: unknown = {}): CompletedConfig {
  const answer = readConfig(renderConfig(stored))
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

/** Returns a recognisable secret in the form that the path requires. */
export function secretFor(path: string): string {
  return path === '/tracker/tokenExpiresAt'
    ? '2031-07-19T03:04:05.678Z'
    : `planted-in-${path.split('/').at(-1)}`
}

export function withSecrets(stored: unknown, paths: readonly string[]): unknown {
  return paths.reduce((value, path) => mergePatch(value, objectWith(path, secretFor(path))), stored)
}

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,9}$/)
const maybe = { requiredKeys: [] }

/** Generates configurations without secrets. */
export const anyStoredConfig: fc.Arbitrary<StoredConfig> = fc.record(
  {
    server: fc.record(
      { host: fc.constantFrom('127.0.0.1', 'localhost', '::1'), port: fc.integer({ min: 0, max: 65_535 }) },
      maybe,
    ),
    fleet: fc.record(
      {
        host: fc.constantFrom('0.0.0.0', 'example.org'),
        port: fc.integer({ min: 0, max: 65_535 }),
        insecure: fc.boolean(),
        heartbeatTimeoutSeconds: fc.integer({ min: 20, max: 60 }),
      },
      maybe,
    ),
    sandbox: fc.record(
      { concurrency: fc.integer({ min: 1, max: 64 }), network: fc.constantFrom('open', 'allowlist', 'none') },
      maybe,
    ),
    agent: fc.record(
      { orchestratorModel: word, orchestratorEffort: fc.constantFrom('low', 'medium', 'high') },
      maybe,
    ),
    tracker: fc.record(
      {
        pollSeconds: fc.integer({ min: 1, max: 600 }),
        eligible: fc.record({ states: fc.array(word, { maxLength: 3 }) }, maybe),
      },
      maybe,
    ),
    repos: fc.dictionary(
      word,
      fc.record({ remote: fc.constantFrom('o/web', 'o/api'), label: word }, { requiredKeys: ['remote'] }),
      { maxKeys: 4, noNullPrototype: true },
    ),
    connect: fc.record({ trackerClientId: word }, maybe),
    worker: fc.record({ local: fc.boolean() }, maybe),
  },
  maybe,
)

export const anySecretPaths = fc.subarray([...SECRET_PATHS])
