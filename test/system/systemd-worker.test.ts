/** The user unit of the worker under a real systemd, with the worker from the package. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { sandboxFolder } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { testIf } from '../support/skips.ts'
import { unpackWorker } from '../support/unpacked-worker.ts'
import { until } from '../support/until.ts'
import { canManageUser, openUserManager } from '../support/user-manager.ts'

const UNIT = 'switchyard-worker.service'
const deployed = join(import.meta.dirname, '..', '..', 'deploy', 'systemd', 'user', UNIT)
const TEST_MS_MAX = 300_000

testIf(canManageUser, 'needs a systemd that manages a user')(
  'the worker stays down without a token, is ready with one, is restarted when it is stuck, and drains on a stop',
  async () => {
    const system = await LocalSystem.open()
    const { home, stateFolder, systemctl, show } = await openUserManager()
    const units = join(home, '.config', 'systemd', 'user')
    mkdirSync(join(units, `${UNIT}.d`), { recursive: true })
    mkdirSync(join(home, '.config', 'switchyard'))
    writeFileSync(
      join(units, UNIT),
      readFileSync(deployed, 'utf8').replace('/usr/bin/node', process.execPath),
    )
    writeFileSync(join(units, `${UNIT}.d`, 'fast.conf'), '[Service]\nWatchdogSec=4\nRestartSec=100ms\n')
    const settings = [
      `SWITCHYARD_HOST=http://127.0.0.1:${system.fleetPort}`,
      `SWITCHYARD_OPTIONS=--local-repos=${system.code} --sandbox-dir=${sandboxFolder()}`,
    ]
    writeFileSync(join(home, '.config', 'switchyard', 'worker.env'), settings.join('\n'))
    cpSync(unpackWorker(), join(home, '.local', 'lib', 'switchyard-worker'), { recursive: true })
    systemctl('daemon-reload')

    expect(systemctl('start', UNIT).code).not.toBe(0)
    expect(show(UNIT, 'SubState', 'ExecMainStatus', 'NRestarts')).toEqual(['failed', '77', '0'])

    const { body } = await system.host.request('/api/workers/pairing-tokens', { method: 'POST' })
    const tokenFile = join(stateFolder, 'switchyard-worker', 'token')
    writeFileSync(tokenFile, (body as { token: string }).token, { mode: 0o600 })
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
