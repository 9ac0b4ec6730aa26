/** The service manager of a Linux user: systemd, asked by `systemctl --user`. */
import { join } from 'node:path'
import { EXIT, ExitError } from '../exit.ts'
import { firstLine, type ManagerRunner } from './run-manager.ts'
import type { Service, ServiceCommand, ServiceManager, ServiceState } from './service-manager.ts'
import type { ServiceProgram } from './service-program.ts'
import { dataDirOfUnit, formatUnit } from './systemd-unit.ts'

/** As people name the units of the two services, without `.service`. */
export const UNIT_NAMES = { host: 'switchyard', worker: 'switchyard-worker' } as const
export const unitOf = (role: Service['role']): string => `${UNIT_NAMES[role]}.service`

export interface SystemdUser {
  readonly name: string
  readonly home: string
  readonly env: Readonly<Record<string, string | undefined>>
}

const user = (...words: readonly string[]): ServiceCommand => ({ words: ['systemctl', '--user', ...words] })
const tried = (...words: readonly string[]): ServiceCommand => ({ ...user(...words), mayFail: true })

export function createSystemd(program: ServiceProgram, { name, home, env }: SystemdUser): ServiceManager {
  const config = env.XDG_CONFIG_HOME
  const folder = join(config?.startsWith('/') ? config : join(home, '.config'), 'systemd', 'user')
  return {
    name: 'systemd',
    host: unitService(program, 'host', folder),
    worker: unitService(program, 'worker', folder),
    requireRunning: (run) => requireUserManager(run, name),
    dataDirIn: dataDirOfUnit,
    findSessionNote: async (run) => {
      const { out } = await run(['loginctl', 'show-user', name, '--property=Linger', '--value'])
      return out.trim() === 'yes'
        ? undefined
        : `It ends when you log out; against that: loginctl enable-linger ${name}`
    },
  }
}

function unitService(program: ServiceProgram, role: Service['role'], folder: string): Service {
  const [unit, name] = [unitOf(role), UNIT_NAMES[role]]
  return {
    role,
    file: join(folder, unit),
    format: (words, stopSeconds) => formatUnit(program, { role, name, words, stopSeconds }),
    logCommand: `journalctl --user --unit ${name} --lines 20`,
    commandsFor: (change) => [
      // An earlier install may have ended before systemd read the unit.
      user('daemon-reload'),
      // systemd starts no unit that failed too often a moment ago.
      ...(change === 'new' ? [] : [tried('reset-failed', unit)]),
      user('enable', unit),
      // A worker finishes its runs first, which may take hours.
      role === 'worker' && change === 'changed'
        ? user('restart', '--no-block', unit)
        : { ...user('restart', unit), startsProgram: true },
    ],
    beforeRemoval: [user('disable', '--now', unit)],
    afterRemoval: [user('daemon-reload'), tried('reset-failed', unit)],
    readState: (run) => readState(run, unit),
  }
}

async function requireUserManager(run: ManagerRunner, name: string): Promise<void> {
  const { code, err } = await run(['systemctl', '--user', 'show', '--property=Version'])
  if (code === 0) return
  if (code === undefined)
    throw new ExitError(
      EXIT.refused,
      'this machine has no systemd, as in most containers, so nothing can start the host at login',
      'switchyard serve, started by what starts your other programs',
    )
  throw new ExitError(
    EXIT.refused,
    `systemd does not answer for ${name}: ${firstLine(err)}`,
    `log in as ${name} without su or sudo; in a container: switchyard serve`,
  )
}

const PROPERTIES = [
  'ActiveState',
  'SubState',
  'UnitFileState',
  'MainPID',
  'ExecMainCode',
  'ExecMainStatus',
  'ActiveEnterTimestamp',
]

async function readState(run: ManagerRunner, unit: string): Promise<ServiceState> {
  const { code, out, err } = await run([
    'systemctl',
    '--user',
    'show',
    unit,
    `--property=${PROPERTIES.join(',')}`,
  ])
  if (code !== 0) throw new ExitError(EXIT.refused, `systemd does not answer: ${firstLine(err)}`)
  const values = new Map(out.split('\n').map((line) => [before(line), line.slice(before(line).length + 1)]))
  const [active = '', sub = ''] = [values.get('ActiveState'), values.get('SubState')]
  const running = active === 'active' && sub === 'running'
  const pid = Number(values.get('MainPID') ?? 0)
  const since = parseTimestamp(values.get('ActiveEnterTimestamp') ?? '')
  const hasExited = values.get('ExecMainCode') === CLD_EXITED
  const exitCode = hasExited ? Number(values.get('ExecMainStatus') ?? 0) : 0
  return {
    enabled: /^enabled/.test(values.get('UnitFileState') ?? ''),
    running,
    state: sub === '' || sub === active || running ? active : `${active} (${sub})`,
    ...(running && pid > 0 ? { pid } : {}),
    ...(running && since !== undefined ? { since } : {}),
    ...(running || exitCode === 0 ? {} : { exitCode }),
  }
}

/** A process that a signal ended has another code. */
const CLD_EXITED = '1'

const before = (line: string): string => line.split('=')[0] ?? ''

/** Reads `Mon 2026-11-23 02:01:57 UTC`, as systemctl prints it where `TZ` is UTC. */
function parseTimestamp(text: string): string | undefined {
  const [, day, time] = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC$/.exec(text) ?? []
  return day === undefined ? undefined : `${day}T${time}.000Z`
}
