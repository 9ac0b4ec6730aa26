/**
 * Tells whether the host of this data directory runs and answers, can open its ports, has workers, and fits their
 * versions.
 */
import { readdir, readFile, readlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AttentionKind } from '../../../protocol/attention.ts'
import { PORT_MAX, PROTOCOL_VERSION } from '../../../protocol/limits.ts'
import { codeOf, messageOf } from '../../../protocol/message-of.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import type { FoundOwner } from '../../../store/lock.ts'
import { formatAgeOf } from '../../output/times.ts'
import { TAKE_OVER_HOST } from '../../process/store-exit-code.ts'
import { VERSION } from '../../process/this-program.ts'
import { judgeUnknownOwner } from './data-checks.ts'
import { type Check, fail, type Judgement, ok, splitCure, warn } from './examine.ts'
import type { AnsweringHost } from './examined-machine.ts'

/** Kinds of attention that concern the service as a whole. The tracker has a check of its own. */
const TROUBLES: ReadonlySet<AttentionKind> = new Set(['disk', 'damage', 'codehost'])

export const hostCheck: Check = {
  id: 'host',
  places: ['host', 'elsewhere'],
  async judge({ host, dataDir }) {
    const found = await host()
    switch (found.is) {
      case 'running':
        return [
          ok(`switchyard ${found.health.version} serves ${found.url}`),
          ...found.attention.flatMap(({ kind, message, cure }) =>
            TROUBLES.has(kind) ? [judgeTrouble(kind, message, cure)] : [],
          ),
        ]
      case 'none':
        return [
          ok('no host is running here, so its files were checked'),
          ...(found.foreign === undefined ? [] : [fail(found.foreign.message, found.foreign.cure)]),
        ]
      case 'refusing':
        return [fail(found.reason, found.cure)]
      case 'silent':
        return [
          found.owner === undefined
            ? fail(found.reason, 'check SWITCHYARD_URL, or unset it')
            : judgeOwner(dataDir, found.owner, found.reason),
        ]
    }
  },
}

/** Damage does not mend itself, so it is judged as where no host runs. */
function judgeTrouble(kind: AttentionKind, text: string, command: string | undefined): Judgement {
  const [message, cure] = command === undefined ? splitCure(text) : [text, command]
  return kind === 'damage' ? fail(message, cure) : warn(message, cure)
}

function judgeOwner(dataDir: string, { isAlive, pid, description }: FoundOwner, reason: string): Judgement {
  if (!isAlive) return judgeUnknownOwner(dataDir, description, TAKE_OVER_HOST)
  return warn(
    `${description} uses ${dataDir} and does not answer: ${reason}`,
    `wait while it starts; else ${pid === undefined ? 'stop it' : `kill ${pid}`} where it runs, then switchyard serve`,
  )
}

// ---- ports ---------------------------------------------------------------------------------------------------------

interface Listener {
  readonly host: string
  readonly port: number
  /** The option of `switchyard serve` that chooses another port. */
  readonly option: string
}

/** Tells whether the host can open its ports, by opening and closing each of them. */
export const portCheck: Check = {
  id: 'port',
  places: ['host'],
  async judge({ config, host }) {
    const [read, found] = await Promise.all([config(), host()])
    if (found.is === 'running') return [ok(`the host listens on ${found.url}`)]
    if (!read.ok || found.is === 'silent') return []
    const { server, fleet } = read.value
    const listeners: Listener[] = [{ host: server.host, port: server.port, option: '--port' }]
    if ((fleet.host ?? '') !== '')
      listeners.push({ host: fleet.host ?? '', port: fleet.port, option: '--fleet-port' })
    return await Promise.all(listeners.map(judge))
  },
}

async function judge({ host, port, option }: Listener): Promise<Judgement> {
  if (port === 0) return ok('the system chooses the port')
  const error = await tryToListen(host, port)
  if (error === undefined) return ok(`${port} is free`)
  const code = codeOf(error)
  if (code !== 'EADDRINUSE')
    return fail(
      `${host}:${port} cannot be opened: ${code ?? messageOf(error)}`,
      code === 'EACCES' ? `switchyard serve ${option} ${port + 8000}` : 'switchyard config edit',
    )
  const pid = await findPortHolder(port)
  const holder = pid === undefined ? 'another process' : `process ${pid}`
  return fail(`${port} is taken by ${holder}`, `switchyard serve ${option} ${await findFreePort(host, port)}`)
}

function tryToListen(host: string, port: number): Promise<Error | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', resolve)
    server.listen({ host: host.replace(/^\[|\]$/g, ''), port, exclusive: true }, () => {
      server.close(() => resolve(undefined))
    })
  })
}

const STEP = 10
const TRIES_MAX = 10

async function findFreePort(host: string, taken: number): Promise<number> {
  for (let port = taken + STEP, tries = 0; port <= PORT_MAX && tries < TRIES_MAX; port += STEP, tries += 1)
    if ((await tryToListen(host, port)) === undefined) return port
  return 0
}

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6']
/** The state of a socket that listens. */
const LISTENS = '0A'

/** Undefined elsewhere than on Linux, and for a process of another user, whose files only root may see. */
async function findPortHolder(port: number): Promise<number | undefined> {
  const sockets = new Set((await Promise.all(TABLES.map((table) => socketsIn(table, port)))).flat())
  if (sockets.size === 0) return undefined
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  for (const pid of pids) if (await holdsOneOf(pid, sockets)) return Number(pid)
  return undefined
}

async function socketsIn(table: string, port: number): Promise<readonly string[]> {
  const lines = (await readFile(table, 'utf8').catch(() => '')).split('\n').slice(1)
  return lines.flatMap((line) => {
    const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/)
    const isOurs = state === LISTENS && Number.parseInt(local.split(':')[1] ?? '', 16) === port
    return isOurs ? [`socket:[${inode}]`] : []
  })
}

async function holdsOneOf(pid: string, sockets: ReadonlySet<string>): Promise<boolean> {
  const folder = `/proc/${pid}/fd`
  const names = await readdir(folder).catch(() => [])
  const links = await Promise.all(names.map((name) => readlink(`${folder}/${name}`).catch(() => '')))
  return links.some((link) => sockets.has(link))
}

// ---- workers -------------------------------------------------------------------------------------------------------

/** Tells whether the running host has workers, and which of them are away. */
export const workersCheck: Check = {
  id: 'workers',
  places: ['host', 'elsewhere'],
  async judge({ host, now }) {
    const found = await host()
    if (found.is !== 'running') return []
    const { workers } = found
    const online = workers.filter(({ connection }) => connection === 'online')
    const away = workers.filter(({ connection }) => connection !== 'online')
    if (online.length === 0)
      return [fail(`none of ${workers.length} workers is online`, 'switchyard workers pair')]
    if (away.length === 0) return [ok(`${online.length} online`)]
    return away.map((worker) =>
      warn(
        `${worker.name} is offline${describeSeen(worker, now())}`,
        `start its worker, or: switchyard workers revoke ${quoteWord(worker.name)}`,
      ),
    )
  },
}

const describeSeen = ({ lastSeenAt }: WorkerView, now: number): string =>
  lastSeenAt === undefined ? '' : `, seen ${formatAgeOf(lastSeenAt, now)} ago`

// ---- versions ------------------------------------------------------------------------------------------------------

/** Compares the versions of the host, of its workers and of this command. */
export const skewCheck: Check = {
  id: 'skew',
  places: ['host', 'elsewhere'],
  async judge({ host }) {
    const found = await host()
    if (found.is !== 'running') return []
    const problems = [
      ...judgeRefusals(found),
      ...judgeCommand(found.health.version),
      ...found.workers.flatMap((worker) => judgeWorker(worker, found.health.version)),
    ]
    return problems.length === 0 ? [ok(`everything is ${found.health.version}`)] : problems
  },
}

const compareVersions = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

function judgeWorker({ name, local, capabilities }: WorkerView, hostVersion: string): readonly Judgement[] {
  if (capabilities === undefined) return []
  const { version } = capabilities
  const difference = compareVersions(version, hostVersion)
  if (difference === 0) return []
  return difference < 0
    ? [
        warn(
          `worker ${name} is ${version}, the host ${hostVersion}`,
          local === true
            ? `install switchyard ${hostVersion} on ${name}, then start its worker again`
            : `switchyard workers provision USER@${provisionTarget(name)}`,
        ),
      ]
    : [
        warn(
          `worker ${name} is ${version}, newer than the host ${hostVersion}`,
          `install switchyard ${version} here, then start the host again`,
        ),
      ]
}

/** Provisioning again upgrades a worker. Its name is that of its machine unless it was given another one. */
const provisionTarget = (name: string): string => (/^[\w.-]+$/.test(name) ? name : 'HOST')

function judgeCommand(hostVersion: string): readonly Judgement[] {
  if (VERSION === hostVersion) return []
  return [warn(`the host is ${hostVersion}, this command ${VERSION}`, `start the host again with ${VERSION}`)]
}

/** The host counts workers whose first frame names another protocol; the counts begin at its start. */
const REFUSED = /^switchyard_worker_registrations_total\{[^}]*outcome="protocol"[^}]*\} (\d+)/m

function judgeRefusals({ metrics, health }: AnsweringHost): readonly Judgement[] {
  const count = Number(REFUSED.exec(metrics)?.[1] ?? 0)
  if (count === 0) return []
  return [
    fail(
      `a worker was refused because it does not speak protocol ${PROTOCOL_VERSION}; refused so far: ${count}`,
      `install switchyard ${health.version} on it; its address is in the host's log, and a new start of the host counts anew`,
    ),
  ]
}
