/**
 * Laws about follow-ups: each requested follow-up pushes once and posts one summary whatever happens in between,
 * and its costs are separate from those of the run.
 */
import type { Law } from './law.ts'

const oneStepEach: Law = {
  number: 'F1',
  sentence: 'one push and one summary for each follow-up',
  observe: (view, fail) => ({
    onFollowUpStep: ({ runId, process, leaseId }, id) => {
      // An executor that was paused between its check and its action may repeat what another one did.
      if (view.hasHostileLink || view.isPausedOrResuming(process)) return
      const { pushes, summaries } = view.countFollowUpSteps(runId, id)
      if (pushes > 1 || summaries > 1) fail(`${id} of ${runId} acted twice`, { leaseId, pushes, summaries })
    },
  }),
}

const onlyRequested: Law = {
  number: 'F2',
  sentence: 'there are no more follow-ups than were requested, and none of a run that was not completed',
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
      onHostSends: (_connection, frame) => {
        if (frame.type !== 'dispatch') return
        const { kind, followUp, pull, credentials } = frame.job
        const { runId } = frame.lease
        if (kind !== 'follow-up') return
        if (followUp === undefined || pull === undefined)
          fail(`a follow-up of ${runId} names no pull request`)
        if (credentials.tracker !== undefined)
          fail(`a follow-up of ${runId} received the tracker’s credential`)
        if (view.run(runId)?.prUrl !== pull?.url)
          fail(`a follow-up of ${runId} names pull request ${pull?.url}`, { run: view.run(runId)?.prUrl })
        const { id = '' } = { ...followUp }
        const known = ids.get(runId) ?? new Set<string>()
        ids.set(runId, known.add(id))
        leases.set(frame.lease.id, id)
        if (over.has(id)) fail(`${id} of ${runId} is over but begins again`)
        if (known.size > (asked.get(runId) ?? 0))
          fail(`${runId} is followed up ${known.size} times`, { asked: asked.get(runId) ?? 0 })
      },
    }
  },
}

const completedIsDone: Law = {
  number: 'F3',
  sentence: 'a completed follow-up has pushed and posted its summary; its costs are labelled as a follow-up',
  observe: (view, fail) => {
    /** By lease: its follow-up, and whether the product's daemon runs it. */
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
                fail(`${model} of ${change.key} is labelled ${label}`)
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          const lease = leases.get(change.key)
          const run = view.run(runId)
          if (how !== 'completed' || lease?.isDaemons !== true) continue
          // A follow-up that the worker's end cut short is queued again.
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
