/** The ids that the host knows, by kind. */
import { expect, test } from '@jest/globals'
import { readIds } from '../../../bin/cli/help/complete.ts'
import { readLine } from '../../../bin/cli/help/completion-line.ts'
import { createProgram } from '../../../bin/cli/program.ts'
import type { Client } from '../../../client/client.ts'

const ticket = { identifier: 'ENG-1', title: 'The lamp flickers' }
const answers = {
  listRuns: async () => [{ id: `run-0123${'a'.repeat(28)}`, status: 'running', ticket }],
  listTickets: async () => [ticket],
  listWorkers: async () => ({ workers: [{ name: 'mica', connection: 'online' }] }),
  readConfig: async () => ({ server: { port: 4400 }, repos: { api: { setup: ['npm ci'] } } }),
  listPulls: async () => ({
    pulls: [
      { repo: 'api', number: 91, title: 'Greet' },
      { repo: 'web', number: 92, title: 'Part' },
    ],
  }),
  listMemories: async () => ({ repos: { 'acme/api': [{ id: 'm-1', text: 'Use npm ci.' }] } }),
}
// Only these functions are called.
const client = answers as unknown as Client
const program = createProgram()

test.each([
  ['tickets show ', { limit: 200 }],
  ['tickets show ENG', { q: 'ENG', limit: 200 }],
])('“%s” asks the host for the tickets that fit', async (line, query) => {
  const asked: unknown[] = []
  const listTickets = async (named: unknown) => {
    asked.push(named)
    return []
  }
  const asking = { ...answers, listTickets } as unknown as Client
  await readIds(asking, readLine(program, line.split(' ')), {})
  expect(asked).toEqual([query])
})

test.each([
  ['logs ', ['ENG-1']],
  ['logs 01', ['ENG-1', '0123aaaaaaaa']],
  ['logs run-', ['ENG-1', `run-0123${'a'.repeat(28)}`]],
  ['tickets show ', ['ENG-1']],
  ['workers drain ', ['mica']],
  ['config get ', ['server', 'server.port', 'repos', 'repos.api', 'repos.api.setup']],
  ['pulls show ', ['api', 'ENG-1']],
  ['pulls show api ', ['91']],
  ['start --repo ', ['api']],
  ['memories forget ', ['m-1']],
])('“%s” takes %j', async (line, values) => {
  const found = await readIds(client, readLine(program, line.split(' ')), {})
  expect(found.map(({ value }) => value)).toEqual(values)
})
