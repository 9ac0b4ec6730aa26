import { describe, expect, test } from '@jest/globals'
import { kindName } from '../../../actors/runtime/actor-kind.ts'
import type { StateChange } from '../../../actors/runtime/actor-system.ts'
import {
  createModules,
  defineModule,
  effectHandlers,
  type Module,
  type ModuleDefinition,
  observeKind,
} from '../../../actors/runtime/module.ts'
import { handleTimer, timerKind } from '../../../actors/runtime/timer-kind.ts'

declare module '../../../actors/runtime/module.ts' {
  interface ModuleViews {
    readonly 'test numbers': { readonly answer: () => number }
  }
}

const RUN = kindName('run')

interface Context {
  readonly calls: string[]
  readonly publish: (change: { readonly view: string; readonly key: string }) => void
}

const numbers = defineModule<Context>()({
  name: 'test numbers',
  create: ({ calls }) => ({
    view: { answer: () => 42 },
    start: () => void calls.push('numbers start'),
    drain: async () => calls.push('numbers drain'),
    stop: () => void calls.push('numbers stop'),
    sizes: () => ({ numbers: 1 }),
    onStateChange: [observeKind(RUN, ({ key }) => void calls.push(`numbers saw ${key}`))],
    onTimer: [handleTimer(timerKind('number'), (id, name) => void calls.push(`timer ${id}: ${name}`))],
  }),
})

const sums = defineModule<Context>()({
  name: 'test sums',
  create: ({ calls }, { 'test numbers': { answer } }) => ({
    start: () => void calls.push(`sums start with ${answer()}`),
    stop: () => void calls.push('sums stop'),
    sizes: () => ({ sums: 2 }),
    effects: effectHandlers<{ type: 'sum.add' } | { type: 'sum.print' }>({
      sum: ({ type }) => void calls.push(`does ${type}`),
    }),
    onStateChange: [observeKind(RUN, ({ key }) => void calls.push(`sums saw ${key}`))],
    onViewChange: ({ view, key }) => void calls.push(`sums received ${view} ${key}`),
  }),
})

function created(definitions: readonly ModuleDefinition<Context>[] = [numbers, sums]) {
  const calls: string[] = []
  const modules = createModules(definitions, { calls, publish: () => {} })
  return { modules, calls, needs: modules.needs }
}

const named = (name: string, module: Module): ModuleDefinition<Context> => ({ name, create: () => module })

describe('a list of modules', () => {
  test('starts, drains and stops each in order, and adds up what they hold', async () => {
    const { modules, calls } = created()
    modules.start()
    await modules.drain()
    modules.stop()
    expect(calls).toEqual([
      'numbers start',
      'sums start with 42',
      'numbers drain',
      'numbers stop',
      'sums stop',
    ])
    expect(modules.sizes()).toEqual({ numbers: 1, sums: 2 })
  })

  test('gives each effect to the module of its group, each timer to the one that set it', () => {
    const { modules, calls } = created()
    modules.runEffect({ type: 'sum.add' })
    modules.onTimer('number 7', 'over')
    expect(calls).toEqual(['does sum.add', 'timer 7: over'])
    expect(() => modules.runEffect({ type: 'nobody.does' })).toThrow(/no module carries out nobody.does/)
    expect(() => modules.onTimer('nobody 1', 'x')).toThrow(/no module has set the timer nobody 1/)
  })

  test('shows each change of a state to those that observe its kind, and of a view to all', () => {
    const { modules, calls } = created()
    // Only kind and key matter to a list.
    modules.onStateChange({ kind: 'run', key: 'r1' } as StateChange)
    modules.onStateChange({ kind: 'lease', key: 'l1' } as StateChange)
    modules.onViewChange({ view: 'tickets', key: 't1' })
    expect(calls).toEqual(['numbers saw r1', 'sums saw r1', 'sums received tickets t1'])
  })

  test('knows who needs whose view', () => {
    expect(created().needs).toEqual([{ module: 'test sums', view: 'test numbers' }])
    expect(created().modules.views['test numbers'].answer()).toBe(42)
  })
})

describe('a list is refused', () => {
  const handler = handleTimer(timerKind('y'), () => {})
  test.each<[string, readonly ModuleDefinition<Context>[], RegExp]>([
    [
      'a view is needed too early',
      [sums, numbers],
      /test sums needs the view of test numbers, which no module before/,
    ],
    ['a name stands twice', [numbers, numbers], /two modules are called test numbers/],
    [
      'two claim an effect group',
      [named('a', { effects: { x: () => {} } }), named('b', { effects: { x: () => {} } })],
      /two modules claim x/,
    ],
    [
      'two claim a timer',
      [named('a', { onTimer: [handler] }), named('b', { onTimer: [handler] })],
      /two modules claim y/,
    ],
  ])('when %s', (_, definitions, message) => {
    expect(() => created(definitions)).toThrow(message)
  })
})
