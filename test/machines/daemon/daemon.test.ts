/** What the daemon as a whole does, one story for each way. */
import { type DaemonEvent, daemonMachine } from '../../../actors/daemon/daemon.machine.ts'
import type { DaemonEnd } from '../../../actors/daemon/daemon-dependencies.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const drain: DaemonEvent = { type: 'drain requested' }
const handBack: DaemonEvent = { type: 'hand back requested' }
const stop: DaemonEvent = { type: 'stop requested' }
const broken: DaemonEvent = { type: 'broken', reason: 'an I/O error' }
const late: DaemonEvent = { type: 'time is up' }
const flushed: DaemonEvent = { type: 'flushed' }
const nothing: DaemonEvent = { type: 'counted', running: 0, untold: 0 }
const untold: DaemonEvent = { type: 'counted', running: 0, untold: 1 }
const linkEnded = (is: DaemonEnd['is']): DaemonEvent => ({
  type: 'link ended',
  end: { is, detail: `it is ${is}` },
})
const revoked = linkEnded('revoked')
const misunderstood = linkEnded('protocol')

const places: readonly (readonly [name: string, way: readonly DaemonEvent[]])[] = [
  ['serving', []],
  ['draining', [drain]],
  ['reporting', [drain, untold]],
  ['handing back', [drain, late]],
]

const stories: readonly Story<DaemonEvent>[] = [
  {
    title: 'a drain with nothing to do',
    input: {},
    events: [drain, nothing, flushed],
    trail: [
      'start → serving : daemon.go',
      'drain requested → draining : daemon.drain, daemon.count',
      'counted → closing : daemon.flush',
      'flushed → stopped : daemon.finish',
    ],
  },
  {
    title: 'a drain that waits for the word of the host',
    input: {},
    events: [drain, untold, nothing, flushed],
    trail: [
      'start → serving : daemon.go',
      'drain requested → draining : daemon.drain, daemon.count',
      'counted → reporting : daemon.wait for host',
      'counted → closing : daemon.flush',
      'flushed → stopped : daemon.finish',
    ],
  },
  {
    title: 'a drain whose host does not come back',
    input: {},
    events: [drain, untold, late, late],
    trail: [
      'start → serving : daemon.go',
      'drain requested → draining : daemon.drain, daemon.count',
      'counted → reporting : daemon.wait for host',
      'time is up → closing : daemon.flush',
      'time is up → stopped : daemon.finish',
    ],
  },
  {
    title: 'a drain that takes too long',
    input: {},
    events: [drain, late, untold, flushed],
    trail: [
      'start → serving : daemon.go',
      'drain requested → draining : daemon.drain, daemon.count',
      'time is up → handingBack : daemon.hand back (the worker ends, and does not wait for it), daemon.count',
      'counted → closing : daemon.flush',
      'flushed → stopped : daemon.finish',
    ],
  },
  {
    title: 'a drain that takes too long with what can not be killed',
    input: {},
    events: [drain, late, late, late, late],
    trail: [
      'start → serving : daemon.go',
      'drain requested → draining : daemon.drain, daemon.count',
      'time is up → handingBack : daemon.hand back (the worker ends, and does not wait for it), daemon.count',
      'time is up → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count',
      'time is up → closing : daemon.flush',
      'time is up → stopped : daemon.finish',
    ],
  },
  ...places.slice(0, 2).map(
    ([name, way]): Story<DaemonEvent> => ({
      title: `everything handed back while ${name}`,
      input: {},
      events: [...way, handBack],
      ends: 'hand back requested → handingBack : daemon.hand back (the worker ends, and does not wait for it), daemon.count',
    }),
  ),
  {
    title: 'nothing to hand back but what is on disk',
    input: {},
    events: [drain, untold, handBack],
    ends: 'hand back requested → closing : daemon.flush',
  },
  {
    title: 'replaced by another',
    input: {},
    events: [linkEnded('replaced'), nothing, flushed],
    trail: [
      'start → serving : daemon.go',
      'link ended → forsaken : daemon.abandon (it is replaced), daemon.count, is=replaced, detail=it is replaced',
      'counted → closing : daemon.flush',
      'flushed → stopped : daemon.finish',
    ],
  },
  ...places.flatMap(([name, way]): Story<DaemonEvent>[] => [
    {
      title: `stopped while ${name}`,
      input: {},
      events: [...way, stop],
      ends: 'stop requested → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count',
    },
    {
      title: `broken while ${name}`,
      input: {},
      events: [...way, broken],
      ends: 'broken → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count, is=broken, detail=an I/O error',
    },
    {
      title: `revoked while ${name}`,
      input: {},
      events: [...way, revoked],
      ends: 'link ended → forsaken : daemon.abandon (it is revoked), daemon.count, is=revoked, detail=it is revoked',
    },
    {
      title: `not understood while ${name}`,
      input: {},
      events: [...way, misunderstood],
      ends: 'link ended → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count, is=protocol, detail=it is protocol',
    },
  ]),
  {
    title: 'revoked, and its runs end',
    input: {},
    events: [revoked, nothing, flushed],
    trail: [
      'start → serving : daemon.go',
      'link ended → forsaken : daemon.abandon (it is revoked), daemon.count, is=revoked, detail=it is revoked',
      'counted → closing : daemon.flush',
      'flushed → stopped : daemon.finish',
    ],
  },
  {
    title: 'revoked, and its runs do not end',
    input: {},
    events: [revoked, late],
    trail: [
      'start → serving : daemon.go',
      'link ended → forsaken : daemon.abandon (it is revoked), daemon.count, is=revoked, detail=it is revoked',
      'time is up → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count',
    ],
  },
  {
    title: 'revoked, and then stopped',
    input: {},
    events: [revoked, stop],
    trail: [
      'start → serving : daemon.go',
      'link ended → forsaken : daemon.abandon (it is revoked), daemon.count, is=revoked, detail=it is revoked',
      'stop requested → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count',
    ],
  },
  {
    title: 'revoked, and then broken',
    input: {},
    events: [revoked, broken],
    trail: [
      'start → serving : daemon.go',
      'link ended → forsaken : daemon.abandon (it is revoked), daemon.count, is=revoked, detail=it is revoked',
      'broken → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count, is=broken, detail=an I/O error',
    ],
  },
  {
    title: 'broken while it stops',
    input: {},
    events: [stop, broken, nothing, broken],
    trail: [
      'start → serving : daemon.go',
      'stop requested → stopping : daemon.kill (interrupted: the worker was stopped), daemon.count',
      'broken → stopping : is=broken, detail=an I/O error',
      'counted → closing : daemon.flush',
      'broken → stopped : daemon.finish',
    ],
  },
]

tell(daemonMachine, stories)
