/** `switchyard memories` against a real listener. */
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import { clear, forget, list, type MemoryOptions } from '../../../bin/cli/memories/memories.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeMemory } from '../../support/fake-host-api.ts'

const listFacts = (context: CommandContext<MemoryOptions>) => list(context)
const clearFacts = (context: CommandContext<MemoryOptions>) => clear(context)

async function openLearnt() {
  const host = await openCommandHost()
  host.hostApi.memoriesByRepo.set('acme/api', [fakeMemory('mem-1'), fakeMemory('mem-2')])
  host.hostApi.memoriesByRepo.set('acme/web', [fakeMemory('mem-3')])
  return host
}

test('memories list has each fact in a row, those of one repository with --repo', async () => {
  const { print, client } = await openLearnt()
  const { out } = await print(listFacts, { columns: 60, options: { repo: 'acme/web' } })
  expect(out).toMatch(/^(REPO +)?FACT .*\n.*mem-3\n$/)
  expect((await print(listFacts, { columns: 200 })).out.split('\n')).toHaveLength(5)
  expect((await print(listFacts, { options: { output: 'id' } })).out).toBe('mem-1\nmem-2\nmem-3\n')
  const json = await print(listFacts, { options: { json: true } })
  expect(JSON.parse(json.out)).toEqual(await client.listMemories())
})

test('memories list refuses a repository that nobody knows, and names the one without facts', async () => {
  const { print, hostApi } = await openLearnt()
  hostApi.config = () => ({ ...configDefaults, repos: { docs: { remote: 'acme/docs' } } })
  for (const repo of ['docs', 'acme/docs'])
    expect((await print(listFacts, { options: { repo } })).err).toMatch(/anything about acme\/docs yet\.\n$/)
  await expect(print(listFacts, { options: { repo: 'nope' } })).rejects.toMatchObject({
    code: 1,
    message: expect.stringMatching(/^nope is not a key under repos, /),
    cure: expect.stringMatching(/config get repos$/),
  })
})

test('memories forget deletes one fact', async () => {
  const { print, hostApi } = await openLearnt()
  expect((await print((context) => forget(context, 'mem-2'))).out).toMatch(/^Forgotten: /)
  expect(hostApi.memoriesByRepo.get('acme/api')).toHaveLength(1)
  await expect(print((context) => forget(context, 'mem'))).rejects.toMatchObject({ code: 2 })
})

test('memories clear says how much is lost, and needs --yes without a terminal', async () => {
  const { print, hostApi } = await openLearnt()
  const refused = print(clearFacts, { options: { repo: 'acme/api' } })
  await expect(refused).rejects.toMatchObject({ code: 2, message: expect.stringMatching(/2 facts/) })
  await print(clearFacts, { options: { repo: 'acme/api', yes: true } })
  expect([...hostApi.memoriesByRepo.keys()]).toEqual(['acme/web'])
})

test('the real command exits with 1 for an unknown fact and 2 for a missing repository', async () => {
  const { run } = await openLearnt()
  const [listed, unknown, missing] = await Promise.all([
    run('memories', '-o', 'id'),
    run('memories', 'forget', 'mem-9'),
    run('memories', 'clear'),
  ])
  expect([listed.out, unknown.code, missing.code]).toEqual(['mem-1\nmem-2\nmem-3\n', 1, 2])
})
