/** `runs_wait`: waits until a run has ended, and reports progress meanwhile. */
import type { Client } from '../../client/client.ts'
import type { ClientConnection } from '../../client/connection.ts'
import { MCP_PROGRESS_MS, MCP_WAIT_SECONDS_DEFAULT } from '../../protocol/limits.ts'
import type { McpInput } from '../../protocol/mcp-tools.ts'
import type { Run } from '../../protocol/run.ts'
import { findRun } from '../client/names.ts'
import { watchRuns } from '../client/watch-runs.ts'
import type { ToolCall } from './session.ts'
import { summarizeRun } from './summaries.ts'

export async function waitForRun(
  { client, connection }: { readonly client: Client; readonly connection: ClientConnection },
  { run: name, timeoutSeconds = MCP_WAIT_SECONDS_DEFAULT }: McpInput<'runs_wait'>,
  call: ToolCall,
): Promise<object> {
  let latest = await findRun(client, name)
  const begun = performance.now()
  const report = () => {
    const seconds = (performance.now() - begun) / 1_000
    call.report(seconds, timeoutSeconds, describeState(latest))
  }
  const reports = setInterval(report, MCP_PROGRESS_MS)
  try {
    const { allEnded, runs } = await watchRuns(connection, [latest], {
      signal: call.signal,
      timeoutMs: timeoutSeconds * 1_000,
      onLive: report,
      onChange: (run) => {
        latest = run
        report()
      },
    })
    const [run = latest] = runs
    return { ended: allEnded, ...summarizeRun(run), readOn: allEnded ? undefined : { run: run.id } }
  } finally {
    clearInterval(reports)
  }
}

const describeState = ({ ticket, status, queueReason }: Run): string =>
  `${ticket.identifier} ${status}${queueReason === undefined ? '' : `: ${queueReason}`}`
