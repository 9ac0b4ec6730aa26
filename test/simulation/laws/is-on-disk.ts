/**
 * Decides whether the content of a frame is on the host's disk, as far as the disk shows it.
 *
 * Every report of an execution contains an id: its lease and the report's ordinal (a script uses the frame number,
 * which is equal). Reports that the daemon makes by itself have no id; the run's record shows them.
 */
import type { RunPatch } from '../../../protocol/frames.ts'
import type { NumberedFrame } from '../reference-outbox.ts'
import { usageFileName } from '../sim-disk.ts'
import { type LawView, TERMINAL_STATUSES } from './law.ts'

/** A report id, and the lease in it. */
export const REPORT_ID = /"((ls-[0-9a-f]+) (?:\d+|stolen))"/

/** A numbered frame before it has its number. */
export type UnnumberedFrame = NumberedFrame extends infer F
  ? F extends object
    ? Omit<F, 'seq'>
    : never
  : never

export function reportIdOf(report: UnnumberedFrame): string | undefined {
  switch (report.type) {
    case 'run-event':
      if (report.event.type === 'agent') return String(report.event.message.report)
      return report.event.type === 'log' ? lastLineOf(report.event.text) : undefined
    case 'run-artifact':
      return Buffer.from(report.data, 'base64').toString().slice(0, -1)
    case 'run-memories':
      return report.facts[0]?.slice('fact '.length)
    case 'run-usage-snapshot':
      return report.snapshot.entries[0]?.id
    case 'run-patch':
      return report.patch.agentSessionId?.replace('_', ' ')
    case 'run-complete':
      return undefined
  }
}

/** A long text ends with its id on a line of its own, so that the id is an event of its own once the text is split. */
const lastLineOf = (text: string): string => text.slice(text.lastIndexOf('\n') + 1)

/** @param seen report ids in event logs */
export function isOnDisk(
  view: LawView,
  seen: ReadonlySet<string>,
  runId: string,
  report: UnnumberedFrame,
): boolean {
  const reportId = reportIdOf(report) ?? ''
  switch (report.type) {
    case 'run-event':
      // The goal about spendings judges costs.
      if (report.event.type === 'cost') return true
      // Only a flood consists of these events, and the run's budget may leave them out.
      return report.event.type === 'agent' || seen.has(reportId)
    case 'run-artifact':
      return artifactContains(view, runId, report, `${reportId};`)
    case 'run-memories':
      if (view.hostDamage.has('memory', report.repo)) return true
      return hasMemory(view, reportId) || isFollowUpWithoutRepository(view, runId)
    case 'run-usage-snapshot':
      return usageIsAtLeast(view, report.snapshot, reportId)
    case 'run-patch':
      return reportId === ''
        ? isPatchApplied(view, runId, report.patch)
        : patchIsAtLeast(view, runId, reportId)
    case 'run-complete':
      return TERMINAL_STATUSES.has(view.run(runId)?.status ?? '')
  }
}

const hasMemory = (view: LawView, reportId: string): boolean =>
  [...(view.disk.keyValues.get('memory')?.values() ?? [])].some(({ text }) =>
    text.includes(`fact ${reportId}"`),
  )

/** No lease stores the repository of a follow-up, so the log names what was learnt about one that is no longer mapped. */
const isFollowUpWithoutRepository = (view: LawView, runId: string): boolean =>
  (view.disk.events.get(runId) ?? []).some((line) =>
    line.includes('were not kept: the repository of its pull request'),
  )

/** A part behind one that its worker has dropped is of no use, so the host refuses it. */
function artifactContains(
  { disk }: LawView,
  runId: string,
  { name, part }: Extract<UnnumberedFrame, { type: 'run-artifact' }>,
  text: string,
): boolean {
  const file = disk.artifacts.get(runId)?.get(name)
  if (file?.complete?.includes(text) === true || file?.parts.includes(text) === true) return true
  return part > 0 && (file?.parts.length ?? 0) !== part
}

function usageIsAtLeast(
  { disk }: LawView,
  key: { readonly projectKey: string; readonly sessionId: string; readonly subagentId?: string },
  reportId: string,
): boolean {
  const [leaseId = '', number] = reportId.split(' ')
  const found = new RegExp(`"${leaseId} (\\d+)"`).exec(disk.usage.get(usageFileName(key))?.text ?? '')
  return found !== null && Number(found[1]) >= Number(number)
}

function patchIsAtLeast(view: LawView, runId: string, reportId: string): boolean {
  const [leaseId, number] = reportId.split(' ')
  const run = view.run(runId)
  // The same commit queued the run again or discarded it, so nothing of the attempt is visible.
  if (run?.status === 'queued' || view.wasDiscarded(runId)) return true
  const [lease, latest] = (run?.agentSessionId ?? '').split(/[ _]/)
  return lease === leaseId && Number(latest) >= Number(number)
}

const STATUS_ORDER = ['queued', 'preparing', 'running', 'finalizing', ...TERMINAL_STATUSES]

function isPatchApplied(
  view: LawView,
  runId: string,
  { status = 'preparing', prUrl, sandbox }: RunPatch,
): boolean {
  const run = view.run(runId)
  if (run?.status === 'queued' || view.wasDiscarded(runId)) return true
  if (run === undefined || STATUS_ORDER.indexOf(run.status) < STATUS_ORDER.indexOf(status)) return false
  if (sandbox?.id !== undefined && run.sandbox.id !== sandbox.id) return false
  // The host drops a pull request that is not the run's.
  return prUrl === undefined || run.prUrl === prUrl || view.runOfPull(prUrl) !== runId
}
