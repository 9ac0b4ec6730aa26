/** Names of runs, tickets and workers, as people write them. */
import { describe, expect, test } from '@jest/globals'
import { findRun, findRuns, findTicket, findWorker } from '../../../bin/cli/command/names.ts'
import type { Client } from '../../../client/client.ts'
import { HostRefusal } from '../../../client/errors.ts'
import type { Run } from '../../../protocol/run.ts'
import { fakeRun, fakeTicket, fakeWorker } from '../../support/fake-host-api.ts'

const idOf = (digits: string) => `run-${digits.padEnd(32, '0')}`
const OLD = fakeRun(idOf('01a203706fb0'), 'completed', 'ENG-2')
const NEW = fakeRun(idOf('01a203abc330'), 'queued', 'ENG-2')
const OTHER = fakeRun(idOf('01a203ab7ce0'), 'running', 'ENG-1')
const HEX = fakeRun(idOf('ffff'), 'queued', 'bad')

/** A client of a host with these runs, in the host's order. */
function clientOf(runs: readonly Run[], workers = [fakeWorker('wk-0123456789abcdef')]): Client {
  const newestFirst = [...runs].sort((a, b) => (a.id < b.id ? 1 : -1))
  const unknown = () => new HostRefusal({ url: 'http://h' }, { status: 404, text: '{"error":"no"}' }, 'GET /')
  const calls: Pick<Client, 'listRuns' | 'readRun' | 'explainTicket' | 'listWorkers'> = {
    listRuns: async ({ ticket, before, limit } = {}) =>
      newestFirst
        .filter((run) => ticket === undefined || run.ticket.identifier === ticket)
        .filter((run) => before === undefined || run.id < before)
        .slice(0, limit),
    readRun: async ({ id }) => {
      const found = newestFirst.find((run) => run.id === id)
      if (found !== undefined) return found
      throw unknown()
    },
    explainTicket: async ({ id }) => {
      const run = newestFirst.find(({ ticket }) => ticket.identifier === id)
      if (run === undefined && id !== 'ENG-9') throw unknown()
      return { ticket: run?.ticket ?? fakeTicket(id), gates: [] }
    },
    listWorkers: async () => ({ workers }),
  }
  // Names are found with these requests only.
  return calls as Client
}

const all = clientOf([OLD, NEW, OTHER, HEX])

describe('a run', () => {
  test.each([
    ['its whole id', OTHER.id, OTHER],
    ['its id without the kind', OTHER.id.slice(4), OTHER],
    ['the beginning of its id', '01a2037', OLD],
    ['the beginning with the kind', 'run-01a203abc', NEW],
    ["its ticket's identifier, for the newest run", 'ENG-2', NEW],
    ['an identifier that could be the beginning of an id', 'bad', HEX],
  ])('is found by %s', async (_, name, run) => {
    expect(await findRun(all, name)).toEqual(run)
  })

  test('that is named twice is meant once', async () => {
    expect(await findRuns(all, ['ENG-2', NEW.id, 'ENG-1'])).toEqual([NEW, OTHER])
  })

  test.each([['ENG-999'], ['0000'], [idOf('0000')]])(
    '%p is unknown, which the host refuses',
    async (name) => {
      await expect(findRun(all, name)).rejects.toMatchObject({
        code: 1,
        message: `no run or ticket is called ${name}`,
        cure: 'switchyard runs --all',
      })
    },
  )

  test.each(['', ' '])('%j is wrong usage', async (name) => {
    await expect(findRun(all, name)).rejects.toMatchObject({ code: 2, cure: 'switchyard runs --all' })
  })

  test('a beginning that fits several is wrong usage, and names them', async () => {
    await expect(findRun(all, '01a203ab')).rejects.toMatchObject({
      code: 2,
      message: '01a203ab may be 01a203abc330 (ENG-2) or 01a203ab7ce0 (ENG-1)',
    })
  })

  test('of many candidates five are named', async () => {
    const many = Array.from({ length: 9 }, (_, at) => fakeRun(idOf(`01a2${at}`), 'queued', `ENG-${at}`))
    await expect(findRun(clientOf(many), '01a2')).rejects.toMatchObject({
      code: 2,
      message: expect.stringMatching(/^01a2 may be (\S+ \(ENG-\d\) or ){4}\S+ \(ENG-\d\), or another$/),
    })
  })
})

describe('a worker', () => {
  const client = clientOf(
    [],
    [
      { ...fakeWorker('wk-0123456789abcdef'), name: 'atlas' },
      { ...fakeWorker('wk-0199999999999999'), name: 'forge' },
    ],
  )

  test.each([
    ['its id', 'wk-0123456789abcdef'],
    ['its name', 'atlas'],
    ['the beginning of its id', 'wk-012'],
    ['the digits of it', '0123'],
  ])('is found by %s', async (_, name) => {
    expect((await findWorker(client, name)).name).toBe('atlas')
  })

  test('may be unknown, or ambiguous', async () => {
    await expect(findWorker(client, 'mica')).rejects.toMatchObject({ code: 1, cure: 'switchyard workers' })
    await expect(findWorker(client, '01')).rejects.toMatchObject({
      code: 2,
      message: expect.stringMatching(
        /^01 may be 0123456789abcdef \(atlas, \w+\) or 0199999999999999 \(forge, \w+\)$/,
      ),
    })
  })
})

test('a ticket is eligible, or has a run, or is unknown', async () => {
  expect((await findTicket(all, 'ENG-9')).identifier).toBe('ENG-9')
  expect((await findTicket(all, 'ENG-2')).identifier).toBe('ENG-2')
  await expect(findTicket(all, 'ENG-999')).rejects.toMatchObject({ code: 1, cure: 'switchyard tickets' })
})
