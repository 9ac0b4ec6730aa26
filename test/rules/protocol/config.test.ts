import { describe, expect, test } from '@jest/globals'
import {
  CREDENTIAL_PATHS,
  completeConfig,
  configDefaults,
  configProblems,
  MASK,
  SECRET_PATHS,
  ServiceConfig,
  StoredConfig,
} from '../../../protocol/config.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { asShape, type Shape } from '../../../protocol/schema-errors.ts'
import { maskedConfig } from './examples.ts'

const effective = (stored: unknown) => {
  const completed = completeConfig(stored)
  return completed.ok ? completed.value.effective : completed.error
}

describe('defaults', () => {
  test('are exactly these', () => {
    expect(effective({})).toEqual({
      server: { host: '127.0.0.1', port: 4400, allowedOrigins: [] },
      fleet: { port: 4401, heartbeatTimeoutSeconds: 45, reconnectGraceSeconds: 120, ephemeralSeconds: 600 },
      sandbox: {
        provider: 'bwrap',
        concurrency: 2,
        retentionHours: 24,
        network: 'allowlist',
        allowedHosts: [],
        maxProcesses: 512,
        maxRunMinutes: 120,
        maxLogMib: 64,
        maxArtifactsMib: 2048,
        exposeCodehostToken: false,
      },
      agent: {
        provider: 'agentA',
        orchestratorModel: '',
        orchestratorEffort: 'medium',
        keyInSandbox: false,
        serverTools: [],
        commands: {},
      },
      tracker: {
        driver: 'linear',
        pollSeconds: 30,
        eligible: { states: ['Todo'], labels: [], projects: [], assignees: [] },
        whenTicketLeaves: 'finish',
      },
      codehost: { driver: 'github' },
      storage: { bucket: '', publicBaseUrl: '' },
      repos: {},
      connect: {},
      worker: { local: true },
      policy: { paused: false },
    })
    expect(createChecker(ServiceConfig)(configDefaults).ok).toBe(true)
  })

  test('fill in missing keys at every depth', () => {
    expect(
      effective({ fleet: { host: '0.0.0.0' }, tracker: { eligible: { labels: ['bot'] } } }),
    ).toMatchObject({
      fleet: { host: '0.0.0.0', port: 4401, heartbeatTimeoutSeconds: 45 },
      tracker: { driver: 'linear', eligible: { states: ['Todo'], labels: ['bot'] } },
    })
  })

  test('are never shared: neither the argument nor a result affects another', () => {
    const stored = Object.freeze({ repos: Object.freeze({ a: Object.freeze({ remote: 'a/b' }) }) })
    const first = completeConfig(stored)
    const two = completeConfig(stored)
    if (!first.ok || !two.ok) throw new Error('refused')
    first.value.effective.tracker.eligible.states.push('Later')
    first.value.effective.repos.b = { remote: 'b/c' }
    expect(two.value).toEqual({ stored, effective: { ...configDefaults, repos: stored.repos } })
    expect(first.value.stored).toEqual(stored)
    expect(effective({})).toEqual(configDefaults)
  })
})

describe('a configuration with every key', () => {
  test('is still valid when masked', () => {
    expect(createChecker(ServiceConfig)(maskedConfig)).toEqual({ ok: true, value: maskedConfig })
    expect(configProblems(maskedConfig)).toBeUndefined()
  })

  test('is refused in the file when a secret is the mask, and the secret is named', () => {
    for (const path of SECRET_PATHS) {
      const [, section = '', key = ''] = path.split('/')
      expect(effective({ [section]: { [key]: MASK } })).toBe(
        `${path}: is the mask, not a credential; leave the key out instead`,
      )
    }
  })

  test('is stored and read unchanged when unmasked', () => {
    const real = JSON.parse(
      JSON.stringify(maskedConfig)
        .replace('"tokenExpiresAt":"***"', '"tokenExpiresAt":"2026-03-01T08:30:00.000Z"')
        .replaceAll('***', 's3cret'),
    )
    expect(completeConfig(real)).toEqual({ ok: true, value: { stored: real, effective: real } })
  })
})

describe('special keys', () => {
  test('eleven credentials are known by their paths', () => {
    expect([...CREDENTIAL_PATHS].sort()).toEqual([
      '/agent/agentAApiKey',
      '/agent/agentAOauthToken',
      '/agent/agentBApiKey',
      '/agent/agentBLogin',
      '/agent/agentCApiKey',
      '/agent/agentCLogin',
      '/codehost/token',
      '/storage/token',
      '/tracker/apiKey',
      '/tracker/refreshToken',
      '/tracker/tokenExpiresAt',
    ])
  })

  test('the schema marks as secret exactly what the list names', () => {
    expect(secretsIn(asShape(ServiceConfig)).sort()).toEqual([...SECRET_PATHS].sort())
  })

  test('each key of the effective form is a key of the stored form, and the other way round', () => {
    expect(keysIn(asShape(StoredConfig))).toEqual(keysIn(asShape(ServiceConfig)))
  })
})

describe('refusals name the field', () => {
  test.each<[unknown, string]>([
    [null, '/: must be an object, not null'],
    [{ sandbx: {} }, '/sandbx: unknown key, did you mean sandbox?'],
    [{ server: { colour: 'red' } }, '/server/colour: unknown key'],
    [{ server: { host: '0.0.0.0' } }, '/server/host: must be a loopback name or address, such as 127.0.0.1'],
    [
      { server: { host: '127.0.0.1.example.org' } },
      '/server/host: must be a loopback name or address, such as 127.0.0.1',
    ],
    [
      { server: { host: '127.0.0.256' } },
      '/server/host: must be a loopback name or address, such as 127.0.0.1',
    ],
    [{ server: { port: -1 } }, '/server/port: must be at least 0, not -1'],
    [{ server: { port: 65_536 } }, '/server/port: must be at most 65535, not 65536'],
    [
      { server: { allowedOrigins: ['https://a.example/x'] } },
      '/server/allowedOrigins/0: must be an origin such as https://example.org, with no path',
    ],
    [
      { server: { allowedOrigins: ['*'] } },
      '/server/allowedOrigins/0: must be an origin such as https://example.org, with no path',
    ],
    [{ fleet: { host: '' } }, '/fleet/host: must be a host name or address'],
    [
      { fleet: { heartbeatTimeoutSeconds: 19 } },
      '/fleet/heartbeatTimeoutSeconds: must be at least 20, not 19',
    ],
    [{ fleet: { reconnectGraceSeconds: -1 } }, '/fleet/reconnectGraceSeconds: must be at least 0, not -1'],
    [{ tracker: { pollSeconds: 0.5 } }, '/tracker/pollSeconds: must be at least 1, not 0.5'],
    [
      { server: { allowedOrigins: ['null', 'https://Dash.example'] } },
      '/server/allowedOrigins/1: must be written as browsers write it: https://dash.example',
    ],
    [
      { server: { allowedOrigins: ['https://dash.example:443'] } },
      '/server/allowedOrigins/0: must be written as browsers write it: https://dash.example',
    ],
    [
      { server: { allowedOrigins: ['http://'] } },
      '/server/allowedOrigins/0: must be an origin such as https://example.org, with no path',
    ],
    [
      { server: { allowedOrigins: ['https://dash.example/'] } },
      '/server/allowedOrigins/0: must be an origin such as https://example.org, with no path',
    ],
    [
      { server: { host: '127.0.0.01' } },
      '/server/host: must be a loopback name or address, such as 127.0.0.1',
    ],
    [{ fleet: { tls: { certFile: '/c' } } }, '/fleet/tls/keyFile: is required'],
    [
      { fleet: { publicUrl: 'fleet.example' } },
      '/fleet/publicUrl: must be an address that begins with http:// or https:// or ws:// or wss://',
    ],
    [{ sandbox: { concurrency: 0 } }, '/sandbox/concurrency: must be at least 1, not 0'],
    [{ sandbox: { concurrency: 65 } }, '/sandbox/concurrency: must be at most 64, not 65'],
    [{ sandbox: { maxLogMib: 0 } }, '/sandbox/maxLogMib: must be at least 1, not 0'],
    [{ sandbox: { maxLogMib: 4097 } }, '/sandbox/maxLogMib: must be at most 4096, not 4097'],
    [{ sandbox: { maxArtifactsMib: 0 } }, '/sandbox/maxArtifactsMib: must be at least 1, not 0'],
    [{ sandbox: { provider: 'docker' } }, '/sandbox/provider: must be "bwrap", not "docker"'],
    [
      { sandbox: { allowedHosts: ['http://x'] } },
      '/sandbox/allowedHosts/0: must be a host name, *. in front for its subdomains, a port behind',
    ],
    [
      { agent: { orchestratorEffort: 'heroic' } },
      '/agent/orchestratorEffort: must be one of "low", "medium", "high", not "heroic"',
    ],
    [
      { agent: { agentAApiKey: 'a b' } },
      '/agent/agentAApiKey: must be a credential of printable characters without spaces',
    ],
    [
      { agent: { agentAApiKey: 'a\r\nX-Evil: 1' } },
      '/agent/agentAApiKey: must be a credential of printable characters without spaces',
    ],
    [
      { tracker: { driver: 'jira' } },
      '/tracker/driver: must be one of "linear", "github", "local", not "jira"',
    ],
    [
      { tracker: { driver: 'local' } },
      '/tracker/path: is required by the local driver: the folder with the tickets',
    ],
    [
      { codehost: { driver: 'local' } },
      '/codehost/path: is required by the local driver: the folder with the bare repositories',
    ],
    [
      { tracker: { apiUrl: 'http://tracker.example' } },
      '/tracker/apiUrl: must be an https address, or http to this machine',
    ],
    [
      { codehost: { apiUrl: 'https://user:pw@code.example' } },
      '/codehost/apiUrl: must not hold a user name or password',
    ],
    [
      { connect: { apiBase: 'file:///etc' } },
      '/connect/apiBase: must be an address that begins with http:// or https://',
    ],
    [
      { storage: { publicBaseUrl: 'files.example' } },
      '/storage/publicBaseUrl: must be an address that begins with http:// or https://',
    ],
    [
      { storage: { publicBaseUrl: 'javascript:alert(1)' } },
      '/storage/publicBaseUrl: must be an address that begins with http:// or https://',
    ],
    [{ repos: { a: { remote: 'acme' } } }, '/repos/a/remote: must be a repository as owner/name'],
    [{ repos: { a: { remote: 'acme/..' } } }, '/repos/a/remote: must be a repository as owner/name'],
    [{ repos: { a: { remote: '-x/y' } } }, '/repos/a/remote: must be a repository as owner/name'],
    [
      { repos: { a: { remote: 'a/b', cloneUrl: 'ext::sh -c id' } } },
      '/repos/a/cloneUrl: must be an address that git can clone (https, ssh, file or a path) without a token in it',
    ],
    [
      { repos: { a: { remote: 'a/b', cloneUrl: 'https://x:planted@code.example/a/b.git' } } },
      '/repos/a/cloneUrl: must be an address that git can clone (https, ssh, file or a path) without a token in it',
    ],
    [
      { repos: { a: { remote: 'a/b', cloneUrl: '--upload-pack=id' } } },
      '/repos/a/cloneUrl: must be an address that git can clone (https, ssh, file or a path) without a token in it',
    ],
    [
      { repos: { a: { remote: 'a/b', defaultBranch: '-f' } } },
      '/repos/a/defaultBranch: must be a branch name',
    ],
    [
      { repos: { '': { remote: 'a/b' } } },
      '/repos/: its name must be 1 to 200 characters, none of them a control character, and not . or ..',
    ],
    ...['.', '..'].map((key): [unknown, string] => [
      { repos: { [key]: { remote: 'a/b' } } },
      `/repos/${key}: its name must be 1 to 200 characters, none of them a control character, and not . or ..`,
    ]),
    ...['https://code.example/a/b.git?token=planted', 'http://code.example/a/b.git#planted'].map(
      (cloneUrl): [unknown, string] => [
        { repos: { a: { remote: 'a/b', cloneUrl } } },
        '/repos/a/cloneUrl: must be an address that git can clone (https, ssh, file or a path) without a token in it',
      ],
    ),
  ])('%j', (stored, message) => {
    expect(effective(stored)).toBe(message)
  })

  test('valid values are accepted', () => {
    const fine = [
      { server: { host: 'localhost', port: 0 } },
      { server: { host: '::1', allowedOrigins: ['null', 'app://desk', 'file://', 'http://localhost:5173'] } },
      { server: { allowedOrigins: ['http://dash.example:8080', 'https://[2001:db8::1]'] } },
      { fleet: { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 0 }, tracker: { pollSeconds: 1 } },
      { repos: { '...': { remote: 'a/b', cloneUrl: '/srv/git/what?#.git' } } },
      { storage: { publicBaseUrl: '' } },
      { storage: { publicBaseUrl: 'http://files.example' } },
      { connect: { apiBase: 'http://127.0.0.1:4410' } },
      { connect: { apiBase: 'http://[::1]:4410' } },
      { repos: { 'Our lamps / käfig': { remote: 'acme/.github', cloneUrl: '/srv/git/lamps.git' } } },
      {
        tracker: { driver: 'local', path: '/srv/tickets' },
        codehost: { driver: 'local', path: '/srv/repos' },
      },
      { agent: { agentBLogin: '{\n  "tokens": {}\n}' } },
      { tracker: { apiKey: '' } },
    ]
    for (const stored of fine) expect(completeConfig(stored)).toMatchObject({ ok: true })
  })
})

function secretsIn(shape: Shape, path = ''): string[] {
  if (shape['x-secret'] === true) return [path]
  return Object.entries(shape.properties ?? {}).flatMap(([key, inner]) => secretsIn(inner, `${path}/${key}`))
}

function keysIn(shape: Shape, path = ''): string[] {
  const inner = Object.entries(shape.properties ?? {})
  return [path, ...inner.flatMap(([key, field]) => keysIn(field, `${path}/${key}`))]
}
