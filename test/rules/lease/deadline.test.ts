import { describe, expect, test } from '@jest/globals'
import {
  heartbeatTimeoutMs,
  leaseDeadline,
  leaseTermMs,
  restoredLeaseDeadline,
  unansweredLeaseDeadline,
} from '../../../core/lease/deadline.ts'
import { DISPATCH_ANSWER_MS } from '../../../protocol/limits.ts'

const timeouts = { heartbeatTimeoutSeconds: 45, reconnectGraceSeconds: 120 }
const term = leaseTermMs(timeouts)

describe('a lease is valid', () => {
  test('for the timeout and the grace after the last sign of its worker', () => {
    expect(heartbeatTimeoutMs(timeouts)).toBe(45_000)
    expect(term).toBe(165_000)
    expect(leaseDeadline(1_000, term)).toBe(166_000)
  })

  test('for as long as was promised, whatever the configuration becomes', () => {
    expect(leaseDeadline(1_000, 10_000)).toBe(11_000)
  })

  test('longer when its dispatch is unanswered: at least as long as its worker may rely on it', () => {
    // The worker counts from the arrival, which is before it would have stopped waiting for the host.
    const arrivedLatest = 1_000 + heartbeatTimeoutMs(timeouts)
    const until = unansweredLeaseDeadline(1_000, term, timeouts)
    expect(until).toBeGreaterThanOrEqual(leaseDeadline(arrivedLatest, term))
    expect(until).toBe(1_000 + DISPATCH_ANSWER_MS + 45_000 + term)
  })

  test('after a restart as if its dispatch had just been sent, which outlasts every earlier promise', () => {
    expect(restoredLeaseDeadline(5_000, term, timeouts)).toBe(unansweredLeaseDeadline(5_000, term, timeouts))
  })
})
