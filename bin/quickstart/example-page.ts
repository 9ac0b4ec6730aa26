/** Serves the dashboard of the example while its host is kept. */
import { DASHBOARD_PORT } from '../../protocol/limits.ts'
import type { PageServer } from '../../transport/pages/page-server-options.ts'
import { connectToHost } from '../client/host-connection.ts'
import { openLog } from '../log.ts'
import { LogRedactor } from '../log-redaction.ts'
import { openPage } from '../pages/open-page.ts'
import { DASHBOARD_PAGE } from '../pages/page-kinds.ts'
import { chooseProgramListener } from '../program-listener.ts'

/** Undefined when there is no page to serve; `switchyard dashboard` then says why. */
export async function openExamplePage(dataDir: string): Promise<PageServer | undefined> {
  const { listener } = chooseProgramListener()
  const log = openLog({ level: 'silent', format: 'human', redactor: new LogRedactor() })
  // The environment may name another host than the example's.
  const connection = connectToHost(dataDir, {})
  for (const port of [DASHBOARD_PORT, 0]) {
    const options = { kind: DASHBOARD_PAGE, dataDir, port, portSetting: '--port', connection, listener, log }
    const opened = await openPage(options).catch(() => undefined)
    if (opened?.ok === true) return opened.value
  }
  return undefined
}
