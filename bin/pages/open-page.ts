/** Opens the listener of a page, and leaves word in the data directory for commands that want new links to it. */
import { randomBytes } from 'node:crypto'
import type { ClientConnection } from '../../client/connection.ts'
import { reasonOf } from '../../client/errors.ts'
import type { Log } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import { INSPECT_PORT } from '../../protocol/limits.ts'
import type { HttpListener } from '../../transport/listener-port.ts'
import { openPageServer } from '../../transport/pages/page-server.ts'
import type { PageServer, PageServerOptions } from '../../transport/pages/page-server-options.ts'
import { json, type Reply, refusal } from '../../transport/reply.ts'
import { realClock } from '../clock.ts'
import { createHostForwarder } from './host-forwarder.ts'
import { pageFolder } from './page-folder.ts'
import type { PageKind } from './page-kinds.ts'
import { askForLink, removePageRecord, writePageRecord } from './page-record.ts'

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
