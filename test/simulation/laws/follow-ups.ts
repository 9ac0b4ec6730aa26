/**
 * Laws about follow-ups: each that was asked for pushes once and says once what it did, whatever happened in between,
 * and is told apart from its run's own executions.
 */
import type { Law } from './law.ts'

const oneStepEach: Law = {
  number: 'F1',
  sentence: 'one push and one summary for each follow-up',
  observe: (view, fail) => ({
    onFollowUpStep: ({ runId, process, leaseId }, id) => {
      // Whoever was asleep between looking and doing may do what another has done meanwhile.
      if (view.hasHostileLink || view.isPausedOrResuming(process)) return
      const { pushes, summaries } = view.countFollowUpSteps(runId, id)
      if (pushes > 1 || summaries > 1) fail(`${id} of ${runId}`, { leaseId, pushes, summaries })
    },
  }),
}

const onlyRequested: Law = {
  number: 'F2',
  sentence: 'there are no more follow-ups than were asked for, and none of a run that was not completed',
  observe: (view, fail) => {
    const asked = new Map<string, number>()
    const ids = new Map<string, Set<string>>()
    const leases = new Map<string, string>()
    const over = new Set<string>()
    return {
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { runId } = { runId: '', ...change.row.value }
          if (view.run(runId)?.status === 'completed') over.add(leases.get(change.key) ?? '')
        }
      },
      onRequest: ({ operation, runId = '' }) => {
        if (operation === 'follow up') asked.set(runId, (asked.get(runId) ?? 0) + 1)
      },
      onHostSends: (_wire, frame) => {
        if (frame.type !== 'dispatch') return
        const { kind, followUp, pull, credentials } = frame.job
        const { runId } = frame.lease
        if (kind !== 'follow-up') return
        if (followUp === undefined || pull === undefined) fail(`a follow-up of ${runId} is about nothing`)
        if (credentials.tracker !== undefined) fail(`a follow-up of ${runId} may change its tracker`)
        if (view.run(runId)?.prUrl !== pull?.url)
          fail(`a follow-up of ${runId} is about ${pull?.url}`, { run: view.run(runId)?.prUrl })
        const { id = '' } = { ...followUp }
        const known = ids.get(runId) ?? new Set<string>()
        ids.set(runId, known.add(id))
        leases.set(frame.lease.id, id)
        if (over.has(id)) fail(`${id} of ${runId} is over, and begins again`)
        if (known.size > (asked.get(runId) ?? 0))
          fail(`${runId} is followed up ${known.size} times`, { asked: asked.get(runId) ?? 0 })
      },
    }
  },
}

const completedIsDone: Law = {
  number: 'F3',
  sentence: 'a follow-up that was completed has pushed and said so; its costs say what it was',
  observe: (view, fail) => {
    /** By lease, which follow-up it is for and whether the product's daemon has it. */
    const leases = new Map<string, { readonly id: string; readonly isDaemons: boolean }>()
    return {
      onHostSends: ({ worker }, frame) => {
        if (frame.type !== 'dispatch' || frame.job.followUp === undefined) return
        const isDaemons = view.workerDiskOf(worker) !== undefined
        leases.set(frame.lease.id, { id: frame.job.followUp.id, isDaemons })
      },
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is === 'run')
            for (const { model = '', label } of change.row?.value.costs ?? [])
              if (model !== '' && leases.has(model) !== label.startsWith('follow-up '))
                fail(`${model} of ${change.key} is told as ${label}`)
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          const lease = leases.get(change.key)
          const run = view.run(runId)
          if (how !== 'completed' || lease?.isDaemons !== true) continue
          // One that its worker's end cut short is begun anew.
          if (run?.status !== 'completed' && run?.status !== 'queued')
            fail(`${runId} is ${run?.status} after a follow-up`)
          if (run?.status !== 'completed' || run.error !== undefined) continue
          const done = view.countFollowUpSteps(runId, lease.id)
          if (done.pushes === 0 || done.summaries === 0) fail(`${lease.id} of ${runId} was not done`, done)
        }
      },
    }
  },
}

export const followUpLaws: readonly Law[] = [oneStepEach, onlyRequested, completedIsDone]
