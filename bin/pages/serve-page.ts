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
import { connectToHost } from '../client/host-connection.ts'
import { realClock } from '../clock.ts'
import { forbidCoreDumps } from '../core-dumps.ts'
import { installCrashHandler } from '../crash-handler.ts'
import { resolveDataDir } from '../data-dir.ts'
import { EXIT, ExitError } from '../exit.ts'
import { openLog } from '../log.ts'
import type { LogChoice } from '../log-options.ts'
import { LogRedactor } from '../log-redaction.ts'
import { chooseProgramListener, logListener, reportAlteredBinary } from '../program-listener.ts'
import { StopSignals } from '../signals.ts'
import { openPage } from './open-page.ts'
import type { PageKind } from './page-kinds.ts'
import { askForLink } from './page-record.ts'
import { presentLink } from './present-link.ts'

/** More than what the host has, for one kind of page. */
export interface PageExtras {
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
  const choice = chooseProgramListener()
  reportAlteredBinary(choice, log)
  logListener(choice, log)
  const { listener } = choice
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
