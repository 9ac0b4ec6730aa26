/**
 * Whether what a frame reports is on the host's disk, as far as that can be seen from outside.
 *
 * Whatever an execution reports holds a word: its lease, and how manieth report of it this is (a script says its frame's
 * number, which is the same thing). What the daemon reports by itself has none, and shows in the run's record.
 */
import type { RunPatch } from '../../../protocol/frames.ts'
import { usageName } from '../disk.ts'
import type { NumberedFrame } from '../outbox.ts'
import { type Sight, TERMINAL } from './law.ts'

/** The word, and the lease in it. */
export const WORD = /"((ls-[0-9a-f]+) (?:\d+|stolen))"/

/** A frame, or what will be one. */
export type Report = NumberedFrame extends infer F ? (F extends object ? Omit<F, 'seq'> : never) : never

export function wordOf(report: Report): string | undefined {
  switch (report.type) {
    case 'run-event':
      return report.event.type === 'log' ? report.event.text : undefined
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

/** @param seen the words in event logs */
export function isOnDisk(sight: Sight, seen: ReadonlySet<string>, runId: string, report: Report): boolean {
  const word = wordOf(report) ?? ''
  switch (report.type) {
    case 'run-event':
      return seen.has(word)
    case 'run-artifact':
      return artifactHolds(sight, runId, report.name, `${word};`) || report.part > 0
    case 'run-memories':
      return [...(sight.disk.facts.get('memory')?.values() ?? [])].some(({ text }) =>
        text.includes(`fact ${word}"`),
      )
    case 'run-usage-snapshot':
      return usageIsAtLeast(sight, report.snapshot, word)
    case 'run-patch':
      return word === '' ? patchShows(sight, runId, report.patch) : patchIsAtLeast(sight, runId, word)
    case 'run-complete':
      return TERMINAL.has(sight.run(runId)?.status ?? '')
  }
}

function artifactHolds({ disk }: Sight, runId: string, name: string, text: string): boolean {
  const file = disk.artifacts.get(runId)?.get(name)
  return file !== undefined && (file.whole?.includes(text) === true || file.parts.includes(text))
}

function usageIsAtLeast(
  { disk }: Sight,
  key: { readonly projectKey: string; readonly sessionId: string; readonly subagentId?: string },
  word: string,
): boolean {
  const [leaseId = '', number] = word.split(' ')
  const found = new RegExp(`"${leaseId} (\\d+)"`).exec(disk.usage.get(usageName(key))?.text ?? '')
  return found !== null && Number(found[1]) >= Number(number)
}

function patchIsAtLeast(sight: Sight, runId: string, word: string): boolean {
  const [leaseId, number] = word.split(' ')
  const run = sight.run(runId)
  // With the same commit it was asked for anew, or discarded: nothing of the attempt is left to be seen.
  if (run?.status === 'queued' || sight.wasDiscarded(runId)) return true
  const [lease, latest] = (run?.agentSessionId ?? '').split(/[ _]/)
  return lease === leaseId && Number(latest) >= Number(number)
}

const ORDER = ['queued', 'preparing', 'running', 'finalizing', ...TERMINAL]

function patchShows(
  sight: Sight,
  runId: string,
  { status = 'preparing', prUrl, sandbox }: RunPatch,
): boolean {
  const run = sight.run(runId)
  if (run?.status === 'queued' || sight.wasDiscarded(runId)) return true
  if (run === undefined || ORDER.indexOf(run.status) < ORDER.indexOf(status)) return false
  if (sandbox?.id !== undefined && run.sandbox.id !== sandbox.id) return false
  return prUrl === undefined || run.prUrl === prUrl
}
