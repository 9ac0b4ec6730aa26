/**
 * The timeline of a run from its changes of state: a bar an attempt, with its phases, on a common axis.
 *
 * An attempt begins whenever the run is queued again, unless its agent is done and only its work is to be published: all
 * tries to publish the work of one attempt have one bar, since no agent works in them. Long waits are compressed on the axis, and keep their true length
 * in their label.
 */
import type { Run, RunEvent, RunStatus } from '../../../protocol/run.ts'

export type ChangeOfState = RunEvent & { readonly type: 'status' }

export interface TimelinePart {
  readonly status: RunStatus
  readonly from: number
  readonly to: number
  /** On the axis, 0 to 1. */
  readonly start: number
  readonly length: number
  /** Shorter on the axis than in truth. */
  readonly isCompressed: boolean
}

export interface TimelineAttempt {
  readonly number: number
  /** How often the work of this attempt was to be published; undefined for the attempt itself. */
  readonly tries: number | undefined
  /** When the work is to be published next. */
  readonly nextAt: string | undefined
  readonly parts: readonly TimelinePart[]
  /** The reason or the state in which it ended; undefined while it goes on. */
  readonly end: string | undefined
}

/** A longer wait than this share of the working time is compressed to it. */
const WAIT_SHARE_MAX = 0.15
const ENDED: readonly RunStatus[] = ['completed', 'failed', 'cancelled']

interface PlainPart {
  readonly status: RunStatus
  readonly from: number
  readonly to: number
}

interface PlainAttempt {
  readonly parts: PlainPart[]
  end: string | undefined
  tries: number | undefined
}

const PUBLISHING = /^(?:publishing again at (\S+)|not published until a person decides): /

/** When the finished work of a waiting run is published again. */
export const nextPublishAt = ({ status, queueReason = '' }: Run): string | undefined =>
  status === 'queued' ? PUBLISHING.exec(queueReason)?.[1] : undefined

/** The indexes of the changes from which on the run's work was only to be published: no agent began to work. */
export function publishTries(changes: readonly ChangeOfState[]): ReadonlySet<number> {
  const tries = new Set<number>()
  let last = -1
  for (const { to, reason = '', index } of changes) {
    if (to === 'queued' && PUBLISHING.test(reason)) {
      last = index
      tries.add(index)
    } else if (to === 'running') tries.delete(last)
  }
  return tries
}

export function timelineOf(run: Run, changes: readonly ChangeOfState[], now: number): TimelineAttempt[] {
  const attempts = attemptsOf(run, changes, now)
  const all = attempts.flatMap(({ parts }) => parts)
  const worked = lengthOf(all.filter(({ status }) => status !== 'queued'))
  const waitMax = worked === 0 ? Number.POSITIVE_INFINITY : Math.max(1, worked * WAIT_SHARE_MAX)
  const shown = ({ status, from, to }: PlainPart) =>
    status === 'queued' ? Math.min(to - from, waitMax) : to - from
  const total = Math.max(
    1,
    all.reduce((sum, part) => sum + shown(part), 0),
  )
  let at = 0
  let number = 0
  return attempts.map(({ parts, end, tries }) => ({
    number: tries === undefined ? ++number : number,
    tries,
    nextAt: end === undefined ? nextPublishAt(run) : undefined,
    end,
    parts: parts.map((part) => {
      const start = at / total
      at += shown(part)
      return { ...part, start, length: shown(part) / total, isCompressed: shown(part) < part.to - part.from }
    }),
  }))
}

function attemptsOf(run: Run, changes: readonly ChangeOfState[], now: number): PlainAttempt[] {
  const attempts: PlainAttempt[] = [{ parts: [], end: undefined, tries: undefined }]
  const publishes = publishTries(changes)
  let status: RunStatus = 'queued'
  let from = Date.parse(run.createdAt)
  for (const change of changes) {
    // The first event of a log says that the run was queued.
    if (change.to === status) continue
    const to = Date.parse(change.at)
    attempts.at(-1)?.parts.push({ status, from, to })
    const last = attempts.at(-1)
    const isTry = publishes.has(change.index)
    if (last?.tries !== undefined && isTry) {
      last.tries += 1
      last.end = undefined
    } else if (last !== undefined && change.to === 'queued') {
      last.end = change.reason ?? 'queued again'
      // The attempt itself was the first to try.
      attempts.push({ parts: [], end: undefined, tries: isTry ? 2 : undefined })
    } else if (last !== undefined && ENDED.includes(change.to)) last.end = change.to
    status = change.to
    from = to
  }
  const last = attempts.at(-1)
  if (last !== undefined && !ENDED.includes(status)) {
    // The log of a run that has ended may lack its end.
    const isOver = ENDED.includes(run.status)
    const to = isOver ? Date.parse(run.finishedAt ?? '') || from : now
    last.parts.push({ status, from, to: Math.max(from, to) })
    if (isOver) last.end = run.status
  }
  return attempts
    .map(({ parts, ...attempt }) => ({
      ...attempt,
      parts: parts.filter((part) => part.to > part.from && !ENDED.includes(part.status)),
    }))
    .filter(({ parts }) => parts.length > 0)
}

const lengthOf = (parts: readonly PlainPart[]): number =>
  parts.reduce((sum, { from, to }) => sum + to - from, 0)
