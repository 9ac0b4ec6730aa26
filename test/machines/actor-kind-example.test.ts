/** The worked example of CONTRIBUTING.md: it compiles, it works in a host, and the page shows it as it is. */
import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { createHostContext } from '../../actors/root/create-host.ts'
import type { StateChange } from '../../actors/runtime/actor-system.ts'
import { assembleSystem } from '../../actors/runtime/assemble-system.ts'
import { failureStreakModule } from '../../examples/actor-kind/module.ts'
import { createInMemoryDependencies } from '../support/host-in-memory.ts'

/** Only what the module reads of a run that ended. */
const ended = (status: string) =>
  ({ kind: 'run', key: 'r', after: { context: { run: { status } } }, over: true }) as unknown as StateChange

test('the example warns at the third failed run in a row, and starts over after a completed one', async () => {
  const { dependencies, clock, store, log } = createInMemoryDependencies()
  const { modules, startSingletons } = assembleSystem(
    { clock, database: store.database, log, meters: dependencies.meters, onFatal: () => {} },
    [failureStreakModule],
    (system, modules) => createHostContext(dependencies, system, modules),
  )
  startSingletons()
  for (const status of ['failed', 'completed', 'failed', 'failed', 'failed', 'failed'])
    modules.onStateChange(ended(status))
  await clock.settle()
  expect(log.lines.filter((line) => JSON.stringify(line).includes('runs keep failing'))).toHaveLength(1)
})

test.each(['failure-streak.machine.ts', 'module.ts'])('CONTRIBUTING.md shows %s as it is', (file) => {
  const code = readFileSync(`examples/actor-kind/${file}`, 'utf8')
  expect(readFileSync('CONTRIBUTING.md', 'utf8')).toContain(`\`\`\`ts\n${code}\`\`\``)
})
