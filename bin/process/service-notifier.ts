/**
 * Says to the service manager that started this process how the process is: ready, at work, stopping (sd_notify(3)).
 *
 * `systemd-notify` sends each message, because Node has no datagram sockets of the file system. The watchdog's
 * messages come from a timer of the event loop, so that a process whose loop is stuck is restarted. Without a service
 * manager nothing is sent. Child processes never inherit the socket: what they said would count for this process.
 */
import { execFile } from 'node:child_process'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { toSingleLine, truncate } from '../../core/safe-text.ts'
import { leaveDelegatedGroup } from '../../worker/sandbox/cgroup.ts'
import { realClock } from './clock.ts'
import { forbidCoreDumps } from './core-dumps.ts'
import type { LogRedactor } from './log-redaction.ts'
import { StopSignals } from './signals.ts'

/** How often a service says how it is, unless its watchdog asks more often. */
const SERVICE_STATUS_EVERY_MS = 30_000
const SERVICE_STATUS_CHARS_MAX = 200
/** A message to the service manager. */
const SERVICE_NOTIFY_MS_MAX = 10_000

export interface ServiceNotifier {
  /** A service manager started this process, and listens. */
  readonly isService: boolean
  /** Others may rely on this process from now on. @param readStatus a line for `systemctl status` */
  ready(readStatus: () => string): void
  stopping(): void
}

export interface ServiceNotifierOptions {
  /** The variables of the service manager are removed. */
  readonly env: NodeJS.ProcessEnv
  readonly clock: Clock
  readonly log: Log
  /** Removes secrets, because a status is an argument of a process. */
  readonly redact: (text: string) => string
  /** Sends one message; another one than `systemd-notify` in tests. */
  readonly send?: (words: readonly string[], socket: string) => Promise<void>
}

const silent: ServiceNotifier = { isService: false, ready: () => {}, stopping: () => {} }

export function openServiceNotifier({
  env,
  clock,
  log,
  redact,
  send = sendBySystemd(env.PATH),
}: ServiceNotifierOptions): ServiceNotifier {
  const { NOTIFY_SOCKET: socket = '', WATCHDOG_USEC, WATCHDOG_PID } = env
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name]
  if (socket === '') return silent
  // A unit of somebody else may start this process from a shell, which then counts as the watched one.
  const watched = [undefined, String(process.pid), String(process.ppid)]
  const isWatched = watched.includes(WATCHDOG_PID)
  const watchdogMs = isWatched ? Number(WATCHDOG_USEC ?? 0) / 1_000 : 0
  const everyMs = watchdogMs > 0 ? Math.min(watchdogMs / 2, SERVICE_STATUS_EVERY_MS) : SERVICE_STATUS_EVERY_MS
  const watchdog = watchdogMs > 0 ? ['WATCHDOG=1'] : []
  let hasFailed = false
  let status = () => ''
  const notify = (...words: readonly string[]) => {
    const line = truncate(toSingleLine(redact(status())), SERVICE_STATUS_CHARS_MAX)
    send([...words, ...(line === '' ? [] : [`STATUS=${line}`])], socket).catch((error: unknown) => {
      if (!hasFailed)
        log.warn(
          { err: error },
          'systemd-notify, a part of systemd, could not tell the service manager of this process',
        )
      hasFailed = true
    })
  }
  const repeat = () =>
    clock.after(everyMs, () => {
      notify(...watchdog)
      repeat()
    })
  return {
    isService: true,
    ready(readStatus) {
      status = readStatus
      notify('READY=1', ...watchdog)
      repeat()
    },
    stopping: () => notify('STOPPING=1', ...watchdog),
  }
}

/** The folders of systemd stand behind those of the service, whose PATH may name other ones alone. */
const sendBySystemd =
  (path = '') =>
  (words: readonly string[], socket: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const env = { PATH: `${path}:/usr/bin:/bin`, NOTIFY_SOCKET: socket }
      execFile('systemd-notify', [...words], { env, timeout: SERVICE_NOTIFY_MS_MAX }, (error) =>
        error === null ? resolve() : reject(error),
      )
    })

// ---- joining a service ---------------------------------------------------------------------------------------------

export interface ServiceChannel {
  readonly signals: StopSignals
  readonly notifier: ServiceNotifier
}

/**
 * `joinService` is the first act of a program that a service manager may have started: it forbids core dumps, opens the
 * channel to the manager, tells it of stop signals, and leaves the control group that the manager delegates, so that a
 * worker can make groups below it.
 */
export function joinService(log: Log, redactor: LogRedactor): ServiceChannel {
  const notifier = openServiceNotifier({
    env: process.env,
    clock: realClock,
    log,
    redact: (text) => redactor.redact(text),
  })
  // Before any child: a group with members can't limit the groups below it, and children are born in their parent's.
  if (notifier.isService) leaveDelegatedGroup()
  forbidCoreDumps(log)
  return { notifier, signals: new StopSignals(log, () => notifier.stopping()) }
}
