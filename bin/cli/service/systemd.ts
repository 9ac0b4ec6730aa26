/** The service manager of a Linux user: systemd, asked by `systemctl --user`. */
import { join } from 'node:path'
import { formatServiceUnit, quoteUnitArgument, quoteUnitWord } from '../../../core/service/systemd-unit.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import type { ServiceProgram } from './machine.ts'
import {
  BY_SWITCHYARD,
  firstLine,
  type ManagerRunner,
  type Service,
  type ServiceCommand,
  type ServiceManager,
  type ServiceState,
} from './service-manager.ts'

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
    throw refusedError(
      'this machine has no systemd, as in most containers, so nothing can start the host at login',
      'switchyard serve, started by what starts your other programs',
    )
  throw refusedError(
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
  if (code !== 0) throw refusedError(`systemd does not answer: ${firstLine(err)}`)
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

// ---- units ---------------------------------------------------------------------------------------------------------

const DATA_DIR = 'data directory: '

interface UnitOptions {
  readonly role: Service['role']
  /** As `systemctl --user edit` names the unit. */
  readonly name: string
  readonly words: readonly string[]
  readonly stopSeconds: number
}

/** Formats a systemd user unit as `service install` writes it. */
export function formatUnit(
  { node, script, dataDir, environment }: ServiceProgram,
  { role, name, words, stopSeconds }: UnitOptions,
): string {
  return formatServiceUnit({
    role,
    scope: 'user',
    notes: [
      BY_SWITCHYARD,
      `Settings of your own belong into: systemctl --user edit ${name}`,
      `${DATA_DIR}${JSON.stringify(dataDir)}`,
    ],
    command: [quoteProgram(node), ...[script, ...words].map(quoteUnitArgument)].join(' '),
    settings: Object.entries(environment).map(
      ([name, value]) => `Environment=${quoteUnitWord(`${name}=${value}`)}`,
    ),
    stopSeconds,
  })
}

/** Returns the host's data directory of a unit that `formatUnit` wrote. */
export function dataDirOfUnit(unit: string): string | undefined {
  const begin = `# ${DATA_DIR}`
  const line = unit.split('\n').find((each) => each.startsWith(begin))
  try {
    return line === undefined ? undefined : String(JSON.parse(line.slice(begin.length)))
  } catch {
    return undefined
  }
}

function quoteProgram(path: string): string {
  if (/["'\\]/.test(path))
    throw usageError(
      `systemd starts no program whose path has a quote or a backslash: ${path}`,
      'run this command with a node of another path',
    )
  return quoteUnitWord(path)
}
