/** `switchyard service` with a systemctl and a launchctl that write down how they are called. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { ServiceMachine } from '../../../bin/cli/service/machine.ts'
import { status, uninstall } from '../../../bin/cli/service/service.ts'
import type { InstallMachine } from '../../../bin/cli/service/service-install.ts'
import { serviceInstall } from '../../../bin/cli/service/service-install.ts'
import { yes } from '../../../core/result.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { commandPath, configWithAnyPort, readLaunch, runCommand } from '../../support/command-process.ts'
import { type FakeHostApi, fakeWorker, WORKER_ID } from '../../support/fake-host-api.ts'
import { readUnitWords } from '../../support/read-unit.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

/** The worker redeems its token when it starts, and is online at once. */
const SYSTEMCTL = `#!/bin/sh
worker="$SWITCHYARD_DATA_DIR/worker"
case "$*" in
  *Version*) [ ! -e "$FAKE/no-bus" ] || { echo 'Failed to connect to bus: No medium found' >&2; exit 1; }; exit 0;;
  '--user show switchyard-worker'*) cat "$FAKE/worker-state"; exit 0;;
  '--user show'*) cat "$FAKE/state"; exit 0;;
esac
echo "systemctl $*" >> "$FAKE/calls"
case "$*" in
  *restart*switchyard-worker*)
    [ ! -e "$worker/token" ] || { stat -c %a "$worker/token"; cat "$worker/token"; } >> "$FAKE/tokens"
    cp "$FAKE/worker-after-start" "$FAKE/worker-state"
    [ ! -e "$worker/token" ] || { mv "$worker/token" "$FAKE/redeemed"; cp "$FAKE/credential.json" "$worker"; };;
  *disable*switchyard-worker*) cp "$FAKE/stopped" "$FAKE/worker-state";;
  *restart*) cp "$FAKE/after-start" "$FAKE/state"; cp "$FAKE/launch.json" "$SWITCHYARD_DATA_DIR"
    [ ! -e "$FAKE/job-fails" ] || { echo 'Job for switchyard.service failed.' >&2; exit 1; };;
  *disable*) cp "$FAKE/stopped" "$FAKE/state";;
esac
`
const LAUNCHCTL = `#!/bin/sh
case "$1" in
  print-disabled) echo '"dev.switchyard.host" => enabled'; exit 0;;
  print) case "$2" in */*/*) [ -e "$FAKE/loaded" ] && cat "$FAKE/after-start" || exit 113;; esac; exit 0;;
esac
echo "launchctl $*" >> "$FAKE/calls"
case "$1" in
  bootstrap) [ ! -e "$FAKE/ending" ] || { rm "$FAKE/ending"; echo 'Bootstrap failed: 5: Input/output error' >&2; exit 5; }
    touch "$FAKE/loaded"; cp "$FAKE/launch.json" "$SWITCHYARD_DATA_DIR";;
  bootout) rm "$FAKE/loaded" || exit 3; touch "$FAKE/ending";;
esac
`
const LOGINCTL = '#!/bin/sh\ncat "$FAKE/linger"\n'

const unitState = (active: string, sub: string, pid: number, exit = 0): string =>
  [
    `ActiveState=${active}`,
    `SubState=${sub}`,
    'UnitFileState=enabled',
    `MainPID=${pid}`,
    `ExecMainCode=${exit === 0 ? 0 : 1}`,
    `ExecMainStatus=${exit}`,
    'ActiveEnterTimestamp=Sun 2026-03-01 08:30:00 UTC',
    '',
  ].join('\n')
const STOPPED = unitState('inactive', 'dead', 0).replace('=enabled', '=disabled')

interface Machine extends InstallMachine {
  readonly dataDir: string
  readonly hostApi: FakeHostApi
  /** The commands that changed something since the last question. */
  readonly calls: () => string[]
  readonly write: (name: string, text: string) => void
}

/** A machine whose service answers as this process, which serves like a host. */
async function openMachine(platform: NodeJS.Platform = 'linux'): Promise<Machine> {
  const fake = tempFolder()
  const home = join(fake, 'home of ann')
  const dataDir = join(home, 'da%ta')
  mkdirSync(dataDir, { recursive: true })
  const write = (name: string, text: string) => writeFileSync(join(fake, name), text)
  for (const [name, text] of Object.entries({
    systemctl: SYSTEMCTL,
    launchctl: LAUNCHCTL,
    loginctl: LOGINCTL,
  })) {
    write(name, text)
    chmodSync(join(fake, name), 0o755)
  }
  write('calls', '')
  for (const name of ['state', 'worker-state', 'stopped']) write(name, STOPPED)
  write('worker-after-start', unitState('active', 'running', 4712))
  write('credential.json', JSON.stringify({ workerId: WORKER_ID, secret: `wc-${'x'.repeat(43)}` }))
  write('linger', 'no\n')
  write(
    'after-start',
    platform === 'linux'
      ? unitState('active', 'running', process.pid)
      : `\tstate = running\n\tpid = ${process.pid}\n`,
  )
  const { url, hostApi } = await openTestServer()
  const worker = { ...fakeWorker(WORKER_ID), connection: 'online' as const }
  hostApi.workersById.set(WORKER_ID, worker)
  hostApi.mintPairingToken = () => yes({ token: 'wp-minted', expiresAt: '2026-03-01T09:10:00.000Z' })
  const launch = { pid: process.pid, version: '0', startedAt: '2026-03-01T08:30:00.000Z', url, token: TOKEN }
  write('launch.json', JSON.stringify(launch))
  return {
    platform,
    env: {
      PATH: `${fake}:/usr/bin:/bin:relative`,
      FAKE: fake,
      SWITCHYARD_DATA_DIR: dataDir,
      CODEX_HOME: '/srv/codex',
      ANTHROPIC_API_KEY: 'sk-ant-api03-secret-of-ann',
    },
    home,
    uid: 501,
    userName: 'ann',
    node: process.execPath,
    script: commandPath,
    findSandbox: async () =>
      platform === 'linux' ? { ok: true } : { ok: false, detail: 'sandboxes need Linux' },
    dataDir,
    hostApi,
    write,
    calls: () => {
      const calls = readFileSync(join(fake, 'calls'), 'utf8').split('\n').filter(Boolean)
      write('calls', '')
      return calls
    },
  }
}

const unitOf = ({ home }: ServiceMachine, name = 'switchyard'): string =>
  join(home, `.config/systemd/user/${name}.service`)
const SINGLE = { isSingle: true }
const plistOf = ({ home }: ServiceMachine): string =>
  join(home, 'Library/LaunchAgents/dev.switchyard.host.plist')

/** The arguments of the program that a unit starts. */
const wordsOf = (unit = ''): string[] =>
  readUnitWords(/^ExecStart=(.*)$/m.exec(unit)?.[1] ?? '', true).slice(2)
const readIfThere = (file: string): string => (existsSync(file) ? readFileSync(file, 'utf8') : '')

/** Each command on that machine; a pipe takes the output. */
async function openCommands(machine: Machine) {
  const { print } = await openCommandHost()
  return {
    install: (options: { dryRun?: boolean; isSingle?: boolean; json?: boolean; dataDir?: string } = {}) =>
      print((context) => serviceInstall(context, machine), { options }),
    status: (options: { json?: boolean } = {}) => print((context) => status(context, machine), { options }),
    uninstall: () => print((context) => uninstall(context, machine)),
  }
}

describe('systemd, host and worker', () => {
  const HOST_CALLS = ['daemon-reload', 'enable switchyard.service', 'restart switchyard.service']
  const WORKER_CALLS = [
    'daemon-reload',
    'enable switchyard-worker.service',
    'restart switchyard-worker.service',
  ]
  const calls = (...words: readonly string[]) => words.map((word) => `systemctl --user ${word}`)
  const workerUnitOf = (machine: ServiceMachine): string => unitOf(machine, 'switchyard-worker')
  const tokensOf = ({ env }: Machine): string => readIfThere(join(env.FAKE ?? '', 'tokens'))
  const setRuns = ({ hostApi }: Machine, activeRuns: number) =>
    hostApi.workersById.set(WORKER_ID, { ...fakeWorker(WORKER_ID), connection: 'online', activeRuns })

  test('service install starts a host without a worker and a worker, which it pairs once', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    const { out } = await commands.install()
    expect(out).toMatch(/^installed: the host .* \d+\ninstalled: the worker .* 4712\n$/)
    expect(machine.calls()).toEqual(calls(...HOST_CALLS, ...WORKER_CALLS))
    const folder = join(machine.dataDir, 'worker')
    const [host, worker] = [unitOf(machine), workerUnitOf(machine)].map((file) => readFileSync(file, 'utf8'))
    expect(wordsOf(host)).toEqual(['serve', '--data-dir', machine.dataDir, '--no-local-worker'])
    expect(wordsOf(worker)).toEqual([
      ...['worker', '--host-data-dir', machine.dataDir, '--data-dir', folder],
      ...['--token-file', join(folder, 'token'), '--concurrency', '2'],
    ])
    expect(worker).toMatch(/^TimeoutStopSec=7500$/m)
    expect(tokensOf(machine)).toBe('600\nwp-minted\n')
    expect(`${host}${worker}`).not.toContain('wp-')
    expect((await commands.install()).out).toMatch(
      /^nothing changed: the host .*\nnothing changed: the worker /,
    )
    expect([machine.calls(), tokensOf(machine)]).toEqual([[], '600\nwp-minted\n'])
  })

  test('the worker gets the slots of the configuration, and may use the folder of a local code host', async () => {
    const machine = await openMachine()
    const config = {
      sandbox: { concurrency: 5, maxRunMinutes: 30 },
      codehost: { driver: 'local', path: 'code' },
    }
    writeFileSync(join(machine.dataDir, 'config.json'), JSON.stringify(config))
    await (await openCommands(machine)).install()
    const unit = readFileSync(workerUnitOf(machine), 'utf8')
    expect(wordsOf(unit).slice(-3)).toEqual([
      '--concurrency',
      '5',
      `--local-repos=${join(machine.home, 'code')}`,
    ])
    expect(unit).toMatch(/^TimeoutStopSec=2100$/m)
  })

  test('a worker that the host does not know any more is paired again, and the host goes on', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    await commands.install()
    machine.calls()
    const unknown = JSON.stringify({ workerId: 'wk-00000000000000ff', secret: `wc-${'x'.repeat(43)}` })
    writeFileSync(join(machine.dataDir, 'worker', 'credential.json'), unknown, { mode: 0o600 })
    expect((await commands.install()).out).toMatch(/^nothing changed: the host .*\nstarted: the worker /)
    expect(machine.calls().at(-1)).toBe('systemctl --user restart switchyard-worker.service')
    expect(tokensOf(machine)).toBe('600\nwp-minted\n600\nwp-minted\n')
  })

  test('another form is installed once no run is at work, with the same worker', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    const folder = join(machine.dataDir, 'worker')
    mkdirSync(folder, { mode: 0o700 })
    const credential = readFileSync(join(machine.env.FAKE ?? '', 'credential.json'))
    writeFileSync(join(folder, 'credential.json'), credential, { mode: 0o600 })
    await commands.install(SINGLE)
    machine.calls()
    const refused = {
      code: 1,
      cure: expect.stringMatching(/^switchyard pause --wait, then: switchyard service/),
    }
    setRuns(machine, 2)
    await expect(commands.install()).rejects.toMatchObject(refused)
    expect([machine.calls(), existsSync(workerUnitOf(machine))]).toEqual([[], false])
    setRuns(machine, 0)
    expect((await commands.install()).out).toMatch(
      /^updated and restarted: the host .*\ninstalled: the worker /,
    )
    expect(machine.calls()).toEqual(
      calls('daemon-reload', 'reset-failed switchyard.service', ...HOST_CALLS.slice(1), ...WORKER_CALLS),
    )
    expect(tokensOf(machine)).toBe('')
    setRuns(machine, 1)
    for (const command of [() => commands.install(SINGLE), commands.uninstall])
      await expect(command()).rejects.toMatchObject(refused)
    expect(machine.calls()).toEqual([])
    setRuns(machine, 0)
    await commands.install(SINGLE)
    expect(machine.calls()[0]).toBe('systemctl --user disable --now switchyard-worker.service')
    expect(wordsOf(readFileSync(unitOf(machine), 'utf8'))).not.toContain('--no-local-worker')
    expect(existsSync(workerUnitOf(machine))).toBe(false)
  })

  test('runs go on when the host restarts, and when the worker gets another unit', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    await commands.install()
    machine.calls()
    setRuns(machine, 2)
    for (const file of [unitOf(machine), workerUnitOf(machine)])
      writeFileSync(file, readFileSync(file, 'utf8').replace('RestartSec=10', 'RestartSec=99'))
    await commands.install()
    expect(machine.calls().filter((call) => call.includes('restart'))).toEqual(
      calls('restart switchyard.service', 'restart --no-block switchyard-worker.service'),
    )
  })

  test('without a sandbox, and with worker.local false, there is a host alone, and the reason', async () => {
    const machine = await openMachine()
    const bare = { ...machine, findSandbox: async () => ({ ok: false as const, detail: 'no bubblewrap' }) }
    const { err } = await (await openCommands(bare)).install()
    expect(err).toMatch(/^This machine can't execute runs: no bubblewrap$/m)
    writeFileSync(join(machine.dataDir, 'config.json'), '{ "worker": { "local": false } }')
    const second = await (await openCommands(machine)).install()
    expect([second.out, second.err]).toEqual([
      expect.stringMatching(/^nothing changed: the host [^\n]*\n$/),
      expect.stringMatching(/^worker\.local is false/m),
    ])
    expect(existsSync(workerUnitOf(machine))).toBe(false)
  })

  test('a worker that ends at its start is named with its exit code and its log', async () => {
    const machine = await openMachine()
    machine.write('worker-after-start', unitState('failed', 'failed', 0, 69))
    await expect((await openCommands(machine)).install()).rejects.toMatchObject({
      code: 1,
      message: expect.stringMatching(/its worker ended with exit code 69/),
      cure: expect.stringMatching(/--unit switchyard-worker /),
    })
  })

  test('service status and uninstall are about both', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    await commands.install()
    machine.calls()
    const running = await commands.status()
    expect([running.code, running.out]).toEqual([
      0,
      expect.stringMatching(/^running since .*\nworker {4}running since 09:30, process 4712\n/),
    ])
    machine.write('worker-state', unitState('failed', 'failed', 0, 70))
    const failed = await commands.status({ json: true })
    expect([failed.code, JSON.parse(failed.out)]).toMatchObject([
      1,
      { running: true, worker: { running: false, exitCode: 70, file: workerUnitOf(machine) } },
    ])
    expect((await commands.uninstall()).out).toBe(
      `removed: ${workerUnitOf(machine)}\nremoved: ${unitOf(machine)}\n`,
    )
    expect(machine.calls()[0]).toBe('systemctl --user disable --now switchyard-worker.service')
    expect((await commands.uninstall()).out).toMatch(/^not installed/)
  })

  test('service install --dry-run prints both units, and mints nothing', async () => {
    const machine = await openMachine()
    const { out } = await (await openCommands(machine)).install({ dryRun: true, json: true })
    expect(JSON.parse(out)).toMatchObject({
      file: unitOf(machine),
      change: 'new',
      worker: { file: workerUnitOf(machine), change: 'new', commands: calls(...WORKER_CALLS) },
    })
    expect([machine.calls(), tokensOf(machine), existsSync(unitOf(machine))]).toEqual([[], '', false])
  })
})

describe('systemd, one service', () => {
  test('service install writes the unit, enables and starts it; a second one changes nothing', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    const first = await commands.install(SINGLE)
    expect(first.out).toMatch(new RegExp(`^installed: .* ${process.pid}\n$`))
    expect(machine.calls()).toEqual([
      'systemctl --user daemon-reload',
      'systemctl --user enable switchyard.service',
      'systemctl --user restart switchyard.service',
    ])
    const unit = readFileSync(unitOf(machine), 'utf8')
    expect(unit).toContain(`"serve" "--data-dir" "${machine.dataDir.replace('%', '%%')}"\n`)
    expect(unit).toContain(`:/usr/bin:/bin:${dirname(process.execPath)}"`.replace(':/usr/bin"', '"'))
    expect(unit).toContain('Environment="CODEX_HOME=/srv/codex"')
    expect(unit).not.toMatch(/relative|secret-of-ann/)
    expect((await commands.install(SINGLE)).out).toMatch(
      /^nothing changed: the host runs as process \d+ for 30m\n/,
    )
    expect(machine.calls()).toEqual([])
    expect(readFileSync(unitOf(machine), 'utf8')).toBe(unit)
  })

  test('a unit that differs is replaced, and the host is restarted', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    await commands.install(SINGLE)
    machine.calls()
    const unit = readFileSync(unitOf(machine), 'utf8')
    writeFileSync(unitOf(machine), unit.replace('RestartSec=10', 'RestartSec=99'))
    expect((await commands.install(SINGLE)).out).toMatch(/^updated and restarted/)
    expect(machine.calls()).toContain('systemctl --user restart switchyard.service')
    expect(readFileSync(unitOf(machine), 'utf8')).toBe(unit)
  })

  test('another data directory takes its place, and the old one is named', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    await commands.install(SINGLE)
    const dataDir = tempFolder()
    writeFileSync(join(dataDir, 'launch.json'), readFileSync(join(machine.dataDir, 'launch.json')))
    expect((await commands.install({ ...SINGLE, dataDir })).err).toContain(machine.dataDir)
    expect(readFileSync(unitOf(machine), 'utf8')).toContain(dataDir)
  })

  test('a stopped service of the same unit is started', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    await commands.install(SINGLE)
    machine.calls()
    machine.write('state', STOPPED)
    rmSync(join(machine.dataDir, 'launch.json'))
    machine.write('after-start', unitState('failed', 'failed', 0, 78))
    await expect(commands.install(SINGLE)).rejects.toMatchObject({
      code: 1,
      message: expect.stringMatching(/exit code 78/),
      cure: expect.stringMatching(/^journalctl --user/),
    })
    expect(machine.calls()).toEqual([
      'systemctl --user daemon-reload',
      'systemctl --user reset-failed switchyard.service',
      'systemctl --user enable switchyard.service',
      'systemctl --user restart switchyard.service',
    ])
  })

  test('a start that fails names the exit code of the host, or else what systemd says', async () => {
    const installAfter = async (state: string) => {
      const machine = await openMachine()
      machine.write('job-fails', '')
      machine.write('after-start', state)
      await (await openCommands(machine)).install(SINGLE)
    }
    await expect(installAfter(unitState('activating', 'auto-restart', 0, 70))).rejects.toMatchObject({
      message: expect.stringMatching(/exit code 70/),
      cure: expect.stringMatching(/^journalctl --user/),
    })
    await expect(installAfter(STOPPED)).rejects.toMatchObject({
      message: expect.stringMatching(/restart switchyard\.service failed: Job for/),
    })
  })

  test('service install --dry-run prints the unit and the commands, and changes nothing', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    const { out, err } = await commands.install({ ...SINGLE, dryRun: true })
    expect(out).toContain(unitOf(machine))
    expect(out).toContain('RestartPreventExitStatus=')
    expect(out).toMatch(/\nsystemctl --user restart switchyard\.service\n$/)
    expect(err).toMatch(/Nothing was changed/)
    expect([machine.calls(), existsSync(unitOf(machine))]).toEqual([[], false])
  })

  test('a unit of somebody else is neither replaced nor removed', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    mkdirSync(dirname(unitOf(machine)), { recursive: true })
    writeFileSync(unitOf(machine), '[Service]\nExecStart=/bin/true\n')
    for (const command of [() => commands.install(SINGLE), commands.status, commands.uninstall])
      await expect(command()).rejects.toMatchObject({ code: 1, cure: expect.stringMatching(/^mv /) })
    expect(readFileSync(unitOf(machine), 'utf8')).toBe('[Service]\nExecStart=/bin/true\n')
    expect(machine.calls()).toEqual([])
  })

  test('a host that was started by hand is named, and nothing is written', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    const launch = JSON.parse(readFileSync(join(machine.env.FAKE ?? '', 'launch.json'), 'utf8'))
    writeFileSync(join(machine.dataDir, 'launch.json'), JSON.stringify({ ...launch, pid: 4711 }))
    await expect(commands.install(SINGLE)).rejects.toMatchObject({
      code: 1,
      message: expect.stringMatching(/process 4711/),
    })
    expect([machine.calls(), existsSync(unitOf(machine))]).toEqual([[], false])
  })

  test('without a user manager, or without systemd, the error has a cure', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    machine.write('no-bus', '')
    await expect(commands.install(SINGLE)).rejects.toMatchObject({
      code: 1,
      message: expect.stringMatching(/ann: Failed to connect to bus/),
      cure: expect.stringMatching(/su or sudo/),
    })
    const bare = { ...machine, env: { ...machine.env, PATH: '/nowhere' } }
    await expect((await openCommands(bare)).install(SINGLE)).rejects.toMatchObject({
      code: 1,
      cure: expect.stringMatching(/^switchyard serve/),
    })
    expect(existsSync(unitOf(machine))).toBe(false)
  })

  test('service status tells by its words and its exit code whether it runs', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    expect(await commands.status()).toMatchObject({ code: 1, out: 'not installed\n' })
    await commands.install(SINGLE)
    const running = await commands.status()
    expect(running.code).toBe(0)
    expect(running.out.split('\n')[0]).toBe(`running since 09:30, process ${process.pid}`)
    expect(running.err).toMatch(/loginctl enable-linger ann/)
    machine.write('linger', 'yes\n')
    expect((await commands.status()).err).not.toMatch(/linger/)
    expect(JSON.parse((await commands.status({ json: true })).out)).toMatchObject({
      manager: 'systemd',
      file: unitOf(machine),
      installed: true,
      enabled: true,
      running: true,
      state: 'active',
      pid: process.pid,
      since: '2026-03-01T08:30:00.000Z',
      dataDir: machine.dataDir,
    })
    machine.write('state', unitState('activating', 'auto-restart', 0, 69))
    const failed = await commands.status()
    expect([failed.code, failed.out]).toEqual([1, expect.stringMatching(/^not running.*auto-restart.*69/)])
  })

  test('service uninstall removes what install made, says what stays, and may be repeated', async () => {
    const machine = await openMachine()
    const commands = await openCommands(machine)
    await commands.install(SINGLE)
    machine.calls()
    const { out, err } = await commands.uninstall()
    expect(out).toBe(`removed: ${unitOf(machine)}\n`)
    expect(err).toContain(machine.dataDir)
    expect(existsSync(unitOf(machine))).toBe(false)
    expect(machine.calls()).toEqual([
      'systemctl --user disable --now switchyard.service',
      'systemctl --user daemon-reload',
      'systemctl --user reset-failed switchyard.service',
    ])
    expect((await commands.uninstall()).out).toMatch(/^not installed/)
    expect(machine.calls()).toEqual([])
  })
})

describe('launchd', () => {
  test('installs, updates and removes its agent', async () => {
    const machine = await openMachine('darwin')
    const commands = await openCommands(machine)
    expect((await commands.install()).out).toMatch(/^installed/)
    expect(machine.calls()).toEqual([
      'launchctl enable gui/501/dev.switchyard.host',
      `launchctl bootstrap gui/501 ${plistOf(machine)}`,
    ])
    expect((await commands.install()).out).toMatch(/^nothing changed/)
    expect(machine.calls()).toEqual([])
    const plist = readFileSync(plistOf(machine), 'utf8')
    writeFileSync(plistOf(machine), plist.replace('<integer>60</integer>', '<integer>99</integer>'))
    expect((await commands.install()).out).toMatch(/^updated/)
    // The first try comes before the old host has ended.
    expect(machine.calls().map((call) => call.split(' ')[1])).toEqual([
      'bootout',
      'enable',
      'bootstrap',
      'bootstrap',
    ])
    expect(await commands.status()).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^running since 09:30/),
    })
    expect((await commands.uninstall()).out).toBe(`removed: ${plistOf(machine)}\n`)
    expect(machine.calls()).toEqual(['launchctl bootout gui/501/dev.switchyard.host'])
    expect(existsSync(plistOf(machine))).toBe(false)
  })
})

test('other systems have no service', async () => {
  const machine = await openMachine('freebsd')
  await expect((await openCommands(machine)).install()).rejects.toMatchObject({
    code: 1,
    cure: 'switchyard serve',
  })
})

test('the unit starts a host with nothing but its own environment, whose log is JSON without a terminal', async () => {
  const dataDir = join(tempFolder(), 'da ta$HOME%h')
  mkdirSync(dataDir, { mode: 0o700 })
  writeFileSync(join(dataDir, 'config.json'), configWithAnyPort())
  const dry = runCommand(['service', 'install', '--dry-run', '--json', '--data-dir', dataDir])
  expect(await dry.exit).toBe(0)
  const lines: string[] = JSON.parse(dry.out()).content.split('\n')
  const valuesOf = (key: string) =>
    lines.flatMap((line) => (line.startsWith(key) ? [line.slice(key.length)] : []))
  const [program = '', ...args] = readUnitWords(valuesOf('ExecStart=')[0] ?? '', true)
  const variables = valuesOf('Environment=').flatMap((value) => readUnitWords(value, false))
  const env = Object.fromEntries(
    variables.map((text) => [text.split('=')[0], text.slice(text.indexOf('=') + 1)]),
  )
  const host = spawn(program, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  closeAfterTest(() => host.kill('SIGKILL'))
  let log = ''
  host.stderr.on('data', (chunk) => {
    log += chunk
  })
  await until(`the host in ${log}`, () => readLaunch(dataDir)?.pid === host.pid)
  host.kill('SIGTERM')
  expect(await once(host, 'close')).toEqual([0, null])
  expect(
    log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).level),
  ).toContain(30)
})

test('the real command prints its own paths, and ends with 1 where nothing is installed', async () => {
  const home = tempFolder()
  const env = { HOME: home, XDG_CONFIG_HOME: '' }
  const dry = runCommand(['service', 'install', '--dry-run', '--json', '--data-dir', '/srv/yard'], '', env)
  const bare = runCommand(['service'], '', env)
  expect([await dry.exit, await bare.exit]).toEqual([0, 1])
  const { file, content } = JSON.parse(dry.out())
  expect(file).toBe(join(home, '.config/systemd/user/switchyard.service'))
  expect(content).toContain(`ExecStart="${process.execPath}" "${realpathSync(commandPath)}" "serve"`)
  expect(existsSync(file)).toBe(false)
})
