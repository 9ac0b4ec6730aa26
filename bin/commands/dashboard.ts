/**
 * `switchyard dashboard`: serves the dashboard's page on this machine until Ctrl-C, and opens it.
 *
 * The launch token stays in this process. Standard output gets one line, the link; everything else is for people.
 */
import { reasonOf } from '../../client/errors.ts'
import { CLOSE_MS_MAX } from '../../transport/host-server.ts'
import { openPageServer, type PageServer } from '../../transport/pages/page-server.ts'
import { connectToHost } from '../client/host-connection.ts'
import { realClock } from '../clock.ts'
import { forbidCoreDumps } from '../core-dumps.ts'
import { installCrashHandler } from '../crash-handler.ts'
import { EXIT, ExitError } from '../exit.ts'
import { openLog } from '../log.ts'
import type { LogChoice } from '../log-options.ts'
import { LogRedactor } from '../log-redaction.ts'
import { createHostForwarder } from '../pages/host-forwarder.ts'
import { browserProgram, openInBrowser, tunnelLine } from '../pages/open-browser.ts'
import { pageFolder } from '../pages/page-folder.ts'
import { chooseProgramListener, logListener, reportAlteredBinary } from '../program-listener.ts'
import { StopSignals } from '../signals.ts'

export interface DashboardOptions extends LogChoice {
  readonly dataDir?: string
  readonly port: number
  readonly open: boolean
}

export async function dashboard(options: DashboardOptions): Promise<void> {
  const log = openLog({ level: options.logLevel, format: options.logFormat, redactor: new LogRedactor() })
  const signals = new StopSignals(log)
  installCrashHandler(log)
  forbidCoreDumps(log)
  const connection = connectToHost(options.dataDir, process.env)
  const choice = chooseProgramListener()
  reportAlteredBinary(choice, log)
  logListener(choice, log)
  const opened = await openPageServer({
    listener: choice.listener,
    clock: realClock,
    log,
    address: { host: '127.0.0.1', port: options.port },
    portSetting: '--port',
    command: 'switchyard dashboard',
    folder: pageFolder('dashboard'),
    forwarder: createHostForwarder(connection),
  })
  if (!opened.ok) throw new ExitError(EXIT.unavailable, opened.refusal.message)
  log.info({ url: `http://127.0.0.1:${opened.value.port}` }, 'the dashboard is serving')
  presentLink(opened.value, options)
  try {
    await connection.address()
  } catch (error) {
    log.warn({}, `${reasonOf(error)}; the page waits for the host`)
  }
  await new Promise<void>((ended) => {
    signals.onStop((reason) => {
      realClock.after(CLOSE_MS_MAX + 1_000, () => process.exit(EXIT.done))
      void opened.value.close(reason).then(ended)
    })
  })
  process.exit(EXIT.done)
}

/** People on a terminal get the page, or the line that leads to it. */
function presentLink(server: PageServer, { open }: DashboardOptions): void {
  const link = server.createLink()
  process.stdout.write(`${link}\n`)
  if (process.stderr.isTTY !== true) return
  const { env, platform } = process
  const tunnel = tunnelLine(server.port, { env })
  if (tunnel !== undefined)
    process.stderr.write(
      `From your own machine: ${tunnel}\nThen open the link there. It is good once, for a minute.\n`,
    )
  else {
    const program = open ? browserProgram({ env, platform }) : undefined
    if (program !== undefined) openInBrowser(program, link)
  }
  process.stderr.write('Ctrl-C ends the page; the host goes on.\n')
}
