/** Laws about the budgets of a run: what is stored stays within them, and what is left out is named. */
import type { DiskBatch } from '../sim-disk.ts'
import type { Law, LawView } from './law.ts'

/** The budget in the configuration of the simulation. */
const LOG_BYTES_MAX = 1024 * 1024
/** The few sentences and statuses that the host adds without a limit. */
const HOST_BYTES_MAX = 16 * 1024
const NOTICE = /"stream":"system","text":"\d+ bytes of the log are left out/

const logIsWithinBudget: Law = {
  number: '26',
  sentence: 'the stored events of a run stay within their budget, and what was left out is named',
  observe: (view, fail) => {
    const bytesByRun = new Map<string, number>()
    const seen = new Set<string>()
    let completed: { readonly leaseId: string; readonly runId: string }[] = []
    return {
      onBeforeCommit: (batch) => {
        completed = completionsIn(batch)
        for (const change of batch.changes) {
          if (change.is !== 'events') continue
          const added = change.lines.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0)
          const bytes = (bytesByRun.get(change.key) ?? 0) + added
          bytesByRun.set(change.key, bytes)
          if (bytes > LOG_BYTES_MAX + HOST_BYTES_MAX) fail(`the log of ${change.key} has ${bytes} bytes`)
          for (const line of change.lines) {
            const [, reportId] = /"report":"([^"]+)"/.exec(line) ?? []
            if (reportId !== undefined) seen.add(reportId)
          }
        }
      },
      onCommitted: () => {
        for (const { leaseId, runId } of completed) {
          const missing = countMissing(view, seen, leaseId)
          const lines = view.disk.events.get(runId) ?? []
          if (missing > 0 && !lines.some((line) => NOTICE.test(line) || line.includes('"type":"gap"')))
            fail(`${missing} events of ${leaseId} are missing, and the log does not name them`, { runId })
        }
      },
    }
  },
}

function completionsIn({ changes }: DiskBatch) {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null) return []
    const { how, runId } = { how: '', runId: '', ...change.row.value }
    return how === 'completed' ? [{ leaseId: change.key, runId }] : []
  })
}

/** Counts the events of a flood that are not in the log. */
function countMissing(view: LawView, seen: ReadonlySet<string>, leaseId: string): number {
  let missing = 0
  for (let seq = 1; ; seq++) {
    const frame = view.frameOf(leaseId, seq)
    if (frame === undefined || frame.type === 'run-complete') return missing
    if (frame.type === 'run-event' && frame.event.type === 'agent' && !seen.has(`${leaseId} ${seq}`))
      missing += 1
  }
}

export const budgetLaws: readonly Law[] = [logIsWithinBudget]
