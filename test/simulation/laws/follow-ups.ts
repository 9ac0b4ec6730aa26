/**
 * Laws about follow-ups: each that was asked for pushes once and says once what it did, whatever happened in between,
 * and is told apart from its run's own executions.
 */
import type { Law } from './law.ts'

const onceEach: Law = {
  number: 'F1',
  sentence: 'one push and one summary for each follow-up',
  watch: (sight, broken) => ({
    followedUp: ({ runId, process, leaseId }, id) => {
      // Whoever was asleep between looking and doing may do what another has done meanwhile.
      if (sight.hostile || sight.isDrowsy(process)) return
      const { pushes, summaries } = sight.followUpsOf(runId, id)
      if (pushes > 1 || summaries > 1) broken(`${id} of ${runId}`, { leaseId, pushes, summaries })
    },
  }),
}

const onlyAsked: Law = {
  number: 'F2',
  sentence: 'there are no more follow-ups than were asked for, and none of a run that was not completed',
  watch: (sight, broken) => {
    const asked = new Map<string, number>()
    const ids = new Map<string, Set<string>>()
    const leases = new Map<string, string>()
    const over = new Set<string>()
    return {
      landed: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
          const { runId } = { runId: '', ...change.row.value }
          if (sight.run(runId)?.status === 'completed') over.add(leases.get(change.key) ?? '')
        }
      },
      asked: ({ what, runId = '' }) => {
        if (what === 'follow up') asked.set(runId, (asked.get(runId) ?? 0) + 1)
      },
      hostSends: (_wire, frame) => {
        if (frame.type !== 'dispatch') return
        const { kind, followUp, pull, credentials } = frame.job
        const { runId } = frame.lease
        if (kind !== 'follow-up') return
        if (followUp === undefined || pull === undefined) broken(`a follow-up of ${runId} is about nothing`)
        if (credentials.tracker !== undefined) broken(`a follow-up of ${runId} may change its tracker`)
        if (sight.run(runId)?.prUrl !== pull?.url)
          broken(`a follow-up of ${runId} is about ${pull?.url}`, { run: sight.run(runId)?.prUrl })
        const { id = '' } = { ...followUp }
        const known = ids.get(runId) ?? new Set<string>()
        ids.set(runId, known.add(id))
        leases.set(frame.lease.id, id)
        if (over.has(id)) broken(`${id} of ${runId} is over, and begins again`)
        if (known.size > (asked.get(runId) ?? 0))
          broken(`${runId} is followed up ${known.size} times`, { asked: asked.get(runId) ?? 0 })
      },
    }
  },
}

const completedIsDone: Law = {
  number: 'F3',
  sentence: 'a follow-up that was completed has pushed and said so; its costs say what it was',
  watch: (sight, broken) => {
    /** By lease, which follow-up it is for and whether the product's daemon has it. */
    const leases = new Map<string, { readonly id: string; readonly isDaemons: boolean }>()
    return {
      hostSends: ({ worker }, frame) => {
        if (frame.type !== 'dispatch' || frame.job.followUp === undefined) return
        const isDaemons = sight.spoolOf(worker) !== undefined
        leases.set(frame.lease.id, { id: frame.job.followUp.id, isDaemons })
      },
      landed: ({ changes }) => {
        for (const change of changes) {
          if (change.is === 'run')
            for (const { model = '', label } of change.row?.value.costs ?? [])
              if (model !== '' && leases.has(model) !== label.startsWith('follow-up '))
                broken(`${model} of ${change.key} is told as ${label}`)
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          const lease = leases.get(change.key)
          const run = sight.run(runId)
          if (how !== 'completed' || lease?.isDaemons !== true) continue
          // One that its worker's end cut short is begun anew.
          if (run?.status !== 'completed' && run?.status !== 'queued')
            broken(`${runId} is ${run?.status} after a follow-up`)
          if (run?.status !== 'completed' || run.error !== undefined) continue
          const done = sight.followUpsOf(runId, lease.id)
          if (done.pushes === 0 || done.summaries === 0) broken(`${lease.id} of ${runId} was not done`, done)
        }
      },
    }
  },
}

export const followUpLaws: readonly Law[] = [onceEach, onlyAsked, completedIsDone]
