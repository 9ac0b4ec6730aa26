/** Trails of the daemon machine. */

import { type DaemonEvent, daemonMachine } from '../../../actors/daemon/daemon.machine.ts'
import type { DaemonEnd } from '../../../actors/daemon/daemon-context.ts'
import { inEach, LAST_LINE, trailTests } from '../trail-tests.ts'

const drain: DaemonEvent = { type: 'drain requested' }
const handBack: DaemonEvent = { type: 'hand back requested' }
const stop: DaemonEvent = { type: 'stop requested' }
const begun: DaemonEvent = { type: 'only run began' }
const broken: DaemonEvent = { type: 'fatal error', end: { is: 'broken', detail: 'an I/O error' } }
const late: DaemonEvent = { type: 'timed out' }
const flushed: DaemonEvent = { type: 'flushed' }
const nothing: DaemonEvent = { type: 'counted', running: 0, unacknowledged: 0 }
const unacknowledged: DaemonEvent = { type: 'counted', running: 0, unacknowledged: 1 }
const connectionEnded = (is: DaemonEnd['is']): DaemonEvent => ({
  type: 'host connection ended',
  end: { is, detail: `it is ${is}` },
})
const revoked = connectionEnded('revoked')
const misunderstood = connectionEnded('protocol')

const places: Readonly<Record<string, readonly DaemonEvent[]>> = {
  serving: [],
  draining: [drain],
  reporting: [drain, unacknowledged],
  'handing back': [drain, late],
  finishing: [begun],
  'reporting its only run': [begun, unacknowledged],
}
const { reporting: _, 'handing back': __, ...handBackPlaces } = places

trailTests<DaemonEvent>(daemonMachine, {}, [
  ['a drain without runs', [drain, nothing, flushed]],
  ['one run that is acknowledged later than it is done', [begun, unacknowledged, nothing, flushed]],
  ['one run that is not acknowledged', [begun, unacknowledged, late, flushed]],
  ['one run that is acknowledged at once', [begun, nothing, flushed]],
  ['one run that is done when the end is requested', [begun, unacknowledged, drain, nothing, flushed]],
  ['one run and a request to end', [begun, drain, unacknowledged, late, flushed]],
  ['no work for long', [{ type: 'idle for long' }, nothing, flushed]],
  ['a drain that waits for acknowledgements', [drain, unacknowledged, nothing, flushed]],
  ['a drain whose host does not come back', [drain, unacknowledged, late, late]],
  ['a drain that takes too long', [drain, late, unacknowledged, flushed]],
  ['a drain that takes too long with processes that cannot be killed', [drain, late, late, late, late]],
  ...inEach(handBackPlaces, [['everything handed back', [handBack], LAST_LINE]]),
  ['a hand back with only unacknowledged completions', [drain, unacknowledged, handBack], LAST_LINE],
  ['replaced by another daemon', [connectionEnded('replaced'), nothing, flushed]],
  ...inEach(places, [
    ['stopped', [stop], LAST_LINE],
    ['fatal error', [broken], LAST_LINE],
    ['revoked', [revoked], LAST_LINE],
    ['rejected protocol', [misunderstood], LAST_LINE],
  ]),
  ['revoked, and the executions end', [revoked, nothing, flushed]],
  ['revoked, and the executions do not end', [revoked, late]],
  ['revoked, and then stopped', [revoked, stop]],
  ['revoked, and then a fatal error', [revoked, broken]],
  ['fatal errors while stopping', [stop, broken, nothing, broken]],
])
