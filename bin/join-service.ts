/**
 * `joinService` is the first act of a program that a service manager may have started: it forbids core dumps, opens the
 * channel to the manager, tells it of stop signals, and leaves the control group that the manager delegates, so that a
 * worker can make groups below it.
 */
import type { Log } from '../core/ports.ts'
import { leaveDelegatedGroup } from '../worker/sandbox/cgroup.ts'
import { realClock } from './clock.ts'
import { forbidCoreDumps } from './core-dumps.ts'
import type { LogRedactor } from './log-redaction.ts'
import { openServiceNotifier, type ServiceNotifier } from './service-notifier.ts'
import { StopSignals } from './signals.ts'

export interface ServiceChannel {
  readonly signals: StopSignals
  readonly notifier: ServiceNotifier
}

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
