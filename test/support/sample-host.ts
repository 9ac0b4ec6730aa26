/** The sample installation behind a real management listener, and the dashboard's listener before it. */

import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createHostForwarder } from '../../bin/pages/host-forwarder.ts'
import { DASHBOARD_PAGE } from '../../bin/pages/page-kinds.ts'
import { realClock } from '../../bin/process/clock.ts'
import type { ClientConnection } from '../../client/connection.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { yes } from '../../core/result.ts'
import type { Run } from '../../protocol/run.ts'
import { compareTickets } from '../../protocol/ticket-order.ts'
import { openPageServer } from '../../transport/pages/page-server.ts'
import type { PageServer } from '../../transport/pages/page-server-options.ts'
import type { FakeHostApi } from './fake-host-api.ts'
import { samplePull, samplePulls } from './sample-pulls.ts'
import { SampleRecords } from './sample-records.ts'
import { testListener } from './test-listener.ts'
import { closeAfterTest, createTextLog, openTestServer, TOKEN } from './test-resources.ts'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
/** As many finished runs as a hello has. */
const HELLO_FINISHED_MAX = 200

export interface SampleSetup {
  readonly finishedRuns?: number
  readonly tickets?: number
  readonly logLines?: number
}

export interface SampleHost {
  readonly hostApi: FakeHostApi
  readonly sample: SampleRecords
  readonly page: PageServer
  readonly origin: string
  /** Opens the page's listener again at its port, as another process that knows no browser. */
  readonly reopen: () => Promise<PageServer>
}

export async function openSampleHost({
  finishedRuns = 20,
  tickets = 12,
  logLines = 60,
}: SampleSetup = {}): Promise<SampleHost> {
  const { hostApi, url } = await openTestServer()
  const sample = new SampleRecords(Date.now())
  fill(hostApi, sample, [...sample.busyRuns(), ...sample.finishedRuns(finishedRuns)], tickets, logLines)
  const connection: ClientConnection = {
    address: () => ({ url, token: TOKEN }),
    send: sendByNode,
    dial: dialByNode,
  }
  const page = await openPage(connection, 0)
  return {
    hostApi,
    sample,
    page,
    origin: `http://127.0.0.1:${page.port}`,
    reopen: () => openPage(connection, page.port),
  }
}

async function openPage(connection: ClientConnection, port: number): Promise<PageServer> {
  const opened = await openPageServer({
    listener: testListener(),
    clock: realClock,
    log: createTextLog(),
    address: { host: '127.0.0.1', port },
    portSetting: '--port',
    ...DASHBOARD_PAGE,
    folder: join(root, 'dist', 'web', 'dashboard'),
    forwarder: createHostForwarder(connection),
    linkSecret: 'secret',
  })
  if (!opened.ok) throw new Error(opened.refusal.message)
  const page = opened.value
  closeAfterTest(() => page.close('the test is over'))
  return page
}

function fill(
  hostApi: FakeHostApi,
  sample: SampleRecords,
  runs: readonly Run[],
  tickets: number,
  logLines: number,
): void {
  const ended = runs.filter(({ finishedAt }) => finishedAt !== undefined)
  const active = runs.filter(({ finishedAt }) => finishedAt === undefined)
  for (const run of runs) hostApi.runsById.set(run.id, run)
  for (const run of sample.busyRuns())
    hostApi.eventsById.set(run.id, run.status === 'queued' ? [] : sample.log(run.id, logLines))
  const [retried] = runs.filter(({ ticket }) => ticket.identifier === 'ENG-398')
  if (retried !== undefined) hostApi.eventsById.set(retried.id, sample.retriedLog(retried.id))
  hostApi.workersById.clear()
  for (const worker of sample.workers()) hostApi.workersById.set(worker.id, worker)
  hostApi.attention = () => ({ items: sample.attention() })
  hostApi.answers.set('pulls', yes(samplePulls(sample)))
  hostApi.answers.set('pull', yes(samplePull(sample)))
  hostApi.memoriesByRepo.set('acme/api', [sample.memory('m1'), sample.memory('m2')])
  const listed = sample.tickets(tickets).toSorted(compareTickets)
  hostApi.tickets = () => listed
  hostApi.explainTicket = (id) =>
    yes({ ticket: sample.ticket(Number(id.replace(/\D/g, '')) || 0), gates: sample.gates() })
  hostApi.helloAnswer = {
    ...hostApi.helloAnswer,
    runs: [...active, ...ended.slice(0, HELLO_FINISHED_MAX)],
    tickets: listed,
    workers: sample.workers(),
    linearStatus: {
      state: 'connected',
      lastPollAt: sample.ago(0.2),
      nextPollAt: sample.ago(-0.3),
      seen: 14,
      eligible: tickets,
    },
  }
}
