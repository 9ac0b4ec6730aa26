/** The commands that help after a refusal of the host. */
import { expect, test } from '@jest/globals'
import { cureOfRun, type RunVerb, withRunCure, withTicketCure } from '../../../bin/cli/runs/run-cures.ts'
import { cureOfRequest } from '../../../bin/process/report-error.ts'
import type { Client } from '../../../client/client.ts'
import { HostRefusal } from '../../../client/errors.ts'
import type { Run } from '../../../protocol/run.ts'
import { fakeRun } from '../../support/fake-host-api.ts'

const run = (status: Run['status'], more: Partial<Run> = {}): Run => ({
  ...fakeRun(`run-${'0'.repeat(31)}1`, status, 'ENG-1'),
  ...more,
})

test.each<[RunVerb, Run, string | undefined]>([
  ['retry', run('queued'), 'switchyard explain ENG-1'],
  ['retry', run('running'), 'switchyard runs wait ENG-1'],
  ['retry', run('completed', { prState: 'merged' }), 'switchyard start ENG-1'],
  ['retry', run('failed'), undefined],
  ['followup', run('running'), 'switchyard runs wait ENG-1'],
  ['followup', run('failed'), 'switchyard retry ENG-1'],
  ['followup', run('completed', { prState: 'merged' }), 'switchyard start ENG-1'],
  ['followup', run('completed', { prState: 'closed' }), 'switchyard pulls reopen ENG-1'],
  ['followup', run('completed', { prState: 'open' }), undefined],
  ['discard', run('queued'), 'switchyard cancel ENG-1'],
  ['discard', run('running'), 'switchyard cancel ENG-1'],
  ['discard', run('completed'), undefined],
  ['attach', run('running'), 'switchyard logs -f ENG-1'],
  ['attach', run('completed'), undefined],
  ['release', run('running'), undefined],
])('a refused %s of a run: %#', (verb, refused, cure) => {
  expect(cureOfRun(verb, refused)).toBe(cure)
})

test.each<[string, number, string | undefined]>([
  ['GET /api/pulls/api/7', 404, 'switchyard pulls'],
  ['POST /api/pulls/api/7/merge', 409, 'switchyard pulls show api 7'],
  ['POST /api/pulls/a%20b/7/merge', 404, 'switchyard pulls'],
  ['POST /api/pulls/a%20b/7/merge', 400, "switchyard pulls show 'a b' 7"],
  ['GET /api/pulls?state=open', 400, 'switchyard connect codehost'],
  ['GET /api/runs/run-1/artifacts/x', 404, 'switchyard runs artifacts run-1'],
  ['POST /api/tickets', 400, 'switchyard config get repos'],
  ['DELETE /api/workers/wk-1', 400, 'switchyard workers drain wk-1'],
  ['GET /api/runs/run-1', 404, undefined],
])('%s answered %i', (request, status, cure) => {
  expect(cureOfRequest({ request, status, message: 'no' })).toBe(cure)
})

test.each([
  ['POST /api/pulls/api/7/reply', '/body: must not be empty', undefined],
  [
    'GET /api/pulls',
    'the code host is not connected; set codehost.path to the folder of its repositories',
    'switchyard config set codehost.path FOLDER',
  ],
  ['POST /api/tickets', '/priority: must be at most 4', undefined],
  ['POST /api/tickets', '/repo: web is not a key under repos', 'switchyard config get repos'],
])('%s: %s', (request, message, cure) => {
  expect(cureOfRequest({ request, status: 400, message })).toBe(cure)
})

const at = { url: 'http://host.example', token: 'secret' }
const refusal = (status: number) => new HostRefusal(at, { status, text: '{"error":"no"}' }, 'POST /api')
const clientWith = (...newest: Run[]): Client => ({ listRuns: async () => newest }) as unknown as Client
const active = { ...run('running'), id: `run-${'0'.repeat(31)}2` }

test.each<[string, Run, Run, string | undefined]>([
  ['another active run of the ticket', run('failed'), active, 'switchyard runs wait ENG-1'],
  ['an open session', run('failed', { sandbox: { id: 'sb-1' } }), run('failed'), 'switchyard release ENG-1'],
  ['something else', run('failed'), run('failed'), undefined],
])('a conflict with %s', async (_, refused, newest, cure) => {
  const retried = withRunCure(clientWith(newest), 'retry', refused, Promise.reject(refusal(409)))
  await expect(retried).rejects.toMatchObject({ cure })
})

test('a ticket with an active run is not started again', async () => {
  const started = withTicketCure(clientWith(active), 'ENG-1', Promise.reject(refusal(409)))
  await expect(started).rejects.toMatchObject({ cure: 'switchyard runs wait ENG-1' })
})
