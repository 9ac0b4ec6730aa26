/** `switchyard serve` as a person uses it: real processes, real files, real signals. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import {
  type CommandProcess,
  configWithAnyPort,
  keepForFile,
  readLaunch,
  runCommand,
  serve,
} from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { runInTerminal } from '../support/terminal-host.ts'
import { until } from '../support/until.ts'

function folder(config?: string): string {
  const dataDir = tempFolder()
  if (config !== undefined) writeFileSync(join(dataDir, 'config.json'), config, { mode: 0o600 })
  return dataDir
}

async function occupyPort() {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  const address = taken.address()
  return { taken, port: typeof address === 'object' && address !== null ? address.port : 0 }
}

let shared: Promise<CommandProcess> | undefined
/** A host with a fleet listener, for all tests that leave it running. */
function sharedHost(): Promise<CommandProcess> {
  const start = async () => {
    const fleet = { host: '127.0.0.1', port: await freePort() }
    return keepForFile(serve(folder(configWithAnyPort({ fleet }))))
  }
  shared ??= start()
  return shared
}

/** Takes five seconds on an idle machine. */
const STOP_MS_MAX = 15_000

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)

function filesBelow(path: string): string[] {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(path, entry.name)) : [join(path, entry.name)],
  )
}

describe('start and stop', () => {
  test('launch.json tells programs of this user the host’s address, and is deleted at a clean stop', async () => {
    const host = serve(folder(configWithAnyPort()))
    const launch = await host.waitForLaunch()
    expect(launch).toMatchObject({
      pid: host.process.pid,
      version: '0.1.0',
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    })
    expect(launch.token).toMatch(/^[\w-]{43}$/)
    expect(new Date(launch.startedAt).toISOString()).toBe(launch.startedAt)
    expect(mode(join(host.dataDir, 'launch.json'))).toBe('600')

    host.process.kill('SIGTERM')
    expect(await host.exit).toBe(0)
    expect(readLaunch(host.dataDir)).toBeUndefined()
  })

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    '%s stops it cleanly, with sockets open and requests under way',
    async (signal) => {
      const host = serve(folder(configWithAnyPort()))
      const { url, token } = await host.waitForLaunch()
      const asked = Array.from({ length: 20 }, () =>
        fetch(`${url}/api/config`, { headers: { authorization: `Bearer ${token}` } }).then(
          (answer) => answer.status,
          () => 0,
        ),
      )
      const began = performance.now()
      host.process.kill(signal)
      expect(await host.exit).toBe(0)
      expect(performance.now() - began).toBeLessThan(STOP_MS_MAX)
      // Each request is answered, refused because of the stop, or disconnected.
      for (const status of await Promise.all(asked)) expect([0, 200, 503]).toContain(status)
    },
  )

  test('a signal at any moment of the start is a clean stop, and leaves no launch.json', async () => {
    for (const afterMs of [0, 40, 80, 120, 160, 200, 240]) {
      const host = serve(folder(configWithAnyPort()))
      await pause(afterMs)
      host.process.kill('SIGTERM')
      const exit = await host.exit
      // Before our code installs handlers, the signal ends the process, which has created nothing yet.
      expect([0, 'SIGTERM']).toContain(exit)
      expect(readLaunch(host.dataDir)).toBeUndefined()
    }
  })

  test('the same signal twice within a moment counts once', async () => {
    const host = serve(folder(configWithAnyPort()))
    await host.waitForLaunch()
    host.process.kill('SIGINT')
    host.process.kill('SIGTERM')
    expect(await host.exit).toBe(0)
    expect(readLaunch(host.dataDir)).toBeUndefined()
  })

  test('it continues when its log pipe is closed', async () => {
    const host = serve(folder(configWithAnyPort()), ['--log-level', 'debug'])
    await host.waitForLaunch()
    host.process.stderr?.destroy()
    writeFileSync(join(host.dataDir, 'config.json'), '{ broken')
    await pause(400)
    expect((await host.request('/api/config')).status).toBe(200)
  })

  test('on IPv6 loopback, launch.json holds an address that works', async () => {
    const host = serve(folder(JSON.stringify({ server: { host: '::1', port: 0 } })))
    const { url } = await host.waitForLaunch()
    expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/)
    expect((await host.request('/api/config')).status).toBe(200)
  })

  test('all its files are readable by their owner only', async () => {
    const host = await sharedHost()
    await host.request('/api/settings', { method: 'PUT', body: { patch: { sandbox: { concurrency: 3 } } } })
    expect(mode(host.dataDir)).toBe('700')
    for (const file of filesBelow(host.dataDir)) expect(`${file} ${mode(file)}`).toBe(`${file} 600`)
  })

  test('too open modes of the folder and the configuration are corrected', async () => {
    const dataDir = folder(configWithAnyPort())
    chmodSync(dataDir, 0o755)
    chmodSync(join(dataDir, 'config.json'), 0o644)
    const host = serve(dataDir)
    await host.waitForLaunch()
    expect(mode(dataDir)).toBe('700')
    expect(mode(join(dataDir, 'config.json'))).toBe('600')
  })

  test('health reports the real sandbox state, without a token', async () => {
    const host = await sharedHost()
    const { url } = await host.waitForLaunch()
    const health = await (await fetch(`${url}/api/health`)).json()
    expect(health).toMatchObject({
      ok: true,
      version: '0.1.0',
      sandboxProvider: 'bwrap',
      hostExecution: { kind: 'local-worker' },
    })
    expect((health as { hostMemMib: number }).hostMemMib).toBeGreaterThan(100)
  })

  test('the fleet listener exists exactly if fleet.host is set', async () => {
    const host = await sharedHost()
    const { fleetUrl } = await host.waitForLaunch()
    const config = JSON.parse(readFileSync(join(host.dataDir, 'config.json'), 'utf8'))
    expect(fleetUrl).toBe(`ws://127.0.0.1:${config.fleet.port}`)
    const answer = await fetch(`${fleetUrl?.replace('ws:', 'http:')}/api/health`)
    expect(answer.status).toBe(404)
  })
})

describe('exit codes', () => {
  test('78: other machines would connect without encryption, unless fleet.insecure allows it with a warning', async () => {
    const fleet = { host: '0.0.0.0', port: 0 }
    const refused = serve(folder(configWithAnyPort({ fleet })))
    expect(await refused.exit).toBe(78)
    for (const cure of ['fleet.tls.certFile', 'openssl req -x509', '"insecure": true'])
      expect(refused.err()).toContain(cure)
    expect(readLaunch(refused.dataDir)).toBeUndefined()
    const allowed = serve(folder(configWithAnyPort({ fleet: { ...fleet, insecure: true } })))
    expect((await allowed.waitForLaunch()).fleetUrl).toMatch(/^ws:/)
    await until('the warning', () => /"level":(40|"warn").*without encryption/.test(allowed.err()))
  })

  test('78: one port for both listeners, with the settings that choose another', async () => {
    const port = await freePort()
    const config = { server: { port }, fleet: { host: '127.0.0.1', port }, worker: { local: false } }
    const refused = serve(folder(JSON.stringify(config)))
    expect(await refused.exit).toBe(78)
    expect(refused.err()).toMatch(/fleet\.port \d+ is .*server\.port or fleet\.port/)
  })

  test('75: a second host on the same data directory; the first is not affected', async () => {
    const first = await sharedHost()
    await first.waitForLaunch()
    const second = serve(first.dataDir)
    expect(await second.exit).toBe(75)
    expect(second.err()).toContain(`process ${first.process.pid}`)
    expect((await first.request('/api/config')).status).toBe(200)
    expect(readLaunch(first.dataDir)?.pid).toBe(first.process.pid)
  })

  test('a lock of a killed host does not prevent a start', async () => {
    const first = serve(folder(configWithAnyPort()))
    await first.waitForLaunch()
    first.process.kill('SIGKILL')
    await first.exit
    const second = serve(first.dataDir)
    expect((await second.waitForLaunch()).pid).toBe(second.process.pid)
  })

  test.each([
    ['not JSON', '{ "server": ', 'config.json', /line 1/],
    ['a wrong field', '{"server":{"port":"4400"}}', 'config.json', /server\.port: /],
    ['an unknown field', '{"sevrer":{}}', 'config.json', /sevrer: /],
    [
      'a management listener that is not loopback',
      '{"server":{"host":"0.0.0.0"}}',
      'config.json',
      /server\.host: /,
    ],
  ])('78: a configuration that is %s, with its file and field', async (_what, config, file, field) => {
    const host = serve(folder(config))
    expect(await host.exit).toBe(78)
    expect(host.err()).toContain(file)
    expect(host.err()).toMatch(field)
  })

  test.each([
    ['70: a folder in the place of a file', 70, {}, /launch\.json[\s\S]*move that folder away/],
    ['2: a proxy of another form', 2, { HTTPS_PROXY: 'none://proxy' }, /https_proxy/],
  ])('%s ends the start with a sentence, and leaves the store closed', async (_what, code, env, sentence) => {
    const dataDir = folder(configWithAnyPort())
    if (code === 70) mkdirSync(join(dataDir, 'launch.json', 'x'), { recursive: true })
    const host = serve(dataDir, [], env)
    expect(await host.exit).toBe(code)
    expect(host.err()).toMatch(sentence)
    expect(host.err()).not.toMatch(/^ +at /m)
    rmSync(join(dataDir, 'launch.json'), { recursive: true, force: true })
    await serve(dataDir).waitForLaunch()
  })

  test('78 leaves the file as it was', async () => {
    const dataDir = folder('{"server":{"port":"x"}} ')
    await serve(dataDir).exit
    expect(readFileSync(join(dataDir, 'config.json'), 'utf8')).toBe('{"server":{"port":"x"}} ')
  })

  test('69: a port in use, by its number and the options that choose another', async () => {
    const { taken, port } = await occupyPort()
    const host = serve(folder(JSON.stringify({ server: { port }, worker: { local: false } })))
    expect(await host.exit).toBe(69)
    expect(host.err()).toContain(String(port))
    expect(host.err()).toContain('--port or server.port')
    expect(existsSync(join(host.dataDir, 'launch.json'))).toBe(false)
    const fleet = serve(folder(configWithAnyPort({ fleet: { host: '127.0.0.1' } })), [
      '--fleet-port',
      `${port}`,
    ])
    expect(await fleet.exit).toBe(69)
    expect(fleet.err()).toContain('--fleet-port or fleet.port')
    taken.close()
  })

  test('--port and --fleet-port beat the configured ports for one start', async () => {
    const { taken, port } = await occupyPort()
    const config = JSON.stringify({
      server: { port },
      fleet: { host: '127.0.0.1', port },
      worker: { local: false },
    })
    const chosen = await freePort()
    const host = serve(folder(config), ['--port', `${chosen}`, '--fleet-port=0'])
    const { url, fleetUrl } = await host.waitForLaunch()
    expect(url).toBe(`http://127.0.0.1:${chosen}`)
    expect((await host.request('/api/config')).body).toMatchObject({ server: { port }, fleet: { port } })
    expect(fleetUrl).toMatch(/^ws:\/\/127\.0\.0\.1:[1-9]\d*$/)
    expect((await fetch(`${fleetUrl?.replace('ws:', 'http:')}/api/worker/demand`)).status).toBe(403)
    expect(readFileSync(join(host.dataDir, 'config.json'), 'utf8')).toBe(config)
    taken.close()
    const wrong = runCommand(['serve', '--port', '65536'])
    expect(await wrong.exit).toBe(2)
    const idle = serve(folder(configWithAnyPort()), ['--fleet-port', '0'])
    expect((await idle.waitForLaunch()).fleetUrl).toBeUndefined()
    expect(idle.err()).toContain('fleet.host is not set')
  })

  test('2: wrong use, naming the wrong argument', async () => {
    const wrong = runCommand(['serve', '--bogus'])
    expect(await wrong.exit).toBe(2)
    expect(wrong.err()).toContain('--bogus')
  })

  test('0: --version and --help', async () => {
    const version = runCommand(['--version'])
    expect(await version.exit).toBe(0)
    expect(version.out()).toBe('0.1.0\n')
    expect(await runCommand(['--help']).exit).toBe(0)
  })
})

describe('the start banner', () => {
  test('stands on a terminal in place of the line in the log, and names what is missing', async () => {
    const dataDir = folder(configWithAnyPort({ tracker: { driver: 'local', path: tempFolder() } }))
    const terminal = runInTerminal(['serve', '--data-dir', dataDir], { NO_COLOR: '1' })
    await until('the banner', () => terminal.text().includes('Ctrl-C stops'))
    const { url } = readLaunch(dataDir) ?? { url: 'no launch.json' }
    expect(terminal.text()).toContain(`serves ${url}`)
    expect(terminal.text()).toMatch(/ {2}tracker {4}local, connected, polls every 30s\r\n/)
    expect(terminal.text()).toMatch(
      / {2}code host {2}not connected: switchyard connect codehost --data-dir \S+\r\n/,
    )
    expect(terminal.text()).toMatch(/\r\nNext: switchyard connect codehost --data-dir \S+\r\n/)
    expect(terminal.text()).not.toContain('switchyard is serving')
    terminal.type('\x03')
    expect((await terminal.waitForEnd()).code).toBe(0)
  })

  test('is absent from a pipe, from JSON and from a quiet terminal', async () => {
    const host = await sharedHost()
    await until('the line of the log', () => host.err().includes('"msg":"switchyard is serving"'))
    const [json, quiet] = [folder(configWithAnyPort()), folder(configWithAnyPort())]
    const terminals = [
      runInTerminal(['serve', '--data-dir', json, '--log-format', 'json']),
      runInTerminal(['serve', '--data-dir', quiet, '--log-level', 'warn']),
    ]
    for (const dataDir of [json, quiet]) await until('a host', () => readLaunch(dataDir) !== undefined)
    // The banner waits three seconds at most.
    await pause(3_500)
    for (const output of [host.err(), ...terminals.map(({ text }) => text())])
      expect(output).not.toContain('Ctrl-C stops')
  })
})

describe('the data directory', () => {
  test.each([
    ['SWITCHYARD_DATA_DIR', (home: string) => ({ SWITCHYARD_DATA_DIR: join(home, 'mine') }), 'mine'],
    ['XDG_DATA_HOME', (home: string) => ({ XDG_DATA_HOME: join(home, 'xdg') }), 'xdg/switchyard'],
    ['HOME', (home: string) => ({ HOME: home }), '.local/share/switchyard'],
  ])('without --data-dir: %s', async (_name, env, expected) => {
    const home = tempFolder()
    const dataDir = join(home, expected)
    const host = runCommand(['serve'], dataDir, { HOME: home, ...env(home), SWITCHYARD_TOKEN: '' })
    // If another process uses the default port, the host says so, and has still created the folder.
    await Promise.race([host.waitForLaunch().catch(() => {}), host.exit])
    expect(existsSync(join(dataDir, 'state'))).toBe(true)
  })
})

describe('the launch token', () => {
  test('may be given by the program that starts the host', async () => {
    const token = 'a-token-that-the-desktop-shell-made-up'
    const host = serve(folder(configWithAnyPort()), [], { SWITCHYARD_TOKEN: token })
    expect((await host.waitForLaunch()).token).toBe(token)
    expect((await host.request('/api/config')).status).toBe(200)
  })

  test('is refused if too short, and the log says why', async () => {
    const host = serve(folder(configWithAnyPort()), [], { SWITCHYARD_TOKEN: 'short' })
    expect((await host.waitForLaunch()).token).not.toBe('short')
    await until('a word on it', () => host.err().includes('SWITCHYARD_TOKEN'))
  })

  test('differs at each start', async () => {
    const dataDir = folder(configWithAnyPort())
    const tokens = new Set<string>()
    for (let start = 0; start < 2; start++) {
      const host = serve(dataDir)
      tokens.add((await host.waitForLaunch()).token)
      host.process.kill('SIGTERM')
      await host.exit
    }
    expect(tokens.size).toBe(2)
  })
})

describe('the log', () => {
  test('is JSON lines without a terminal', async () => {
    const host = serve(folder(configWithAnyPort()))
    await host.waitForLaunch()
    await until('a line', () => host.err().includes('\n'))
    host.process.kill('SIGTERM')
    await host.exit
    for (const line of host.err().trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('msg')
  })

  test('is readable text with --log-format human', async () => {
    const host = serve(folder(configWithAnyPort()), ['--log-format', 'human'])
    await host.waitForLaunch()
    await until('a line', () => host.err().includes('is serving'))
    expect(host.err()).toMatch(/INFO/)
    expect(host.err()).not.toMatch(/^\{/)
  })

  test('follows --log-level', async () => {
    const host = serve(folder(configWithAnyPort()), ['--log-level', 'error'])
    await host.waitForLaunch()
    host.process.kill('SIGTERM')
    await host.exit
    expect(host.err()).toBe('')
  })

  test('contains no secret', async () => {
    const planted = [
      'lin_api_plantedplantedplanted',
      'ghp_plantedplantedplantedplanted',
      'planted-client-secret',
    ]
    const host = serve(
      folder(
        configWithAnyPort({
          tracker: { apiKey: planted[0] },
          codehost: { token: planted[1] },
          connect: { trackerClientSecret: planted[2] },
        }),
      ),
      ['--log-level', 'debug'],
    )
    const { url, token } = await host.waitForLaunch()
    await fetch(`${url}/ws?token=${token}`)
    await fetch(`${url}/api/config?token=${token}`)
    await host.request('/api/settings', { method: 'PUT', body: { patch: { tracker: null } } })
    writeFileSync(join(host.dataDir, 'config.json'), `{"tracker":{"apiKey":"${planted[0]}"`)
    await until('the bad edit to be noticed', () => host.err().includes('edited into something invalid'))
    const config = await host.request('/api/config')
    host.process.kill('SIGTERM')
    await host.exit
    const output = [host.out(), host.err(), JSON.stringify(config)].join('\n')
    for (const secret of [...planted, token]) expect(output).not.toContain(secret)
  })
})

describe('a running host', () => {
  test('applies a manual edit of config.json without a restart, and shows it', async () => {
    const host = serve(folder(configWithAnyPort()))
    await host.waitForLaunch()
    writeFileSync(join(host.dataDir, 'config.json'), configWithAnyPort({ sandbox: { concurrency: 9 } }))
    await until(
      'the edit',
      async () =>
        (await host.request('/api/config')).body !== undefined &&
        JSON.stringify((await host.request('/api/config')).body).includes('"concurrency":9'),
    )
  })

  test('idle, stays under 120 MiB', async () => {
    const host = serve(folder(configWithAnyPort()))
    await host.waitForLaunch()
    const status = readFileSync(`/proc/${host.process.pid}/status`, 'utf8')
    const kib = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1])
    expect(kib).toBeLessThan(120 * 1024)
  })
})
