/** The user units of worker and supervisor under a real systemd, with the programs from the package. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { sandboxFolder } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { testIf } from '../support/skips.ts'
import { unpackWorker } from '../support/unpacked-worker.ts'
import { until } from '../support/until.ts'
import { canManageUser, openUserManager, type UserManager } from '../support/user-manager.ts'

const UNIT = 'switchyard-worker.service'
const SUPERVISOR = 'switchyard-supervise.service'
const deployed = join(import.meta.dirname, '..', '..', 'deploy', 'systemd', 'user')
const TEST_MS_MAX = 300_000

/** Installs the unit by hand, as docs/fleet/systemd.md says. */
function installUnit(
  { home, systemctl }: UserManager,
  unit: string,
  { env, settings, dropIn }: { env: string; settings: readonly string[]; dropIn: readonly string[] },
): void {
  const units = join(home, '.config', 'systemd', 'user')
  mkdirSync(join(units, `${unit}.d`), { recursive: true })
  const text = readFileSync(join(deployed, unit), 'utf8')
  writeFileSync(join(units, unit), text.replace('/usr/bin/node', process.execPath))
  writeFileSync(join(units, `${unit}.d`, 'fast.conf'), ['[Service]', ...dropIn, ''].join('\n'))
  mkdirSync(join(home, '.config', 'switchyard'))
  writeFileSync(join(home, '.config', 'switchyard', env), settings.join('\n'))
  cpSync(unpackWorker(), join(home, '.local', 'lib', 'switchyard-worker'), { recursive: true })
  systemctl('daemon-reload')
}

async function writeToken(system: LocalSystem, { stateFolder }: UserManager): Promise<void> {
  const { body } = await system.host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const folder = join(stateFolder, 'switchyard-worker')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, 'token'), (body as { token: string }).token, { mode: 0o600 })
}

testIf(canManageUser, 'needs a systemd that manages a user')(
  'the worker stays down without a token, is ready with one, is restarted when it is stuck, and drains on a stop',
  async () => {
    const system = await LocalSystem.open()
    const manager = await openUserManager()
    const { systemctl, show } = manager
    installUnit(manager, UNIT, {
      env: 'worker.env',
      settings: [
        `SWITCHYARD_HOST=http://127.0.0.1:${system.fleetPort}`,
        `SWITCHYARD_OPTIONS=--local-repos=${system.code} --sandbox-dir=${sandboxFolder()}`,
      ],
      dropIn: ['WatchdogSec=4', 'RestartSec=100ms'],
    })

    expect(systemctl('start', UNIT).code).not.toBe(0)
    expect(show(UNIT, 'SubState', 'ExecMainStatus', 'NRestarts')).toEqual(['failed', '77', '0'])

    await writeToken(system, manager)
    expect(systemctl('start', UNIT).code).toBe(0)
    await system.waitForOnlineWorkers(1)
    const [state, pid] = show(UNIT, 'SubState', 'MainPID')
    expect(state).toBe('running')
    expect(readFileSync(`/proc/${pid}/cgroup`, 'utf8')).toMatch(
      new RegExp(`^0::.*/${UNIT}/switchyard-programs$`, 'm'),
    )

    process.kill(Number(pid), 'SIGSTOP')
    await until('it was restarted', () => show(UNIT, 'NRestarts', 'SubState').join() === '1,running')
    await system.waitForOnlineWorkers(1)
    expect(show(UNIT, 'StatusText')).toEqual([expect.stringMatching(/^serving, 0 runs, /)])

    system.writeTicket('ENG-1', [`run ${GATE}`, 'say Done.'])
    const run = await system.waitForStatus('ENG-1', 'running')
    await system.waitForGate(run)
    systemctl('stop', '--no-block', UNIT)
    await until('it drains', () =>
      show(UNIT, 'SubState', 'StatusText').join().startsWith('stop-sigterm,draining, 1 run'),
    )
    system.openGates(run)
    expect((await system.waitForEnd('ENG-1')).status).toBe('completed')
    await until('it has ended', () => show(UNIT, 'SubState', 'Result').join() === 'dead,success')
  },
  TEST_MS_MAX,
)

testIf(canManageUser, 'needs a systemd that manages a user')(
  'the supervisor starts a worker with the token, and a stop ends both',
  async () => {
    const system = await LocalSystem.open()
    const manager = await openUserManager()
    const { systemctl, show } = manager
    installUnit(manager, SUPERVISOR, {
      env: 'supervise.env',
      settings: [
        `SWITCHYARD_HOST=http://127.0.0.1:${system.fleetPort}`,
        `SWITCHYARD_WORKER_OPTIONS=--sandbox-dir=${sandboxFolder()}`,
      ],
      dropIn: [],
    })
    await writeToken(system, manager)
    expect(systemctl('start', SUPERVISOR).code).toBe(0)
    await system.waitForOnlineWorkers(1)
    expect(show(SUPERVISOR, 'SubState', 'StatusText')).toEqual([
      'running',
      expect.stringMatching(/^the worker is /),
    ])
    expect(systemctl('stop', SUPERVISOR).code).toBe(0)
    expect(show(SUPERVISOR, 'SubState', 'Result')).toEqual(['dead', 'success'])
    await system.waitForOnlineWorkers(0)
  },
  TEST_MS_MAX,
)
