/** The modules of the host and of a worker as a graph: which module is created with whose view. */
import { expect, test } from '@jest/globals'
import { createDaemonContext } from '../../actors/daemon/create-daemon.ts'
import { daemonModules } from '../../actors/daemon/modules.ts'
import { createHostContext } from '../../actors/root/create-host.ts'
import { hostModules } from '../../actors/root/modules.ts'
import { assembleSystem } from '../../actors/runtime/assemble-system.ts'
import type { ViewNeed } from '../../actors/runtime/module.ts'
import { daemonDependenciesInMemory } from '../support/daemon-in-memory.ts'
import { createInMemoryDependencies } from '../support/host-in-memory.ts'

/** The largest set of modules that all reach each other. */
function largestCycle(needs: readonly ViewNeed[]): readonly string[] {
  const reached = new Map<string, Set<string>>()
  for (const { module, view } of needs) reached.set(module, (reached.get(module) ?? new Set()).add(view))
  for (const through of reached.keys())
    for (const views of reached.values())
      if (views.has(through)) for (const further of reached.get(through) ?? []) views.add(further)
  const cycles = [...reached].map(([module, views]) =>
    [...views].filter((view) => reached.get(view)?.has(module) === true),
  )
  return cycles.sort((a, b) => b.length - a.length)[0] ?? []
}

test('no modules of the host depend on each other in a circle', () => {
  const { dependencies, clock, store, log } = createInMemoryDependencies()
  const { modules } = assembleSystem(
    { clock, database: store.database, log, meters: dependencies.meters, onFatal: () => {} },
    hostModules,
    (system, modules) => createHostContext(dependencies, system, modules),
  )
  expect(modules.needs.length).toBeGreaterThan(20)
  expect(largestCycle(modules.needs)).toEqual([])
})

test('no modules of a worker depend on each other in a circle', () => {
  const dependencies = daemonDependenciesInMemory()
  const { modules } = assembleSystem(
    { ...dependencies, onFatal: () => {} },
    daemonModules,
    (system, modules) => createDaemonContext(dependencies, () => {}, system, modules),
  )
  expect(modules.needs.length).toBeGreaterThan(8)
  expect(largestCycle(modules.needs)).toEqual([])
})

test('a circle is found, however long', () => {
  const needs = [
    { module: 'a', view: 'b' },
    { module: 'b', view: 'c' },
    { module: 'c', view: 'a' },
    { module: 'c', view: 'd' },
  ]
  expect([...largestCycle(needs)].sort()).toEqual(['a', 'b', 'c'])
})
