/** Opens the listener of a page, and leaves word in the data directory for commands that want new links to it. */
import { randomBytes } from 'node:crypto'
import type { ClientConnection } from '../../client/connection.ts'
import { reasonOf } from '../../client/errors.ts'
import type { Log } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { HttpListener } from '../../transport/listener-port.ts'
import { openPageServer } from '../../transport/pages/page-server.ts'
import type { PageServer, PageServerOptions } from '../../transport/pages/page-server-options.ts'
import { realClock } from '../clock.ts'
import { createHostForwarder } from './host-forwarder.ts'
import { pageFolder } from './page-folder.ts'
import type { PageKind } from './page-kinds.ts'
import { removePageRecord, writePageRecord } from './page-record.ts'

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
    ...(options.documents === undefined ? {} : { documents: options.documents }),
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
