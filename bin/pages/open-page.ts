/** Opens the listener of a page, and leaves word in the data directory for commands that want new links to it. */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { ClientConnection } from '../../client/connection.ts'
import { reasonOf } from '../../client/errors.ts'
import { requestText } from '../../client/host-request.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import type { Log } from '../../core/ports/log.ts'
import { type Result, yes } from '../../core/result.ts'
import { INSPECT_PORT } from '../../protocol/limits.ts'
import { replaceFile } from '../../store/files/atomic.ts'
import type { HttpListener } from '../../transport/listener-port.ts'
import { openPageServer } from '../../transport/pages/page-server.ts'
import type { PageServer, PageServerOptions } from '../../transport/pages/page-server-options.ts'
import { CODE_PATH, linkTo } from '../../transport/pages/page-sessions.ts'
import { json, type Reply, refusal } from '../../transport/reply.ts'
import { realClock } from '../process/clock.ts'
import { createHostForwarder } from './host-forwarder.ts'
import type { PageKind } from './page-kinds.ts'
import { pageFolder } from './page-kinds.ts'

export interface OpenPageOptions {
  readonly kind: PageKind
  readonly dataDir: string
  readonly port: number
  /** The option that chooses the port. */
  readonly portSetting: string
  readonly connection: ClientConnection
  readonly listener: HttpListener
  readonly documents?: PageServerOptions['documents'] | undefined
  readonly programs?: PageServerOptions['programs'] | undefined
  readonly log: Log
}

const SECRET_BYTES = 32

/** Throws an `ExitError` when this installation has no page. */
export async function openPage(options: OpenPageOptions): Promise<Result<PageServer>> {
  const { kind, dataDir, port, portSetting, connection, listener, log } = options
  const linkSecret = randomBytes(SECRET_BYTES).toString('base64url')
  const opened = await openPageServer({
    listener,
    clock: realClock,
    log,
    address: { host: '127.0.0.1', port },
    portSetting,
    command: kind.command,
    folder: pageFolder(kind.name),
    sockets: kind.sockets,
    forwards: kind.forwards,
    documents: options.documents ?? documentsOf(kind, dataDir),
    ...(options.programs === undefined ? {} : { programs: options.programs }),
    forwarder: createHostForwarder(connection),
    linkSecret,
  })
  if (!opened.ok) return opened
  const page = opened.value
  await writePageRecord(dataDir, kind.name, page.port, linkSecret).catch((error: unknown) =>
    log.warn({}, `no command can ask this page for new links: ${reasonOf(error)}`),
  )
  return yes({
    ...page,
    close: async (reason) => {
      await removePageRecord(dataDir, kind.name, page.port).catch(() => {})
      await page.close(reason)
    },
  })
}

/** The dashboard leads to the inspector of the same data directory, where one is served. */
function documentsOf({ name }: PageKind, dataDir: string): NonNullable<PageServerOptions['documents']> {
  return name === 'dashboard' ? new Map([['/inspector', () => inspectorLink(dataDir)]]) : new Map()
}

async function inspectorLink(dataDir: string): Promise<Reply> {
  const link = await askForLink(dataDir, 'inspector', INSPECT_PORT)
  return link === undefined
    ? refusal(404, 'no inspector is served; run switchyard inspect, or serve --inspect, beside the host')
    : json({ link })
}

// ---- the record of a page that is served ---------------------------------------------------------------------------

/**
 * `dashboard-PORT.json` and `inspector-PORT.json` in the data directory, by which other commands of the same user get
 * new links to a page that is already served.
 *
 * The file is owner-only. Its secret is good for new codes alone, and ends with the process.
 */
interface PageRecord {
  readonly pid: number
  readonly secret: string
}

const LIMIT = { timeoutMs: 5_000 }
const CODE = /^[\w-]{22}$/
type PageName = PageKind['name']

const pathIn = (dataDir: string, page: PageName, port: number): string =>
  join(dataDir, `${page}-${port}.json`)

async function writePageRecord(dataDir: string, page: PageName, port: number, secret: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const record: PageRecord = { pid: process.pid, secret }
  await replaceFile(pathIn(dataDir, page, port), `${JSON.stringify(record)}\n`)
}

/** Call it before the port is free, because the file of the next page has the same name. */
async function removePageRecord(dataDir: string, page: PageName, port: number): Promise<void> {
  await rm(pathIn(dataDir, page, port), { force: true })
}

/** A new link to the page on this port, or to another page of this data directory; undefined when none is served. */
export async function askForLink(dataDir: string, page: PageName, port: number): Promise<string | undefined> {
  const file = new RegExp(`^${page}-(\\d{1,5})\\.json$`)
  const names = await readdir(dataDir).catch(() => [])
  const others = names.flatMap((name) => file.exec(name)?.[1] ?? []).map(Number)
  for (const served of new Set([port, ...others])) {
    const code = await askForCode(dataDir, page, served).catch(() => undefined)
    if (typeof code === 'string' && CODE.test(code)) return linkTo(served, code)
  }
  return undefined
}

/** Throws for a page that is gone: its port may belong to a program of somebody else. */
async function askForCode(dataDir: string, page: PageName, port: number): Promise<unknown> {
  const file = pathIn(dataDir, page, port)
  const { pid, secret } = JSON.parse(await readFile(file, 'utf8')) as PageRecord
  process.kill(pid, 0)
  const owner = { users: [(await stat(file)).uid] }
  const address = () => ({ url: `http://127.0.0.1:${port}`, token: secret, owner })
  const connection = { address, send: sendByNode, dial: dialByNode }
  const { text } = await requestText(connection, { method: 'POST', path: CODE_PATH }, LIMIT)
  return Reflect.get(Object(JSON.parse(text)), 'code')
}
