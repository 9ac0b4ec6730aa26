/**
 * Facts about xstate on which the runtime relies. Run them at every upgrade: when one fails, reconsider the runtime
 * before you raise the version.
 */
import { describe, expect, test } from '@jest/globals'
import { type AnyActorRef, assign, createActor, createMachine, fromTransition, setup } from 'xstate'

const parent = () => {
  const received: string[] = []
  const ref = createActor(
    fromTransition((state: number, event: { type: string; child?: AnyActorRef }, scope) => {
      received.push(event.type)
      if (event.child !== undefined) scope.stopChild(event.child)
      return state
    }, 0),
  )
  ref.start()
  return { ref, received }
}

const machine = setup({
  types: {} as {
    context: { n: number }
    events: { type: 'add' } | { type: 'boom' } | { type: 'end' } | { type: 'odd' }
  },
  actions: {
    add: assign({ n: ({ context }) => context.n + 1 }),
    boom: () => {
      throw new Error('boom')
    },
  },
}).createMachine({
  id: 'm',
  context: { n: 0 },
  initial: 'on',
  states: {
    on: { on: { add: { actions: 'add' }, boom: { actions: ['add', 'boom'] }, end: 'off' } },
    off: { type: 'final' },
  },
})

describe('an actor under a parent that did not spawn it', () => {
  test('throws: send does not, the snapshot has status error, the parent receives an event', () => {
    const { ref, received } = parent()
    const actor = createActor(machine, { parent: ref, id: 'kind' })
    actor.start()
    expect(() => actor.send({ type: 'boom' })).not.toThrow()
    expect(actor.getSnapshot().status).toBe('error')
    expect(received).toContain('xstate.error.actor.kind')
  })

  test('throws: the snapshot before is still whole, and a new actor continues from it', () => {
    const { ref } = parent()
    const actor = createActor(machine, { parent: ref, id: 'kind' })
    actor.start()
    actor.send({ type: 'add' })
    const good = actor.getSnapshot()
    actor.send({ type: 'boom' })
    expect(good.context).toEqual({ n: 1 })
    const again = createActor(machine, {
      parent: ref,
      id: 'kind',
      snapshot: machine.getPersistedSnapshot(good),
    })
    again.start()
    again.send({ type: 'add' })
    expect(again.getSnapshot().context).toEqual({ n: 2 })
  })

  test('throws while starting: start does not, the snapshot has status error', () => {
    const { ref } = parent()
    const initial = setup({
      actions: {
        boom: () => {
          throw new Error('boom')
        },
      },
    }).createMachine({ entry: 'boom' })
    const actor = createActor(initial, { parent: ref, id: 'kind' })
    expect(() => actor.start()).not.toThrow()
    expect(actor.getSnapshot().status).toBe('error')
  })

  test('ends: the parent receives an event, and the snapshot has status done', () => {
    const { ref, received } = parent()
    const actor = createActor(machine, { parent: ref, id: 'kind' })
    actor.start()
    actor.send({ type: 'end' })
    expect(actor.getSnapshot().status).toBe('done')
    expect(received).toContain('xstate.done.actor.kind')
  })

  test('can be stopped by its parent only', () => {
    const { ref } = parent()
    const actor = createActor(machine, { parent: ref, id: 'kind' })
    actor.start()
    expect(() => actor.stop()).toThrow(/non-root/)
    ref.send({ type: 'stop', child: actor })
    expect(actor.getSnapshot().status).toBe('stopped')
  })

  test('continues when its parent is stopped: its creator must stop it', () => {
    const { ref } = parent()
    const actor = createActor(machine, { parent: ref, id: 'kind' })
    actor.start()
    ref.stop()
    actor.send({ type: 'add' })
    expect(actor.getSnapshot().context.n).toBe(1)
  })

  test('may share its id with others', () => {
    const { ref } = parent()
    const both = [1, 2].map(() => createActor(machine, { parent: ref, id: 'kind' }).start())
    both[1]?.send({ type: 'add' })
    expect(both.map((actor) => actor.getSnapshot().context.n)).toEqual([0, 1])
  })
})

describe('snapshots', () => {
  test('an event that no state handles returns the very same snapshot', () => {
    const actor = createActor(machine).start()
    const before = actor.getSnapshot()
    actor.send({ type: 'odd' })
    expect(actor.getSnapshot()).toBe(before)
  })

  test('actions run before the new snapshot is in place, so actions can’t write it', () => {
    const seen: unknown[] = []
    const looking = setup({
      types: {} as { context: { n: number } },
      actions: { add: assign({ n: 1 }), recordContext: ({ self }) => seen.push(self.getSnapshot().context) },
    }).createMachine({ context: { n: 0 }, on: { go: { actions: ['add', 'recordContext'] } } })
    createActor(looking).start().send({ type: 'go' })
    expect(seen).toEqual([{ n: 0 }])
  })

  test('a restored machine does not run its entry actions again', () => {
    const seen: string[] = []
    const entering = setup({ actions: { note: () => seen.push('entered') } }).createMachine({
      initial: 'a',
      states: { a: { entry: 'note' } },
    })
    const first = createActor(entering).start()
    createActor(entering, { snapshot: first.getPersistedSnapshot() }).start()
    expect(seen).toEqual(['entered'])
  })

  test('a machine can be restored from state and context alone', () => {
    const restored = createActor(machine, {
      snapshot: { status: 'active', value: 'on', context: { n: 7 }, children: {}, historyValue: {} } as never,
    }).start()
    restored.send({ type: 'add' })
    expect(restored.getSnapshot().context.n).toBe(8)
  })

  test('a delay is lost when a machine is restored, so deadlines are stored in snapshots', async () => {
    const delayed = createMachine({ initial: 'a', states: { a: { after: { 5: 'b' } }, b: {} } })
    const first = createActor(delayed).start()
    const kept = first.getPersistedSnapshot()
    first.stop()
    const restored = createActor(delayed, { snapshot: kept }).start()
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(restored.getSnapshot().value).toBe('a')
    restored.stop()
  })
})

describe('traps', () => {
  test("an event named 'xstate.stop' stops an actor, so frame types never become event types", () => {
    const actor = createActor(machine).start()
    actor.send({ type: 'xstate.stop' } as never)
    expect(actor.getSnapshot().status).toBe('stopped')
  })

  test('maxIterations turns an endless loop of eventless transitions into a crash', () => {
    const endless = createMachine({
      options: { maxIterations: 10 },
      initial: 'a',
      states: { a: { on: { go: 'b' } }, b: { always: 'c' }, c: { always: 'b' } },
    })
    const actor = createActor(endless)
    actor.subscribe({ error: () => {} })
    actor.start()
    actor.send({ type: 'go' })
    expect(actor.getSnapshot().status).toBe('error')
  })
})
