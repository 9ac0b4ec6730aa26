/**
 * `openServer` opens the host's listeners and writes the launch file, by which clients find them.
 */
import type { HostApi } from '../../../actors/api/host-api.ts'
import type { HostAddress, HostOwner } from '../../../client/connection.ts'
import { reasonOf } from '../../../client/errors.ts'
import { sendByNode } from '../../../client/node-http.ts'
import { dialByNode } from '../../../client/node-socket.ts'
import { hostUserMark } from '../../../client/peer-owner.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Store } from '../../../core/ports/store.ts'
import { type Result, yes } from '../../../core/result.ts'
import { type ListenerAddresses, listenersOf } from '../../../core/settings/listeners.ts'
import type { CompletedConfig } from '../../../protocol/config.ts'
import { DASHBOARD_PORT } from '../../../protocol/limits.ts'
import { openApiDocument } from '../../../protocol/openapi.ts'
import { describeListener, type ListenerChoice } from '../../../transport/choose-listener.ts'
import type { HttpListener } from '../../../transport/listener-port.ts'
import type { Metrics } from '../../../transport/metrics.ts'
import type { PageServer } from '../../../transport/pages/page-server-options.ts'
import { openHostServer } from '../../../transport/server.ts'
import { inspectionPrograms } from '../../pages/inspection-programs.ts'
import { type OpenPageOptions, openPage } from '../../pages/open-page.ts'
import { DASHBOARD_PAGE, INSPECTOR_PAGE } from '../../pages/page-kinds.ts'
import { realClock } from '../../process/clock.ts'
import {
  chooseProgramListener,
  logListener,
  reportAlteredBinary,
  urlOf,
} from '../../process/program-listener.ts'
import type { ServiceNotifier } from '../../process/service-notifier.ts'
import { VERSION } from '../../process/this-program.ts'
import { writeLaunch } from './launch-file.ts'
import { type OwnerSocket, openOwnerSocket } from './owner-socket.ts'
import type { ServeOptions } from './serve.ts'
import { showBanner } from './start-banner.ts'

interface LaunchOptions {
  readonly dataDir: string
  readonly token: string
  readonly startedAt: string
  readonly configuration: CompletedConfig
  /** Each of these options beats the configuration. */
  readonly options: Pick<
    ServeOptions,
    | 'port'
    | 'fleetPort'
    | 'localWorker'
    | 'dashboard'
    | 'dashboardPort'
    | 'inspect'
    | 'logLevel'
    | 'logFormat'
  >
  readonly log: Log
  readonly metrics: Metrics
  readonly notifier: ServiceNotifier
  readonly store: Pick<Store, 'database' | 'trail'>
}

const THIS_PROCESS: HostOwner = { users: [], isThisProcess: true }

interface OpenServer {
  close(): Promise<void>
}

/** @param onOpen called before the launch file is written, because clients may send requests as soon as they read it */
export async function openServer(
  hostApi: HostApi,
  launching: LaunchOptions,
  onOpen: (url: string, fleetPort: number | undefined) => void,
): Promise<Result<OpenServer>> {
  const { dataDir, token, startedAt, configuration, options, log, metrics, notifier, store } = launching
  const { server, fleet } = configuration.effective
  if (options.fleetPort !== undefined && (fleet.host ?? '') === '')
    log.warn({}, '--fleet-port has no effect, because fleet.host is not set')
  const choice = chooseProgramListener()
  reportAlteredBinary(choice, log)
  const opened = await openHostServer({
    hostApi,
    listener: choice.listener,
    token,
    version: VERSION,
    ...hostUserMark(),
    clock: realClock,
    log,
    meters: metrics,
    trail: store.trail,
    metricsText: () => metrics.text(),
    openApi: openApiDocument,
    ...withPorts(listenersOf(configuration.effective), options),
  })
  if (!opened.ok) return opened
  const hostServer = opened.value
  const url = urlOf('http', server.host, hostServer.managementPort)
  const fleetUrl =
    hostServer.fleetPort === undefined || fleet.host === undefined
      ? undefined
      : urlOf(fleet.tls === undefined ? 'ws' : 'wss', fleet.host, hostServer.fleetPort)
  onOpen(url, hostServer.fleetPort)
  const launch = { pid: process.pid, version: VERSION, startedAt, url, token }
  // The launch file names the inspector, and clients read the file as soon as it is there.
  const { page, inspector } = await openPages(launching, { url, token, owner: THIS_PROCESS }, choice.listener)
  let ownerSocket: OwnerSocket | undefined
  try {
    ownerSocket = await openOwnerSocket(dataDir, { host: server.host, port: hostServer.managementPort }, log)
    const more = {
      ...(fleetUrl === undefined ? {} : { fleetUrl }),
      ...(inspector === undefined ? {} : { inspectorUrl: pageUrlOf(inspector) }),
      ...(ownerSocket === undefined ? {} : { socket: ownerSocket.name }),
    }
    await writeLaunch(dataDir, { ...launch, ...more }, store.database)
  } catch (error) {
    ownerSocket?.close()
    const reason = 'the service could not start'
    await Promise.all([page?.close(reason), inspector?.close(reason), hostServer.close(reason)])
    throw error
  }
  notifier.ready(() => `serves ${url}`)
  const pageUrl = page === undefined ? undefined : pageUrlOf(page)
  announce({ hostApi, launching, choice, url, fleetUrl, pageUrl })
  const close = async (): Promise<void> => {
    const reason = 'the service is stopping'
    await Promise.all([page?.close(reason), inspector?.close(reason), hostServer.close(reason)])
    ownerSocket?.close()
  }
  return yes({ close })
}

function withPorts(
  { management, fleet }: ListenerAddresses,
  { port, fleetPort }: LaunchOptions['options'],
): ListenerAddresses {
  return {
    management: { ...management, port: port ?? management.port },
    ...(fleet === undefined ? {} : { fleet: { ...fleet, port: fleetPort ?? fleet.port } }),
  }
}

// ---- pages ---------------------------------------------------------------------------------------------------------

/** The pages in the process of the host; undefined for those that are not wanted, or cannot be served. */
async function openPages(
  { options, dataDir, log }: LaunchOptions,
  address: HostAddress,
  listener: HttpListener,
) {
  const pages = { address, dataDir, listener, log }
  const page =
    options.dashboard === true
      ? await openHostPage({
          ...pages,
          kind: DASHBOARD_PAGE,
          port: options.dashboardPort ?? DASHBOARD_PORT,
          portSetting: '--dashboard-port',
        })
      : undefined
  const inspector =
    options.inspect === undefined
      ? undefined
      : await openHostPage({
          ...pages,
          kind: INSPECTOR_PAGE,
          port: options.inspect,
          portSetting: '--inspect',
          programs: inspectionPrograms(address),
        })
  return { page, inspector }
}

const pageUrlOf = ({ port }: Pick<PageServer, 'port'>): string => urlOf('http', '127.0.0.1', port)

interface HostPageOptions extends Omit<OpenPageOptions, 'connection'> {
  readonly address: HostAddress
}

/** Prints the link on standard output. */
async function openHostPage({ address, ...options }: HostPageOptions): Promise<PageServer | undefined> {
  const connection = { address: () => address, send: sendByNode, dial: dialByNode }
  const why = (reason: string) => options.log.warn({}, `the ${options.kind.name} is not served: ${reason}`)
  try {
    const opened = await openPage({ ...options, connection })
    if (opened.ok) {
      // A reader that has what it wants may close the pipe.
      process.stdout.on('error', () => {})
      process.stdout.write(`${opened.value.createLink()}\n`)
      return opened.value
    }
    why(opened.refusal.message)
  } catch (error) {
    why(reasonOf(error))
  }
  return undefined
}

// ---- saying that everything is open --------------------------------------------------------------------------------

interface OpenAddresses {
  readonly hostApi: HostApi
  readonly launching: LaunchOptions
  readonly choice: ListenerChoice
  readonly url: string
  readonly fleetUrl: string | undefined
  readonly pageUrl: string | undefined
}

/** Says that everything is open: by the banner to people, by lines of the log elsewhere. */
function announce({ hostApi, launching, choice, url, fleetUrl, pageUrl }: OpenAddresses): void {
  const { dataDir, log, options } = launching
  const out = terminalOf(options)
  if (out === undefined) {
    log.info({ url, fleetUrl, pageUrl, dataDir }, 'switchyard is serving')
    logListener(choice, log)
    return
  }
  const listener = choice.reason === undefined ? undefined : describeListener(choice)
  const ownWorker = options.localWorker !== false
  showBanner({ hostApi, clock: realClock, out, url, fleetUrl, pageUrl, listener, dataDir, ownWorker })
}

/** Programs read standard error too, so the banner goes to a terminal only, and not among lines of JSON. */
function terminalOf({ logLevel, logFormat }: LaunchOptions['options']): NodeJS.WriteStream | undefined {
  const isWanted = logFormat !== 'json' && (logLevel === 'info' || logLevel === 'debug')
  return isWanted && process.stderr.isTTY ? process.stderr : undefined
}
