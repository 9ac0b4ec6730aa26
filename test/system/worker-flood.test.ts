/**
 * Floods of connections without proof, held open and opened again in a loop, against a real host and a real worker
 * (law C: a worker with a good credential is online within 15 seconds).
 */
import { existsSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import type { FleetResponse, WorkerView } from '../../protocol/worker.ts'
import { type CommandProcess, configWithAnyPort, runCommand, serve } from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const ONLINE_MS_MAX = 15_000
const FLOOD_SOCKETS = 120

const UPGRADE = [
  'GET /ws/worker HTTP/1.1',
  'Host: localhost',
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
].join('\r\n')

/** Only Linux has all of 127.0.0.0/8 without configuration. */
const sourceOf = (number: number): string =>
  process.platform === 'linux' ? `127.0.0.${1 + (number % 8)}` : '127.0.0.1'

/** Holds many silent sockets and opens each again as soon as the host closes it. Returns how often it opened one. */
function startFlood(port: number, headers = ''): { readonly opened: () => number; stop(): void } {
  const sockets = new Set<Socket>()
  let opened = 0
  let isOver = false
  const open = (source: string): void => {
    if (isOver) return
    const socket = connect({ port, host: '127.0.0.1', localAddress: source })
    sockets.add(socket)
    opened += 1
    socket.on('error', () => {})
    socket.on('connect', () => socket.write(`${UPGRADE}\r\n${headers}\r\n`))
    // A refusal or a close frame; either way the place is tried again.
    socket.on('data', (bytes) => {
      if (!bytes.toString('latin1').startsWith('HTTP/1.1 101')) socket.destroy()
    })
    socket.on('close', () => {
      sockets.delete(socket)
      setTimeout(open, 5, source)
    })
  }
  for (let number = 0; number < FLOOD_SOCKETS; number++) open(sourceOf(number))
  const stop = (): void => {
    isOver = true
    for (const socket of sockets) socket.destroy()
  }
  closeAfterTest(stop)
  return { opened: () => opened, stop }
}

function startHost(): CommandProcess {
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'config.json'), configWithAnyPort({ worker: { local: false } }), {
    mode: 0o600,
  })
  return serve(dataDir)
}

async function startWorker(host: CommandProcess, dataDir: string, args: readonly string[] = []) {
  const { url } = await host.waitForLaunch()
  return runCommand(
    ['worker', '--host', url, '--data-dir', dataDir, '--log-level', 'debug', ...args],
    dataDir,
  )
}

async function tokenFile(host: CommandProcess): Promise<string> {
  const { body } = await host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const path = join(tempFolder(), 'token')
  writeFileSync(path, (body as { token: string }).token, { mode: 0o600 })
  return path
}

const fleetOf = async (host: CommandProcess): Promise<readonly WorkerView[]> =>
  ((await host.request('/api/workers')).body as FleetResponse).workers

const waitForConnection = (host: CommandProcess, connection: WorkerView['connection'], ms: number) =>
  until(
    `the worker is ${connection}`,
    async () => {
      const workers = await fleetOf(host)
      return workers.length === 1 && workers.every((worker) => worker.connection === connection)
    },
    ms,
  )

async function metric(host: CommandProcess, line: string): Promise<number> {
  const { url, token } = await host.waitForLaunch()
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })
  const lines = (await answer.text()).split('\n')
  return Number(
    lines
      .find((each) => each.startsWith(line))
      ?.split(' ')
      .at(-1) ?? 0,
  )
}

test('a killed worker is online again within 15 seconds, and a new one pairs, while others flood the host', async () => {
  const host = startHost()
  const { url } = await host.waitForLaunch()
  const flood = startFlood(Number(new URL(url).port))
  await until(
    'the flood holds the seats',
    async () => (await metric(host, 'switchyard_workers_unregistered{proof="none"}')) >= 32,
  )
  const folder = join(tempFolder(), 'worker')
  const first = await startWorker(host, folder, ['--token-file', await tokenFile(host)])
  await waitForConnection(host, 'online', ONLINE_MS_MAX)
  await until('the credential is on disk', () => existsSync(join(folder, 'credential.json')))
  first.process.kill('SIGKILL')
  await waitForConnection(host, 'offline', ONLINE_MS_MAX)
  await startWorker(host, folder)
  await waitForConnection(host, 'online', ONLINE_MS_MAX)
  expect(flood.opened()).toBeGreaterThan(FLOOD_SOCKETS)
  expect(await metric(host, 'switchyard_worker_registrations_total{outcome="displaced"}')).toBeGreaterThan(0)
  expect(await metric(host, 'switchyard_worker_proofs_total{outcome="valid"}')).toBeGreaterThanOrEqual(2)
}, 120_000)
