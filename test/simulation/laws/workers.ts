/** Laws about workers: who may be given work, whose word counts, how one becomes a worker and stops being one. */
import type { SimWire } from '../sim-wire.ts'
import type { Law } from './law.ts'

const durableFirst: Law = {
  number: '2',
  sentence: 'a dispatch frame is sent only for a lease that is on disk',
  observe: (view, fail) => ({
    onHostSends: (wire, frame) => {
      if (frame.type !== 'dispatch') return
      const { id, runId } = frame.lease
      const lease = view.lease(id)
      const workerId = view.registeredAs(wire)
      if (lease === undefined) fail(`lease ${id} is not on disk`, { how: view.howEnded(id) })
      if (lease?.runId !== runId) fail(`lease ${id} is for run ${lease?.runId}, not ${runId}`)
      if (lease?.workerId !== workerId) fail(`lease ${id} is for ${lease?.workerId}, sent to ${workerId}`)
    },
  }),
}

const onlyToActive: Law = {
  number: '7',
  sentence: 'no dispatch to a worker that is not active, in memory and on disk, at that moment',
  observe: (view, fail) => {
    /** What was asked of this life of the host, and not refused. */
    const wanted = new Map<string, string>()
    return {
      onHostStarting: () => wanted.clear(),
      onRequest: ({ operation, workerId = '' }) => {
        if (operation === 'drain' || operation === 'own drain') wanted.set(workerId, 'draining')
        if (operation === 'enable' || operation === 'own enable') wanted.set(workerId, 'active')
        if (operation === 'revoke') wanted.set(workerId, 'revoked')
      },
      onResponse: ({ workerId = '' }, ok) => {
        if (!ok) wanted.delete(workerId)
      },
      onHostSends: (wire, frame) => {
        if (frame.type !== 'dispatch') return
        const workerId = view.registeredAs(wire) ?? ''
        const onDisk = view.workerState(workerId)
        const inMemory = wanted.get(workerId) ?? onDisk
        if (onDisk !== 'active' || inMemory !== 'active')
          fail(`${frame.lease.id} goes to ${workerId}`, { onDisk: onDisk ?? 'not enrolled', inMemory })
      },
    }
  },
}

const revokedHasNoEffect: Law = {
  number: '8',
  sentence: 'after a revocation: no register accepted, no frame applied, no yes on worker routes',
  observe: (view, fail) => {
    const revoking = new Set<string>()
    return {
      onHostStarting: () => revoking.clear(),
      onRequest: ({ operation, workerId = '' }) => void (operation === 'revoke' && revoking.add(workerId)),
      onResponse: ({ operation, workerId = '', genuine }, ok) => {
        if (operation !== 'admit' || revoking.has(workerId)) return
        const enrolled = view.worker(workerId) !== undefined
        if (ok && !enrolled) fail(`${workerId} is not enrolled and was admitted`)
        if (ok && genuine === false) fail(`a wrong credential of ${workerId} was admitted`)
        if (!ok && enrolled && genuine === true) fail(`${workerId} was not admitted with its own credential`)
      },
      onHostSends: (_wire, frame) => {
        if (frame.type === 'registered' && view.worker(frame.workerId) === undefined)
          fail(`${frame.workerId} is told that it is registered`)
      },
      onBeforeCommit: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.collection !== 'mark' || change.row === null) continue
          const lease = view.lease(change.key)
          if (lease === undefined || view.worker(lease.workerId) !== undefined) continue
          const before = view.watermarkOf(change.key).mark
          const { mark } = { mark: 0, ...change.row.value }
          if (mark > before) fail(`a frame of ${lease.workerId} was applied`, { lease, before, mark })
        }
      },
    }
  },
}

const oneConnection: Law = {
  number: '15',
  sentence: 'one current connection a worker; nothing is said on others but farewell',
  observe: (view, fail) => {
    const left = new Set<SimWire>()
    return {
      onHostSends: (wire, frame) => {
        if (frame.type === 'rejected') left.add(wire)
        else if (left.has(wire)) fail(`${frame.type} after a rejection`, { worker: wire.worker })
        if (frame.type === 'registered' || frame.type === 'rejected' || frame.type === 'revoked') return
        const workerId = view.registeredAs(wire)
        if (workerId === undefined) fail(`${frame.type} to somebody who is not registered`)
        else if (view.currentWire(workerId) !== wire)
          fail(`${frame.type} on a connection that was replaced`, { workerId })
      },
    }
  },
}

const tokenOnce: Law = {
  number: '18',
  sentence: 'a pairing token enrolls at most once',
  observe: (view, fail) => {
    const enrolled = new Map<string, string>()
    const tokens = new Set<string>()
    const ids = new Set<string>()
    return {
      onHostReceives: (_wire, frame) => {
        if (frame?.type === 'register' && frame.auth.kind === 'pairing') tokens.add(frame.auth.token)
      },
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is === 'snapshot' && change.kind === 'worker') ids.add(change.key)
        }
        if (ids.size > tokens.size) fail(`${ids.size} workers were enrolled with ${tokens.size} tokens`)
      },
      onHostSends: (wire, frame) => {
        if (frame.type !== 'registered' || frame.credential === undefined) return
        const auth = view.registerFrameOf(wire)?.auth
        if (auth?.kind !== 'pairing') return fail(`${frame.workerId} got a credential without a token`)
        const other = enrolled.get(auth.token)
        if (other !== undefined) fail('one token enrolled two', { first: other, other: frame.workerId })
        enrolled.set(auth.token, frame.workerId)
      },
    }
  },
}

const unauthorizedIsTrue: Law = {
  number: '19',
  sentence: '`unauthorized` only when the enrollment is gone',
  observe: (view, fail) => {
    const revoking = new Set<string>()
    return {
      onHostStarting: () => revoking.clear(),
      onRequest: ({ operation, workerId = '' }) => void (operation === 'revoke' && revoking.add(workerId)),
      onHostSends: (wire, frame) => {
        if (frame.type !== 'rejected' || frame.code !== 'unauthorized') return
        const auth = view.registerFrameOf(wire)?.auth
        if (auth?.kind !== 'credential') return
        // Workers of this world only ever show the credential they were given.
        if (view.worker(auth.workerId) !== undefined && !revoking.has(auth.workerId))
          fail(`${auth.workerId} is enrolled and was told that it is not`)
      },
    }
  },
}

/** A lease whose dispatch is this old may have been let go of, with the disk not knowing it yet. */
const DISPATCH_ANSWER_MS_MAX = 9_000
/** How long the wishes of two who disagree may be under way. */
const CONFLICT_MS = 60_000

const drainCountsAll: Law = {
  number: '24',
  sentence: "a drain's answer counts every lease whose dispatch was sent before it",
  observe: (view, fail) => {
    /** On which connection its worker was given it, or has named it. */
    const lastNamed = new Map<string, { readonly wire: SimWire; readonly at: number }>()
    /** What was heard or asked may have ended it in memory already. */
    const ending = new Set<string>()
    const lastOperation = new Map<string, string>()
    /** Somebody wanted the opposite a moment ago: a drain, an enable and a drain again may share a commit or not. */
    const enabledAt = new Map<string, number>()
    return {
      onRequest: ({ operation, workerId = '', runId = '' }) => {
        if (operation !== 'admit') lastOperation.set(workerId, operation)
        if (operation.endsWith('enable')) enabledAt.set(workerId, view.now())
        if (operation === 'cancel') for (const { id } of view.leasesOf(runId)) ending.add(id)
      },
      onHostSends: (wire, frame) => {
        if (frame.type === 'dispatch') lastNamed.set(frame.lease.id, { wire, at: view.now() })
      },
      onHostReceives: (wire, frame) => {
        if (frame?.type === 'register' || frame?.type === 'heartbeat') {
          const named = frame.type === 'register' ? frame.activeLeases : frame.leases
          for (const { id } of named) lastNamed.set(id, { wire, at: view.now() })
        }
        if (frame?.type === 'run-complete' || frame?.type === 'dispatch-rejected') ending.add(frame.leaseId)
      },
      onResponse: ({ operation, workerId = '' }, ok, value) => {
        if (operation !== 'own drain' || !ok) return
        const wire = view.currentWire(workerId)
        const open = view.leasesOn(workerId).filter(({ id, state }) => {
          const known = lastNamed.get(id)
          if (known === undefined || known.wire !== wire || wire?.hostOpen !== true) return false
          return !ending.has(id) && (state === 'held' || view.now() - known.at < DISPATCH_ANSWER_MS_MAX)
        })
        const counted = activeRunsIn(value)
        if (counted < open.length) fail(`the answer counts ${counted}`, { workerId, open })
        const state = view.workerState(workerId)
        const disputed = view.now() - (enabledAt.get(workerId) ?? Number.NEGATIVE_INFINITY) < CONFLICT_MS
        if (state === 'active' && !disputed && lastOperation.get(workerId)?.endsWith('drain') === true)
          fail('the answer came before the drain was on disk', { workerId })
      },
    }
  },
}

/** The figure in the answer of the state route. */
function activeRunsIn(value: unknown): number {
  const { worker } = { worker: undefined, ...Object(value) } as {
    worker: { activeRuns?: number } | undefined
  }
  return worker?.activeRuns ?? 0
}

export const workerLaws: readonly Law[] = [
  durableFirst,
  onlyToActive,
  revokedHasNoEffect,
  oneConnection,
  tokenOnce,
  unauthorizedIsTrue,
  drainCountsAll,
]
