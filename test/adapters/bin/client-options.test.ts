/** The options of client commands, each at its far end: in the request that the host receives, or in what is printed. */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { expect, test } from '@jest/globals'
import { commandPath, runCommand } from '../../support/command-process.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'
import { testAsRoot } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest } from '../../support/test-resources.ts'

const RUN_ID = `run-${'a'.repeat(32)}`
const RUN = { ...fakeRun(RUN_ID, 'completed'), result: { artifacts: ['report.txt'] } }
const event = (index: number, more: object) => ({
  runId: RUN_ID,
  index,
  at: '2026-03-01T08:30:00.000Z',
  ...more,
})
const EVENTS = [
  event(0, { type: 'status', to: 'preparing' }),
  event(1, { type: 'log', stream: 'stdout', text: 'from the setup' }),
  event(2, { type: 'status', to: 'running' }),
  event(3, { type: 'log', stream: 'stderr', text: 'a warning' }),
  event(4, {
    type: 'agent',
    provider: 'agentA',
    message: { type: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'FAIL cart' }] },
  }),
  { ...event(5, { type: 'log', stream: 'system', text: 'of tomorrow' }), at: '2999-01-01T00:00:00.000Z' },
]
const GATES = [
  { id: 'tracker', status: 'pass', message: 'local, connected' },
  { id: 'capacity', status: 'wait', message: 'no slot is free', cure: 'switchyard runs' },
]

const PULLS = [
  { repo: 'api', number: 7, state: 'open' },
  { repo: 'web', number: 8, state: 'open' },
  { repo: 'web', number: 9, state: 'merged' },
].map((pull) => ({
  ...pull,
  title: 'Greet',
  author: 'ann',
  branch: 'b',
  url: '',
  updatedAt: '2026-03-01T08:30:00.000Z',
  createdAt: '2026-03-01T08:30:00.000Z',
}))

/** Nothing speaks against its merge. */
const QUIET_PULL = { ...PULLS[1], checks: [], conversation: { reviews: [], threads: [], comments: [] } }

interface Outcome {
  readonly code: unknown
  readonly out: string
  readonly err: string
  /** `METHOD path?query body` of each request. */
  readonly requests: readonly string[]
  readonly folder: string
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

function answerTo(path: string, method: string): unknown {
  if (path.endsWith('/explain'))
    return { ticket: RUN.ticket, run: { ...RUN, status: 'queued' }, gates: GATES }
  if (path.endsWith('/events')) return EVENTS
  if (path === '/api/tickets' && method === 'POST') return { ticket: fakeTicket('ENG-3'), run: RUN }
  if (path === '/api/tickets/runs') return []
  if (path === '/api/tickets') return [fakeTicket('ENG-1')]
  if (path === '/api/config') return { repos: {}, agent: {} }
  if (path === '/api/pulls') return { pulls: PULLS, errors: [] }
  if (path === '/api/pulls/web/8' && method === 'GET') return QUIET_PULL
  return path === '/api/runs' ? [RUN] : RUN
}

/** A host that writes down what it is asked, and knows one run. */
async function startHost(folder: string, requests: string[]): Promise<void> {
  const server = createServer(async (request, response) => {
    const body = await readBody(request)
    const { pathname, search } = new URL(request.url ?? '', 'http://host')
    requests.push([request.method, pathname + search, body].filter((part) => part !== '').join(' '))
    response.setHeader('content-type', 'application/json')
    if (pathname.endsWith('/artifacts/broken.txt')) {
      response.write('half of')
      setTimeout(() => response.destroy(), 50)
    } else if (pathname.includes('/artifacts/')) response.end('the report')
    else if (pathname.startsWith('/ws')) response.writeHead(503).end('{"error":"no sockets here"}')
    else response.end(JSON.stringify(answerTo(pathname, request.method ?? '')))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => server.closeAllConnections())
  closeAfterTest(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  writeFileSync(join(folder, 'launch.json'), JSON.stringify({ url, token: 't'.repeat(40) }), { mode: 0o600 })
}

async function run(...args: string[]): Promise<Outcome> {
  const folder = tempFolder()
  const requests: string[] = []
  mkdirSync(folder, { recursive: true })
  await startHost(folder, requests)
  const command = runCommand([...args, '--data-dir', folder].map((arg) => arg.replace('FOLDER', folder)))
  return { code: await command.exit, out: command.out(), err: command.err(), requests, folder }
}

const lines = (text: string): string[] => text.trim().split('\n')

// ---- shared options ------------------------------------------------------------------------------------------------

test('--data-dir names the host that is asked', async () => {
  expect((await run('runs')).requests).not.toEqual([])
})

test('--data-dir stands in the commands that are named, and that of the environment does not', async () => {
  const place = (folder: string) => ` --data-dir ${folder}\n`
  const shown = await run('runs', 'ENG-1')
  expect(shown.err).toBe(`Next: switchyard logs ENG-1${place(shown.folder)}`)
  const ticket = await run('tickets', 'ENG-1')
  expect(ticket.err).toBe(`Next: switchyard start ENG-1${place(ticket.folder)}`)
  const explained = await run('explain', 'ENG-1')
  expect(explained.out).toContain(`\tswitchyard runs${place(explained.folder)}`)
  const missing = join(tempFolder(), 'my data')
  const named = runCommand(['status', '--data-dir', missing])
  expect([await named.exit, named.err()]).toEqual([
    69,
    expect.stringContaining(`try: switchyard serve --data-dir '${missing}'\n`),
  ])
  const json = runCommand(['status', '--json', '--data-dir', missing])
  await json.exit
  expect(JSON.parse(json.err()).cure).toBe(`switchyard serve --data-dir '${missing}'`)
  const inherited = runCommand(['status'], '', { SWITCHYARD_DATA_DIR: missing })
  await inherited.exit
  expect(inherited.err()).toMatch(/try: switchyard serve\n$/)
})

test('--json prints whole records, and -o id the ids', async () => {
  const json = (await run('runs', '--json')).out
  expect(JSON.parse(json)).toEqual([RUN, RUN])
  expect((await run('runs', '--output', 'json')).out).toBe(json)
  expect(lines((await run('runs', '-o', 'id')).out)).toEqual([RUN_ID, RUN_ID])
})

test('--color always colours a pipe, and never or nothing does not', async () => {
  const colored = (await run('logs', 'ENG-1', '--color', 'always')).out
  expect(colored).toContain('\x1b[1m-- preparing')
  expect((await run('logs', 'ENG-1', '--color', 'never')).out).not.toContain('\x1b')
})

test('--yes goes on where something is destroyed', async () => {
  const asked = await run('discard', 'ENG-1')
  expect([asked.code, asked.err]).toEqual([2, expect.stringContaining('try: switchyard discard ENG-1 --yes')])
  expect(asked.requests.filter((line) => line.startsWith('POST'))).toEqual([])
  expect((await run('discard', 'web#12')).err).toContain("try: switchyard discard 'web#12' --yes")
  const sure = await run('discard', 'ENG-1', '--yes')
  expect([sure.code, sure.requests.at(-1)]).toEqual([0, `POST /api/runs/${RUN_ID}/discard`])
})

test('--quiet prints no notes', async () => {
  expect((await run('runs', 'ENG-1')).err).toContain('Next: ')
  expect((await run('runs', 'ENG-1', '--quiet')).err).toBe('')
})

test('--debug says which request was refused', async () => {
  const refused = await run('runs', 'wait', 'ENG-1', 'nobody', '--debug')
  expect(refused.code).toBe(0)
  const failed = runCommand(['status', '--debug', '--data-dir', await startRefusingHost()])
  expect([await failed.exit, failed.err()]).toEqual([
    1,
    expect.stringMatching(/\(GET \/api\/\S+ answered 409\)/),
  ])
})

async function startRefusingHost(): Promise<string> {
  const folder = tempFolder()
  const server = createServer((_, response) => response.writeHead(409).end('{"error":"not now"}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => server.closeAllConnections())
  closeAfterTest(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  writeFileSync(join(folder, 'launch.json'), JSON.stringify({ url, token: 't'.repeat(40) }))
  return folder
}

// ---- tickets -------------------------------------------------------------------------------------------------------

test('start: the words, the repository and the description make a new ticket', async () => {
  const { out, requests } = await run('start', 'Say which file', '--repo', 'api', '--description', 'Long ago')
  expect(requests).toEqual([
    'POST /api/tickets {"title":"Say which file","repo":"api","description":"Long ago"}',
  ])
  expect(out).toBe('ENG-3 created in Todo, run aaaaaaaaaaaa completed\n')
})

test('start: instructions, agent and model travel with the run', async () => {
  const { requests } = await run(
    'start',
    'ENG-1',
    '--instructions',
    'Hurry',
    '--agent',
    'agentB',
    '--model',
    'm1',
  )
  expect(requests).toEqual([
    'POST /api/tickets/ENG-1/run {"instructions":"Hurry","provider":"agentB","model":"m1"}',
  ])
})

test('start: a new ticket whose run has its own agent waits until the run is asked for', async () => {
  const { code, requests } = await run('start', 'Say which file', '--agent', 'agentB', '--model', 'm1')
  expect([code, requests]).toEqual([
    0,
    [
      'POST /api/tickets {"title":"Say which file","start":false}',
      expect.stringMatching(/^POST \/api\/tickets\/\S+\/run {"provider":"agentB","model":"m1"}$/),
    ],
  ])
})

test('start --watch waits until the run has ended, and tells how', async () => {
  const { code, out } = await run('start', 'ENG-1', '--watch')
  expect([code, lines(out).at(-1)]).toEqual([0, expect.stringMatching(/^\d\d:\d\d:\d\d completed/)])
  // Without it the answer is all that is printed.
  const { out: answer } = await run('start', 'ENG-1')
  expect(lines(out).length).toBeGreaterThan(lines(answer).length)
})

test('tickets create: every part of the ticket', async () => {
  const args = ['--repo', 'api', '--description', 'd', '--priority', '1', '--label', 'a', 'b', '--no-start']
  const { requests } = await run('tickets', 'create', 'T', ...args)
  expect(JSON.parse(requests[0]?.replace('POST /api/tickets ', '') ?? '')).toEqual({
    title: 'T',
    start: false,
    repo: 'api',
    description: 'd',
    priority: 1,
    labels: ['a', 'b'],
  })
})

// ---- logs ----------------------------------------------------------------------------------------------------------

test('logs --tail asks for the last lines only', async () => {
  expect((await run('logs', 'ENG-1', '--tail', '7')).requests.at(-1)).toBe(
    `GET /api/runs/${RUN_ID}/events?tail=7`,
  )
})

test('logs --since leaves out what is older', async () => {
  const { out } = await run('logs', 'ENG-1', '--since', '1d')
  expect(lines(out)).toEqual([expect.stringContaining('of tomorrow')])
})

test('logs --phase and --stream leave out all else', async () => {
  const phase = await run('logs', 'ENG-1', '--phase', 'preparing')
  expect(lines(phase.out)).toEqual([
    expect.stringContaining('-- preparing'),
    expect.stringContaining('setup'),
  ])
  const stream = await run('logs', 'ENG-1', '--stream', 'stderr')
  expect(lines(stream.out)).toEqual([expect.stringContaining('! a warning')])
})

test('logs --tools prints what tools have printed', async () => {
  expect((await run('logs', 'ENG-1')).out).not.toContain('FAIL cart')
  expect((await run('logs', 'ENG-1', '--tools')).out).toContain('>   FAIL cart')
})

test('logs --follow opens the socket', async () => {
  const { requests } = await run('logs', 'ENG-1', '-f')
  expect(requests.at(-1)).toBe('GET /ws')
})

// ---- the others ----------------------------------------------------------------------------------------------------

test('explain --all shows each gate; without it and elsewhere than on a terminal too', async () => {
  expect(lines((await run('explain', 'ENG-1', '--all')).out)).toHaveLength(1 + GATES.length)
})

test('runs --all reads every page, and without it the newest finished ones', async () => {
  expect((await run('runs', '--all')).requests).toEqual(['GET /api/runs?limit=200'])
  expect((await run('runs', 'list', '--all')).requests).toEqual(['GET /api/runs?limit=200'])
  expect((await run('runs')).requests.toString()).toContain('limit=20&status=completed')
})

test('runs list --status, --ticket and --limit narrow the list', async () => {
  const { requests } = await run('runs', 'list', '--status', 'failed', '--ticket', 'ENG-1', '--limit', '3')
  expect(requests).toEqual(['GET /api/runs?limit=3&status=failed&ticket=ENG-1'])
})

test('runs wait --timeout gives up', async () => {
  const { code, err } = await run('runs', 'wait', 'ENG-1', '--timeout', 'soon')
  expect([code, err]).toEqual([2, expect.stringContaining('--timeout')])
})

test('runs artifacts --to names the file', async () => {
  const { code, folder } = await run('runs', 'artifacts', 'ENG-1', 'report.txt', '--to', 'FOLDER/saved.txt')
  expect([code, readFileSync(join(folder, 'saved.txt'), 'utf8')]).toEqual([0, 'the report'])
})

test('runs artifacts leaves no part of a file, and says why there is none', async () => {
  const broken = await run('runs', 'artifacts', 'ENG-1', 'broken.txt', '--to', 'FOLDER/saved.txt')
  expect([broken.code, broken.err]).toEqual([69, expect.stringContaining('no host answers')])
  expect(existsSync(join(broken.folder, 'saved.txt'))).toBe(false)
  const nowhere = await run('runs', 'artifacts', 'ENG-1', 'report.txt', '--to', 'FOLDER/none/saved.txt')
  expect([nowhere.code, nowhere.err]).toEqual([1, expect.stringContaining('cannot be written (ENOENT)')])
})

test.each(['retry', 'followup'])('%s --instructions reach the host', async (verb) => {
  for (const path of [[verb], ['runs', verb]]) {
    const { requests } = await run(...path, 'ENG-1', '--instructions', 'Look again')
    expect(requests.at(-1)).toBe(`POST /api/runs/${RUN_ID}/${verb} {"instructions":"Look again"}`)
  }
})

test('api --body is sent', async () => {
  const { requests } = await run('api', 'PUT', '/api/settings', '--body', '{"patch":{}}')
  expect(requests).toEqual(['PUT /api/settings {"patch":{}}'])
})

// ---- pull requests -------------------------------------------------------------------------------------------------

test('pulls list --repo and --state leave out all else', async () => {
  expect(lines((await run('pulls', 'list', '--repo', 'web', '-o', 'id')).out)).toEqual(['web#8', 'web#9'])
  expect(lines((await run('pulls', 'list', '--state', 'merged', '-o', 'id')).out)).toEqual(['web#9'])
})

test('pulls list --repo refuses what nobody knows', async () => {
  const pulls = await run('pulls', 'list', '--repo', 'nope')
  expect([pulls.code, pulls.out, pulls.err]).toEqual([
    1,
    '',
    expect.stringMatching(
      /^switchyard: nope is not a key under repos, .*\n {2}try: switchyard config get repos /,
    ),
  ])
})

const sent = async (...args: string[]): Promise<string | undefined> => (await run(...args)).requests.at(-1)

test('pulls merge --method and pulls comment --body are sent', async () => {
  expect(await sent('pulls', 'merge', 'web', '8', '--method', 'rebase')).toBe(
    'POST /api/pulls/web/8/merge {"method":"rebase"}',
  )
  expect(await sent('pulls', 'comment', 'web', '8', '--body', 'Nice')).toBe(
    'POST /api/pulls/web/8/comment {"body":"Nice"}',
  )
})

test('pulls review sends its verdict and its words', async () => {
  const review = async (...args: string[]) => await sent('pulls', 'review', 'web', '8', ...args)
  expect(await review('--approve')).toMatch(/^POST \/api\/pulls\/web\/8\/review .*"APPROVE"/)
  expect(await review('--request-changes', '--body', 'Trim')).toMatch(/"REQUEST_CHANGES".*"Trim"/)
  expect(await review('--comment', '--body', 'Hm')).toMatch(/"COMMENT".*"Hm"/)
})

testAsRoot('a folder of another user is named, and is not called missing', () => {
  const dataDir = join(tempFolder(), 'data')
  mkdirSync(join(dataDir, 'audit'), { recursive: true, mode: 0o700 })
  chmodSync(dirname(dataDir), 0o711)
  for (const words of [['audit'], ['quickstart', '--no-keep'], ['check-data']]) {
    const asNobody = ['--reuid', '65534', '--regid', '65534', '--clear-groups', process.execPath, commandPath]
    const ended = spawnSync('setpriv', [...asNobody, ...words, '--data-dir', dataDir], { encoding: 'utf8' })
    expect([words[0], ended.status, ended.stderr]).toEqual([
      words[0],
      70,
      expect.stringMatching(
        /^switchyard: the data directory \S+ cannot be used: EACCES: [^\n]*\n {2}try: [^\n]*\n$/,
      ),
    ])
  }
})
