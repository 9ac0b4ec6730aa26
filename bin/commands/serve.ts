/**
 * `switchyard serve`: the host, from an empty process to open doors and back.
 *
 * Everything is built here and joined here; nothing below this file reads the environment, the clock or a path of its
 * own accord. Each thing that can go wrong on the way has its own exit code and a sentence that says what to do.
 */
import { totalmem } from 'node:os'
import { type BuiltHost, buildHost } from '../../actors/root/build.ts'
import type { FrontDesk } from '../../actors/root/front-desk.ts'
import type { Log, Meters, Store } from '../../core/ports.ts'
import { type Answer, yes } from '../../core/refusal.ts'
import { readConfig } from '../../core/settings/read.ts'
import { secretsOf } from '../../core/settings/redact.ts'
import type { CompletedConfig, ServiceConfig } from '../../protocol/config.ts'
import { STOP_MS_MAX } from '../../protocol/limits.ts'
import { openApiDocument } from '../../protocol/openapi.ts'
import type { HostExecution } from '../../protocol/worker.ts'
import { DataDirInUse, StoreTooNew } from '../../store/failures.ts'
import { openStore } from '../../store/store.ts'
import { type Metrics, prometheusMetrics } from '../../transport/metrics.ts'
import { openDoors } from '../../transport/server.ts'
import { probeSandbox } from '../../worker/sandbox/probe.ts'
import { realChance, realClock } from '../clock.ts'
import { dataDirectory } from '../data-dir.ts'
import { Ending, EXIT } from '../exit.ts'
import { removeLaunch, writeLaunch } from '../launch-file.ts'
import { type LogFormat, type LogLevel, openLog } from '../log.ts'
import { Scrubber } from '../scrub.ts'
import { launchToken } from '../token.ts'
import { VERSION } from '../version.ts'

export interface ServeOptions {
  readonly dataDir?: string
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
}

export async function serve(options: ServeOptions): Promise<void> {
  const dataDir = dataDirectory(options.dataDir)
  const scrubber = new Scrubber()
  const log = openLog({ level: options.logLevel, format: options.logFormat, scrubber })
  const { token, warning } = launchToken(process.env.SWITCHYARD_TOKEN, realChance)
  if (warning !== undefined) log.warn({}, warning)

  // Trying the sandbox takes a process of its own, so it runs beside everything else.
  const sandbox = hostExecution(log)
  const metrics = prometheusMetrics()
  const store = await open(dataDir, log, metrics)
  await removeLaunch(dataDir)
  const configText = await store.config.read()
  const configuration = await configured(configText, store)
  const know = (effective: ServiceConfig) => scrubber.know([token, ...secretsOf(effective)])
  know(configuration.effective)

  await new Promise<void>((ended) => {
    const launch = {
      dataDir,
      token,
      startedAt: new Date(realClock.now()).toISOString(),
      configuration,
      log,
      metrics,
    }
    void sandbox.then((execution) => {
      const host: BuiltHost = buildHost({
        clock: realClock,
        chance: realChance,
        log,
        meters: metrics,
        store,
        configuration,
        configText,
        onConfig: know,
        health: {
          ok: true,
          version: VERSION,
          sandboxProvider: configuration.effective.sandbox.provider,
          hostMemMib: Math.floor(totalmem() / 1024 / 1024),
          hostExecution: execution,
        },
        openDoors: (desk) => openAll(desk, launch),
        finish: (exitCode, reason) => void finish({ exitCode, reason, dataDir, store, log }).then(ended),
      })
      mindSignals(host, log)
      host.start()
    })
  })
}

// ---- before the doors ------------------------------------------------------------------------------------------

async function open(dataDir: string, log: Log, meters: Meters): Promise<Store> {
  try {
    return await openStore({ dataDir, clock: realClock, chance: realChance, log, meters })
  } catch (error) {
    if (error instanceof DataDirInUse) throw new Ending(EXIT.taken, error.message)
    if (error instanceof StoreTooNew) throw new Ending(EXIT.dataTooNew, error.message)
    throw new Ending(EXIT.broken, `the data directory ${dataDir} can't be used: ${messageOf(error)}`)
  }
}

async function configured(text: string | undefined, store: Store): Promise<CompletedConfig> {
  const read = readConfig(text)
  if (read.ok) return read.value
  await store.close()
  throw new Ending(EXIT.config, `${store.config.path} does not validate: ${read.refusal.message}`)
}

async function hostExecution(log: Log): Promise<HostExecution> {
  const probed = await probeSandbox()
  if (probed.ok) return { kind: 'local-worker' }
  log.warn({ reason: probed.reason }, `no run can be executed on this machine itself: ${probed.detail}`)
  return { kind: 'none', reason: probed.reason }
}

// ---- doors -----------------------------------------------------------------------------------------------------

interface Launching {
  readonly dataDir: string
  readonly token: string
  readonly startedAt: string
  readonly configuration: CompletedConfig
  readonly log: Log
  readonly metrics: Metrics
}

async function openAll(desk: FrontDesk, launching: Launching): Promise<Answer<{ close(): Promise<void> }>> {
  const { dataDir, token, startedAt, configuration, log, metrics } = launching
  const { server, fleet } = configuration.effective
  const opened = await openDoors({
    desk,
    token,
    version: VERSION,
    clock: realClock,
    log,
    meters: metrics,
    metricsText: () => metrics.text(),
    openApi: openApiDocument,
    management: { host: server.host, port: server.port },
    ...(fleet.host === undefined || fleet.host === ''
      ? {}
      : {
          fleet: {
            host: fleet.host,
            port: fleet.port,
            ...(fleet.tls === undefined ? {} : { tls: fleet.tls }),
          },
        }),
  })
  if (!opened.ok) return opened
  const doors = opened.value
  const url = urlOf('http', server.host, doors.managementPort)
  const fleetUrl =
    doors.fleetPort === undefined || fleet.host === undefined
      ? undefined
      : urlOf(fleet.tls === undefined ? 'ws' : 'wss', fleet.host, doors.fleetPort)
  await writeLaunch(dataDir, {
    pid: process.pid,
    version: VERSION,
    startedAt,
    url,
    ...(fleetUrl === undefined ? {} : { fleetUrl }),
    token,
  })
  log.info({ url, fleetUrl, dataDir }, 'switchyard is serving')
  return yes({ close: () => doors.close('the service is stopping') })
}

function urlOf(scheme: string, host: string, port: number): string {
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

// ---- the end ---------------------------------------------------------------------------------------------------

/** A little less than the bound, so that the forced end is still ours to explain. */
const FORCED_STOP_MS = STOP_MS_MAX - 500

function mindSignals(host: BuiltHost, log: Log): void {
  let asked = false
  const stop = (signal: NodeJS.Signals) => {
    if (asked) {
      log.warn({ signal }, 'asked twice to stop: stopping now')
      process.exit(EXIT.broken)
    }
    asked = true
    log.info({ signal }, 'stopping')
    setTimeout(() => {
      log.error(
        {},
        'could not stop in time (a full disk?): ending anyway; nothing that was acknowledged is lost',
      )
      process.exit(EXIT.broken)
    }, FORCED_STOP_MS).unref()
    host.stop(`got ${signal}`)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  process.on('SIGHUP', stop)
  // A bug: what is on disk is consistent at any instant, so the safest thing is to end and start anew from it.
  const die = (error: unknown) => {
    log.error({ err: error }, 'an unexpected error; ending, to recover from what is on disk')
    process.exit(EXIT.broken)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
}

async function finish(ending: {
  exitCode: number
  reason: string
  dataDir: string
  store: Store
  log: Log
}): Promise<void> {
  const { exitCode, reason, dataDir, store, log } = ending
  try {
    await removeLaunch(dataDir)
    await store.close()
  } catch (error) {
    log.error({ err: error }, 'the store did not close in order')
  }
  if (exitCode === EXIT.done) log.info({ reason }, 'stopped')
  else log.error({ exitCode, reason }, 'stopped')
  if (exitCode !== EXIT.done) process.stderr.write(`switchyard: ${reason}\n`)
  process.exit(exitCode)
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
