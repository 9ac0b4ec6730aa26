/** Short forms of records for lists. Fields without a value are absent from the JSON. */
import { MCP_TITLE_CHARS_MAX } from '../../protocol/limits.ts'
import type { PullSummary } from '../../protocol/pulls.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { WorkerView } from '../../protocol/worker.ts'
import { shorten } from './fit.ts'

const LABELS_SHOWN_MAX = 10

const short = (text: string | undefined): string | undefined =>
  text === undefined ? undefined : shorten(text, MCP_TITLE_CHARS_MAX)

export function summarizeRun(run: Run): object {
  const { id, ticket, status, sandbox, costTotals } = run
  return {
    run: id,
    ticket: ticket.identifier,
    title: short(ticket.title),
    status,
    queueReason: short(run.queueReason),
    waitReason: short(run.waitReason),
    error: short(run.error),
    repo: ticket.repo,
    worker: sandbox.workerName,
    createdAt: run.createdAt,
    startedAt: run.startedAt,
    finishedAt: run.finishedAt,
    costUsd: costTotals?.costUsd,
    costIsEstimated: costTotals?.costUsd === undefined ? undefined : costTotals.estimated,
    prUrl: run.prUrl,
    prState: run.prState,
  }
}

export function summarizeTicket(ticket: Ticket): object {
  return {
    ticket: ticket.identifier,
    title: short(ticket.title),
    state: short(ticket.state),
    priority: ticket.priority,
    repo: ticket.repo,
    labels: ticket.labels.slice(0, LABELS_SHOWN_MAX).map(short),
    url: ticket.url === '' ? undefined : ticket.url,
  }
}

export function summarizePull({ repo, number, title, state, author, url, updatedAt }: PullSummary): object {
  return { pull: `${repo}#${number}`, title: short(title), state, author: short(author), url, updatedAt }
}

export function summarizeWorker({
  id,
  name,
  state,
  connection,
  activeRuns,
  capabilities,
}: WorkerView): object {
  return { worker: id, name, state, connection, activeRuns, slots: capabilities?.maxConcurrency }
}
