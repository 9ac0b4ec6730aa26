/**
 * `switchyard supervise`: stops an idle worker and starts it when there is work.
 *
 * The supervisor dials the host like the worker, with the worker's own credential, and listens on no port. The worker's
 * exit code becomes its own when a new start cannot help. A stop signal stops a worker that it started; a second one
 * ends that worker at once.
 */

import { createWorkerSupervisor } from '../../../actors/worker-supervisor/create-worker-supervisor.ts'
import type { SupervisorEnd } from '../../../actors/worker-supervisor/worker-supervisor.machine.ts'
import type { DemandPort, WorkerDriver } from '../../../core/fleet/supervision.ts'
import {
  freshMemory,
  judgeFirstAnswer,
  judgeServing,
  judgeStopped,
  noteSilence,
  type OwnDemand,
  observe,
  type SupervisionMemory,
  type SupervisionSettings,
  type SupervisionStep,
} from '../../../core/fleet/supervision.ts'
import type { Log } from '../../../core/ports/log.ts'
import { createCommandDriver, createProcessDriver } from '../../../providers/worker-process.ts'
import { noMeters, realClock, realRandom } from '../../process/clock.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { usageError } from '../../process/exit.ts'
import { openLog } from '../../process/log.ts'
import type { LogChoice } from '../../process/log-options.ts'
import { LogRedactor } from '../../process/log-redaction.ts'
import { joinService, type ServiceNotifier } from '../../process/service-notifier.ts'
import { endProcess, installCrashHandler, type StopSignals } from '../../process/signals.ts'
import { ownDemandClient, withNotedTrust } from '../worker/own-worker.ts'
import { type HostChoice, resolveHost } from '../worker/resolve-host.ts'

export interface SuperviseOptions extends LogChoice, HostChoice {
  readonly driver: 'process' | 'command'
  readonly startCommand?: readonly string[]
  readonly stopCommand?: readonly string[]
  readonly commandSeconds: number
  readonly pollSeconds: number
  readonly idleSeconds: number
  readonly upSeconds: number
  readonly dryRun?: true
  readonly dataDir?: string
  readonly credentialFile?: string
}

export async function supervise(workerOptions: readonly string[], options: SuperviseOptions): Promise<void> {
  const redactor = new LogRedactor()
  const log = openLog({ level: options.logLevel, format: options.logFormat, redactor })
  const { signals, notifier } = joinService(log, redactor)
  installCrashHandler(log)
  delete process.env.SWITCHYARD_TOKEN
  checkOptions(workerOptions, options)
  const dataDir = resolveDataDir(options.dataDir, 'switchyard-worker')
  const route = resolveHost(withNotedTrust(dataDir, options), log)
  const demand = ownDemandClient(dataDir, route, 'supervisor', options.credentialFile)
  const settings: SupervisionSettings = {
    idleMs: options.idleSeconds * 1_000,
    upMs: options.upSeconds * 1_000,
    startsAbsent: options.driver === 'command',
  }
  const pollMs = options.pollSeconds * 1_000
  log.info(
    { url: route.name, driver: options.driver, dryRun: options.dryRun === true },
    'switchyard is supervising',
  )
  if (options.dryRun === true) {
    notifier.ready(() => 'dry run')
    await previewSupervision({ demand, settings, pollMs, log, signals })
    return
  }
  const driver = createDriver(workerOptions, options, dataDir, log)
  const end = await runSupervisor({ demand, driver, settings, pollMs, log, signals, notifier })
  endProcess(log, end.exitCode, end.reason)
}

interface SuperviseContext {
  readonly demand: DemandPort
  readonly driver: WorkerDriver
  readonly settings: SupervisionSettings
  readonly pollMs: number
  readonly log: Log
  readonly signals: StopSignals
  readonly notifier: ServiceNotifier
}

function runSupervisor({ signals, notifier, ...ports }: SuperviseContext): Promise<SupervisorEnd> {
  return new Promise((onEnd) => {
    const supervisor = createWorkerSupervisor({
      ...ports,
      clock: realClock,
      random: realRandom,
      meters: noMeters,
      onEnd,
    })
    supervisor.start()
    notifier.ready(() => `the worker is ${supervisor.state()}`)
    signals.onStop(
      () => supervisor.stop(),
      () => ports.driver.stopNow?.(),
    )
  })
}

// ---- options -------------------------------------------------------------------------------------------------------

/** The supervisor passes these on by itself, so that both reach the same host. */
const PASSED_ON = [
  '--host',
  '--data-dir',
  '--ca-file',
  '--fingerprint',
  '--host-user',
  '--insecure',
  '--log-level',
  '--log-format',
]

function checkOptions(workerOptions: readonly string[], options: SuperviseOptions): void {
  const { driver, startCommand, stopCommand } = options
  if (driver === 'command') {
    if (stopCommand === undefined)
      throw usageError('--stop-command is missing: the driver command stops the worker with it')
    if (workerOptions.length > 0)
      throw usageError('the driver command starts no worker process, so it takes no worker options')
    return
  }
  if (startCommand !== undefined || stopCommand !== undefined)
    throw usageError('--start-command and --stop-command are for --driver command')
  const passed = workerOptions.find((word) => PASSED_ON.includes(word.split('=')[0] ?? ''))
  if (passed !== undefined)
    throw usageError(`${passed}: write it before --; supervise passes it on to the worker`)
}

function createDriver(
  workerOptions: readonly string[],
  options: SuperviseOptions,
  dataDir: string,
  log: Log,
): WorkerDriver {
  const { driver, startCommand, stopCommand = [], commandSeconds } = options
  if (driver === 'process')
    return createProcessDriver({
      program: [process.execPath, ...process.execArgv, process.argv[1] ?? ''],
      args: workerArguments(workerOptions, options, dataDir),
      environment: process.env,
    })
  return createCommandDriver({
    ...(startCommand === undefined ? {} : { startCommand }),
    stopCommand,
    msMax: commandSeconds * 1_000,
    folder: process.cwd(),
    environment: process.env,
    clock: realClock,
    log,
  })
}

function workerArguments(
  workerOptions: readonly string[],
  { host = '', caFile, fingerprint, hostUser, insecure, logLevel, logFormat }: SuperviseOptions,
  dataDir: string,
): readonly string[] {
  return [
    ...['--host', host, '--data-dir', dataDir],
    ...(caFile === undefined ? [] : ['--ca-file', caFile]),
    ...(fingerprint === undefined ? [] : ['--fingerprint', fingerprint]),
    ...(hostUser === undefined ? [] : ['--host-user', hostUser]),
    ...(insecure === true ? ['--insecure'] : []),
    ...['--log-level', logLevel, '--log-format', logFormat],
    ...workerOptions,
  ]
}

// ---- dry run -------------------------------------------------------------------------------------------------------

const SENTENCES: Readonly<Record<SupervisionStep, string>> = {
  drain: 'would drain the worker, and stop it when nothing is in flight',
  stop: 'would stop the worker',
  lift: 'would end the drain of this supervisor',
  start: 'would start the worker',
  serve: 'would leave the worker running',
  rest: 'would leave the worker stopped',
  wait: 'would wait',
}

/** Asks the host like a supervisor, says what one would do, and changes nothing. Resolves at a stop signal. */
async function previewSupervision({
  demand,
  settings,
  pollMs,
  log,
  signals,
}: Omit<SuperviseContext, 'driver' | 'notifier'>): Promise<void> {
  let isStopped = false
  let wake = () => {}
  signals.onStop(() => {
    isStopped = true
    wake()
  })
  let memory = freshMemory(realClock.monotonic() - settings.upMs)
  let printed: string | undefined
  while (!isStopped) {
    const answer = await demand.ask('read')
    const now = realClock.monotonic()
    if (answer.is === 'unanswered') {
      memory = noteSilence(memory)
      if (answer.reason !== printed)
        log.warn({ reason: answer.reason }, 'the demand is not known; asking again')
      printed = answer.reason
    } else {
      memory = observe(memory, answer.demand, now)
      const sentence = SENTENCES[nextStep(memory, answer.demand, settings, now)]
      const { worker, wanted } = answer.demand
      if (sentence !== printed) log.info({ wanted, ...worker }, sentence)
      printed = sentence
    }
    await new Promise<void>((resolve) => {
      wake = resolve
      realClock.after(pollMs, resolve)
    })
  }
}

function nextStep(
  memory: SupervisionMemory,
  demand: OwnDemand,
  settings: SupervisionSettings,
  now: number,
): SupervisionStep {
  const { connected } = demand.worker
  const step = (connected ? judgeServing : judgeStopped)(memory, demand, settings, now)
  return step === 'wait' ? judgeFirstAnswer(memory, demand, settings, now) : step
}
