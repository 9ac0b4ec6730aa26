/**
 * Compares quick steps with xstate's own: the same state, context and actions in the same order, over random machines
 * and random events, throws included.
 */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type AnyActorLogic, type AnyStateMachine, assign, createActor, setup } from 'xstate'
import { hostKinds } from '../../../actors/root/modules.ts'
import { defineActions, eventTo } from '../../../actors/runtime/actions.ts'
import { kindName } from '../../../actors/runtime/actor-kind.ts'
import { withQuickSteps } from '../../../actors/runtime/quick-steps.ts'
import { createTransitionOutput, type TransitionOutput } from '../../../actors/runtime/transition-output.ts'
import { tallyMachine } from '../../support/counter-actor.ts'

const EVENTS = ['e0', 'e1', 'e2', 'unknown'] as const
const ACTIONS = ['inc', 'dbl', 'note', 'noteWith', 'noteParams', 'boom', 'sendSome', 'leave'] as const

type StepContext = { readonly n: number; readonly m: number }
type StepEvent = { readonly type: string; readonly x: number }
const OTHER = kindName<StepContext, StepEvent>('other')
const { sendEvent, endActor } = defineActions<StepContext, StepEvent, never>()

/** Actions of every sort; `log` receives those that neither assign nor add to the output. */
function base(log: string[]) {
  return setup({
    types: {} as { context: StepContext; events: StepEvent; input: number },
    guards: { odd: ({ context }) => context.n % 2 === 1, even: ({ context }) => context.n % 2 === 0 },
    actions: {
      inc: assign({ n: ({ context }) => context.n + 1 }),
      dbl: assign(({ context, event }) => ({ n: (context.n * 2 + event.x) % 97, m: context.n })),
      note: ({ context, event }) => void log.push(`note ${context.n}/${context.m} ${event.type}`),
      noteWith: ({ context }, params: { by: number }) => void log.push(`with ${context.n + params.by}`),
      noteParams: (_args, params: { seen: number }) => void log.push(`params ${params.seen}`),
      boom: ({ context }) => {
        if (context.n % 5 === 4) throw new Error('boom')
      },
      sendSome: sendEvent(({ context, event }) =>
        Array.from({ length: context.n % 3 }, (_, at) => eventTo(OTHER, `${at} of ${context.n}`, event)),
      ),
      leave: endActor(),
    },
  })
}

/** Returns the output since the last call, as JSON. */
function takeOutput(output: TransitionOutput): string {
  const seen = JSON.stringify(output)
  output.messages.length = 0
  output.ended = false
  return seen
}

const anyAction = fc.constantFrom(...ACTIONS)
const anyActions = fc.array(anyAction, { maxLength: 4 })
const anyTransition = fc.record(
  {
    target: fc.constantFrom('s0', 's1', 's2', 'deep', 'deep.y', 'end'),
    actions: anyActions,
    guard: fc.constantFrom('odd', 'even'),
    reenter: fc.boolean(),
  },
  { requiredKeys: ['actions'] },
)
const anyTransitions = fc.array(anyTransition, { minLength: 1, maxLength: 2 })
const anyState = fc.record({
  entry: anyActions,
  exit: anyActions,
  on: fc.dictionary(fc.constantFrom('e0', 'e1', 'e2'), anyTransitions),
})
const anyMachine = fc.record({
  s0: anyState,
  s1: anyState,
  s2: anyState,
  x: anyState,
  y: anyState,
  deep: anyState,
  rootOn: fc.dictionary(fc.constantFrom('e0', 'e1', 'e2'), anyTransitions),
})
type Drawn = typeof anyMachine extends fc.Arbitrary<infer D> ? D : never

const withParams = (action: string) =>
  action === 'noteWith'
    ? { type: action, params: { by: 10 } }
    : action === 'noteParams'
      ? { type: action, params: ({ context }: { context: { n: number } }) => ({ seen: context.n }) }
      : action

const INNER: Readonly<Record<string, string>> = { s0: '#m.deep.x', s1: '#m.deep.y' }

/** The generated table as xstate expects it; from inside `deep` some targets are its own children. */
function machineOf(drawn: Drawn, log: string[]): AnyStateMachine {
  const state = ({ entry, exit, on }: Drawn['s0'], inner = false) => ({
    entry: entry.map(withParams),
    exit: exit.map(withParams),
    on: Object.fromEntries(
      Object.entries(on).map(([event, arrows]) => [
        event,
        arrows.map(({ target, ...arrow }) => ({
          ...arrow,
          actions: arrow.actions.map(withParams),
          ...(target === undefined
            ? {}
            : { target: inner ? (INNER[target] ?? `#m.${target}`) : `#m.${target}` }),
        })),
      ]),
    ),
  })
  const config = {
    id: 'm',
    context: ({ input }: { input: number }) => ({ n: input, m: 0 }),
    initial: 's0',
    on: state({ entry: [], exit: [], on: drawn.rootOn }).on,
    states: {
      s0: state(drawn.s0),
      s1: state(drawn.s1),
      s2: state(drawn.s2),
      deep: {
        initial: 'x',
        ...state(drawn.deep, true),
        states: { x: state(drawn.x, true), y: state(drawn.y, true) },
      },
      end: { type: 'final' },
    },
  }
  // The types of setup() can't describe a random machine.
  return base(log).createMachine(config as never) as unknown as AnyStateMachine
}

/** Records what is visible from outside after each event. */
function trail(
  logic: AnyActorLogic,
  log: string[],
  events: readonly { type: string; x: number }[],
  input = 0,
): string[] {
  const seen: string[] = []
  const actor = createActor(logic, { input })
  const output = createTransitionOutput(actor.system)
  actor.subscribe({ error: () => {} })
  actor.start()
  const observe = () => {
    const { status, value, context } = actor.getSnapshot()
    seen.push(
      `${status} ${JSON.stringify(value)} ${JSON.stringify(context)} after ${log.splice(0).join(', ')}`,
      takeOutput(output),
    )
  }
  observe()
  for (const event of events) {
    if (actor.getSnapshot().status !== 'active') break
    actor.send(event)
    observe()
  }
  const snapshot = actor.getSnapshot()
  if (snapshot.status === 'active') {
    // Restarts and later steps are based on these.
    seen.push(JSON.stringify(actor.getPersistedSnapshot()))
    seen.push(EVENTS.map((type) => snapshot.can({ type, x: 0 })).join())
  }
  return seen
}

const anyEvents = fc.array(fc.record({ type: fc.constantFrom(...EVENTS), x: fc.nat(5) }), { maxLength: 25 })

describe('a machine with quick steps', () => {
  test('behaves like the machine, over random machines and events', () => {
    fc.assert(
      fc.property(anyMachine, anyEvents, (drawn, events) => {
        const log: string[] = []
        const machine = machineOf(drawn, log)
        expect(trail(withQuickSteps(machine), log, events)).toEqual(trail(machine, log, events))
      }),
      { numRuns: Number(process.env.QUICK_RUNS ?? 1_000) },
    )
  }, 120_000)

  test('starts and continues like the machine, several times', () => {
    fc.assert(
      fc.property(anyMachine, anyEvents, fc.array(fc.nat(10), { maxLength: 4 }), (drawn, events, inputs) => {
        const log: string[] = []
        const machine = machineOf(drawn, log)
        const quick = withQuickSteps(machine)
        for (const input of inputs)
          expect(trail(quick, log, events, input)).toEqual(trail(machine, log, events, input))
      }),
      { numRuns: Number(process.env.QUICK_RUNS ?? 300) },
    )
  }, 120_000)

  test('throws while starting like the machine, with a context of its own', () => {
    const machine = setup({
      types: {} as { input: { who: string }; context: { who: string } },
    }).createMachine({
      context: ({ input }) => {
        if (input.who === 'nobody') throw new Error('spawning nobody throws')
        return { who: input.who }
      },
      initial: 'a',
      states: { a: {} },
    }) as unknown as AnyStateMachine
    const startActor = (logic: AnyStateMachine) =>
      ['somebody', 'nobody', 'anybody'].map((who) => {
        const actor = createActor(logic, { input: { who } })
        actor.subscribe({ error: () => {} })
        actor.start()
        const { status, context } = actor.getSnapshot()
        return [status, context]
      })
    expect(startActor(withQuickSteps(machine))).toEqual(startActor(machine))
  })

  test('continues from a stored state like the machine', () => {
    fc.assert(
      fc.property(anyMachine, anyEvents, anyEvents, (drawn, before, after) => {
        const log: string[] = []
        const machine = machineOf(drawn, log)
        const goOn = (logic: AnyStateMachine) => {
          const first = createActor(logic, { input: 0 })
          createTransitionOutput(first.system)
          first.subscribe({ error: () => {} })
          first.start()
          for (const event of before) if (first.getSnapshot().status === 'active') first.send(event)
          if (first.getSnapshot().status !== 'active') return []
          const second = createActor(logic, { input: 0, snapshot: first.getPersistedSnapshot() })
          const output = createTransitionOutput(second.system)
          second.subscribe({ error: () => {} })
          second.start()
          log.length = 0
          for (const event of after) if (second.getSnapshot().status === 'active') second.send(event)
          const { status, value, context } = second.getSnapshot()
          return [status, value, context, log.splice(0), takeOutput(output)]
        }
        expect(goOn(withQuickSteps(machine))).toEqual(goOn(machine))
      }),
      { numRuns: 300 },
    )
  })

  test('is stopped like the machine, in any state', () => {
    fc.assert(
      fc.property(anyMachine, anyEvents, (drawn, events) => {
        const log: string[] = []
        const machine = machineOf(drawn, log)
        const stop = (logic: AnyStateMachine) => {
          const actor = createActor(logic, { input: 0 })
          createTransitionOutput(actor.system)
          actor.subscribe({ error: () => {} })
          actor.start()
          for (const event of events) if (actor.getSnapshot().status === 'active') actor.send(event)
          log.length = 0
          actor.stop()
          const { status, value, context, output, children } = actor.getSnapshot()
          return [status, value, context, output, children, log.splice(0)]
        }
        expect(stop(withQuickSteps(machine))).toEqual(stop(machine))
      }),
      { numRuns: 300 },
    )
  })

  test('replays its plan: xstate does not run the second step of a transition', () => {
    const machine = setup({
      types: {} as { context: { n: number } },
      actions: { count: assign({ n: ({ context }) => context.n + 1 }) },
    }).createMachine({
      context: { n: 0 },
      initial: 'a',
      states: {
        a: { on: { go: { target: 'b', actions: 'count' } } },
        b: { on: { go: { target: 'a', actions: 'count' } } },
      },
    })
    let slow = 0
    const own = machine.transition
    machine.transition = (...args) => {
      slow++
      return own.apply(machine, args)
    }
    const actor = createActor(withQuickSteps(machine)).start()
    for (let i = 0; i < 10; i++) actor.send({ type: 'go' })
    expect(actor.getSnapshot().context.n).toBe(10)
    expect(slow).toBe(2)
  })

  test('returns machines that are not plain unchanged', () => {
    for (const { logic } of hostKinds.filter(({ name }) => name === 'settings'))
      expect(withQuickSteps(logic)).toBe(logic)
    expect(withQuickSteps(tallyMachine)).not.toBe(tallyMachine)
  })

  test('keeps no plan for unknown events', () => {
    const machine = withQuickSteps(tallyMachine)
    const actor = createActor(machine.provide({ actions: { recordCount: () => {} } }), {
      input: { name: 'x' },
    }).start()
    for (let i = 0; i < 1_000; i++) actor.send({ type: `made up ${i}` } as never)
    expect(actor.getSnapshot().value).toBe('awake')
  })
})
