/**
 * Secrets stay where they belong: a run executes with planted secrets, then the test searches every file, response, push
 * and log line for them.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { readLaunch, serve } from '../support/command-process.ts'
import { ScriptedWorker } from '../support/scripted-worker.ts'
import { connectSocket, inspectEverything } from '../support/socket-client.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const AGENT_KEY = 'planted-agent-key-7d1c0f'
const CODEHOST_TOKEN = 'planted-codehost-token-91ab22'

let worker: ScriptedWorker | undefined
afterEach(() => worker?.stop())

test('no credential, token or key is in a file, the log, a response, a push, the environment or the arguments', async () => {
  const [dataDir, tickets] = [tempFolder(), tempFolder()]
  const config = {
    server: { port: 0 },
    tracker: { driver: 'local', path: tickets },
    agent: { agentAApiKey: AGENT_KEY },
    codehost: { token: CODEHOST_TOKEN },
    repos: { main: { remote: 'owner/name' } },
    worker: { local: false },
  }
  writeFileSync(join(dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  const host = serve(dataDir, ['--log-level', 'debug', '--log-format', 'json'])
  const { url, token: launchToken } = await host.waitForLaunch()
  const dashboard = connectSocket(Number(new URL(url).port), '/ws', {
    authorization: `Bearer ${launchToken}`,
  })
  await dashboard.opened
  const inspector = await inspectEverything(Number(new URL(url).port), launchToken)
  const paired = (await host.request('/api/workers/pairing-tokens', { method: 'POST' })).body as {
    token: string
  }
  const dispatched: string[] = []
  worker = new ScriptedWorker({
    name: 'anvil',
    token: paired.token,
    seed: 1,
    heartbeatMs: 200,
    url: () => `${readLaunch(dataDir)?.url.replace('http:', 'ws:') ?? 'ws://127.0.0.1:1'}/ws/worker`,
    onFrame: (_way, frame) => {
      if (frame.type === 'dispatch') dispatched.push(JSON.stringify(frame))
    },
  })
  worker.start()
  writeFileSync(join(tickets, 'ENG-1.md'), '---\nstate: Todo\n---\nDo it.\n')
  await until('the run is completed', async () => {
    const runs = (await host.request('/api/runs')).body as Run[]
    return runs[0]?.status === 'completed'
  })
  const credential = worker.credential?.secret
  if (credential === undefined) throw new Error('the worker has no credential')

  // Positive control: the search must find the secrets in the place where they have to be.
  expect(dispatched[0]).toContain(AGENT_KEY)
  expect(dispatched[0]).toContain(CODEHOST_TOKEN)

  const runId = ((await host.request('/api/runs')).body as Run[])[0]?.id
  const ofRun = ['events', 'explain'].map((part) => `/api/runs/${runId}/${part}`)
  const paths = ['/api/runs', '/api/tickets', '/api/workers', '/api/config', '/api/attention', ...ofRun]
  const answers = await Promise.all(
    paths.map(async (path) => JSON.stringify((await host.request(path)).body)),
  )
  const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${launchToken}` } })
  const wrong = await host.request(`/api/worker/demand?workerId=${worker.workerId}`)
  answers.push(await metrics.text(), JSON.stringify(wrong.body))
  const environment = readFileSync(`/proc/${host.process.pid}/environ`, 'utf8')
  const commandLine = readFileSync(`/proc/${host.process.pid}/cmdline`, 'utf8')
  // The frames of the run may follow the answer that the run is completed.
  const isInspected = () => JSON.stringify(inspector.frames).includes('"after":"running"')
  await until('the inspection shows the run', isInspected)
  dashboard.close()
  inspector.close()
  host.process.kill('SIGTERM')
  expect(await host.exit).toBe(0)

  const shown: [what: string, text: string][] = [
    ['the log', host.out() + host.err()],
    ['answers', answers.join('\n')],
    ['pushes', JSON.stringify(dashboard.frames)],
    ['inspection', JSON.stringify(inspector.frames)],
    ['environment and arguments', environment + commandLine],
    ...filesBelow(dataDir).filter(([path]) => !path.endsWith('/config.json')),
  ]
  const secrets = { AGENT_KEY, CODEHOST_TOKEN, credential, pairingToken: paired.token, launchToken }
  const found = shown.flatMap(([what, text]) =>
    Object.entries(secrets)
      .filter(([, secret]) => text.includes(secret))
      .map(([name]) => `${name} in ${what}`),
  )
  expect(found).toEqual([])
})

function filesBelow(folder: string): [string, string][] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => [path, readFileSync(path, 'latin1')])
}
