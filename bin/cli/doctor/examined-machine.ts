/**
 * The examined machine is what the checks look at: files, programs and the configuration here, and the host by its API.
 *
 * Each part is read once, when a check first needs it. Nothing here changes anything.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '../../../client/client.ts'
import { ForeignPeer, HostNotFound, HostRefusal, HostUnreachable } from '../../../client/errors.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { bindCredentials } from '../../../core/settings/credential-origins.ts'
import { readConfig } from '../../../core/settings/read.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { isFolder, TRACKER_FACTS } from '../../../protocol/drivers.ts'
import { codeOf, messageOf } from '../../../protocol/message-of.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import type { HealthResponse, WorkerAgents, WorkerView } from '../../../protocol/worker.ts'
import { CODE_HOST_REGISTRY } from '../../../providers/codehost/registry.ts'
import { HttpClientPool } from '../../../providers/http/client-pool.ts'
import type { ClientPool } from '../../../providers/http/client-types.ts'
import { createHttp } from '../../../providers/http/http.ts'
import type { Http } from '../../../providers/http/http-types.ts'
import { TRACKER_REGISTRY } from '../../../providers/tracker/registry.ts'
import {
  CREDENTIAL_RECORDS_FILE,
  CredentialRecordsOnDisk,
} from '../../../store/files/credential-records-file.ts'
import { type FoundOwner, findOwner } from '../../../store/lock.ts'
import type { ListenerChoice } from '../../../transport/choose-listener.ts'
import { probeAgents } from '../../../worker/agents/locate-agent.ts'
import { createAgentDrivers } from '../../../worker/agents/registry.ts'
import { readGitVersion } from '../../../worker/git/git-version.ts'
import type { AvailableSandbox, SandboxUnavailable } from '../../../worker/sandbox/driver.ts'
import { findSandbox } from '../../../worker/sandbox/registry.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import { homeFolder, resolveDataDir } from '../../process/data-dir.ts'
import { unwrapOrExit } from '../../process/exit.ts'
import { readNetwork } from '../../process/network.ts'
import { chooseProgramListener } from '../../process/program-listener.ts'
import type { CommandContext } from '../command/run-command.ts'

/** The machine of a host, of a worker alone, or one from which a host elsewhere is asked. */
export type Place = 'host' | 'worker' | 'elsewhere'

export interface ExaminedMachine {
  readonly place: Place
  readonly dataDir: string
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly now: () => number
  /** Such as `24.21.0`. */
  readonly nodeVersion: string
  /** The listener that a host on this machine would use. */
  readonly listener: () => ListenerChoice
  readonly sandbox: () => Promise<AvailableSandbox | SandboxUnavailable>
  readonly git: () => Promise<Result<string | undefined>>
  /** The agents that a worker on this machine would find. */
  readonly agents: () => Promise<WorkerAgents>
  /** The configuration file; from a host elsewhere, its settings without secrets. Refused: why it cannot be used. */
  readonly config: () => Promise<Result<ServiceConfig>>
  readonly host: () => Promise<FoundHost>
  /** Owner of the credential. Undefined: there is none to check. */
  readonly trackerAccount: () => Promise<Result<string> | undefined>
  readonly codehostAccount: () => Promise<Result<string> | undefined>
  readonly clients: () => ClientPool
  /** Comparisons of this clock with the clocks of services that answered so far. */
  readonly clocks: readonly ClockComparison[]
  close(): Promise<void>
}

/** Requests of the doctor are not logged: their outcome is a finding. */
const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

export function examineThisMachine(context: CommandContext): ExaminedMachine {
  const environment = process.env
  const dataDir = chooseDataDir(context.options.dataDir)
  const place = placeOf(dataDir, environment)
  const clocks: ClockComparison[] = []
  let close = async (): Promise<void> => {}
  const clients = once(() => {
    const network = unwrapOrExit(readNetwork(environment))
    const http = createHttp({ clock: realClock, random: realRandom, ...network })
    const ports = {
      http: recordClocks(http, realClock, clocks),
      clock: realClock,
      random: realRandom,
      log: silent,
    }
    const pool = new HttpClientPool(ports)
    close = async () => {
      pool.close()
      await http.close()
    }
    return pool
  })
  const config = once(() =>
    place === 'elsewhere' ? readConfigOfHost(context) : readConfigFile(join(dataDir, 'config.json')),
  )
  const usableConfig = once(async () => withoutForeignCredentials(await config(), dataDir))
  return {
    place,
    dataDir,
    environment,
    now: () => realClock.now(),
    nodeVersion: process.versions.node,
    listener: once(() => chooseProgramListener(environment)),
    sandbox: once(() => findSandbox()),
    git: once(() => readGitVersion()),
    agents: once(() => probeAgents(createDrivers(environment))),
    config,
    host: once(() => findRunningHost(context, dataDir)),
    trackerAccount: once(() => checkTracker(usableConfig, place, clients)),
    codehostAccount: once(() => checkCodehost(usableConfig, place, clients)),
    clients,
    clocks,
    close: () => close(),
  }
}

/** The folder that is named; by default the host's, or the worker's on a machine that has no host's. */
function chooseDataDir(flag: string | undefined): string {
  const host = resolveDataDir(flag)
  if (existsSync(host)) return host
  const worker = resolveDataDir(flag, 'switchyard-worker')
  return existsSync(worker) ? worker : host
}

/** A worker's folder holds its credential, and nothing that only a host writes. */
function placeOf(dataDir: string, { SWITCHYARD_URL = '' }: ExaminedMachine['environment']): Place {
  if (SWITCHYARD_URL !== '') return 'elsewhere'
  const has = (name: string) => existsSync(join(dataDir, name))
  return has('credential.json') && !has('config.json') && !has('runs') ? 'worker' : 'host'
}

function createDrivers(environment: ExaminedMachine['environment']) {
  return createAgentDrivers({
    path: environment.PATH ?? '',
    home: homeFolder(),
    hasOwnUsers: process.geteuid?.() === 0,
    environment,
  })
}

// ---- the configuration and its credentials -------------------------------------------------------------------------

async function readConfigFile(path: string): Promise<Result<ServiceConfig>> {
  let text: string | undefined
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') return no('failed', `cannot be read: ${messageOf(error)}`)
  }
  const read = readConfig(text)
  return read.ok ? yes(read.value.effective) : read
}

/** A credential is sent only to the origin that it was checked for, by the doctor too. */
function withoutForeignCredentials(config: Result<ServiceConfig>, dataDir: string): Result<ServiceConfig> {
  if (!config.ok) return config
  const records = new CredentialRecordsOnDisk(join(dataDir, CREDENTIAL_RECORDS_FILE), silent).read()
  return yes(bindCredentials(records, config.value).usable)
}

async function readConfigOfHost({ client }: CommandContext): Promise<Result<ServiceConfig>> {
  try {
    return yes(await client.readConfig())
  } catch (error) {
    return no('unavailable', messageOf(error))
  }
}

/** Settings from a host elsewhere hold no secrets, so only the host itself can check them. */
async function checkTracker(
  config: ExaminedMachine['config'],
  place: Place,
  clients: () => ClientPool,
): Promise<Result<string> | undefined> {
  const read = await config()
  if (!read.ok || place === 'elsewhere') return undefined
  const { driver, apiKey = '' } = read.value.tracker
  const facts = TRACKER_FACTS[driver]
  const hasToken = apiKey !== '' || (facts.listsRepositoryIssues && (read.value.codehost.token ?? '') !== '')
  if (isFolder(facts) || !hasToken) return undefined
  return await TRACKER_REGISTRY[driver].checkAccount(read.value, clients())
}

async function checkCodehost(
  config: ExaminedMachine['config'],
  place: Place,
  clients: () => ClientPool,
): Promise<Result<string> | undefined> {
  const read = await config()
  if (!read.ok || place === 'elsewhere' || (read.value.codehost.token ?? '') === '') return undefined
  return await CODE_HOST_REGISTRY[read.value.codehost.driver].checkAccount(read.value.codehost, clients())
}

// ---- reading once --------------------------------------------------------------------------------------------------

function once<T>(read: () => T): () => T {
  let answer: { readonly value: T } | undefined
  return () => {
    answer ??= { value: read() }
    return answer.value
  }
}

// ---- the host ------------------------------------------------------------------------------------------------------

export interface AnsweringHost {
  readonly is: 'running'
  readonly url: string
  readonly health: HealthResponse
  readonly tracker: TrackerStatus
  readonly workers: readonly WorkerView[]
  readonly attention: readonly AttentionItem[]
  /** Prometheus text. */
  readonly metrics: string
}

export type FoundHost =
  | AnsweringHost
  /** `staleLaunch`: a host that was killed left its launch.json. `foreign`: another user has its port now. */
  | { readonly is: 'none'; readonly staleLaunch?: string; readonly foreign?: ForeignPeer }
  /** A process holds the data directory, or an address is given, and no useful answer comes. */
  | { readonly is: 'silent'; readonly reason: string; readonly owner?: FoundOwner }
  | { readonly is: 'refusing'; readonly reason: string; readonly cure?: string }

/** A host answers within milliseconds. */
const ANSWER_MS_MAX = 5_000

/**
 * Finds out whether the host of this data directory runs, and reads what it says of itself, its workers and its tracker.
 */
async function findRunningHost(context: CommandContext, dataDir: string): Promise<FoundHost> {
  const { client, connection } = context
  try {
    const { url } = await connection.address()
    return { is: 'running', url, ...(await readHost(client)) }
  } catch (error) {
    // Another program may use the port of a host that was killed.
    const isOther = error instanceof HostRefusal && error.status === 401 && ownerOf(dataDir) === undefined
    const isForeign = error instanceof ForeignPeer && ownerOf(dataDir) === undefined
    const isGone = (isOther || isForeign) && (process.env.SWITCHYARD_URL ?? '') === ''
    if ((error instanceof HostRefusal || error instanceof ForeignPeer) && !isGone)
      return {
        is: 'refusing',
        reason: error.message,
        ...(error.cure === undefined ? {} : { cure: error.cure }),
      }
    const isSilence = error instanceof HostNotFound || error instanceof HostUnreachable
    if (!isSilence && !(error instanceof HostRefusal)) throw error
    return await explainSilence(error, dataDir)
  }
}

async function readHost(client: Client): Promise<Omit<AnsweringHost, 'is' | 'url'>> {
  const options = { timeoutMs: ANSWER_MS_MAX }
  const [health, tracker, { workers }, { items: attention }, metrics] = await Promise.all([
    client.health({}, options),
    client.readTrackerStatus({}, options),
    client.listWorkers({}, options),
    // An older host may lack these routes.
    client.readAttention({}, options).catch(() => ({ items: [] })),
    client.readMetrics({}, options).catch(() => ''),
  ])
  return { health, tracker, workers, attention, metrics }
}

async function explainSilence(error: Error, dataDir: string): Promise<FoundHost> {
  const reason = messageOf(error)
  const owner = ownerOf(dataDir)
  if (owner !== undefined) return { is: 'silent', reason, owner }
  if ((process.env.SWITCHYARD_URL ?? '') !== '') return { is: 'silent', reason }
  const launch = join(dataDir, 'launch.json')
  const isStale = await readFile(launch).then(
    () => true,
    () => false,
  )
  return {
    is: 'none',
    ...(isStale ? { staleLaunch: launch } : {}),
    ...(error instanceof ForeignPeer ? { foreign: error } : {}),
  }
}

/** A folder that cannot be read has a finding of its own. */
function ownerOf(dataDir: string): FoundOwner | undefined {
  try {
    return findOwner(dataDir)
  } catch {
    return undefined
  }
}

// ---- clocks --------------------------------------------------------------------------------------------------------

interface ClockComparison {
  /** The host name of the service. */
  readonly service: string
  /** How far this clock is ahead; negative when it is behind. */
  readonly aheadMs: number
}

/** A `Date` has whole seconds, and the answer takes a while; a second and half the request are no difference. */
function recordClocks(
  http: Http,
  clock: Pick<Clock, 'now' | 'monotonic'>,
  comparisons: ClockComparison[],
): Http {
  return {
    async send(request) {
      const began = clock.monotonic()
      const reply = await http.send(request)
      const tookMs = clock.monotonic() - began
      const at = reply.ok ? Date.parse(reply.value.headers.date ?? '') : Number.NaN
      if (!Number.isNaN(at))
        comparisons.push({
          service: new URL(request.url).hostname,
          aheadMs: Math.round(clock.now() - tookMs / 2 - (at + 500)),
        })
      return reply
    },
    close: () => http.close(),
  }
}
