/** Tickets that the host creates in a folder: the text of the file, its name, and where it is put. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { realClock } from '../../../../bin/process/clock.ts'
import type { NewTicket, TrackedTicket } from '../../../../core/ports/tracker.ts'
import type { Result } from '../../../../core/result.ts'
import { isEligible } from '../../../../core/tickets/eligibility.ts'
import { configDefaults } from '../../../../protocol/config.ts'
import { TICKET_FILE_BYTES_MAX } from '../../../../protocol/limits.ts'
import { NewTicketRequest } from '../../../../protocol/new-ticket.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { createLocalTracker } from '../../../../providers/tracker/local/tracker.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const RULES = configDefaults.tracker.eligible
const wanted = (more: Partial<NewTicket> = {}): NewTicket => ({
  title: 'Mend the lamp',
  description: 'It is dark.',
  priority: 0,
  labels: [],
  rules: RULES,
  repos: {},
  isEligible: true,
  ...more,
})

function openFolder() {
  const path = tempFolder()
  const tracker = createLocalTracker({ path, pollMs: 30_000, clock: realClock, log: createRecordingLog() })
  const create = (more: Partial<NewTicket> = {}): Promise<Result<TrackedTicket>> => {
    if (tracker.createTicket === undefined) throw new Error('it creates tickets')
    return tracker.createTicket(wanted(more))
  }
  const created = async (more: Partial<NewTicket> = {}): Promise<TrackedTicket> => {
    const answer = await create(more)
    if (!answer.ok) throw new Error(answer.refusal.message)
    return answer.value
  }
  const listed = async () => {
    const answer = await tracker.listTickets({ rules: RULES, tickets: [] })
    if (!answer.ok) throw new Error(answer.refusal.message)
    expect(answer.value.problems).toEqual([])
    return answer.value.tickets
  }
  return { path, create, created, listed, text: (name: string) => readFileSync(join(path, name), 'utf8') }
}

test('the file holds the ticket as a person would write it', async () => {
  const { created, listed, text, path } = openFolder()
  const tracked = await created({
    priority: 2,
    labels: ['bug', 'needs: care'],
    repo: { key: 'web', mapping: { remote: 'ada/web' } },
  })
  expect(text('mend-the-lamp.md')).toMatch(
    /^---\ntitle: Mend the lamp\nstate: Todo\npriority: 2\nlabels: \[bug, "needs: care"\]\nrepo: web\ncreatedAt: "[^"]+"\n---\nIt is dark\.\n$/,
  )
  expect(tracked).toMatchObject({
    closed: false,
    ticket: { id: 'mend-the-lamp', identifier: 'mend-the-lamp', state: 'Todo', repo: 'web', priority: 2 },
  })
  expect(await listed()).toEqual([tracked])
  expect(readdirSync(path)).toEqual(['mend-the-lamp.md'])
  expect(statSync(join(path, 'mend-the-lamp.md')).mode & 0o777).toBe(0o666 & ~process.umask())
})

test('a name that is taken, also as the id of another ticket, gets a number', async () => {
  const { created, path } = openFolder()
  writeFileSync(join(path, 'odd.md'), '---\nid: mend-the-lamp-2\nstate: Todo\n---\n')
  writeFileSync(join(path, 'Mend-the-Lamp-3.md'), '---\nstate: Todo\n---\n')
  const ids = []
  for (let count = 0; count < 2; count++) ids.push((await created()).ticket.id)
  expect(ids).toEqual(['mend-the-lamp', 'mend-the-lamp-4'])
})

test('creations at the same moment never share a file', async () => {
  const { created, listed } = openFolder()
  const made = await Promise.all(Array.from({ length: 12 }, () => created()))
  expect(new Set(made.map(({ ticket }) => ticket.id)).size).toBe(12)
  expect(await listed()).toHaveLength(12)
})

test.each([
  ['README', 'readme-2'],
  ['修理', 'ticket'],
  ['Über die Brücke!', 'uber-die-brucke'],
  ['../../etc/passwd', 'etc-passwd'],
  ['.hidden', 'hidden'],
  [`${'long '.repeat(40)}end`, 'long-long-long-long-long-long-long-long-long-lon'],
])('%s becomes %s', async (title, id) => {
  const { created } = openFolder()
  expect((await created({ title })).ticket).toMatchObject({ id, title })
})

test('every acceptable title, label and description is read back as it was given', async () => {
  const isRequest = createChecker(NewTicketRequest)
  const line = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }).map((text) => text.trim())
  const { create, listed } = openFolder()
  await fc.assert(
    fc.asyncProperty(
      line,
      fc.array(line, { maxLength: 3 }),
      fc.string({ unit: 'grapheme' }),
      async (title, labels, description) => {
        fc.pre(isRequest({ title, labels, description }).ok)
        const answer = await create({ title, labels, description })
        const unique = labels.filter(
          (name, at) => labels.findIndex((earlier) => earlier.toLowerCase() === name.toLowerCase()) === at,
        )
        expect(answer).toMatchObject({
          value: {
            ticket: { title, labels: unique, description: description.replaceAll('\r\n', '\n').trim() },
          },
        })
      },
    ),
    { numRuns: 60 },
  )
  await listed()
})

describe('eligibility', () => {
  const places: [NewTicket['rules'], object][] = [
    [RULES, {}],
    [{ ...RULES, states: [] }, { state: 'Todo' }],
    [
      { states: ['Ready', 'Todo'], labels: ['agent'], projects: ['Lamps'], assignees: ['ada'] },
      { state: 'Ready', labels: ['bug', 'agent'], project: 'Lamps', assignee: 'ada' },
    ],
    [{ ...RULES, labels: ['agent', 'Bug'] }, { labels: ['bug'] }],
  ]

  test.each(places)('a started ticket is eligible under %j', async (rules, expected) => {
    const { created } = openFolder()
    const tracked = await created({ rules: structuredClone(rules), labels: ['bug'] })
    expect(isEligible(tracked, rules)).toBe(true)
    expect(tracked.ticket).toMatchObject(expected)
  })

  test.each([
    [RULES, { state: 'Backlog', labels: ['agent'] }],
    [
      { ...RULES, states: ['Backlog'], labels: ['Agent'] },
      { state: 'Backlog', labels: [] },
    ],
    [
      { ...RULES, states: [], labels: ['agent'] },
      { state: 'Backlog', labels: [] },
    ],
  ])('a waiting ticket is not eligible under %j', async (rules, expected) => {
    const { created } = openFolder()
    const tracked = await created({ rules, labels: ['agent'], isEligible: false })
    expect(isEligible(tracked, rules)).toBe(false)
    expect(tracked.ticket).toMatchObject(expected)
  })

  test('where every ticket is eligible, none can wait', async () => {
    const { create, path } = openFolder()
    const rules = { ...RULES, states: [] }
    expect(await create({ rules, isEligible: false })).toMatchObject({ refusal: { kind: 'conflict' } })
    expect(readdirSync(path)).toEqual([])
  })
})

describe('refused', () => {
  test('a text that is too long for a file', async () => {
    const { create, path } = openFolder()
    const description = 'ä'.repeat(TICKET_FILE_BYTES_MAX / 2)
    expect(await create({ description })).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringMatching(/^\/description: /) },
    })
    expect(readdirSync(path)).toEqual([])
  })

  test('a folder that is gone or may not be written', async () => {
    const { create, path } = openFolder()
    rmSync(path, { recursive: true })
    expect(await create()).toMatchObject({ refusal: { kind: 'conflict' } })
    mkdirSync(path)
    chmodSync(path, 0o500)
    if (process.getuid?.() !== 0) expect((await create()).ok).toBe(false)
    chmodSync(path, 0o700)
    expect((await create()).ok).toBe(true)
  })
})
