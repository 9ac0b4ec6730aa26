/**
 * A ticket made of a title, and words for the agent: real hosts, workers, sandboxes and git. The folder of tickets is
 * watched, so a poll and the request see the new file at the same moment.
 */
import { readdirSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import type { NewTicketResponse } from '../../protocol/new-ticket.ts'
import type { Run } from '../../protocol/run.ts'
import { LocalSystem } from '../support/local-system.ts'

const TEST_MS_MAX = 300_000

const script = (...lines: string[]): string => ['```switchyard', ...lines, '```'].join('\n')

async function createTicket(system: LocalSystem, body: object): Promise<NewTicketResponse> {
  const reply = await system.host.request('/api/tickets', { method: 'POST', body })
  expect(reply).toMatchObject({ status: 201 })
  // The route's own schema has this type.
  return reply.body as NewTicketResponse
}

async function runsOf(system: LocalSystem, identifier: string): Promise<Run[]> {
  const { body } = await system.host.request(`/api/runs?ticket=${identifier}`)
  return body as Run[]
}

test(
  'a title becomes a file, one run and one pull request, also when the host dies right after the answer',
  async () => {
    const system = await LocalSystem.open({ local: true })
    await system.waitForOnlineWorkers(1)
    const made: NewTicketResponse[] = []
    for (let count = 1; count <= 5; count++)
      made.push(
        await createTicket(system, {
          title: 'Say hello',
          description: script(`write hello-${count}.txt`, '  Hello!'),
          repo: 'plain',
        }),
      )
    system.host.process.kill('SIGKILL')
    await system.host.exit
    await system.startHost()
    const identifiers = made.map(({ ticket }) => ticket.identifier)
    expect(identifiers).toEqual(['say-hello', 'say-hello-2', 'say-hello-3', 'say-hello-4', 'say-hello-5'])
    expect(readdirSync(system.tickets).sort()).toEqual(identifiers.map((name) => `${name}.md`).sort())
    for (const { ticket, run } of made) {
      const ended = await system.waitForEnd(ticket.identifier)
      expect([ended.id, ended.status]).toEqual([run?.id, 'completed'])
      expect(await runsOf(system, ticket.identifier)).toHaveLength(1)
    }
    expect(system.pulls('plain')).toHaveLength(5)
  },
  TEST_MS_MAX,
)

test(
  'a waiting ticket runs when a person starts it, and the agent gets the words of the person',
  async () => {
    const system = await LocalSystem.open({ local: true })
    await system.waitForOnlineWorkers(1)
    const { ticket, run } = await createTicket(system, { title: 'Say hello', repo: 'plain', start: false })
    expect([ticket.state, run]).toEqual(['Backlog', undefined])
    const started = await system.host.request(`/api/tickets/${ticket.identifier}/run`, {
      method: 'POST',
      body: { instructions: script('write told.txt', '  As told.', 'say Done as told.'), effort: 'high' },
    })
    expect(started).toMatchObject({ status: 200, body: { agent: { effort: 'high' } } })
    const ended = await system.waitForEnd(ticket.identifier)
    expect(ended).toMatchObject({ status: 'completed', instructions: expect.stringContaining('As told.') })
    const [branch = ''] = system.branches('plain')
    expect(system.git('plain', 'show', `${branch}:told.txt`)).toBe('As told.')
  },
  TEST_MS_MAX,
)
