/**
 * What a worker makes of being turned away.
 *
 * A bad token is worth no second try, but a credential may be left beside it. What cannot be cured by trying again ends
 * the worker, so that a person hears of it. Two cases look like that and are not: a `register` that was so long on its
 * way that the host had given up, and a host that takes offence at something only after it had welcomed this worker.
 * Then finished work may be waiting to be told, and an update of the host cures it: it is tried again, rarely.
 */
import type { RejectionCode } from '../../protocol/frames.ts'
import { WORKER_FIRST_FRAME_MS } from '../../protocol/limits.ts'

export interface RejectionFacts {
  /** It came with a token, not with a credential. */
  readonly withToken: boolean
  readonly hasCredential: boolean
  /** This line had been welcomed. */
  readonly registered: boolean
  /** So had one of this process. */
  readonly everRegistered: boolean
  /** From the dialling to the answer: of how long its greeting was on its way a line says nothing. */
  readonly afterMs: number
  /** A line of its own that the host may have taken up only now was given up a moment ago. */
  readonly abandonedConnection: boolean
}

export type RejectionVerdict =
  /** As after any other loss of the line. */
  | { readonly is: 'retry' }
  | { readonly is: 'retry-rarely' }
  | { readonly is: 'end'; readonly end: RejectionEnd }

export interface RejectionEnd {
  readonly is: 'unauthorized' | 'no-credential' | 'protocol' | 'malformed' | 'replaced'
  readonly detail: string
}

/** An answer that comes this late says that the question did not arrive in time. */
const TOO_LATE_MS = WORKER_FIRST_FRAME_MS * 0.9

export function judgeRejection(code: RejectionCode, reason: string, facts: RejectionFacts): RejectionVerdict {
  switch (code) {
    case 'invalid-token':
    case 'expired-token':
      return facts.hasCredential ? { is: 'retry' } : end('no-credential', tokenRefused(reason))
    case 'unauthorized':
      return end('unauthorized', `the host does not know this worker any more (${reason}); pair it again`)
    case 'protocol':
      return facts.registered
        ? replaced(facts)
        : end('protocol', `the host turned this worker away: ${reason}`)
    case 'malformed':
      return malformed(reason, facts)
  }
}

/** On a line that was welcomed the version was right; all that `protocol` can mean then is a newer line. */
function replaced({ abandonedConnection: gaveUpOne }: RejectionFacts): RejectionVerdict {
  if (gaveUpOne) return { is: 'retry' }
  return end(
    'replaced',
    'another worker uses the same credential; give each its own data directory and pair it',
  )
}

function malformed(reason: string, { everRegistered, afterMs }: RejectionFacts): RejectionVerdict {
  if (everRegistered) return { is: 'retry-rarely' }
  if (afterMs >= TOO_LATE_MS) return { is: 'retry' }
  return end('malformed', `the host does not understand this worker: ${reason}; update the older of the two`)
}

const tokenRefused = (reason: string): string =>
  `the pairing token was refused (${reason}); get a new one from the host (POST /api/workers/pairing-tokens)`

const end = (is: RejectionEnd['is'], detail: string): RejectionVerdict => ({ is: 'end', end: { is, detail } })
