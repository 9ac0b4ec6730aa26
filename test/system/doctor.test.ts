/** `switchyard doctor` on a machine with one thing broken on purpose: real processes, and the broken thing named with its cure. */
import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import type { Finding } from '../../bin/cli/doctor/examine.ts'
import { formatUnit } from '../../bin/cli/service/systemd.ts'
import type { StoredConfig } from '../../protocol/config.ts'
import { PROTOCOL_VERSION } from '../../protocol/limits.ts'
import { folderNameFor } from '../../worker/run/disk/sandbox-location.ts'
import { commandPath, runCommand, serve } from '../support/command-process.ts'
import { startGithub } from '../support/github/github.ts'
import { startLinear } from '../support/linear/linear.ts'
import { runWithReadOnly } from '../support/read-only-folder.ts'
import { testAsRoot } from '../support/skips.ts'
import { connectSocket } from '../support/socket-client.ts'
import { diskFolder, tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const AGENT_KEY = 'sk-ant-planted-agent-key-0123456789'

interface Machine {
  /** The only program on the PATH besides the system's. */
  readonly bin: string
  readonly home: string
  readonly dataDir: string
  readonly env: NodeJS.ProcessEnv
}

/** A machine in order: local folders, an agent with a credential, a private data directory. */
function createMachine(more: StoredConfig = {}): Machine {
  const root = tempFolder()
  const at = (name: string) => {
    mkdirSync(join(root, name), { mode: 0o700 })
    return join(root, name)
  }
  const [home, dataDir, tickets, code] = [at('home'), at('data'), at('tickets'), at('code')]
  // The user of a sandbox passes through the folders above an agent.
  const bin = diskFolder()
  chmodSync(bin, 0o755)
  writeFileSync(join(bin, 'claude'), '#!/bin/sh\n', { mode: 0o755 })
  const config = {
    server: { port: 0 },
    tracker: { driver: 'local', path: tickets },
    codehost: { driver: 'local', path: code },
    agent: { agentAApiKey: AGENT_KEY },
    repos: { app: { remote: 'acme/app' } },
    ...more,
  }
  writeFileSync(join(dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: home, SWITCHYARD_SANDBOX_DIR: '' }
  return { bin, home, dataDir, env }
}

interface Report {
  readonly code: unknown
  readonly findings: readonly Finding[]
  readonly out: string
  readonly err: string
}

async function examine(
  { dataDir, env }: Pick<Machine, 'dataDir' | 'env'>,
  ...args: readonly string[]
): Promise<Report> {
  const doctor = runCommand(['doctor', '--json', ...args], dataDir, {
    ...env,
    SWITCHYARD_DATA_DIR: dataDir,
  })
  return report(await doctor.exit, doctor.out(), doctor.err())
}

const report = (code: unknown, out: string, err: string): Report => ({
  code,
  findings: out === '' ? [] : JSON.parse(out).findings,
  out,
  err,
})

/** The Node that runs the tests may be an old one. */
const broken = ({ findings }: Report): readonly Finding[] =>
  findings.filter(({ id, status }) => status !== 'ok' && id !== 'node')

/** Runs the command below a shell that has prepared the machine, in namespaces of its own. */
async function examineIn(
  namespaces: readonly string[],
  preparation: string,
  { dataDir, env }: Machine,
  onStart: (pid: number) => void = () => {},
): Promise<Report> {
  const command = [process.execPath, commandPath, 'doctor', '--json']
  // Only a program that is started after the users were mapped has the rights of root in the namespace.
  const prepare = ['sh', '-c', `${preparation} && exec "$0" "$@"`, ...command]
  const child = spawn('unshare', [...namespaces, 'sh', '-c', 'read -r go; exec "$0" "$@"', ...prepare], {
    env: { ...env, SWITCHYARD_DATA_DIR: dataDir },
  })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const ended = new Promise((resolve) => child.on('close', resolve))
  await new Promise((resolve) => child.once('spawn', resolve))
  await until('the namespaces', () => isShell(child.pid ?? 0))
  onStart(child.pid ?? 0)
  child.stdin.end('go\n')
  return report(await ended, out, err)
}

const isShell = (pid: number): boolean => readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sh\n'

// ---- this machine --------------------------------------------------------------------------------------------------

test('a machine in order has no finding, and each part of it is named', async () => {
  const found = await examine(createMachine())
  expect([found.code, broken(found)]).toEqual([0, []])
  expect(new Set(found.findings.map(({ id }) => id))).toEqual(
    new Set(
      'sandbox userns node git agents logins config host port tracker codehost data disk clock'
        .split(' ')
        .concat(process.geteuid?.() === 0 ? ['leftovers'] : []),
    ),
  )
})

testAsRoot('without bwrap, the package is named', async () => {
  const found = await examineIn(['-m'], 'mount --bind /dev/null /usr/bin/bwrap', createMachine())
  expect([found.code, broken(found)]).toEqual([
    1,
    [
      {
        id: 'sandbox',
        status: 'fail',
        message: 'bwrap is not installed',
        cure: expect.stringMatching(/^sudo apt-get install -y bubblewrap$/),
      },
    ],
  ])
})

testAsRoot('with user namespaces switched off, the switch is named', async () => {
  const off = 'echo 0 > /proc/sys/user/max_user_namespaces'
  const found = await examineIn(['-U', '-m'], off, createMachine(), (pid) => {
    for (const map of ['uid_map', 'gid_map']) writeFileSync(`/proc/${pid}/${map}`, '0 0 65536')
  })
  expect([found.code, broken(found)]).toEqual([
    1,
    [
      {
        id: 'userns',
        status: 'fail',
        message: expect.stringMatching(/^user namespaces are switched off$/),
        cure: expect.stringMatching(/^sudo sysctl -w user\.max_user_namespaces=15000$/),
      },
    ],
  ])
})

test('a port that is taken is named with its process and a free port', async () => {
  const blocker = createServer()
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => blocker.close())
  const { port } = blocker.address() as AddressInfo
  const found = await examine(createMachine({ server: { port } }))
  expect([found.code, broken(found)]).toEqual([
    1,
    [
      {
        id: 'port',
        status: 'fail',
        message: `${port} is taken by process ${process.pid}`,
        cure: expect.stringMatching(/^switchyard serve --port \d+$/),
      },
    ],
  ])
})

testAsRoot('on a full disk, the setting that gives room is named', async () => {
  const machine = createMachine()
  const config = readFileSync(join(machine.dataDir, 'config.json'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1M,mode=700', 'none', machine.dataDir])
  closeAfterTest(() => execFileSync('umount', ['--lazy', machine.dataDir]))
  writeFileSync(join(machine.dataDir, 'config.json'), config, { mode: 0o600 })
  const found = await examine(machine)
  expect([found.code, broken(found)]).toEqual([
    1,
    [
      {
        id: 'disk',
        status: 'fail',
        message: expect.stringMatching(/^\d+ KiB free in .*: room for 0 MiB, a run needs 1024$/),
        cure: expect.stringMatching(
          /^delete what is not needed on the disk of .*, then: switchyard config set sandbox\.retentionHours 8$/,
        ),
      },
    ],
  ])
})

test('an agent that nobody is logged in to is named with its own command, and a missing one with its installation', async () => {
  const loggedOut = createMachine({ agent: { provider: 'agentB' } })
  writeFileSync(join(loggedOut.bin, 'codex'), '#!/bin/sh\n', { mode: 0o755 })
  const missing = createMachine({ agent: { provider: 'agentC', agentCApiKey: 'AIza-planted' } })
  const [found, notInstalled] = await Promise.all([examine(loggedOut), examine(missing)])
  expect([found.code, broken(found)]).toEqual([
    1,
    [
      {
        id: 'logins',
        status: 'fail',
        message: 'codex is not logged in',
        cure: expect.stringMatching(/^codex login, then switchyard connect codex$/),
      },
    ],
  ])
  expect(broken(notInstalled)).toEqual([
    {
      id: 'agents',
      status: 'fail',
      message: expect.stringMatching(/^gemini is not installed/),
      cure: expect.stringMatching(/^sudo npm install --global .*gemini-cli$/),
    },
  ])
})

test('a data directory that cannot be written is a finding, and its cure is another one', async () => {
  const machine = createMachine()
  const file = join(machine.dataDir, '..', 'file')
  writeFileSync(file, '')
  const examineAt = async (dataDir: string) => {
    const env = { ...machine.env, SWITCHYARD_DATA_DIR: dataDir }
    const { code, out, err } = await runWithReadOnly(machine.dataDir, ['doctor', '--json'], env)
    const found = report(code, out, err).findings
    return found.filter(({ id, status }) => status !== 'ok' && /^(?:config|data)$/.test(id))
  }
  const cure = expect.stringMatching(/a folder that can be written with --data-dir$/)
  const finding = (message: RegExp) => [
    { id: 'data', status: 'fail', message: expect.stringMatching(message), cure },
  ]
  expect(await examineAt(machine.dataDir)).toEqual(finding(/cannot be used: EROFS/))
  expect(await examineAt(join(machine.dataDir, 'a', 'b'))).toEqual(finding(/b cannot be made: EROFS/))
  expect(await examineAt(file)).toEqual(finding(/file is no folder$/))
  expect(await examineAt(join(file, 'a'))).toEqual(finding(/a cannot be made: ENOTDIR/))
})

test('a configuration that does not validate is named with its path', async () => {
  const machine = createMachine()
  writeFileSync(join(machine.dataDir, 'config.json'), '{"server":{"port":"x"}}')
  expect(broken(await examine(machine))).toEqual([
    {
      id: 'config',
      status: 'fail',
      message: expect.stringMatching(/config\.json server\.port: /),
      cure: 'switchyard config edit',
    },
  ])
})

test('the folder of a worker is found by itself, and checked for what concerns a worker', async () => {
  const machine = createMachine()
  const dataDir = join(machine.home, '.local', 'share', 'switchyard-worker')
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  writeFileSync(join(dataDir, 'credential.json'), '{}')
  const doctor = runCommand(['doctor', '--json'], dataDir, { ...machine.env, SWITCHYARD_DATA_DIR: '' })
  const found = report(await doctor.exit, doctor.out(), doctor.err())
  expect([found.code, broken(found)]).toEqual([
    0,
    [
      {
        id: 'data',
        status: 'warn',
        message: expect.stringContaining(join(dataDir, 'credential.json')),
        cure: 'switchyard doctor --fix',
      },
      // The worker has a credential, so it had a database.
      { id: 'data', status: 'warn', message: expect.stringContaining('database'), cure: expect.any(String) },
    ],
  ])
  expect(found.findings).toContainEqual({ id: 'agents', status: 'ok', message: 'claude' })
  expect(found.findings.map(({ id }) => id)).not.toContain('config')
})

test('a truncated database is named with the way to restore it', async () => {
  const machine = createMachine()
  const host = serve(machine.dataDir, ['--log-level', 'silent'], machine.env)
  await host.waitForLaunch()
  host.process.kill('SIGTERM')
  await host.exit
  expect(broken(await examine(machine))).toEqual([])
  truncateSync(join(machine.dataDir, 'state', 'data.mdb'), 20_000)
  expect(broken(await examine(machine))).toEqual([
    {
      id: 'data',
      status: 'fail',
      message: expect.stringContaining('data.mdb is truncated'),
      cure: expect.stringContaining('cp -a'),
    },
  ])
})

// ---- tracker, code host, clock -------------------------------------------------------------------------------------

test('refused credentials and missing rights are named, each with the command that connects', async () => {
  const [linear, github] = [await startLinear(), await startGithub({ people: [{ login: 'mona' }] })]
  closeAfterTest(() => Promise.all([linear.stop(), github.close()]))
  await github.addRepo({ fullName: 'acme/app', members: { mona: 'pull' } })
  const withTokens = (apiKey: string, token: string): StoredConfig => ({
    tracker: { driver: 'linear', apiUrl: linear.url, apiKey },
    codehost: { driver: 'github', apiUrl: github.apiUrl, token },
  })
  const bad = await examine(createMachine(withTokens('lin_api_wrong', 'ghp_wrong')))
  expect([bad.code, broken(bad)]).toEqual([
    1,
    [
      {
        id: 'tracker',
        status: 'fail',
        message: expect.stringMatching(/^linear: /),
        cure: 'switchyard connect tracker',
      },
      {
        id: 'codehost',
        status: 'fail',
        message: expect.stringMatching(/^github: GitHub refused the token/),
        cure: 'switchyard connect codehost',
      },
    ],
  ])
  github.addToken('mona', { value: 'ghp_mona', scopes: ['repo'] })
  const mayNotPush = await examine(createMachine(withTokens('', 'ghp_mona')))
  expect(broken(mayNotPush)).toEqual([
    {
      id: 'tracker',
      status: 'fail',
      message: 'linear is not connected',
      cure: 'switchyard connect tracker',
    },
    {
      id: 'codehost',
      status: 'fail',
      message: expect.stringMatching(/^github: the token may not push to acme\/app$/),
      cure: 'switchyard connect codehost',
    },
  ])
  expect(bad.out + mayNotPush.out).not.toMatch(/lin_api_wrong|ghp_/)
})

test('a clock that is off is named with how far, by the time of the services that are asked anyway', async () => {
  const github = await startGithub({ people: [{ login: 'mona', tokens: ['ghp_mona'] }] })
  closeAfterTest(() => github.close())
  await github.addRepo({ fullName: 'acme/app', members: { mona: 'push' } })
  const machine = createMachine({
    codehost: { driver: 'github', apiUrl: github.apiUrl, token: 'ghp_mona' },
  })
  const ahead = join(machine.home, 'ahead.cjs')
  writeFileSync(ahead, 'const now = Date.now; Date.now = () => now() + 3_600_000')
  const env = { ...machine.env, NODE_OPTIONS: `--require ${ahead}` }
  const [found, inOrder] = await Promise.all([examine({ ...machine, env }), examine(machine)])
  expect([found.code, broken(found)]).toEqual([
    1,
    [
      {
        id: 'clock',
        status: 'fail',
        message: expect.stringMatching(/^this clock is (1h00m|59m) ahead of 127\.0\.0\.1$/),
        cure: expect.stringMatching(/^sudo timedatectl set-ntp true$/),
      },
    ],
  ])
  expect(broken(inOrder)).toEqual([])
})

// ---- with a running host -------------------------------------------------------------------------------------------

test('a worker of an older version, one of another protocol and one that is away are named by the running host', async () => {
  const machine = createMachine(WITHOUT_WORKER)
  const host = serve(machine.dataDir, ['--log-level', 'silent'], machine.env)
  const { url } = await host.waitForLaunch()
  const { body } = await host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const token = String(Reflect.get(Object(body), 'token'))
  const dial = async (protocolVersion: number) => {
    const socket = connectSocket(Number(new URL(url).port), '/ws/worker', { authorization: '' })
    await socket.opened
    socket.send({
      type: 'register',
      protocolVersion,
      auth: { kind: 'pairing', token },
      name: 'forge',
      capabilities: {
        os: 'linux',
        arch: 'x64',
        provider: 'bwrap',
        maxConcurrency: 1,
        version: '0.0.9',
        agents: { agentA: { found: true, loggedIn: false } },
      },
      activeLeases: [],
    })
    return socket
  }
  const newer = await dial(PROTOCOL_VERSION + 1)
  await newer.closed
  const older = await dial(PROTOCOL_VERSION)
  await older.firstFrames(1)
  const found = await examine(machine)
  expect([found.code, broken(found)]).toEqual([
    1,
    [
      {
        id: 'skew',
        status: 'fail',
        message: expect.stringContaining(`does not speak protocol ${PROTOCOL_VERSION}`),
        cure: expect.stringMatching(/^install switchyard 0\.1\.0 on it/),
      },
      {
        id: 'skew',
        status: 'warn',
        message: 'worker forge is 0.0.9, the host 0.1.0',
        cure: expect.stringMatching(/USER@forge$/),
      },
    ],
  ])
  expect(found.findings).toContainEqual({
    id: 'agents',
    status: 'ok',
    message: 'claude on forge',
  })
  older.close()
  await older.closed
  expect(broken(await examine(machine)).map(({ id, message }) => `${id} ${message}`)).toContain(
    'workers none of 1 workers is online',
  )
})

// ---- --fix and --bundle --------------------------------------------------------------------------------------------

/** A host whose worker would still be starting. */
const WITHOUT_WORKER: StoredConfig = { worker: { local: false } }

const dataOf = ({ findings }: Report): readonly Finding[] => findings.filter(({ id }) => id === 'data')

test('--fix closes files to other users and removes what a killed host left, and may be run twice', async () => {
  const machine = createMachine(WITHOUT_WORKER)
  const host = serve(machine.dataDir, ['--log-level', 'silent'], machine.env)
  await host.waitForLaunch()
  host.process.kill('SIGKILL')
  await host.exit
  const config = join(machine.dataDir, 'config.json')
  chmodSync(config, 0o644)
  chmodSync(machine.dataDir, 0o755)
  const before = await examine(machine)
  expect(dataOf(before)).toMatchObject(
    Array.from({ length: 3 }, () => ({ status: 'warn', cure: 'switchyard doctor --fix' })),
  )
  const fixed = await examine(machine, '--fix')
  expect(JSON.parse(fixed.out).fixed).toEqual([
    { id: 'data', message: `${machine.dataDir} has mode 0700` },
    { id: 'data', message: `${config} has mode 0600` },
    { id: 'data', message: expect.stringMatching(/^launch\.json of an ended host is removed$/) },
  ])
  expect(dataOf(fixed)).toMatchObject([{ status: 'ok' }])
  expect([config, machine.dataDir].map((path) => statSync(path).mode & 0o777)).toEqual([0o600, 0o700])
  expect(JSON.parse((await examine(machine, '--fix')).out).fixed).toEqual([])
})

testAsRoot('--fix deletes the sandboxes of a data directory that was deleted', async () => {
  const machine = createMachine()
  const sandboxes = tempFolder()
  const deleted = join(machine.home, 'deleted')
  const folder = join(sandboxes, folderNameFor(deleted))
  const record = join(folder, 'belongs-to')
  mkdirSync(folder)
  writeFileSync(record, `${deleted}\n${statSync(machine.home).dev}\n`)
  utimesSync(record, 0, 0)
  const env = { ...machine.env, SWITCHYARD_SANDBOX_DIR: sandboxes }
  expect(broken(await examine({ ...machine, env }))).toMatchObject([{ id: 'leftovers', status: 'warn' }])
  const fixed = await examine({ ...machine, env }, '--fix')
  expect([fixed.code, broken(fixed), existsSync(folder)]).toEqual([0, [], false])
})

function installUnit({ dataDir, home }: ReturnType<typeof createMachine>): void {
  const units = join(home, '.config', 'systemd', 'user')
  mkdirSync(units, { recursive: true })
  const program = { node: process.execPath, script: commandPath, dataDir, home, environment: {} }
  const words = ['serve', '--data-dir', dataDir]
  const unit = formatUnit(program, { role: 'host', name: 'switchyard', words, stopSeconds: 60 })
  writeFileSync(join(units, 'switchyard.service'), unit)
}

test('--bundle holds the log of a host that is a service', async () => {
  const machine = createMachine()
  installUnit(machine)
  const journal = '#!/bin/sh\necho "2026-11-22T14:32:00+0000 host says $*, Bearer planted-bearer-token"\n'
  writeFileSync(join(machine.bin, 'journalctl'), journal, { mode: 0o755 })
  const file = join(machine.home, 'report.tar.gz')
  await examine(machine, '--bundle', file)
  const log = execFileSync('tar', ['-xzOf', file, 'switchyard-doctor/host.log']).toString()
  expect(log).toMatch(/host says --user --unit switchyard\.service .*Bearer \*\*\*$/m)
})

test('--bundle holds the end of a log that is longer than fits', async () => {
  const machine = createMachine()
  installUnit(machine)
  const journal = "#!/bin/sh\necho newest\nyes '2026-11-22T14:32:00+0000 an older line' | head -c 3000000\n"
  writeFileSync(join(machine.bin, 'journalctl'), journal, { mode: 0o755 })
  const file = join(machine.home, 'report.tar.gz')
  await examine(machine, '--bundle', file)
  const log = execFileSync('tar', ['-xzOf', file, 'switchyard-doctor/host.log'], { maxBuffer: 4_000_000 })
  expect(log.length).toBeGreaterThan(500_000)
  expect(log.toString()).toMatch(
    /^2026-11-22T14:32:00\+0000 an older line\n(?:.*\n)*.*an older line\nnewest\n$/,
  )
})

test('--bundle writes what a report needs, none of the secrets, and no file twice', async () => {
  const codehostToken = 'a-token-without-any-known-prefix'
  const machine = createMachine({
    ...WITHOUT_WORKER,
    connect: { trackerClientId: 'id', trackerClientSecret: 'planted-client-secret' },
  })
  const fromEnvironment = 'planted-environment-secret'
  const env = { ...machine.env, SOME_API_KEY: fromEnvironment }
  const host = serve(machine.dataDir, ['--log-level', 'silent'], machine.env)
  const { token } = await host.waitForLaunch()
  writeFileSync(
    join(machine.dataDir, 'credential.json'),
    JSON.stringify({ workerId: 'wk-0123456789abcdef', secret: codehostToken }),
    { mode: 0o600 },
  )
  const secrets = [AGENT_KEY, 'planted-client-secret', fromEnvironment, token, codehostToken]
  const encoded = secrets.map((secret) => Buffer.from(secret).toString('base64'))
  writeFileSync(join(machine.dataDir, 'host.log'), `it says ${[...secrets, ...encoded].join(' ')} here\n`)
  writeFileSync(join(machine.dataDir, `planted ${codehostToken}`), 'never read')
  const file = join(machine.home, 'report.tar.gz')
  const written = await examine({ ...machine, env }, '--bundle', file)
  expect(statSync(file).mode & 0o777).toBe(0o600)

  const names = execFileSync('tar', ['-tzf', file]).toString().trim().split('\n')
  expect(names).toEqual(
    ['about.json', 'findings.json', 'config.json', 'host.json', 'metrics.txt', 'files.txt', 'host.log'].map(
      (name) => `switchyard-doctor/${name}`,
    ),
  )
  const read = (name: string) => execFileSync('tar', ['-xzOf', file, `switchyard-doctor/${name}`]).toString()
  const content = gunzipSync(readFileSync(file)).toString()
  for (const secret of [...secrets, ...encoded.map((text) => text.slice(0, -3))])
    expect(content).not.toContain(secret)
  expect(JSON.parse(read('about.json'))).toMatchObject({ switchyard: '0.1.0', place: 'host' })
  expect(JSON.parse(read('findings.json')).findings).toEqual(written.findings)
  expect(JSON.parse(read('config.json')).agent.agentAApiKey).toBe('***')
  expect(JSON.parse(read('host.json')).health.version).toBe('0.1.0')
  expect(read('files.txt')).toMatch(/^100600 .* config\.json$/m)
  expect(read('files.txt')).not.toContain('never read')
  expect(read('host.log')).toMatch(/^it says \*\*\* /)

  const again = await examine(machine, '--bundle', file)
  expect([again.code, again.out, JSON.parse(again.err)]).toEqual([
    2,
    '',
    { error: expect.stringMatching(/report\.tar\.gz exists and is left/), cure: 'name another file' },
  ])
})
