/** The law of runs that a worker gave back because no run can change what they lack. */
import type { Law } from './law.ts'

/** The waits of the product, shortened because clocks differ by up to one percent. */
const RECHECK_MS = 15 * 60_000 * 0.98
const RECONNECT_MS = 30_000 * 0.98

interface GivenBack {
  readonly leaseId: string
  readonly runId: string
  readonly workerId: string
  readonly at: number
  /** The configuration in force then: another object after every change. */
  readonly config: object | undefined
  mayReturnAt: number
}

const notAgainAtOnce: Law = {
  number: 'W3',
  sentence: 'a run that a worker gave back goes to that worker again only after something has changed',
  observe: (view, fail) => {
    let givenBack: GivenBack[] = []
    const allow = (isMeant: (entry: GivenBack) => boolean) => {
      givenBack = givenBack.filter((entry) => !isMeant(entry))
    }
    return {
      onHostStarting: () => allow(() => true),
      onRequest({ operation, runId, workerId }) {
        if (operation === 'retry') allow((entry) => entry.runId === runId)
        if (operation === 'enable' || operation === 'own enable')
          allow((entry) => entry.workerId === workerId)
      },
      onHostReceives(connection, frame) {
        if (frame?.type !== 'run-complete' || frame.outcome.failure !== 'configuration') return
        if (frame.outcome.begun === false) return
        const lease = view.lease(frame.leaseId)
        if (lease === undefined || lease.workerId !== view.registeredAs(connection)) return
        const at = view.now()
        const { runId, workerId } = lease
        const [config, mayReturnAt] = [view.liveConfig(), at + RECHECK_MS]
        givenBack.push({ leaseId: lease.id, runId, workerId, at, config, mayReturnAt })
      },
      onHostSends(connection, frame) {
        const now = view.now()
        if (frame.type === 'registered')
          for (const entry of givenBack)
            if (entry.workerId === frame.workerId)
              entry.mayReturnAt = Math.min(entry.mayReturnAt, Math.max(now, entry.at + RECONNECT_MS))
        if (frame.type !== 'dispatch') return
        const workerId = view.registeredAs(connection)
        const early = givenBack.find(
          (entry) =>
            entry.workerId === workerId &&
            entry.runId === frame.lease.runId &&
            now < entry.mayReturnAt &&
            entry.config === view.liveConfig() &&
            view.howEnded(entry.leaseId) === 'completed',
        )
        if (early !== undefined)
          fail(`run ${early.runId} went to ${workerId} again after ${Math.round(now - early.at)} ms`)
      },
    }
  },
}

export const setbackLaws: readonly Law[] = [notAgainAtOnce]
