/**
 * Measures what an agent waits for because its model requests pass through the worker: the first byte of a streamed
 * answer, and the time of the whole.
 *
 * The agent's way leads through the bridge in its sandbox, the worker's socket, the proxy with its meter and mask, and
 * TLS to the vendor; the other way is the vendor alone over TLS. Both keep their connections, as agents do.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { join } from 'node:path'
import type { BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import {
  absoluteFigure,
  compareMeasurements,
  type Figure,
  groupIntoRounds,
  type Measurement,
  withProcessorCosts,
} from '../figures.ts'
import { sumOfCpuMs } from '../process-usage.ts'
import { type ModelQuestion, writeQuestion } from '../raw/model-question.ts'
import { buildProduct, freePort } from '../served-host.ts'
import { amount } from '../table.ts'

/** A short answer, whose first byte counts. */
const SHORT: ModelQuestion = { events: 1, perMs: 0 }
const FIRST_BYTES = { quick: 60, full: 200 }
/** Far above the pace of any model: 4,000 events a second. */
const PACED: ModelQuestion = { events: 4_000, perMs: 4 }
const FLOOD: ModelQuestion = { events: 200_000, perMs: 0 }

interface ModelClient {
  ask(question: ModelQuestion): Promise<AskedModel>
}

interface AskedModel {
  readonly firstByteMs: number
  readonly wholeMs: number
  readonly bytes: number
}

interface ModelClients {
  readonly direct: ModelClient
  readonly proxied: ModelClient
  /** Processes that the way through the worker adds. */
  readonly added: readonly number[]
  /** All processes of both ways: vendor, the added ones, and the client, which is this process. */
  readonly all: readonly number[]
  close(): Promise<void>
}

export const modelProxy: Entry = {
  name: 'model-proxy',
  about: 'streamed answers of a model through the worker / from the vendor directly',
  async measure({ quick, rounds }, resources) {
    await buildProduct(resources)
    const clients = await openClients(resources)
    const figures = [
      await measureFirstByte(clients, rounds, quick ? FIRST_BYTES.quick : FIRST_BYTES.full),
      ...(await measureWhole(clients, rounds)),
    ]
    await clients.close()
    return figures
  },
}

async function measureFirstByte(clients: ModelClients, rounds: number, perRound: number): Promise<Figure> {
  const askOnce = (client: ModelClient) => async () => {
    const { asked, cpuMs } = await askCounted(client, SHORT, clients.all)
    return { value: asked.firstByteMs, cpuMicros: cpuMs * 1_000 }
  }
  const times = rounds * perRound
  const measured = await measureInTurn(times, {
    ours: askOnce(clients.proxied),
    raw: askOnce(clients.direct),
  })
  const late = (side: 'ours' | 'raw') => measured.map((each) => each[side].value).sort((a, b) => a - b)
  const at95 = (side: 'ours' | 'raw') => late(side)[Math.floor(times * 0.95)] ?? 0
  const figure = absoluteFigure(
    {
      name: 'model proxy, first byte later by',
      unit: 'ms',
      target: { of: 'ours', is: 'at most', bound: 2 },
      notes: [
        `95 of 100: ${amount(at95('ours'))} ms, directly ${amount(at95('raw'))} ms, of ${times} questions`,
        'processor time for each question, and below for each MB: client, vendor and all between',
      ],
    },
    measured.map(({ ours, raw }) => ours.value - raw.value),
  )
  const costs = measured.map(({ ours, raw }) => ({ ours: ours.cpuMicros, raw: raw.cpuMicros }))
  return withProcessorCosts(figure, groupIntoRounds(costs, perRound))
}

async function measureWhole(clients: ModelClients, rounds: number): Promise<readonly Figure[]> {
  const { proxied, direct, added } = clients
  const paced = await measureInTurn(rounds, {
    ours: () => measureTransfer(proxied, PACED, clients),
    raw: () => measureTransfer(direct, PACED, clients),
  })
  const cpuPerMb: number[] = []
  const flood = await measureInTurn(rounds, {
    async ours() {
      const before = sumOfCpuMs(added)
      const measured = await measureTransfer(proxied, FLOOD, clients)
      cpuPerMb.push((sumOfCpuMs(added) - before) / measured.mb)
      return measured
    },
    raw: () => measureTransfer(direct, FLOOD, clients),
  })
  const target = { of: 'ratio', is: 'at least', bound: 0.9 } as const
  return [
    compareMeasurements(
      { name: 'model proxy, 4,000 events/s', unit: 'MB/s', target, notes: ['the pace is the vendor’s'] },
      paced,
    ),
    compareMeasurements(
      { name: 'model proxy, as fast as it goes', unit: 'MB/s', notes: ['no vendor answers so fast'] },
      flood,
    ),
    absoluteFigure(
      { name: 'model proxy, processor time', unit: 'ms/MB', notes: ['of worker and bridge alone'] },
      cpuPerMb.slice(1),
    ),
  ]
}

const MB = 1_000_000

async function measureTransfer(
  client: ModelClient,
  question: ModelQuestion,
  { all }: ModelClients,
): Promise<Measurement & { readonly mb: number }> {
  const { asked, cpuMs } = await askCounted(client, question, all)
  const mb = asked.bytes / MB
  return { value: mb / (asked.wholeMs / 1_000), cpuMicros: (cpuMs * 1_000) / mb, mb }
}

async function askCounted(client: ModelClient, question: ModelQuestion, pids: readonly number[]) {
  const before = sumOfCpuMs(pids)
  const asked = await client.ask(question)
  // Reading costs this process, the last one, processor time: none of it falls between the two readings of it.
  return { asked, cpuMs: sumOfCpuMs([...pids].reverse()) - before }
}

async function openClients(resources: BenchResources): Promise<ModelClients> {
  const folder = resources.createFolder('model-proxy')
  const [certificate, key] = createCertificate(folder)
  const vendor = resources.startScript('bench/raw/model-vendor.ts', certificate, key)
  const vendorPort = Number(await vendor.readLine())
  const worker = resources.startScript('bench/raw/model-proxy.ts', String(vendorPort), certificate, folder)
  const socket = await worker.readLine()
  const port = await freePort()
  const program = join(resources.root, 'dist', 'inside', 'egress-bridge.js')
  const bridge = resources.start(process.execPath, [program, String(port), socket])
  await bridge.readLine()
  const https = new HttpsAgent({ keepAlive: true, ca: readFileSync(certificate) })
  const http = new HttpAgent({ keepAlive: true })
  const direct = (length: number) =>
    requestHttps({ ...headOf(length), agent: https, port: vendorPort, rejectUnauthorized: true })
  const proxied = (length: number) => requestHttp({ ...headOf(length), agent: http, port })
  return {
    direct: { ask: (question) => ask(direct, question) },
    proxied: { ask: (question) => ask(proxied, question) },
    added: [worker.pid, bridge.pid],
    all: [vendor.pid, worker.pid, bridge.pid, process.pid],
    close: async () => {
      https.destroy()
      http.destroy()
      await Promise.all([bridge.stop(), worker.stop(), vendor.stop()])
      resources.removeFolder(folder)
    },
  }
}

const headOf = (length: number) => ({
  host: '127.0.0.1',
  method: 'POST',
  path: '/v1/messages',
  headers: { 'content-type': 'application/json', 'content-length': length, 'x-api-key': 'a placeholder' },
})

async function ask(
  open: (length: number) => ReturnType<typeof requestHttp>,
  question: ModelQuestion,
): Promise<AskedModel> {
  const body = writeQuestion(question)
  const from = performance.now()
  const sent = open(Buffer.byteLength(body))
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  if (response.statusCode !== 200) throw new Error(`the model answered ${response.statusCode}`)
  let bytes = 0
  let firstByteMs = 0
  for await (const part of response) {
    if (bytes === 0) firstByteMs = performance.now() - from
    bytes += (part as Buffer).length
  }
  return { firstByteMs, wholeMs: performance.now() - from, bytes }
}

function createCertificate(folder: string): readonly [string, string] {
  const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')] as const
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const names = ['-subj', '/CN=vendor', '-addext', 'subjectAltName=IP:127.0.0.1']
  execFileSync(
    'openssl',
    ['req', '-x509', ...curve, '-days', '2', ...names, '-keyout', key, '-out', certificate],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  return [certificate, key]
}
