/**
 * `npm run record:peer -- COMMIT`: records a released version as a peer of later ones, in `test/peers/COMMIT/`.
 *
 * The version is built in a temporary folder. `schemas.jsonl` gets the schemas of its frames, `conversation.jsonl` what
 * its worker and its host say to each other through a relay: three tickets with the scripted agent, one of them
 * cancelled, a drain, and a reconnect. The names of commands, settings and routes are those of every version so far.
 */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { build, stop } from 'esbuild'
import { WebSocket, WebSocketServer } from 'ws'
import { root } from './bundle.mjs'

const WAIT_MS_MAX = 120_000
const HEARTBEAT_MS = 15_000

const [commit] = process.argv.slice(2)
if (commit === undefined) {
  console.error('usage: npm run record:peer -- COMMIT')
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'switchyard-peer-'))
chmodSync(folder, 0o755)
const source = join(folder, 'source')
const target = join(root, 'test', 'peers', commit)
const children = []
try {
  buildVersion()
  const schemas = await readSchemas()
  const messages = await recordConversation()
  mkdirSync(target, { recursive: true })
  writeLines('schemas.jsonl', schemas)
  writeLines('conversation.jsonl', messages)
  console.log(`recorded ${schemas.length} schemas and ${messages.length} messages in ${target}`)
} finally {
  for (const child of children) child.kill('SIGKILL')
  await stop()
  rmSync(folder, { recursive: true, force: true })
}
process.exit()

function writeLines(name, values) {
  const text = values.map((value) => `${JSON.stringify(value)}\n`).join('')
  writeFileSync(join(target, name), text.replaceAll(folder, '/recorded'))
}

// ---- the version ---------------------------------------------------------------------------------------------------

function buildVersion() {
  const run = (cwd, program, ...args) =>
    execFileSync(program, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  run(folder, 'git', 'clone', '--quiet', root, source)
  run(source, 'git', 'checkout', '--quiet', commit)
  run(source, 'npm', 'ci', '--ignore-scripts')
  run(source, 'npm', 'run', 'build')
}

/** The words for people are left out, because readers check without them. */
async function readSchemas() {
  const bundle = join(source, 'frames.mjs')
  const entryPoints = [join(source, 'protocol', 'frames.ts')]
  await build({
    entryPoints,
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: bundle,
    logLevel: 'error',
  })
  const { workerFrames, hostFrames } = await import(bundle)
  const frames = Object.entries({ worker: workerFrames, host: hostFrames })
  return frames.flatMap(([from, table]) =>
    Object.entries(table).map(([type, schema]) => ({ from, type, schema: withoutWords(schema) })),
  )
}

function withoutWords(schema) {
  const isWord = (key, value) =>
    key.startsWith('x-') || (['title', 'description'].includes(key) && typeof value === 'string')
  return JSON.parse(JSON.stringify(schema, (key, value) => (isWord(key, value) ? undefined : value)))
}

// ---- the conversation ----------------------------------------------------------------------------------------------

async function recordConversation() {
  const [serverPort, fleetPort] = [await freePort(), await freePort()]
  const places = makePlaces({ serverPort, fleetPort })
  const { messages, port } = await openRelay(fleetPort)
  const host = start('serve', '--data-dir', places.host)
  const launchFile = join(places.host, 'launch.json')
  const { url, token } = await until(
    'the host serves',
    () => existsSync(launchFile) && JSON.parse(readFileSync(launchFile)),
  )
  const request = async (method, path) => {
    const response = await fetch(url + path, { method, headers: { authorization: `Bearer ${token}` } })
    return response.json()
  }
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, (await request('POST', '/api/workers/pairing-tokens')).token, { mode: 0o600 })
  const worker = (...more) =>
    start(
      'worker',
      '--host',
      `http://127.0.0.1:${port}`,
      '--data-dir',
      places.worker,
      '--sandbox-dir',
      places.sandboxes,
      '--name',
      'attic',
      ...more,
    )
  await tellStory({ places, request, worker, tokenFile, messages })
  await end(host)
  return messages
}

async function tellStory({ places, request, worker, tokenFile, messages }) {
  const reach = execFileSync('node', [program(), 'worker', '--help']).includes('--local-repos')
    ? ['--local-repos', places.code]
    : []
  const runOf = async (identifier) =>
    (await request('GET', '/api/runs')).find(({ ticket }) => ticket.identifier === identifier)
  const reaches = (identifier, ...statuses) =>
    until(`${identifier} is ${statuses.join(' or ')}`, async () => {
      const run = await runOf(identifier)
      return statuses.includes(run?.status) && run
    })
  const counts = (type) => messages.filter(({ frame }) => frame.type === type).length
  const first = worker(...reach, '--token-file', tokenFile)
  writeTicket(places, 'ENG-1', [
    'say Hello.',
    'write hello.txt',
    '  Hello!',
    'artifact report.md',
    '  # Well',
    'remember The gate squeaks',
    'commit Say hello',
  ])
  await reaches('ENG-1', 'completed')
  writeTicket(places, 'ENG-2', ['run while [ ! -e /out/go ]; do sleep 0.05; done'])
  const { id } = await reaches('ENG-2', 'running')
  const acknowledged = counts('heartbeat-ack')
  await until('a heartbeat with a lease', () => counts('heartbeat-ack') > acknowledged, 2 * HEARTBEAT_MS)
  await request('POST', `/api/runs/${id}/cancel`)
  await reaches('ENG-2', 'cancelled')
  const [{ id: workerId }] = (await request('GET', '/api/workers')).workers
  await request('POST', `/api/workers/${workerId}/drain`)
  await request('POST', `/api/workers/${workerId}/enable`)
  await until('two states', () => counts('worker-state') === 2)
  await end(first)
  const second = worker(...reach)
  writeTicket(places, 'ENG-3', ['write b.txt', '  b', 'commit b'])
  await reaches('ENG-3', 'completed')
  await end(second)
}

function makePlaces({ serverPort, fleetPort }) {
  const place = (name, mode) => {
    const path = join(folder, name)
    mkdirSync(path, { recursive: true, mode })
    return path
  }
  const places = {
    host: place('host', 0o700),
    worker: place('worker', 0o700),
    sandboxes: place('sandboxes', 0o755),
    tickets: place('tickets', 0o755),
    code: place('code', 0o755),
  }
  const [work, identity] = [place('work', 0o755), ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.org']]
  const git = (...args) => execFileSync('git', [...identity, ...args], { cwd: work, stdio: 'pipe' })
  git('init', '--quiet', '--initial-branch=main')
  git('commit', '--quiet', '--allow-empty', '--message', 'Begin')
  git('clone', '--quiet', '--bare', work, join(places.code, 'acme', 'plain.git'))
  const config = {
    server: { port: serverPort },
    fleet: { host: '127.0.0.1', port: fleetPort },
    worker: { local: false },
    sandbox: { network: 'none' },
    agent: { commands: { agentA: 'scripted-agent' }, agentAApiKey: 'a-key-of-the-recording' },
    tracker: { driver: 'local', path: places.tickets, pollSeconds: 1 },
    codehost: { driver: 'local', path: places.code, token: 'a-token-of-the-recording' },
    repos: { plain: { remote: 'acme/plain' } },
  }
  writeFileSync(join(places.host, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  return places
}

function writeTicket({ tickets }, identifier, script) {
  const head = [
    '---',
    `identifier: ${identifier}`,
    `title: About ${identifier}`,
    'state: Todo',
    'repo: plain',
    '---',
  ]
  writeFileSync(
    join(tickets, `${identifier}.md`),
    [...head, 'Please.', '```switchyard', ...script, '```', ''].join('\n'),
  )
}

/** Passes each message on and keeps it. */
async function openRelay(fleetPort) {
  const messages = []
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  let connections = 0
  server.on('connection', (fromWorker, { url, headers: { authorization, 'x-switchyard-worker': id } }) => {
    const connection = ++connections
    const headers = { ...(authorization && { authorization }), ...(id && { 'x-switchyard-worker': id }) }
    const toHost = new WebSocket(`ws://127.0.0.1:${fleetPort}${url}`, { headers })
    const opened = new Promise((resolve) => toHost.once('open', resolve))
    const keep = (from, bytes) => messages.push({ connection, from, frame: JSON.parse(bytes) })
    fromWorker.on('message', async (bytes) => {
      keep('worker', bytes)
      await opened
      toHost.send(String(bytes))
    })
    toHost.on('message', (bytes) => {
      keep('host', bytes)
      fromWorker.send(String(bytes))
    })
    fromWorker.on('close', () => toHost.close())
    toHost.on('close', () => fromWorker.close())
    for (const socket of [fromWorker, toHost]) socket.on('error', () => socket.terminate())
  })
  await new Promise((resolve) => server.once('listening', resolve))
  return { messages, port: server.address().port }
}

// ---- processes -----------------------------------------------------------------------------------------------------

function program() {
  return join(source, 'dist', 'bin', 'switchyard.js')
}

function start(...args) {
  const child = spawn('node', [program(), ...args, '--log-level', 'warn'], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  children.push(child)
  return child
}

async function end(child) {
  child.kill('SIGTERM')
  await until('the process has ended', () => child.exitCode !== null || child.signalCode !== null)
}

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}

async function until(what, check, ms = WAIT_MS_MAX) {
  const last = Date.now() + ms
  for (;;) {
    const found = await check()
    if (found) return found
    if (Date.now() > last) throw new Error(`${what}: that did not happen`)
    await pause(100)
  }
}
