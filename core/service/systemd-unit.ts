/**
 * Formats the systemd units of host, worker and supervisor, for a user's manager and for the machine's.
 *
 * No unit has hardening that covers parts of /proc (`ProtectKernelTunables=`), filters system calls or restricts
 * namespaces: bubblewrap can't make a sandbox below these. Each sandbox has its own. Callers quote what stands in the
 * command: see `quoteUnitWord`.
 */

/** Time that a service manager gives the stopping host: for its end, its store, and the copy of a lost database. */
export const SERVICE_STOP_SECONDS_MAX = 60
/** Time from the start of a service until it is ready: a large database may have to be read or copied first. */
const SERVICE_BEGIN_SECONDS_MAX = 600

export type ServiceRole = 'host' | 'worker' | 'supervisor'
export type ServiceScope = 'user' | 'system'

export interface ServiceUnit {
  readonly role: ServiceRole
  readonly scope: ServiceScope
  /** The value of `ExecStart=`: the program and its arguments, quoted for systemd. */
  readonly command: string
  /** Comments at the head. */
  readonly notes: readonly string[]
  /** Further lines for `[Service]`, like those of the environment. */
  readonly settings?: readonly string[]
  /** The account of a system unit; absent: root. */
  readonly account?: string
  /** Below /var/lib, or below the state folder of the user; made by systemd. */
  readonly stateFolder?: string
  /** How long a stop may take. */
  readonly stopSeconds: number
}

/**
 * Exit codes that a restart does not cure: wrong use, newer data, nothing to work with (a port, a sandbox), a directory
 * or credential in use, another protocol, no enrollment, a wrong configuration.
 */
export const LASTING_EXITS = [2, 65, 69, 75, 76, 77, 78]
const RESTART_SECONDS = 10
const WATCHDOG_SECONDS = 60
/** Time for a finished run to be published and acknowledged. */
const AFTER_RUN_SECONDS = 300

/** A stopped host hands the runs of a worker back that it runs itself, and a stopped worker finishes its runs. */
export const hostStopSeconds = SERVICE_STOP_SECONDS_MAX
export const workerStopSeconds = (maxRunMinutes: number): number =>
  Math.ceil(maxRunMinutes * 60) + AFTER_RUN_SECONDS

export function formatServiceUnit(unit: ServiceUnit): string {
  const { role, scope, command, notes, settings = [], stopSeconds } = unit
  const lines = [
    ...notes.map((note) => `# ${note}`),
    '[Unit]',
    `Description=switchyard ${role}`,
    ...(scope === 'system' ? ['Wants=network-online.target', 'After=network-online.target'] : []),
    ...startLimits[role],
    '',
    '[Service]',
    '# systemd-notify sends the messages: ready, at work, stopping. A stuck process sends none and is restarted.',
    'Type=notify',
    'NotifyAccess=all',
    `WatchdogSec=${WATCHDOG_SECONDS}`,
    `TimeoutStartSec=${SERVICE_BEGIN_SECONDS_MAX}`,
    `ExecStart=${command}`,
    ...settings,
    ...place(unit),
    'UMask=0077',
    'LimitCORE=0',
    'Restart=on-failure',
    `RestartSec=${RESTART_SECONDS}`,
    `RestartPreventExitStatus=${LASTING_EXITS.join(' ')}`,
    stopNotes[role],
    'KillMode=mixed',
    `TimeoutStopSec=${stopSeconds}`,
    `# A sandbox that runs out of memory must not end the ${role}.`,
    'OOMPolicy=continue',
    '# The control groups of sandboxes, which limit memory and processes, lie below that of the service.',
    'Delegate=yes',
    '',
    '[Install]',
    `WantedBy=${scope === 'system' ? 'multi-user.target' : 'default.target'}`,
  ]
  return `${lines.join('\n')}\n`
}

/** A host that keeps failing needs a person. A machine of the fleet has nobody, and its worker comes back by itself. */
const startLimits: Readonly<Record<ServiceRole, readonly string[]>> = {
  host: ['StartLimitIntervalSec=600', 'StartLimitBurst=10'],
  worker: ['StartLimitIntervalSec=0'],
  supervisor: ['StartLimitIntervalSec=0'],
}

const stopNotes: Readonly<Record<ServiceRole, string>> = {
  host: '# The host gets the signal and ends the worker that it runs itself; what is left after it is killed.',
  worker: '# The worker gets the signal and finishes its runs; what is left after the longest run is killed.',
  supervisor:
    '# The supervisor gets the signal and lets its worker finish its runs; what is left then is killed.',
}

/** An ordinary account may have hardening that leaves user namespaces and /proc alone. */
function place({ account, stateFolder }: ServiceUnit): readonly string[] {
  return [
    ...(account === undefined ? [] : [`User=${account}`, 'CapabilityBoundingSet=', 'ProtectSystem=full']),
    ...(stateFolder === undefined ? [] : [`StateDirectory=${stateFolder}`, 'StateDirectoryMode=0700']),
  ]
}

/** Quotes a text as one word of a unit: escapes as in C, and `%` doubled, which begins a specifier. */
export function quoteUnitWord(text: string): string {
  const escaped = text
    .replace(/["\\]/g, '\\$&')
    .replace(/\p{Cc}/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replaceAll('%', '%%')
  return `"${escaped}"`
}

/** In the arguments of a command `$` begins a variable. In its first word `$` stands for itself. */
export const quoteUnitArgument = (text: string): string => quoteUnitWord(text.replaceAll('$', '$$$$'))
