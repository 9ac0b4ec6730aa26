/**
 * `switchyard dashboard` and `switchyard inspect`: serves a page on this machine until Ctrl-C, and opens it.
 *
 * The launch token stays in this process. Standard output gets one line, the link; everything else is for people. When
 * another process of the same data directory serves the page already, that one gives the link.
 */
import type { ClientConnection } from '../../client/connection.ts'
import { reasonOf } from '../../client/errors.ts'
import { CLOSE_MS_MAX } from '../../transport/host-server.ts'
import type { PageServerOptions } from '../../transport/pages/page-server-options.ts'
import { realClock } from '../process/clock.ts'
import { forbidCoreDumps } from '../process/core-dumps.ts'
import { resolveDataDir } from '../process/data-dir.ts'
import { EXIT, ExitError } from '../process/exit.ts'
import { connectToHost } from '../process/host-connection.ts'
import { openLog } from '../process/log.ts'
import type { LogChoice } from '../process/log-options.ts'
import { LogRedactor } from '../process/log-redaction.ts'
import { loggedListener } from '../process/program-listener.ts'
import { installCrashHandler, StopSignals } from '../process/signals.ts'
import { askForLink, openPage } from './open-page.ts'
import { DASHBOARD_PAGE, type PageKind } from './page-kinds.ts'
import { presentLink } from './present-link.ts'

/** More than what the host has, for one kind of page. */
interface PageExtras {
  readonly programs?: (connection: ClientConnection) => PageServerOptions['programs']
  readonly documents?: PageServerOptions['documents']
}

export interface ServePageOptions extends LogChoice {
  readonly dataDir?: string
  readonly port: number
  readonly open: boolean
}

export async function servePage(
  kind: PageKind,
  options: ServePageOptions,
  { programs, documents }: PageExtras = {},
): Promise<void> {
  const { port, open: mayOpen } = options
  const log = openLog({ level: options.logLevel, format: options.logFormat, redactor: new LogRedactor() })
  const signals = new StopSignals(log)
  installCrashHandler(log)
  forbidCoreDumps(log)
  const dataDir = resolveDataDir(options.dataDir)
  const connection = connectToHost(options.dataDir, process.env)
  const listener = loggedListener(log)
  const opened = await openPage({
    kind,
    dataDir,
    port,
    portSetting: '--port',
    connection,
    listener,
    log,
    programs: programs?.(connection),
    documents,
  })
  if (!opened.ok) {
    const link = await askForLink(dataDir, kind.name, port)
    if (link === undefined) throw new ExitError(EXIT.unavailable, opened.refusal.message)
    presentLink(link, mayOpen, 'The page is served by a process that was started before.')
    process.exit(EXIT.done)
  }
  const page = opened.value
  log.info({ url: `http://127.0.0.1:${page.port}` }, `the ${kind.name} is serving`)
  presentLink(
    page.createLink(),
    mayOpen,
    kind.needsHost ? 'Ctrl-C ends the page; the host goes on.' : 'Ctrl-C ends the page.',
  )
  try {
    if (kind.needsHost) await connection.address()
  } catch (error) {
    log.warn({}, `${reasonOf(error)}; the page waits for the host`)
  }
  await new Promise<void>((ended) => {
    signals.onStop((reason) => {
      realClock.after(CLOSE_MS_MAX + 1_000, () => process.exit(EXIT.done))
      void page.close(reason).then(ended)
    })
  })
  process.exit(EXIT.done)
}

/** `switchyard dashboard`: serves the dashboard's page on this machine until Ctrl-C, and opens it. */
export const dashboard = (options: ServePageOptions): Promise<void> => servePage(DASHBOARD_PAGE, options)
