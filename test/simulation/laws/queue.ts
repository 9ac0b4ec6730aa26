/** Law 42: the order of the queue. The law compares runs that any worker may take and that wait for nothing else. */
import type { Run } from '../../../protocol/run.ts'
import type { TicketFacts } from '../sim-tracker.ts'
import { fieldsOf, isDamagedRun, isLeaseDamaged, type Law, type LawView } from './law.ts'

const rank = ({ ticket: { priority } }: Run): number => (priority === 0 ? 5 : priority)

const comesBefore = (a: Run, b: Run): boolean =>
  rank(a) < rank(b) || (rank(a) === rank(b) && a.ticket.createdAt < b.ticket.createdAt)

/** Whether the run is queued for the first time and waits for a worker only, as far as the disk shows. */
function isPlain(view: LawView, run: Run, blocked: ReadonlySet<string>): boolean {
  const { job, attempts, interruptions } = fieldsOf(view.disk.snapshot('run', run.id))
  const isFirst = job === 'run' && attempts === 0 && interruptions === 0
  return isFirst && run.status === 'queued' && run.queueReason === undefined && !blocked.has(run.ticket.id)
}

const NONE: ReadonlySet<string> = new Set()

export const queueLaws: readonly Law[] = [
  {
    number: '42',
    sentence:
      'a run is offered only when no earlier one of the queue could be (by priority, then by age), and no blocker is open',
    observe: (view, fail) => {
      let waiting: Run[] = []
      let granted: Run[] = []
      return {
        onBeforeCommit: ({ changes, requestedAt }) => {
          granted = changes.flatMap((change) => {
            if (change.is !== 'snapshot' || change.kind !== 'lease' || change.row === null) return []
            const { runId } = fieldsOf(change.row.value)
            const run = view.lease(change.key) === undefined ? view.run(String(runId)) : undefined
            return run === undefined ? [] : [run]
          })
          if (granted.length === 0) return
          // A host holds a run back until the tracker has told it that the blocker is done.
          const isHeld = ({ freeSince }: TicketFacts) => freeSince >= requestedAt
          const blocked = new Set(view.tickets().flatMap((ticket) => (isHeld(ticket) ? [ticket.id] : [])))
          const all = [...view.disk.runs.keys()].flatMap((id) => view.run(id) ?? [])
          const intact = all.filter(({ id }) => !isDamagedRun(view, id) && !isLeaseDamaged(view, id))
          waiting = intact.filter((run) => isPlain(view, run, blocked))
          granted = granted.filter((run) => isPlain(view, run, NONE))
          const early = granted.find((run) =>
            view.tickets().some(({ id, blockedSince }) => id === run.ticket.id && blockedSince < requestedAt),
          )
          if (early !== undefined) fail(`${early.id} is offered, though its blocker is open`)
          granted = granted.filter((run) => !blocked.has(run.ticket.id))
        },
        onCommitted: () => {
          for (const run of granted) {
            const earlier = waiting.find(
              (candidate) =>
                comesBefore(candidate, run) &&
                view.run(candidate.id)?.status === 'queued' &&
                view.leasesOf(candidate.id).length === 0,
            )
            if (earlier !== undefined)
              fail(`${run.id} is offered before ${earlier.id}`, { earlier: earlier.ticket, run: run.ticket })
          }
        },
      }
    },
  },
]
