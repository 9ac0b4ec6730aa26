/**
 * Tests of types. The compiler checks them: it refuses each line below a mark, and a mark above a line that it accepts.
 * The functions are not called.
 */
import { expect, test } from '@jest/globals'
import type { DaemonContext } from '../../../actors/daemon/daemon-context.ts'
import { defineHostModule, type HostChange, type HostContext } from '../../../actors/host-context.ts'
import { LEASE } from '../../../actors/leases/lease.names.ts'
import { RUN } from '../../../actors/runs/run.machine.ts'
import { eventTo } from '../../../actors/runtime/actions.ts'
import type { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import { observeKind } from '../../../actors/runtime/module.ts'
import { handleTimer, timerKind } from '../../../actors/runtime/timer-kind.ts'

const lost = { type: 'lease lost', leaseId: 'ls-1', at: '', reason: '' } as const

test('an actor receives only events of its kind', () => {
  const send = (system: ActorSystem) => {
    system.send(RUN, 'r', lost)
    // @ts-expect-error the type of the event has a typo
    system.send(RUN, 'r', { ...lost, type: 'lease lots' })
    // @ts-expect-error a lease handles no events of runs
    system.send(LEASE, 'ls-1', lost)
    // @ts-expect-error the event lacks its reason
    system.send(RUN, 'r', { type: 'lease lost', leaseId: 'ls-1', at: '' })
    // @ts-expect-error a plain string names no kind
    system.send('run', 'r', lost)
    // @ts-expect-error a machine can't send it either
    eventTo(RUN, 'r', { type: 'lease lots' })
    // @ts-expect-error a lease is spawned with more
    system.spawn(LEASE, 'ls-1', { id: 'ls-1' })
  }
  expect(send).toBeDefined()
})

test('an actor shows only what its kind has', () => {
  const read = (system: ActorSystem) => [
    system.peek(LEASE, 'ls-1')?.context.workerId,
    observeKind(LEASE, ({ after }) => after.context.workerId),
    // @ts-expect-error a run has no such field
    system.peek(RUN, 'r')?.context.workerId,
    // @ts-expect-error nor has its new state
    observeKind(RUN, ({ after }) => after.context.workerId),
  ]
  expect(read).toBeDefined()
})

test('a module publishes and observes only the changes of its process', () => {
  const publish = (host: HostContext, daemon: DaemonContext) => {
    host.publish({ view: 'finished run', key: 'r' })
    // @ts-expect-error the name of the view has a typo
    host.publish({ view: 'finnished run', key: 'r' })
    // @ts-expect-error the change does not say which run
    host.publish({ view: 'finished run' })
    // @ts-expect-error only the daemon has this view
    host.publish({ view: 'capabilities' })
    // @ts-expect-error a connection is up or down
    daemon.publish({ view: 'host connection', key: 'upp' })
  }
  const create = () => ({
    onViewChange(change: HostChange) {
      // @ts-expect-error the name of the view has a typo
      return change.view === 'finnished run'
    },
  })
  expect([publish, defineHostModule({ name: 'changes', create })]).toHaveLength(2)
})

test('a timer has a name of its kind', () => {
  const LEASE_TIMER = timerKind<'answer' | 'away'>('lease')
  const set = ({ timers }: HostContext) => {
    timers.set(LEASE_TIMER.key('ls-1'), 'answer', 0)
    // @ts-expect-error the name has a typo
    timers.set(LEASE_TIMER.key('ls-1'), 'anwser', 0)
    // @ts-expect-error a key is made by its kind, not by hand
    timers.set('lease ls-1', 'answer', 0)
    // @ts-expect-error the handler compares with a name that no lease has
    handleTimer(LEASE_TIMER, (_, name) => name === 'anwser')
  }
  expect(set).toBeDefined()
})
