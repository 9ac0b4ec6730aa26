/** Laws about workers: who may be given work, whose word counts, how one becomes a worker and stops being one. */
import type { Wire } from '../network.ts'
import type { Law } from './law.ts'

const durableFirst: Law = {
  number: '2',
  sentence: 'a dispatch frame is sent only for a lease that is on disk',
  watch: (sight, broken) => ({
    hostSends: (wire, frame) => {
      if (frame.type !== 'dispatch') return
      const { id, runId } = frame.lease
      const lease = sight.lease(id)
      const workerId = sight.registeredAs(wire)
      if (lease === undefined) broken(`lease ${id} is not on disk`, { how: sight.howEnded(id) })
      if (lease?.runId !== runId) broken(`lease ${id} is for run ${lease?.runId}, not ${runId}`)
      if (lease?.workerId !== workerId) broken(`lease ${id} is for ${lease?.workerId}, sent to ${workerId}`)
    },
  }),
}

const onlyToActive: Law = {
  number: '7',
  sentence: 'no dispatch to a worker that is not active, in memory and on disk, at that moment',
  watch: (sight, broken) => {
    /** What was asked of this life of the host, and not refused. */
    const wanted = new Map<string, string>()
    return {
      booted: () => wanted.clear(),
      asked: ({ what, workerId = '' }) => {
        if (what === 'drain' || what === 'own drain') wanted.set(workerId, 'draining')
        if (what === 'enable' || what === 'own enable') wanted.set(workerId, 'active')
        if (what === 'revoke') wanted.set(workerId, 'revoked')
      },
      answered: ({ workerId = '' }, ok) => {
        if (!ok) wanted.delete(workerId)
      },
      hostSends: (wire, frame) => {
        if (frame.type !== 'dispatch') return
        const workerId = sight.registeredAs(wire) ?? ''
        const onDisk = sight.workerState(workerId)
        const inMemory = wanted.get(workerId) ?? onDisk
        if (onDisk !== 'active' || inMemory !== 'active')
          broken(`${frame.lease.id} goes to ${workerId}`, { onDisk: onDisk ?? 'not enrolled', inMemory })
      },
    }
  },
}

const revokedIsGone: Law = {
  number: '8',
  sentence: 'after a revocation: no register accepted, no frame applied, no yes on worker routes',
  watch: (sight, broken) => {
    const revoking = new Set<string>()
    return {
      booted: () => revoking.clear(),
      asked: ({ what, workerId = '' }) => void (what === 'revoke' && revoking.add(workerId)),
      answered: ({ what, workerId = '', genuine }, ok) => {
        if (what !== 'admit' || revoking.has(workerId)) return
        const enrolled = sight.worker(workerId) !== undefined
        if (ok && !enrolled) broken(`${workerId} is not enrolled and was admitted`)
        if (ok && genuine === false) broken(`a wrong credential of ${workerId} was admitted`)
        if (!ok && enrolled && genuine === true)
          broken(`${workerId} was not admitted with its own credential`)
      },
      hostSends: (_wire, frame) => {
        if (frame.type === 'registered' && sight.worker(frame.workerId) === undefined)
          broken(`${frame.workerId} is told that it is registered`)
      },
      landing: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.shelf !== 'mark' || change.row === null) continue
          const lease = sight.lease(change.key)
          if (lease === undefined || sight.worker(lease.workerId) !== undefined) continue
          const before = sight.markOf(change.key).mark
          const { mark } = { mark: 0, ...change.row.value }
          if (mark > before) broken(`a frame of ${lease.workerId} was applied`, { lease, before, mark })
        }
      },
    }
  },
}

const oneConnection: Law = {
  number: '15',
  sentence: 'one current connection a worker; nothing is said on others but farewell',
  watch: (sight, broken) => {
    const left = new Set<Wire>()
    return {
      hostSends: (wire, frame) => {
        if (frame.type === 'rejected') left.add(wire)
        else if (left.has(wire)) broken(`${frame.type} after a rejection`, { worker: wire.worker })
        if (frame.type === 'registered' || frame.type === 'rejected' || frame.type === 'revoked') return
        const workerId = sight.registeredAs(wire)
        if (workerId === undefined) broken(`${frame.type} to somebody who is not registered`)
        else if (sight.currentWire(workerId) !== wire)
          broken(`${frame.type} on a connection that was replaced`, { workerId })
      },
    }
  },
}

const tokenOnce: Law = {
  number: '18',
  sentence: 'a pairing token enrolls at most once',
  watch: (sight, broken) => {
    const enrolled = new Map<string, string>()
    const tokens = new Set<string>()
    const ids = new Set<string>()
    return {
      hostHears: (_wire, frame) => {
        if (frame?.type === 'register' && frame.auth.kind === 'pairing') tokens.add(frame.auth.token)
      },
      landed: ({ changes }) => {
        for (const change of changes) {
          if (change.is === 'snapshot' && change.kind === 'worker') ids.add(change.key)
        }
        if (ids.size > tokens.size) broken(`${ids.size} workers were enrolled with ${tokens.size} tokens`)
      },
      hostSends: (wire, frame) => {
        if (frame.type !== 'registered' || frame.credential === undefined) return
        const auth = sight.introduction(wire)?.auth
        if (auth?.kind !== 'pairing') return broken(`${frame.workerId} got a credential without a token`)
        const other = enrolled.get(auth.token)
        if (other !== undefined) broken('one token enrolled two', { one: other, other: frame.workerId })
        enrolled.set(auth.token, frame.workerId)
      },
    }
  },
}

const unauthorizedIsSure: Law = {
  number: '19',
  sentence: '`unauthorized` only when the enrollment is gone',
  watch: (sight, broken) => {
    const revoking = new Set<string>()
    return {
      booted: () => revoking.clear(),
      asked: ({ what, workerId = '' }) => void (what === 'revoke' && revoking.add(workerId)),
      hostSends: (wire, frame) => {
        if (frame.type !== 'rejected' || frame.code !== 'unauthorized') return
        const auth = sight.introduction(wire)?.auth
        if (auth?.kind !== 'credential') return
        // Workers of this world only ever show the credential they were given.
        if (sight.worker(auth.workerId) !== undefined && !revoking.has(auth.workerId))
          broken(`${auth.workerId} is enrolled and was told that it is not`)
      },
    }
  },
}

/** A lease whose dispatch is this old may have been let go of, with the disk not knowing it yet. */
const ANSWERED_MS = 9_000
/** How long the wishes of two who disagree may be under way. */
const DISPUTE_MS = 60_000

const drainTellsAll: Law = {
  number: '24',
  sentence: "a drain's answer counts every lease whose dispatch was sent before it",
  watch: (sight, broken) => {
    /** On which connection its worker was given it, or has named it. */
    const place = new Map<string, { readonly wire: Wire; readonly at: number }>()
    /** What was heard or asked may have ended it in memory already. */
    const ending = new Set<string>()
    const lastWish = new Map<string, string>()
    /** Somebody wanted the opposite a moment ago: a drain, an enable and a drain again may share a commit or not. */
    const enabledAt = new Map<string, number>()
    return {
      asked: ({ what, workerId = '', runId = '' }) => {
        if (what !== 'admit') lastWish.set(workerId, what)
        if (what.endsWith('enable')) enabledAt.set(workerId, sight.now())
        if (what === 'cancel') for (const { id } of sight.leasesOf(runId)) ending.add(id)
      },
      hostSends: (wire, frame) => {
        if (frame.type === 'dispatch') place.set(frame.lease.id, { wire, at: sight.now() })
      },
      hostHears: (wire, frame) => {
        if (frame?.type === 'register' || frame?.type === 'heartbeat') {
          const named = frame.type === 'register' ? frame.activeLeases : frame.leases
          for (const { id } of named) place.set(id, { wire, at: sight.now() })
        }
        if (frame?.type === 'run-complete' || frame?.type === 'dispatch-rejected') ending.add(frame.leaseId)
      },
      answered: ({ what, workerId = '' }, ok, value) => {
        if (what !== 'own drain' || !ok) return
        const wire = sight.currentWire(workerId)
        const open = sight.leasesOn(workerId).filter(({ id, state }) => {
          const known = place.get(id)
          if (known === undefined || known.wire !== wire || wire?.hostOpen !== true) return false
          return !ending.has(id) && (state === 'held' || sight.now() - known.at < ANSWERED_MS)
        })
        const counted = activeRunsIn(value)
        if (counted < open.length) broken(`the answer counts ${counted}`, { workerId, open })
        const state = sight.workerState(workerId)
        const disputed = sight.now() - (enabledAt.get(workerId) ?? Number.NEGATIVE_INFINITY) < DISPUTE_MS
        if (state === 'active' && !disputed && lastWish.get(workerId)?.endsWith('drain') === true)
          broken('the answer came before the drain was on disk', { workerId })
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

export const fleetLaws: readonly Law[] = [
  durableFirst,
  onlyToActive,
  revokedIsGone,
  oneConnection,
  tokenOnce,
  unauthorizedIsSure,
  drainTellsAll,
]
