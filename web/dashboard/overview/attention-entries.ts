/** Entries of "needs you": equal failures are one entry, and each entry says what happened and why. */
import type { AttentionItem, AttentionKind } from '../../../protocol/attention.ts'
import { fingerprintOf } from '../../../protocol/fingerprint.ts'
import type { Run } from '../../../protocol/run.ts'

export interface AttentionEntry {
  readonly id: string
  readonly kind: AttentionKind
  /** More than one for failures that are equal. */
  readonly items: readonly AttentionItem[]
  readonly since: string
  /** The words of the program that failed. */
  readonly error: string | undefined
}

/** The order in which they concern a person most. */
const ORDER: readonly AttentionKind[] = [
  'damage',
  'disk',
  'secret',
  'failed',
  'conflict',
  'review',
  'login',
  'tracker',
  'codehost',
  'limit',
  'budget',
  'worker-away',
]
const FAILED = /^failed: /

export function attentionEntries(
  items: readonly AttentionItem[],
  runOf: (id: string) => Run | undefined,
): AttentionEntry[] {
  const entries = new Map<string, AttentionEntry>()
  for (const item of items) {
    const error = item.kind === 'failed' ? errorOf(item, runOf) : undefined
    const id = error === undefined ? item.id : `failed ${fingerprintOf(error)}`
    const before = entries.get(id)
    entries.set(id, {
      id,
      kind: item.kind,
      items: [...(before?.items ?? []), item],
      since: before === undefined || item.since < before.since ? item.since : before.since,
      error: before?.error ?? error,
    })
  }
  const rank = ({ kind }: AttentionEntry) => ORDER.indexOf(kind)
  return [...entries.values()].sort((a, b) => rank(a) - rank(b) || (a.since < b.since ? -1 : 1))
}

const errorOf = ({ runId = '', message }: AttentionItem, runOf: (id: string) => Run | undefined): string =>
  runOf(runId)?.error ?? message.replace(FAILED, '')
