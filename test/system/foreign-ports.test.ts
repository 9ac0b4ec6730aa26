/** Another user's program has the port of a killed host: no secret of ours reaches it, and it is named. */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { EXIT } from '../../bin/process/exit.ts'
import { commandPath, sandboxFolder } from '../support/command-process.ts'
import { FOREIGN_UID, killedHost, startForeignProgram } from '../support/foreign-program.ts'
import { connectMcp } from '../support/mcp-client.ts'
import { testAsRoot } from '../support/skips.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest, TOKEN } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const TYPED = 'lin_api_typed-by-a-person-0123456789'
const TEST_MS_MAX = 120_000

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** @param before words that start the command elsewhere, like those of `unshare` */
function start(args: readonly string[], env: NodeJS.ProcessEnv = {}, before: readonly string[] = []) {
  const [first = '', ...words] = [...before, process.execPath, commandPath, ...args]
  const child = spawn(first, words, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  })
  closeAfterTest(() => child.kill('SIGKILL'))
  const texts = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    texts.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    texts.err += text
  })
  child.stdin.on('error', () => {})
  child.stdin.end(TYPED)
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code) => resolve({ code, ...texts }))
  })
  return { ended, texts, kill: () => child.kill('SIGKILL') }
}

const COMMANDS = [
  'status',
  'runs',
  'logs x',
  'start Hello',
  'workers',
  'workers pair',
  'workers provision u@127.0.0.1',
  'config set tracker.apiKey',
  'connect',
  'connect tracker',
  'api GET /api/health',
  'pause',
  'attach x --no-tty',
]

testAsRoot(
  'no command sends the launch token, or what a person typed, to another user’s program',
  async () => {
    const program = await startForeignProgram()
    const dataDir = killedHost(program.url, TOKEN)
    const sentence = `port ${program.port} belongs to user ${FOREIGN_UID}`
    for (const command of COMMANDS) {
      const { code, out, err } = await start([...command.split(' '), '--data-dir', dataDir]).ended
      expect([command, code, out, err]).toEqual([
        command,
        EXIT.unavailable,
        '',
        expect.stringContaining(sentence),
      ])
      expect(err).not.toMatch(/^ +at /m)
    }
    const doctor = await start(['doctor', '--json', '--data-dir', dataDir]).ended
    const { findings } = JSON.parse(doctor.out)
    expect([doctor.code, findings]).toEqual([
      1,
      expect.arrayContaining([
        expect.objectContaining({ id: 'host', status: 'fail', message: expect.stringContaining(sentence) }),
      ]),
    ])
    expect(program.received()).toBe('')
  },
  TEST_MS_MAX,
)

testAsRoot(
  'the host of SWITCHYARD_URL is our own user’s program, or that of the user who is named',
  async () => {
    const { url, received } = await startForeignProgram()
    const env = { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: TOKEN }
    const refused = await start(['status'], env).ended
    expect([refused.code, refused.err]).toEqual([
      EXIT.unavailable,
      expect.stringContaining(
        `try: if your host runs as ${FOREIGN_UID}: SWITCHYARD_HOST_USER=${FOREIGN_UID}`,
      ),
    ])
    expect(received()).toBe('')
    await start(['status', '--host-user', String(FOREIGN_UID)], env).ended
    expect(received()).toContain(TOKEN)
    const unknown = await start(['status'], { ...env, SWITCHYARD_HOST_USER: 'nobody-of-this-name' }).ended
    expect([unknown.code, unknown.err]).toEqual([
      EXIT.usage,
      expect.stringContaining('SWITCHYARD_HOST_USER: '),
    ])
  },
)

const mounting = (words: string) => ['unshare', '--mount', 'sh', '-c', `${words} && exec "$@"`, 'sh']

testAsRoot('where the kernel hides whose program answers, the sentence says what hides it', async () => {
  const program = await startForeignProgram()
  const dataDir = killedHost(program.url, TOKEN)
  const places: readonly (readonly [readonly string[], string])[] = [
    [mounting('mount -t tmpfs none /proc'), 'because /proc/self/net/tcp cannot be read here'],
    [mounting('mount -t proc -o subset=pid proc /proc'), `belongs to user ${FOREIGN_UID}`],
    [['unshare', '--user', '--map-root-user'], 'belongs to a user outside of this namespace of users'],
  ]
  for (const [before, sentence] of places) {
    const { code, err } = await start(['status', '--data-dir', dataDir], {}, before).ended
    expect([before, code, err]).toEqual([before, EXIT.unavailable, expect.stringContaining(sentence)])
  }
  expect(program.received()).toBe('')
})

testAsRoot('an agent’s tool and the page’s server send the launch token to nobody else', async () => {
  const program = await startForeignProgram()
  const dataDir = killedHost(program.url, TOKEN)
  const mcp = await connectMcp(['--data-dir', dataDir])
  const { isError, text } = await mcp.call('status', {})
  expect([isError, text]).toEqual([true, expect.stringContaining(`belongs to user ${FOREIGN_UID}`)])

  const page = start(['dashboard', '--no-open', '--port', '0', '--data-dir', dataDir])
  await until('the page is served', () => page.texts.out.includes('#code='))
  const [origin = '', code] = page.texts.out.trim().split('/#code=')
  const opened = await fetch(`${origin}/session`, {
    method: 'POST',
    body: JSON.stringify({ code }),
    headers: { 'content-type': 'application/json', origin },
  })
  const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? ''
  const asked = await fetch(`${origin}/api/runs`, { headers: { cookie } })
  expect([opened.status, asked.status, await asked.text()]).toEqual([
    204,
    503,
    expect.stringContaining(`belongs to user ${FOREIGN_UID}`),
  ])
  expect(program.received()).toBe('')
})

testAsRoot('the secret for new links to a page goes to nobody else either', async () => {
  const program = await startForeignProgram()
  const dataDir = killedHost(program.url, TOKEN)
  const record = join(dataDir, `dashboard-${program.port}.json`)
  writeFileSync(record, JSON.stringify({ pid: process.pid, secret: TOKEN }), { mode: 0o600 })
  expect(statSync(record).uid).toBe(0)
  const { code, err } = await start([
    ...['dashboard', '--no-open', '--port', String(program.port), '--data-dir', dataDir],
  ]).ended
  expect([code, err]).toEqual([EXIT.unavailable, expect.stringContaining(String(program.port))])
  expect(program.received()).toBe('')
})

const SECRET = 'c'.repeat(43)

/** A worker's data directory with each secret that it may send. */
function workerFolder(): string {
  const dataDir = join(tempFolder(), 'worker')
  mkdirSync(dataDir, { mode: 0o700 })
  const credential = { workerId: `wk-${'0'.repeat(16)}`, secret: `wc-${SECRET}`, host: '127.0.0.1' }
  const files = { 'credential.json': JSON.stringify(credential), token: `wp-${SECRET}`, key: `wj-${SECRET}` }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dataDir, name), text, { mode: 0o600 })
  return dataDir
}

function startWorker(dataDir: string, words: string) {
  const args = words.split(' ').map((word) => word.replace('DIR', dataDir))
  return start([...args, '--data-dir', dataDir], { SWITCHYARD_SANDBOX_DIR: sandboxFolder() })
}

const WORKERS: readonly (readonly [string, string])[] = [
  ['its credential', 'worker --host URL'],
  ['its pairing token', 'worker --host URL --token-file DIR/token'],
  ['its join key, for one run', 'worker --once --host URL --join-key-file DIR/key'],
  ['its credential where the host’s data directory is named', 'worker --host-data-dir HOST'],
  ['the worker’s credential as its supervisor', 'supervise --host URL'],
]

testAsRoot(
  'no worker and no supervisor sends a secret to another user’s program',
  async () => {
    for (const [what, words] of WORKERS) {
      const program = await startForeignProgram()
      const named = words.replace('URL', program.url).replace('HOST', killedHost(program.url, TOKEN))
      const dataDir = workerFolder()
      if (!words.includes('data-dir') && words.includes('-file')) rmSync(join(dataDir, 'credential.json'))
      const worker = startWorker(dataDir, named)
      await until(`the worker names the user: ${what}`, () =>
        worker.texts.err.includes(`belongs to user ${FOREIGN_UID}`),
      )
      worker.kill()
      await worker.ended
      expect([what, program.received()]).toEqual([what, ''])
    }
    const program = await startForeignProgram()
    const drain = await startWorker(workerFolder(), `worker drain --host ${program.url}`).ended
    expect([drain.code, drain.err]).toEqual([
      EXIT.unavailable,
      expect.stringContaining(`belongs to user ${FOREIGN_UID}`),
    ])
    expect(program.received()).toBe('')
  },
  TEST_MS_MAX,
)

testAsRoot('a worker knows the user of its host by --host-user, and remembers the name', async () => {
  const program = await startForeignProgram()
  const dataDir = workerFolder()
  const first = startWorker(dataDir, `worker --host ${program.url} --host-user ${FOREIGN_UID}`)
  await until('the host has the credential', () => program.received().includes(SECRET))
  first.kill()
  await first.ended
  expect(JSON.parse(readFileSync(join(dataDir, 'host.json'), 'utf8'))).toMatchObject({
    hostUser: String(FOREIGN_UID),
  })
  const before = program.received().length
  const second = startWorker(dataDir, `worker --host ${program.url}`)
  await until('the host has it again', () => program.received().slice(before).includes(SECRET))
  second.kill()
  await second.ended
})

testAsRoot('a supervisor and worker drain know the user of the host by --host-user', async () => {
  for (const words of ['supervise', 'worker drain']) {
    const program = await startForeignProgram()
    const dataDir = workerFolder()
    const asking = startWorker(dataDir, `${words} --host ${program.url} --host-user ${FOREIGN_UID}`)
    await until(`the host has the credential: ${words}`, () => program.received().includes(SECRET))
    asking.kill()
    await asking.ended
  }
})
